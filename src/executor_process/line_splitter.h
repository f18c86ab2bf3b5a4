#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "headworks/log_store/log_store.h"

namespace headworks::executor_process {

/// Cuts a stream of bytes into lines of at most `log_store::kMaxLineBytes`; a longer line becomes
/// several.  Any bytes are fine; only '\n' means something.
class LineSplitter {
 public:
  /// Calls `emit(std::string, bool)` for every line that `bytes` completes; whether it is the end
  /// of one, so that a line break stood behind it.
  template <typename Emit>
  void Feed(std::string_view bytes, Emit&& emit) {
    while (!bytes.empty()) {
      const std::size_t room = log_store::kMaxLineBytes - rest_.size();
      const std::size_t end = bytes.substr(0, room + 1).find('\n');
      if (end != std::string_view::npos) {
        rest_ += bytes.substr(0, end);
        bytes.remove_prefix(end + 1);
        emit(std::exchange(rest_, {}), true);
      } else if (bytes.size() > room) {
        rest_ += bytes.substr(0, room);
        bytes.remove_prefix(room);
        emit(std::exchange(rest_, {}), false);
      } else {
        rest_ += bytes;
        return;
      }
    }
  }

  /// At the end of the stream: a last line without a newline.
  template <typename Emit>
  void Finish(Emit&& emit) {
    if (!rest_.empty()) emit(std::exchange(rest_, {}), false);
  }

 private:
  std::string rest_;
};

}  // namespace headworks::executor_process
