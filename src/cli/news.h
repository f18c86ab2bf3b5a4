#pragma once

#include <unistd.h>

#include <mutex>
#include <string_view>

#include "headworks/base/result.h"
#include "outlet.h"
#include "signals.h"

namespace headworks::cli {

/// What a command that goes on until it is told to leave says meanwhile.  Its reader may stall, and
/// keeps nobody waiting.
///
/// Life.  At its end it waits, at most kStalled, for the reader to take what is left.
/// Bounds.  Lines beyond what an Outlet has room for are counted, not kept, and the count is said
///   once there is room.
/// Threads.  Say and Complain from any, Wait from the one that waits for signals.
class News {
 public:
  explicit News(SignalWatch& signals) : signals_(signals) {}
  ~News();
  News(const News&) = delete;
  News& operator=(const News&) = delete;

  /// A line, or several, without the last line break.
  void Say(std::string_view text);
  /// On standard error, as Fail says it.
  void Complain(const Error& error);
  /// As SignalWatch::Wait; hands on meanwhile what the reader takes.
  void Wait(Duration timeout, int fd = -1);

 private:
  struct Stream {
    Outlet outlet;
    std::size_t dropped = 0;
  };
  void Add(Stream& stream, std::string_view text);
  /// True: nothing is left.
  bool Pump();

  SignalWatch& signals_;
  std::mutex mutex_;
  // Guarded by mutex_.
  Stream said_{Outlet(STDOUT_FILENO)};
  Stream complained_{Outlet(STDERR_FILENO)};
};

}  // namespace headworks::cli
