/// What the way from the engine to an executor costs one task.

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bench.h"
#include "headworks/base/log.h"
#include "headworks/dispatch/buffered_dispatcher.h"
#include "headworks/dispatch/default_dispatcher.h"
#include "headworks/dispatch/dispatch_metrics.h"

namespace headworks::bench {
namespace {

using executor::Attempt;

/// Takes everything and runs nothing.
class TakesAll final : public executor::Executor {
 public:
  std::string_view Name() const override { return "takes-all"; }
  Status Start(executor::AttemptSink&) override { return {}; }
  executor::OfferResult Offer(const Attempt& attempt) override {
    taken.fetch_add(attempt.key.epoch.value > 0 ? 1 : 0, std::memory_order_relaxed);
    return {};
  }
  void Cancel(const model::AttemptKey&) override {}
  executor::Capacity GetCapacity() const override { return {1'000'000, 0}; }
  Result<std::vector<executor::Inspection>> Inspect(std::span<const Attempt> attempts) override {
    return std::vector<executor::Inspection>(attempts.size(), executor::Running{});
  }
  std::vector<model::AttemptKey> List() const override { return {}; }
  executor::Metrics GetMetrics() const override { return {}; }
  void Settled(std::span<const model::AttemptKey>) override {}
  Status Drain(Duration) override { return {}; }

  std::atomic<std::int64_t> taken{0};
};

/// The engine's side: waits for room as the engine does.
class Room final : public executor::AttemptSink, public dispatcher::RetrySink {
 public:
  void Started(const model::AttemptKey&) override {}
  void Ended(const model::AttemptKey&, model::Outcome) override {}
  void Hear(executor::Word, std::function<void(executor::Heard)> reply) override {
    reply(executor::Reply::kStop);
  }
  void CapacityChanged() override {
    const std::scoped_lock lock(mutex_);
    room_ = true;
    changed_.notify_one();
  }
  void HandleDispatchFailure(const model::AttemptKey&, const executor::OfferResult&) override {
    Die("an attempt was not taken");
  }
  void HandleDispatchRecovery(const model::AttemptKey&) override {}
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return std::exchange(room_, false); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool room_ = false;
};

std::vector<Attempt> Attempts() {
  model::WorkflowDefinition definition;
  definition.name.workflow = "w";
  definition.tasks = {{.id = "t", .action = model::FunctionAction{"f"}}};
  const auto workflow = model::Workflow::Create(std::move(definition));
  if (!workflow) Die(workflow.error().message);
  std::vector<Attempt> attempts;
  for (std::int64_t epoch = 1; epoch <= 1'000; ++epoch)
    attempts.push_back({.key = {.tenant = TenantId("public"),
                                .run = RunNo(1),
                                .task = TaskNo(0),
                                .epoch = Epoch(epoch)},
                        .run_id = RunId("0191a0b1-0000-7000-8000-000000000000"),
                        .workflow = *workflow});
  return attempts;
}

struct Cost {
  double wall_us = 0;
  double cpu_us = 0;
};

/// `offer(attempt)` for `count` attempts, until the executor has them all.
template <typename F>
Cost Measure(TakesAll& executor, std::int64_t count, F offer) {
  std::vector<Attempt> attempts = Attempts();
  executor.taken = 0;
  const Stopwatch watch;
  for (std::int64_t n = 0; n < count; ++n) {
    Attempt& attempt = attempts[static_cast<std::size_t>(n) % attempts.size()];
    attempt.key.epoch = Epoch(n + 1);
    offer(attempt);
  }
  while (executor.taken < count) std::this_thread::yield();
  const auto tasks = static_cast<double>(count);
  return {watch.Seconds() * 1e6 / tasks, watch.Cpu() * 1e6 / tasks};
}

}  // namespace

Figures DispatchCost(const Options& options) {
  const std::int64_t count = options.quick ? 20'000 : 1'000'000;
  TakesAll executor;
  Room room;
  executor::Executor& bare = executor;
  const Cost floor = Measure(executor, count, [&](const Attempt& a) {
    if (bare.Offer(a).disposition != model::Disposition::kDispatched) Die("not taken");
  });
  Figures figures;
  for (const auto& [what, size, workers] :
       {std::tuple{"inline", std::size_t{0}, std::size_t{0}},
        {"buffer of 1,024, 1 worker", std::size_t{1'024}, std::size_t{1}},
        {"buffer of 1,024, 4 workers", std::size_t{1'024}, std::size_t{4}},
        {"buffer of 1,024, 16 workers", std::size_t{1'024}, std::size_t{16}}}) {
    dispatch::DefaultDispatcher inner({.functions = "takes-all", .commands = "takes-all"});
    dispatch::DispatchMetrics metrics;
    SystemClock clock;
    NullLogger log;
    Status ready = inner.RegisterExecutor("takes-all", executor);
    if (ready) ready = inner.Start(room);
    dispatch::BufferedDispatcher dispatcher({.buffer_size = size, .workers = workers},
                                            {inner, metrics, clock, log});
    if (ready) ready = dispatcher.Start(room, room);
    if (!ready) Die(ready.error().message);
    const Cost cost = Measure(executor, count, [&](const Attempt& a) {
      while (dispatcher.Dispatch(a).disposition != model::Disposition::kDispatched) room.Wait();
    });
    if (const Status closed = dispatcher.Close(Duration(0)); !closed) Die(closed.error().message);
    figures.push_back({.workload = "disp",
                       .what = fmt::format("dispatch, {}; floor: Executor::Offer", what),
                       .unit = "us/task",
                       .engine = cost.wall_us,
                       .floor = floor.wall_us,
                       .smaller_is_better = true,
                       .engine_cpu_us = cost.cpu_us,
                       .floor_cpu_us = floor.cpu_us,
                       .aim = size == 0 ? "3 us" : ""});
  }
  return figures;
}

}  // namespace headworks::bench
