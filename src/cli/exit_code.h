#pragma once

#include <string>

#include "headworks/base/result.h"

namespace headworks::cli {

/// What the program tells its caller; the whole list, as `headworks --help` prints it.
enum class Exit : int {
  kOk = 0,
  /// A run or an alert command that this command waited for did not succeed; a file is not
  /// formatted.
  kRunFailed = 1,
  /// The command line, a file or a setting is wrong.
  kUsage = 2,
  /// The named run, task, workflow or worker does not exist.
  kNotFound = 3,
  /// The state of the thing forbids it now.
  kRefused = 4,
  /// The store, an engine or standard output cannot be used now; nothing says that the request was
  /// wrong.
  kUnavailable = 5,
  /// Left at once on the second Ctrl-C (128 + SIGINT); the run can be resumed.
  kInterrupted = 130,
  /// All went well, but the reader of standard output left before its end (128 + SIGPIPE).
  kReaderLeft = 141,
  /// Drained and left on SIGTERM (128 + SIGTERM); the run can be resumed.  Of a worker: its drain
  /// interrupted tasks, which run again.
  kTerminated = 143,
};

inline constexpr char kExitCodeHelp[] =
    "Exit codes: 0 ok, 1 run failed or cancelled, 2 usage, 3 not found, 4 refused,\n"
    "5 unavailable, 130 left on a second Ctrl-C, 143 drained on SIGTERM,\n"
    "141 ok, but the reader of the output left early.";

Exit ExitFor(Code code);

/// "headworks: MESSAGE", with a newline, harmless on a screen.
std::string ErrorLine(const Error& error);
/// Prints "headworks: MESSAGE" on standard error and returns the matching exit code.
Exit Fail(const Error& error);

}  // namespace headworks::cli
