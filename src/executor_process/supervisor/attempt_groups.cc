#include "supervisor/attempt_groups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "supervisor/cgroup.h"
#include "supervisor/spawn.h"

namespace headworks::supervisor {

AttemptGroups::~AttemptGroups() {
  for (Slot& s : slots_) Close(s);
  RemoveGroup(base_);
}

void AttemptGroups::Probe() {
  const int group = Take();
  const bool works = group != 0 && CanSpawnInto(clone_fd(group), join_fd(group)) && IsEmpty(group);
  Give(group);
  if (works) return;
  RemoveGroup(base_);
  base_.clear();
}

int AttemptGroups::Take() {
  if (base_.empty()) return 0;
  // One beyond those there are: what was left by others, or cannot be made, is passed over once.
  for (int group = 1; group <= static_cast<int>(slots_.size()) + 1; ++group) {
    if (group > static_cast<int>(slots_.size())) slots_.emplace_back();
    Slot& s = slot(group);
    if (s.taken || (s.spoiled ? !MakeAnew(group) : !IsEmpty(group))) continue;
    s.taken = true;
    return group;
  }
  return 0;
}

bool AttemptGroups::MakeAnew(int group) {
  Slot& s = slot(group);
  const std::string folder = FolderOf(group);
  RemoveGroup(folder);
  if (mkdir(folder.c_str(), 0755) != 0) return false;
  s.events_fd = open((folder + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC);
  if (s.events_fd >= 0) {
    s.clone_fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  } else if (errno == ENOENT) {
    s.join_fd = open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
  }
  s.spoiled = s.clone_fd < 0 && s.join_fd < 0;
  if (s.spoiled) Close(s);
  return !s.spoiled;
}

void AttemptGroups::Close(Slot& slot) {
  for (int* fd : {&slot.clone_fd, &slot.join_fd, &slot.events_fd}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
}

void AttemptGroups::Give(int group) {
  if (group == 0) return;
  slot(group).taken = false;
  if (slot(group).spoiled) Close(slot(group));
}

bool AttemptGroups::IsEmpty(int group) const {
  if (group == 0) return true;
  if (slot(group).events_fd >= 0) {
    std::array<char, 256> text{};
    const ssize_t size = pread(slot(group).events_fd, text.data(), text.size(), 0);
    if (size > 0 &&
        std::string_view(text.data(), static_cast<std::size_t>(size)).find("populated 0") !=
            std::string_view::npos) {
      return true;
    }
  }
  // Version 1 has no such file, and version 2 may count who is on the way out.  A list is only
  // fresh in a file just opened.
  return Members(group).empty();
}

std::vector<pid_t> AttemptGroups::Members(int group) const {
  return group == 0 ? std::vector<pid_t>() : GroupMembers(FolderOf(group));
}

void AttemptGroups::Kill(int group) {
  if (group == 0) return;
  slot(group).spoiled = true;
  KillGroup(FolderOf(group));
}

int AttemptGroups::GroupOf(pid_t pid) const {
  if (base_.empty()) return 0;
  const std::string text = GroupText(pid);
  const std::string name = base_.substr(base_.rfind('/')) + '/';
  const std::size_t at = text.find(name);
  int group = 0;
  if (at == std::string::npos) return 0;
  std::from_chars(text.data() + at + name.size(), text.data() + text.size(), group);
  return group > 0 && group <= static_cast<int>(slots_.size()) ? group : 0;
}

}  // namespace headworks::supervisor
