#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace headworks::executor_process {

/// A control group (version 2) that the supervisor and all its descendants are in, where this
/// process may make one: the only record of a process that shed session, group and environment.
/// It limits nothing.  The functions take and give paths of groups; empty = there is none.

/// Makes (or finds) a group below this process's own.  Empty where that is not possible.
std::string MakeGroup(std::string_view name);
/// False if `pid` cannot be moved into `group`.
bool AddToGroup(const std::string& group, pid_t pid);
/// Processes in `group`; none if it does not exist.
std::vector<pid_t> GroupMembers(const std::string& group);
/// Removes `group` if it is empty.
void RemoveGroup(const std::string& group);

}  // namespace headworks::executor_process
