#pragma once

#include "headworks/base/result.h"
#include "headworks/base/time.h"

namespace headworks::cli {

/// Counts SIGINT and SIGTERM instead of dying of them, for as long as it lives; one at a time.
///
/// Handlers, not a mask: what this process starts gets the default back on exec.
class SignalWatch {
 public:
  /// kUnavailable if the system gives no descriptor.
  static Result<SignalWatch> Install();
  SignalWatch(SignalWatch&& other) noexcept;
  SignalWatch& operator=(SignalWatch&&) = delete;
  ~SignalWatch();

  /// Signals end the process again, as they do without this object.  Before the last wait of a
  /// command: what is stored survives that.
  void Release();

  int interrupts() const;
  int terminations() const;
  enum class For : unsigned char { kRead, kWrite };
  /// Until a signal came since the last Wait, `fd` (-1 = none) is ready, or `timeout` passed.
  void Wait(Duration timeout, int fd = -1, For what = For::kRead);
  /// Ends a Wait, now or the next one.  From any thread.
  void Wake();

 private:
  explicit SignalWatch(int fd) : event_fd_(fd) {}
  int event_fd_ = -1;
};

}  // namespace headworks::cli
