#include "news.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "exit_code.h"
#include "follow.h"

namespace headworks::cli {
namespace {

/// How soon a reader that was slow is asked again.
constexpr Duration kLook = std::chrono::milliseconds(100);

}  // namespace

News::~News() {
  const std::scoped_lock lock(mutex_);
  for (Stream* stream : {&said_, &complained_}) stream->outlet.Drain(kStalled);
}

void News::Say(std::string_view text) { Add(said_, text); }

void News::Complain(const Error& error) {
  std::string line = ErrorLine(error);
  line.pop_back();
  Add(complained_, line);
}

void News::Add(Stream& stream, std::string_view text) {
  const std::scoped_lock lock(mutex_);
  if (!stream.outlet.HasRoom()) {
    ++stream.dropped;
    return;
  }
  if (const std::size_t dropped = std::exchange(stream.dropped, 0); dropped > 0)
    stream.outlet.Write(fmt::format("... and {} more that nobody took in time\n", dropped));
  stream.outlet.Write(fmt::format("{}\n", text));
  if (!stream.outlet.Pump()) signals_.Wake();
}

bool News::Pump() {
  const std::scoped_lock lock(mutex_);
  const bool said = said_.outlet.Pump();
  return complained_.outlet.Pump() && said;
}

void News::Wait(Duration timeout, int fd) {
  signals_.Wait(Pump() ? timeout : std::min(timeout, kLook), fd);
}

}  // namespace headworks::cli
