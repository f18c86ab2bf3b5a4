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

std::string ErrorLine(const Error& error) {
  // It may quote what others wrote.
  return "headworks: " + ForScreen(error.message) + "\n";
}

Exit Fail(const Error& error) {
  const std::string line = ErrorLine(error);
  std::fwrite(line.data(), 1, line.size(), stderr);
  return ExitFor(error.code);
}

}  // namespace headworks::cli
