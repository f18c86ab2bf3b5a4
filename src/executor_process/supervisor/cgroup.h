#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

/// Control groups: the kernel's own record of who belongs together, which no process can shed
/// that may not write to the hierarchy.  Used where this process may make them; they limit nothing.
///
/// A group is named by the path of its folder; empty = there is none.  Version 2 is told from
/// version 1 by the files that the kernel puts there.
namespace headworks::supervisor {

/// The folder of a group in one hierarchy, as a rule this process's own.
struct CgroupPlace {
  int version = 0;
  std::string folder;

  bool operator==(const CgroupPlace&) const = default;
};

/// From the text of /proc/self/cgroup and /proc/self/mountinfo: where groups are worth making,
/// best first.  Version 2 (alone or beside version 1: "hybrid"), then version 1's freezer, which
/// can hold a tree still while it is killed, then its pids.
std::vector<CgroupPlace> CgroupPlaces(std::string_view cgroup, std::string_view mountinfo);
/// The same for this process.
std::vector<CgroupPlace> CgroupPlaces();

/// Makes (or finds) `<place>/headworks-<name>` in the first of `places` that allows it; else empty.
std::string MakeGroup(const std::vector<CgroupPlace>& places, std::string_view name);
/// Whether `group` is one that MakeGroup makes for `name`.
bool IsGroupOf(std::string_view group, std::string_view name);

/// The text of /proc/<pid>/cgroup: every group that the process is in.
std::string GroupText(pid_t pid);
/// Processes in `group` and in the groups below it; zombies are none.
std::vector<pid_t> GroupMembers(const std::string& group);
/// KILL to all of them at once, where the kernel can; else one by one, held still meanwhile where
/// it can do that: call it again until there are none.
void KillGroup(const std::string& group);
/// The second way alone.
void KillMembers(const std::string& group);
/// Removes `group` and those below it as far as nobody is in them.
void RemoveGroup(const std::string& group);

}  // namespace headworks::supervisor
