#include "output_capture.h"

#include <fmt/format.h>

namespace headworks::executor_process {
namespace {

/// What a line costs besides its bytes: a flood of empty ones must reach the bound too.
constexpr std::size_t kLineOverhead = 16;

}  // namespace

void OutputCapture::Feed(log_store::Stream stream, std::string_view bytes, Instant now) {
  // Beyond the bound nothing is kept, so nothing is looked at: a flood costs only its copying.
  written_ += bytes.size();
  if (cut_) return;
  splitter(stream).Feed(
      bytes, [&](std::string line, bool broken) { Add(stream, std::move(line), broken, now); });
}

void OutputCapture::Finish(log_store::Stream stream, Instant now) {
  --open_;
  if (!cut_)
    splitter(stream).Finish(
        [&](std::string line, bool broken) { Add(stream, std::move(line), broken, now); });
  if (cut_ && open_ == 0)
    Note(fmt::format("{} bytes of output were dropped", written_ - kept_), now);
}

void OutputCapture::Note(std::string text, Instant now) {
  pending_bytes += text.size();
  lines_.push_back({.number = ++last_number_,
                    .stream = log_store::Stream::kNote,
                    .at = now,
                    .bytes = std::move(text)});
}

void OutputCapture::Add(log_store::Stream stream, std::string line, bool broken, Instant now) {
  if (cut_) return;
  bytes_ += line.size() + kLineOverhead;
  if (bytes_ > max_bytes_) {
    cut_ = true;
    Note(fmt::format("output is cut here, at {} bytes; the task goes on, what else it writes is "
                     "dropped",
                     max_bytes_),
         now);
    return;
  }
  kept_ += line.size() + (broken ? 1 : 0);
  if (watch_ != nullptr) watch_->See(line);
  pending_bytes += line.size();
  lines_.push_back(
      {.number = ++last_number_, .stream = stream, .at = now, .bytes = std::move(line)});
}

}  // namespace headworks::executor_process
