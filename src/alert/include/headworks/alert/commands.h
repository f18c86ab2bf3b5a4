#pragma once

#include <functional>
#include <map>
#include <string>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"

namespace headworks::alert {

/// What the command is given.
struct Call {
  /// Of whose alerts.
  TenantId tenant;
  /// JSON object, as its standard input.
  std::string input;
  std::map<std::string, std::string> env;
};

/// How the command ended.
struct CommandEnd {
  enum class How : unsigned char {
    kDone,
    kFailed,
    /// Stopped before it could end.
    kStopped,
  };
  How how = How::kDone;
  /// Of kFailed.
  std::string why{};
};

/// Runs the command that is told of alerts, one at a time.
///
/// Threads.  Start and Stop from one; `done` comes on any.
class Commands {
 public:
  virtual ~Commands() = default;
  /// `done` is called once, when no process of it is left, unless this returns an error.  One that
  /// takes too long is ended, and has failed.
  virtual Status Start(const Call& call, std::function<void(CommandEnd)> done) = 0;
  /// Ends what runs, and waits for that.
  virtual void Stop() = 0;
};

}  // namespace headworks::alert
