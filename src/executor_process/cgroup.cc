#include "cgroup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

namespace headworks::executor_process {
namespace {

/// Where the version 2 hierarchy is mounted, alone or beside version 1; empty if it is not.
std::string MountPoint() {
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string device, point, type;
    if (fields >> device >> point >> type && type == "cgroup2") return point;
  }
  return {};
}

/// This process's own group in that hierarchy, e.g. "/user.slice".
std::string OwnGroup() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return {};
}

std::string MembersFile(const std::string& group) { return group + "/cgroup.procs"; }

}  // namespace

std::string MakeGroup(std::string_view name) {
  const std::string mount = MountPoint();
  const std::string own = OwnGroup();
  if (mount.empty() || own.empty()) return {};
  const std::string group = mount + (own == "/" ? "" : own) + "/headworks-" + std::string(name);
  const bool there = mkdir(group.c_str(), 0755) == 0 || errno == EEXIST;
  return there && access(MembersFile(group).c_str(), W_OK) == 0 ? group : std::string();
}

bool AddToGroup(const std::string& group, pid_t pid) {
  std::ofstream members(MembersFile(group));
  members << pid << std::flush;
  return members.good();
}

std::vector<pid_t> GroupMembers(const std::string& group) {
  std::vector<pid_t> pids;
  if (group.empty()) return pids;
  std::ifstream members(MembersFile(group));
  for (pid_t pid = 0; members >> pid;) pids.push_back(pid);
  return pids;
}

void RemoveGroup(const std::string& group) {
  if (!group.empty()) rmdir(group.c_str());
}

}  // namespace headworks::executor_process
