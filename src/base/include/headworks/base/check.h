#pragma once

namespace headworks::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression);
}  // namespace headworks::internal

/// Stays on in release.  A failure is a bug in Headworks and ends the process; outside input
/// never reaches one.
#define HEADWORKS_CHECK(condition)    \
  ((condition) ? static_cast<void>(0) \
               : ::headworks::internal::CheckFailed(__FILE__, __LINE__, #condition))
