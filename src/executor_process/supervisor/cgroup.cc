#include "supervisor/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <map>

namespace headworks::supervisor {
namespace {

constexpr std::string_view kPrefix = "headworks-";
/// Worth making in version 1.
constexpr std::array<std::string_view, 2> kControllers{"freezer", "pids"};
/// Levels below a group that are looked into: what tasks made themselves.
constexpr int kMaxDepth = 8;

std::string ReadFile(const std::string& path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  std::array<char, 4096> buffer{};
  for (ssize_t n; (n = read(fd, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(fd);
  return text;
}

bool WriteFile(const std::string& path, std::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return written;
}

/// Takes what stands before `end` off the front of `text`.
std::string_view Take(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return taken;
}

bool Lists(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    if (Take(list, ',') == wanted) return true;
  }
  return false;
}

/// mountinfo writes space, tab, newline and backslash as \ooo.
std::string Unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, code, 8).ptr ==
            text.data() + i + 4) {
      out += static_cast<char>(code);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

struct Mount {
  std::string root;
  std::string point;
  std::string_view type;
  std::string_view options;
};

/// One line of mountinfo: id, parent, device, root, point, options, tags..., "-", type, source,
/// options of the file system.
Mount ParseMount(std::string_view line) {
  Mount mount;
  for (int i = 0; i < 3; ++i) Take(line, ' ');
  mount.root = Unescape(Take(line, ' '));
  mount.point = Unescape(Take(line, ' '));
  const std::size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) return {};
  line.remove_prefix(dash + 3);
  mount.type = Take(line, ' ');
  Take(line, ' ');
  mount.options = line;
  return mount;
}

/// Where `group` is seen below `mount`; empty if it is not.
std::string FolderOf(const Mount& mount, std::string_view group) {
  const std::string_view root = mount.root == "/" ? std::string_view() : mount.root;
  if (!group.starts_with('/') || !group.starts_with(root)) return {};
  group.remove_prefix(root.size());
  // A sibling whose name begins alike, one above the namespace's root, or one that is gone.
  if ((!group.empty() && group.front() != '/') || group.starts_with("/..") ||
      group.ends_with(" (deleted)")) {
    return {};
  }
  return mount.point + std::string(group == "/" ? "" : group);
}

void AddMembers(const std::string& group, int depth, std::vector<pid_t>& pids) {
  std::string text = ReadFile(group + "/cgroup.procs");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = Take(rest, '\n');
    pid_t pid = 0;
    std::from_chars(line.data(), line.data() + line.size(), pid);
    // 0: a process of another pid namespace.
    if (pid > 0) pids.push_back(pid);
  }
  if (depth == kMaxDepth) return;
  DIR* folder = opendir(group.c_str());
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (entry->d_type != DT_DIR || name == "." || name == "..") continue;
    AddMembers(group + '/' + entry->d_name, depth + 1, pids);
  }
  closedir(folder);
}

void Remove(const std::string& group, int depth) {
  if (rmdir(group.c_str()) == 0 || errno != EBUSY || depth == kMaxDepth) return;
  DIR* folder = opendir(group.c_str());
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (entry->d_type != DT_DIR || name == "." || name == "..") continue;
    Remove(group + '/' + entry->d_name, depth + 1);
  }
  closedir(folder);
  rmdir(group.c_str());
}

}  // namespace

std::vector<CgroupPlace> CgroupPlaces(std::string_view cgroup, std::string_view mountinfo) {
  // This process's group by controller; version 2 has none.
  std::map<std::string_view, std::string_view> groups;
  while (!cgroup.empty()) {
    std::string_view line = Take(cgroup, '\n');
    const std::string_view id = Take(line, ':');
    const std::string_view controllers = Take(line, ':');
    if (id == "0" && controllers.empty()) groups.emplace("", line);
    for (const std::string_view wanted : kControllers) {
      if (Lists(controllers, wanted)) groups.emplace(wanted, line);
    }
  }
  std::map<std::string_view, std::string> folders;
  while (!mountinfo.empty()) {
    const Mount mount = ParseMount(Take(mountinfo, '\n'));
    for (const auto& [controller, group] : groups) {
      const bool here = controller.empty()
                            ? mount.type == "cgroup2"
                            : mount.type == "cgroup" && Lists(mount.options, controller);
      if (!here) continue;
      std::string folder = FolderOf(mount, group);
      if (!folder.empty()) folders.emplace(controller, std::move(folder));
    }
  }
  std::vector<CgroupPlace> places;
  if (const auto v2 = folders.find(""); v2 != folders.end()) places.push_back({2, v2->second});
  for (const std::string_view controller : kControllers) {
    if (const auto v1 = folders.find(controller); v1 != folders.end()) {
      places.push_back({1, v1->second});
    }
  }
  return places;
}

std::vector<CgroupPlace> CgroupPlaces() {
  return CgroupPlaces(ReadFile("/proc/self/cgroup"), ReadFile("/proc/self/mountinfo"));
}

std::string MakeGroup(const std::vector<CgroupPlace>& places, std::string_view name) {
  for (const CgroupPlace& place : places) {
    std::string group = place.folder + '/' + std::string(kPrefix) + std::string(name);
    const bool there = mkdir(group.c_str(), 0755) == 0 || errno == EEXIST;
    if (there && access((group + "/cgroup.procs").c_str(), W_OK) == 0) return group;
  }
  return {};
}

bool IsGroupOf(std::string_view group, std::string_view name) {
  return group.ends_with('/' + std::string(kPrefix) + std::string(name));
}

std::string GroupText(pid_t pid) { return ReadFile("/proc/" + std::to_string(pid) + "/cgroup"); }

std::vector<pid_t> GroupMembers(const std::string& group) {
  std::vector<pid_t> pids;
  if (!group.empty()) AddMembers(group, 0, pids);
  return pids;
}

void KillGroup(const std::string& group) {
  if (group.empty() || WriteFile(group + "/cgroup.kill", "1")) return;
  KillMembers(group);
}

void KillMembers(const std::string& group) {
  const bool frozen =
      WriteFile(group + "/cgroup.freeze", "1") || WriteFile(group + "/freezer.state", "FROZEN");
  const std::string name =
      group.substr(std::min(group.rfind('/' + std::string(kPrefix)), group.size()));
  for (const pid_t pid : GroupMembers(group)) {
    // Held by a descriptor before it is looked for again: then it is not a later bearer of the pid.
    const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0) continue;
    if (GroupText(pid).find(name) != std::string::npos) {
      syscall(SYS_pidfd_send_signal, fd, SIGKILL, nullptr, 0);
    }
    close(fd);
  }
  if (!frozen) return;
  WriteFile(group + "/cgroup.freeze", "0") || WriteFile(group + "/freezer.state", "THAWED");
}

void RemoveGroup(const std::string& group) {
  if (!group.empty()) Remove(group, 0);
}

}  // namespace headworks::supervisor
