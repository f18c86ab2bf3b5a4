#include "headworks/dispatch/dispatch_metrics.h"

#include <algorithm>

namespace headworks::dispatch {
namespace {

constexpr auto kAnyOrder = std::memory_order_relaxed;

template <typename T>
void RaiseTo(std::atomic<T>& max, T value) {
  for (T seen = max.load(kAnyOrder); seen < value;)
    if (max.compare_exchange_weak(seen, value, kAnyOrder)) return;
}

}  // namespace

void DispatchMetrics::QueueDepth(std::size_t depth) {
  depth_.store(depth, kAnyOrder);
  RaiseTo(max_depth_, depth);
}

void DispatchMetrics::AtCapacity() { at_capacity_.fetch_add(1, kAnyOrder); }

void DispatchMetrics::Latency(Duration latency) {
  latency_.fetch_add(latency.count(), kAnyOrder);
  RaiseTo(max_latency_, latency.count());
  answered_.fetch_add(1, std::memory_order_release);  // whoever sees it sees its InnerError
}

void DispatchMetrics::InnerError(const executor::OfferResult& result) {
  not_taken_[static_cast<std::size_t>(result.disposition)].fetch_add(1, kAnyOrder);
}

DispatchMetrics::Figures DispatchMetrics::Read() const {
  Figures figures{.depth = depth_.load(kAnyOrder),
                  .max_depth = max_depth_.load(kAnyOrder),
                  .at_capacity = at_capacity_.load(kAnyOrder),
                  .answered = answered_.load(std::memory_order_acquire),
                  .total_latency = Duration(latency_.load(kAnyOrder)),
                  .max_latency = Duration(max_latency_.load(kAnyOrder))};
  if (figures.answered > 0)
    figures.mean_latency = figures.total_latency / static_cast<Duration::rep>(figures.answered);
  std::uint64_t dispatched = figures.answered;
  for (std::size_t i = 0; i < not_taken_.size(); ++i) {
    figures.not_taken[i] = not_taken_[i].load(kAnyOrder);
    dispatched -= std::min(dispatched, figures.not_taken[i]);
  }
  // An InnerError whose Latency is still to come makes it too small for a moment.
  RaiseTo(dispatched_, dispatched);
  figures.dispatched = dispatched_.load(kAnyOrder);
  return figures;
}

}  // namespace headworks::dispatch
