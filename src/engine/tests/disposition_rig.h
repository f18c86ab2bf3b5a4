#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "headworks/dispatch/buffered_dispatcher.h"
#include "headworks/dispatch/default_dispatcher.h"
#include "headworks/dispatch/dispatch_metrics.h"
#include "tests/rig.h"

namespace headworks::engine {

/// What a test may see of an engine's memory.
class EnginePeer {
 public:
  /// Timers that offer attempts of this run again, also those that are no longer wanted.
  static std::ptrdiff_t Reoffers(const Engine& engine, RunNo run) {
    return std::ranges::count_if(engine.timers_, [run](const auto& timer) {
      return timer.kind == Engine::Timer::Kind::kReoffer && timer.ref.run == run;
    });
  }
};

/// A platform that answers as a test says.  What it took may be here although its answer was lost.
class Platform final : public executor::Executor {
 public:
  std::uint32_t max = 1'000'000;
  std::function<executor::OfferResult(const executor::Attempt&)> answer =
      [](const executor::Attempt&) { return executor::OfferResult{}; };
  struct Offered {
    model::AttemptKey key;
    int try_no;
    Duration at;
  };
  std::vector<Offered> offered;
  std::map<model::AttemptKey, executor::Attempt> here;
  std::vector<model::AttemptKey> cancelled, settled;
  /// What it says of attempts, whatever is here.
  std::optional<executor::Inspection> says;
  int inspections = 0;
  Clock* clock = nullptr;
  executor::AttemptSink* sink = nullptr;

  std::string_view Name() const override { return "platform"; }
  Status Start(executor::AttemptSink& s) override {
    sink = &s;
    return {};
  }
  executor::OfferResult Offer(const executor::Attempt& attempt) override {
    offered.push_back({attempt.key, attempt.try_no, clock->Monotonic()});
    if (here.contains(attempt.key)) return {};
    executor::OfferResult result = answer(attempt);
    if (result.disposition == model::Disposition::kDispatched) here.emplace(attempt.key, attempt);
    return result;
  }
  void Cancel(const model::AttemptKey& key) override { cancelled.push_back(key); }
  executor::Capacity GetCapacity() const override {
    return {max, static_cast<std::uint32_t>(here.size())};
  }
  Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) override {
    std::vector<executor::Inspection> answers;
    inspections += static_cast<int>(attempts.size());
    for (const executor::Attempt& attempt : attempts)
      answers.push_back(says                         ? *says
                        : here.contains(attempt.key) ? executor::Inspection(executor::Running{})
                                                     : executor::Inspection(executor::Absent{}));
    return answers;
  }
  std::vector<model::AttemptKey> List() const override { return {}; }
  executor::Metrics GetMetrics() const override { return {}; }
  void Settled(std::span<const model::AttemptKey> keys) override {
    settled.insert(settled.end(), keys.begin(), keys.end());
  }
  Status Drain(Duration) override { return {}; }

  void End(const model::AttemptKey& key, model::Verdict verdict) {
    sink->Ended(key, {.verdict = verdict});
    here.erase(key);  // `key` may be that of this entry
    sink->CapacityChanged();
  }
  void EndAll(model::Verdict verdict) {
    while (!here.empty()) End(here.begin()->first, verdict);
  }
};

/// An engine, a buffer of GetParam() places (0 = none), and a platform, in one thread.
class DispositionTest : public testing::TestWithParam<std::size_t> {
 protected:
  DispositionTest() : store_(clock_) {
    platform_.clock = other_.clock = &clock_;
    EXPECT_TRUE(inner_.RegisterExecutor("platform", platform_));
    EXPECT_TRUE(inner_.RegisterExecutor("other", other_));
    EXPECT_TRUE(engine_.Open());
    EXPECT_TRUE(inner_.Start(engine_));
  }
  void SetUp() override {
    if (!plain_sink_) EXPECT_TRUE(buffer_.StartWithoutThreads(engine_, engine_));
    Tick();
  }
  /// At once: a round, what it puts into the buffer, and what that leads to.
  void Tick(int times = 1) {
    for (; times > 0; --times) {
      engine_.Tick();
      while (sends_ && buffer_.SendNext()) {
      }
      engine_.Tick();
      clock_.Advance(std::chrono::milliseconds(1));
    }
  }
  /// Ticks every `step` until `time` has passed.
  void Pass(Duration time, Duration step = std::chrono::milliseconds(100)) {
    for (const Duration until = clock_.Monotonic() + time; clock_.Monotonic() < until;) {
      clock_.Advance(step - std::chrono::milliseconds(1));
      Tick();
    }
  }
  RunNo Start(std::uint32_t tasks = 1, const std::function<void(model::Task&)>& edit = {}) {
    model::WorkflowDefinition definition;
    definition.name.workflow = "w" + std::to_string(++workflows_);
    for (std::uint32_t t = 0; t < tasks; ++t)
      definition.tasks.push_back(
          {.id = "t" + std::to_string(t), .action = model::FunctionAction{"f"}});
    if (edit)
      for (auto& task : definition.tasks) edit(task);
    const auto workflow = *model::Workflow::Create(std::move(definition));
    EXPECT_TRUE(store_.workflows().PutVersion(tenant_, workflow->version(),
                                              workflow->canonical_json(), clock_.Now()));
    RunNo run(0);
    engine_.Start({.tenant = tenant_,
                   .name = workflow->name(),
                   .version = workflow->version(),
                   .input = "{}"},
                  [&](Result<control::Started> started) { run = started->run; });
    engine_.Tick();
    EXPECT_NE(run, RunNo(0));
    return run;
  }
  store::RunImage Image(RunNo run) { return *store_.runs().LoadRun(tenant_, run); }
  model::StoredTask Row(RunNo run, std::uint32_t task = 0) {
    for (const auto& row : Image(run).tasks)
      if (row.task == TaskNo(task)) return row;
    return {};
  }
  std::vector<model::AttemptRecord> Attempts(RunNo run) {
    return *store_.query().ListAttempts(tenant_, run, TaskNo(0), Epoch(0), 100);
  }
  /// That its attempts are not taken, oldest first.
  std::vector<std::string> Notes(RunNo run) {
    std::vector<std::string> notes;
    for (const auto& event : *store_.query().ListEvents(tenant_, run, 100))
      if (event.kind == "held_up") notes.push_back(event.detail);
    return notes;
  }
  std::set<model::AttemptKey> Epochs() const {
    std::set<model::AttemptKey> keys;
    for (const auto& offered : platform_.offered) keys.insert(offered.key);
    return keys;
  }
  static auto Says(model::Disposition disposition, const std::string& cause) {
    return [=](const executor::Attempt&) { return executor::OfferResult{disposition, cause, {}}; };
  }

  const TenantId tenant_{"public"};
  ManualClock clock_;
  SeededRandom random_{1};
  NullLogger logger_;
  WatchedStore store_;
  Platform platform_, other_;  // of functions and of commands
  dispatch::DefaultDispatcher inner_{{.functions = "platform", .commands = "other"}};
  dispatch::DispatchMetrics metrics_;
  dispatch::BufferedDispatcher buffer_{{.buffer_size = GetParam()},
                                       {inner_, metrics_, clock_, logger_}};
  ManualEvaluator evaluator_;
  Engine engine_{
      {.owner = "engine"}, store_, buffer_, evaluator_, clock_, random_, logger_, nullptr};
  bool plain_sink_ = false;
  bool sends_ = true;  // what is in the buffer
  int workflows_ = 0;
};

}  // namespace headworks::engine
