#pragma once

#include <string>

namespace headworks {

/// The name of this machine, for people; "localhost" where it has none.
std::string HostName();

}  // namespace headworks
