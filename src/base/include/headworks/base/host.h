#pragma once

#include <functional>
#include <string>

namespace headworks {

/// The name of this machine, for people; "localhost" where it has none.
std::string HostName();

/// What the kernel calls this boot: monotonic times of another one mean nothing.  "unknown" where
/// it does not say.
std::string BootId();

/// Where a user's files of one kind belong (XDG Base Directory Specification): the folder that
/// `variable` names, or else `below_home`.  Home is HOME, or else what the system knows of this
/// user.  Relative folders count as unset, as the specification says; empty = there is none.
/// `environment`: the value of a variable, nullptr = unset.
std::string UserFolder(const std::function<const char*(const char*)>& environment,
                       const char* variable, const std::string& below_home);

}  // namespace headworks
