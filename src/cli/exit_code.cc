#include "exit_code.h"

#include <cstdio>
#include <string>

#include "terminal.h"

namespace headworks::cli {

Exit ExitFor(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return Exit::kUsage;
    case Code::kNotFound:
      return Exit::kNotFound;
    case Code::kConflict:
    case Code::kPermissionDenied:
      return Exit::kRefused;
    case Code::kLeaseLost:
    case Code::kAtCapacity:
    case Code::kDrainTimeout:
    case Code::kUnavailable:
    case Code::kCancelled:
    case Code::kCorrupt:
    case Code::kInternal:
      return Exit::kUnavailable;
  }
  return Exit::kUnavailable;
}

Exit Fail(const Error& error) {
  // It may quote what others wrote.
  const std::string line = "headworks: " + ForScreen(error.message) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  return ExitFor(error.code);
}

}  // namespace headworks::cli
