#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "headworks/base/time.h"
#include "headworks/dispatcher/dispatcher.h"

namespace headworks::dispatch {

/// Keeps what is recorded as figures that anybody may read.
///
/// Threads.  All methods may be called concurrently; none waits.  InnerError is called before the
///   Latency of the same answer.
class DispatchMetrics final : public dispatcher::MetricsRecorder {
 public:
  struct Figures {
    std::size_t depth = 0;
    std::size_t max_depth = 0;
    std::uint64_t at_capacity = 0;
    /// Offers that their executor answered.
    std::uint64_t answered = 0;
    /// Those of them that were taken.  Only rises from one Read to the next; one that is being
    /// recorded may be missing.
    std::uint64_t dispatched = 0;
    Duration total_latency{};
    Duration mean_latency{};
    Duration max_latency{};
    /// What executors did not take, by model::Disposition.
    std::array<std::uint64_t, 7> not_taken{};

    std::uint64_t NotTaken(model::Disposition disposition) const {
      return not_taken[static_cast<std::size_t>(disposition)];
    }
  };

  void QueueDepth(std::size_t depth) override;
  void AtCapacity() override;
  void Latency(Duration latency) override;
  void InnerError(const executor::OfferResult& result) override;

  Figures Read() const;

 private:
  std::atomic<std::size_t> depth_{0}, max_depth_{0};
  std::atomic<std::uint64_t> at_capacity_{0}, answered_{0};
  std::atomic<Duration::rep> latency_{0}, max_latency_{0};
  std::array<std::atomic<std::uint64_t>, 7> not_taken_{};
  mutable std::atomic<std::uint64_t> dispatched_{0};  // the most that was read
};

}  // namespace headworks::dispatch
