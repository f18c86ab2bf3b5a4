#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "headworks/log_store/log_store.h"
#include "line_splitter.h"
#include "retry_watch.h"

namespace headworks::executor_process {

/// Turns what an attempt writes to its two streams into numbered lines, up to a bound; there a note
/// says so, the rest is dropped, and a last note says how much that was.
class OutputCapture {
 public:
  explicit OutputCapture(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Lines that became complete are added to `lines()`.
  void Feed(log_store::Stream stream, std::string_view bytes, Instant now);
  /// The stream is at its end, once: a last line without a newline counts too.
  void Finish(log_store::Stream stream, Instant now);
  /// `watch` (may be null, must outlive this) sees each line that a stream completes.
  void Watch(RetryWatch* watch) { watch_ = watch; }
  /// A remark of Headworks, outside of the bound.
  void Note(std::string text, Instant now);

  /// Complete and not yet taken.
  std::vector<log_store::Line>& lines() { return lines_; }
  /// Bytes of `lines()`; set to 0 by who takes them.
  std::size_t pending_bytes = 0;

 private:
  LineSplitter& splitter(log_store::Stream stream) {
    return stream == log_store::Stream::kStdout ? stdout_ : stderr_;
  }
  /// `broken`: a line break stood behind it.
  void Add(log_store::Stream stream, std::string line, bool broken, Instant now);

  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::uint64_t written_ = 0, kept_ = 0;  // bytes of the task, line breaks included
  bool cut_ = false;
  int open_ = 2;  // streams
  RetryWatch* watch_ = nullptr;
  std::int64_t last_number_ = 0;
  LineSplitter stdout_, stderr_;
  std::vector<log_store::Line> lines_;
};

}  // namespace headworks::executor_process
