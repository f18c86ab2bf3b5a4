/// What limits across runs cost a task, in an engine whose store and executor cost nearly nothing.

#include <fmt/format.h>

#include <array>
#include <deque>

#include "bench.h"
#include "headworks/base/log.h"
#include "headworks/engine/engine.h"
#include "headworks/store_memory/memory_store.h"

namespace headworks::bench {
namespace {

/// One lane; attempts end when they are told to.
class Held final : public dispatcher::Dispatcher {
 public:
  std::deque<model::AttemptKey> taken;

  std::size_t lanes() const override { return 1; }
  std::size_t LaneOf(const TenantId&, const model::Task&) const override { return 0; }
  std::string_view LaneName(std::size_t) const override { return "held"; }
  executor::Capacity GetCapacity(std::size_t) const override { return {1'000, 0}; }
  executor::OfferResult Dispatch(const executor::Attempt& attempt) override {
    taken.push_back(attempt.key);
    return {};
  }
  void Cancel(const executor::Attempt&) override {}
  Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) override {
    return std::vector<executor::Inspection>(attempts.size(), executor::Absent{});
  }
  void Settled(std::span<const executor::Attempt>) override {}
  Status Close(Duration) override { return {}; }
};

class NoQuestions final : public engine::Evaluator {
 public:
  void Evaluate(engine::Question, Answer answer) override { answer(true); }
};

struct Kind {
  std::string_view what;
  int permits;  // of the pool that every task names; 0 = none
  bool keyed;   // every tenth run shares a concurrency key of limit 1,000
};

model::WorkflowDefinition Definition(const Kind& kind) {
  model::WorkflowDefinition definition;
  definition.name.workflow = "w";
  definition.tasks = {{.id = "t", .action = model::FunctionAction{"f"}}};
  if (kind.permits > 0) definition.tasks[0].pool = "pool";
  if (kind.keyed) definition.concurrency = {.key = "params.key", .limit = 1'000};
  return definition;
}

/// Single-task runs from start to end.
Spent BurnDown(const Kind& kind, std::int64_t runs) {
  SystemClock clock;
  SystemRandom random;
  NullLogger log;
  NoQuestions questions;
  Held held;
  const auto store = store_memory::Open(store_memory::NewStorage(), clock);
  const TenantId tenant("public");
  const auto workflow = model::Workflow::Create(Definition(kind));
  if (!workflow) Die(workflow.error().message);
  Status ready = store->workflows().PutVersion(tenant, (*workflow)->version(),
                                               (*workflow)->canonical_json(), clock.Now());
  if (ready && kind.permits > 0)
    ready = store->limits().SetPool(tenant, "pool", kind.permits, clock.Now());
  engine::Engine engine({.owner = "bench"}, *store, held, questions, clock, random, log, nullptr);
  if (ready) ready = engine.Open();
  if (!ready) Die(ready.error().message);
  const Stopwatch watch;
  for (std::int64_t run = 0; run < runs; ++run) {
    control::StartRequest request{.tenant = tenant,
                                  .name = (*workflow)->name(),
                                  .version = (*workflow)->version(),
                                  .input = "{}"};
    if (kind.keyed) request.concurrency_key = fmt::format("key-{}", run % 10);
    engine.Start(std::move(request), [](const Result<control::Started>& started) {
      if (!started) Die(started.error().message);
    });
  }
  while (engine.stats().runs_finished < static_cast<std::uint64_t>(runs)) {
    engine.Tick();
    for (const model::AttemptKey& key : held.taken)
      engine.Ended(key, {.verdict = model::Verdict::kSucceeded});
    held.taken.clear();
  }
  return {watch.Seconds(), watch.Cpu()};
}

}  // namespace

Figures LimitCost(const Options& options) {
  const std::int64_t runs = options.quick ? 1'000 : 20'000;
  const Spent plain = BurnDown({"plain", 0, false}, runs);
  const auto per_task = [&](double seconds) { return seconds * 1e6 / static_cast<double>(runs); };
  Figures figures;
  for (const Kind& kind : {Kind{"a pool with a permit for each", 1'000'000, false},
                           Kind{"a pool of 100 permits, so that most wait", 100, false},
                           Kind{"a concurrency key", 0, true}}) {
    const Spent spent = BurnDown(kind, runs);
    figures.push_back(
        {.workload = "lim",
         .what = fmt::format("single-task runs, {}; floor: the same without", kind.what),
         .unit = "us/task",
         .engine = per_task(spent.seconds),
         .floor = per_task(plain.seconds),
         .smaller_is_better = true,
         .engine_cpu_us = per_task(spent.cpu),
         .floor_cpu_us = per_task(plain.cpu)});
  }
  return figures;
}

}  // namespace headworks::bench
