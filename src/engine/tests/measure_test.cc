#include <map>
#include <tuple>

#include "headworks/engine/engine.h"

#include "tests/rig.h"

namespace headworks::engine {
namespace {

using model::Disposition;
using model::RunState;
using model::TaskState;
using model::Verdict;

template <typename Array, typename Enum>
auto At(const Array& figures, Enum what) {
  return figures[static_cast<std::size_t>(what)];
}

/// A dispatcher that answers as it is told, and an engine that writes down what it logs.
class MeasureTest : public EngineTest {
 protected:
  class Answering final : public dispatcher::Dispatcher {
   public:
    executor::OfferResult answer;
    std::deque<executor::Attempt> offered;

    std::size_t lanes() const override { return 1; }
    std::size_t LaneOf(const TenantId&, const model::Task&) const override { return 0; }
    std::string_view LaneName(std::size_t) const override { return "answering"; }
    executor::Capacity GetCapacity(std::size_t) const override { return {2, 0}; }
    executor::OfferResult Dispatch(const executor::Attempt& attempt) override {
      offered.push_back(attempt);
      return answer;
    }
    void Cancel(const executor::Attempt&) override {}
    Result<std::vector<executor::Inspection>> Inspect(
        std::span<const executor::Attempt> attempts) override {
      return std::vector<executor::Inspection>(attempts.size(), executor::Absent{});
    }
    void Settled(std::span<const executor::Attempt>) override {}
    Status Close(Duration) override { return {}; }
  };

  class LineLogger final : public Logger {
   public:
    LogLevel minimum = LogLevel::kDebug;
    std::vector<std::pair<std::string, std::map<std::string, std::string, std::less<>>>> lines;

    bool Wants(LogLevel level) const override { return level >= minimum; }
    void Write(LogLevel, std::string_view message, Fields fields) override {
      auto& line = lines.emplace_back(message, decltype(lines)::value_type::second_type{});
      for (const auto& [key, value] : fields) line.second.emplace(key, value);
    }
  };

  MeasureTest() {
    EXPECT_TRUE(measured_.Open());
    measured_.Tick();
  }

  std::shared_ptr<Result<control::Started>> StartHere(const model::Workflow& workflow) {
    auto answer = std::make_shared<Result<control::Started>>(Error{Code::kInternal, "no answer"});
    measured_.Start(
        {.tenant = tenant_, .name = workflow.name(), .version = workflow.version(), .input = "{}"},
        [answer](Result<control::Started> started) { *answer = std::move(started); });
    return answer;
  }
  void TickHere(int times = 2) {
    for (; times > 0; --times) {
      measured_.Tick();
      clock_.Advance(std::chrono::milliseconds(10));
    }
  }
  void End(Verdict verdict, Duration took = std::chrono::seconds(2)) {
    ASSERT_FALSE(answering_.offered.empty());
    const Instant now = clock_.Now();
    measured_.Ended(answering_.offered.front().key,
                    {.verdict = verdict, .started_at = now - took, .ended_at = now});
    answering_.offered.pop_front();
    TickHere();
  }
  EngineStats stats() const { return measured_.stats(); }
  auto Lines(std::string_view message) const {
    std::vector<std::map<std::string, std::string, std::less<>>> found;
    for (const auto& [text, fields] : lines_.lines)
      if (text == message) found.push_back(fields);
    return found;
  }

  WatchedStore other_store_{clock_};
  Answering answering_;
  LineLogger lines_;
  Engine measured_{
      {.owner = "engine"}, other_store_, answering_, evaluator_, clock_, random_, lines_, nullptr};

  std::shared_ptr<const model::Workflow> PutHere(model::WorkflowDefinition definition) {
    auto workflow = model::Workflow::Create(std::move(definition));
    EXPECT_TRUE(workflow) << workflow.error().message;
    EXPECT_TRUE(other_store_.workflows().PutVersion(tenant_, (*workflow)->version(),
                                                    (*workflow)->canonical_json(), clock_.Now()));
    return *workflow;
  }
};

TEST_F(MeasureTest, TasksAreCountedByStateWhileTheirRunIsInMemory) {
  auto definition = Tasks("w", 4);
  definition.tasks[3].needs = {"t0"};
  StartHere(*PutHere(std::move(definition)));
  TickHere();
  const EngineStats begun = stats();
  EXPECT_EQ(begun.runs_started, 1U);
  EXPECT_EQ(At(begun.tasks, TaskState::kWaiting), 1);
  EXPECT_EQ(At(begun.tasks, TaskState::kReady), 1);
  EXPECT_EQ(At(begun.tasks, TaskState::kQueued), 2);
  ASSERT_EQ(begun.lanes.size(), 1U);
  EXPECT_EQ(begun.lanes[0].executor, "answering");
  EXPECT_EQ(begun.lanes[0].ready, 1U);
  EXPECT_EQ(begun.lanes[0].live, 2U);
  End(Verdict::kSucceeded);
  EXPECT_EQ(At(stats().tasks, TaskState::kSucceeded), 1);
  for (int i = 0; i < 3; ++i) End(Verdict::kSucceeded);

  const EngineStats ended = stats();
  EXPECT_EQ(ended.tasks, decltype(ended.tasks){}) << "the run has left memory";
  EXPECT_EQ(At(ended.tasks_ended, TaskState::kSucceeded), 4U);
  EXPECT_EQ(At(ended.runs_ended, RunState::kSucceeded), 1U);
  EXPECT_EQ(At(ended.attempts_ended, Verdict::kSucceeded), 4U);
  EXPECT_EQ(ended.lanes[0].attempt_duration.count(), 4U);
  EXPECT_DOUBLE_EQ(ended.lanes[0].attempt_duration.sum(), 8);
  EXPECT_EQ(ended.lanes[0].ready, 0U);
}

TEST_F(MeasureTest, EachEndHasItsOwnCount) {
  const auto workflow = PutHere(Tasks("w", 1));
  const std::pair<Verdict, TaskState> ends[] = {{Verdict::kSucceeded, TaskState::kSucceeded},
                                                {Verdict::kFailed, TaskState::kFailed},
                                                {Verdict::kRetry, TaskState::kFailed},
                                                {Verdict::kSkipped, TaskState::kSkipped}};
  for (const auto& [verdict, state] : ends) {
    const EngineStats before = stats();
    StartHere(*workflow);
    TickHere();
    End(verdict);
    EXPECT_EQ(At(stats().attempts_ended, verdict), At(before.attempts_ended, verdict) + 1);
    EXPECT_EQ(At(stats().tasks_ended, state), At(before.tasks_ended, state) + 1);
  }
  EXPECT_EQ(At(stats().runs_ended, RunState::kSucceeded), 2U);
  EXPECT_EQ(At(stats().runs_ended, RunState::kFailed), 2U);

  StartHere(*workflow);
  TickHere();
  const auto durations = [&] { return stats().lanes[0].attempt_duration.count(); };
  for (const Verdict verdict : {Verdict::kLost, Verdict::kInterrupted, Verdict::kSnoozed}) {
    const auto before = durations();
    End(verdict);
    EXPECT_EQ(durations(), before + (verdict == Verdict::kLost ? 0U : 1U));
    EXPECT_EQ(At(stats().attempts_ended, verdict), 1U);
    TickHere(3);
  }
  EXPECT_EQ(stats().runs_finished, 4U) << "none of these ends a task";
}

TEST_F(MeasureTest, EachOfferIsOneLineWithItsAnswer) {
  const auto workflow = PutHere(Tasks("w", 1));
  const auto not_taken = [](executor::DispatchError error) {
    return executor::NotTaken(error, "because");
  };
  for (const auto& [answer, disposition, error] :
       std::vector<std::tuple<executor::OfferResult, std::string, std::string>>{
           {{}, "dispatched", ""},
           {{.answered = false}, "buffered", ""},
           {{Disposition::kBackpressure, "429", {}}, "backpressure", ""},
           {not_taken(executor::DispatchError::kNoCapacity), "deferred", "no_capacity"},
           {not_taken(executor::DispatchError::kStore), "transient", "store"},
           {not_taken(executor::DispatchError::kContext), "rejected", "context"},
           {not_taken(executor::DispatchError::kValidation), "refused", "validation"}}) {
    lines_.lines.clear();
    answering_.answer = answer;
    StartHere(*workflow);
    while (answering_.offered.empty()) TickHere(1);
    const auto offered = Lines("attempt offered");
    ASSERT_EQ(offered.size(), answering_.offered.size()) << disposition;
    EXPECT_EQ(offered[0].at("disposition"), disposition);
    EXPECT_EQ(offered[0].at("cause"), answer.cause);
    EXPECT_EQ(offered[0].contains("error"), !error.empty()) << disposition;
    if (!error.empty()) EXPECT_EQ(offered[0].at("error"), error);
    answering_.answer = {};
    TickHere();
    while (!answering_.offered.empty()) End(Verdict::kSucceeded);
  }
}

TEST_F(MeasureTest, AnswerThatComesLateIsALineOfItsOwn) {
  answering_.answer.answered = false;
  StartHere(*PutHere(Tasks("w", 1)));
  TickHere();
  ASSERT_EQ(answering_.offered.size(), 1U);
  measured_.HandleDispatchFailure(
      answering_.offered.front().key,
      executor::NotTaken(executor::DispatchError::kStore, "connection refused"));
  TickHere();
  EXPECT_EQ(Lines("attempt offered").size(), 1U);
  const auto late = Lines("offer answered late");
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].at("task"), "t0");
  EXPECT_EQ(late[0].at("disposition"), "transient");
  EXPECT_EQ(late[0].at("cause"), "connection refused");
  EXPECT_EQ(late[0].at("error"), "store");
}

TEST_F(MeasureTest, VerdictThatComesTwiceIsCountedAsSuperseded) {
  auto definition = Tasks("w", 2);
  StartHere(*PutHere(std::move(definition)));
  TickHere();
  const model::AttemptKey key = answering_.offered.front().key;
  End(Verdict::kSucceeded);
  EXPECT_EQ(stats().superseded, 0U);
  measured_.Ended(key, {.verdict = Verdict::kFailed});
  TickHere();
  EXPECT_EQ(stats().superseded, 1U);
  EXPECT_EQ(At(stats().attempts_ended, Verdict::kFailed), 0U);
}

TEST_F(MeasureTest, RoundThatIsTriedAgainIsOneRoundOfSeveralCommits) {
  int refusals = 3;
  other_store_.before = [&](const store::Round&) -> Status {
    if (refusals-- > 0) return Error{Code::kAtCapacity, "disk full"};
    return {};
  };
  const EngineStats before = stats();
  StartHere(*PutHere(Tasks("w", 1)));
  TickHere(100);
  const EngineStats after = stats();
  EXPECT_EQ(after.commits_failed, 3U);
  EXPECT_EQ(after.rounds, before.rounds + 1);
  EXPECT_EQ(after.runs_started, 1U) << "not once per try";
  EXPECT_EQ(after.commit_duration.count(), 4U);
  EXPECT_EQ(after.round_duration.count(), after.rounds);
  EXPECT_EQ(after.round_rows.count(), after.rounds);
  EXPECT_DOUBLE_EQ(after.round_rows.sum(), static_cast<double>(after.rows));
}

TEST_F(MeasureTest, RolledBackRoundCountsNothing) {
  bool failing = true;
  other_store_.before = [&](const store::Round& round) -> Status {
    if (failing && round.runs.size() > 1) return Error{Code::kInternal, "constraint failed"};
    return {};
  };
  const auto workflow = PutHere(Tasks("w", 1));
  StartHere(*workflow);
  StartHere(*workflow);
  TickHere(10);
  EXPECT_EQ(stats().runs_started, 2U);
  EXPECT_EQ(At(stats().tasks, TaskState::kQueued), 2);
  failing = false;
  End(Verdict::kSucceeded);
  End(Verdict::kSucceeded);
  EXPECT_EQ(stats().tasks, decltype(EngineStats::tasks){});
}

TEST_F(MeasureTest, LinesOfAnAttemptNameItAndItsTry) {
  auto definition = Tasks("w", 1);
  definition.tasks[0].retry.max_attempts = 2;
  const auto started = StartHere(*PutHere(std::move(definition)));
  TickHere();
  End(Verdict::kRetry);
  for (int i = 0; i < 200 && answering_.offered.empty(); ++i) {
    clock_.Advance(std::chrono::seconds(1));
    TickHere();
  }
  End(Verdict::kSucceeded);
  std::vector<std::string> seen;
  for (const auto& [message, fields] : lines_.lines) {
    if (!message.starts_with("attempt ")) continue;
    ASSERT_TRUE(*started);
    EXPECT_EQ(fields.at("tenant"), "public");
    EXPECT_EQ(fields.at("run"), std::to_string((*started)->run.value));
    EXPECT_EQ(fields.at("task"), "t0");
    seen.push_back(message + " " + fields.at("try") + " " + fields.at("epoch") + " " +
                   (fields.contains("verdict") ? fields.at("verdict") : fields.at("disposition")));
  }
  EXPECT_EQ(seen, (std::vector<std::string>{
                      "attempt offered 1 1 dispatched", "attempt ended 1 1 retry",
                      "attempt offered 2 2 dispatched", "attempt ended 2 2 succeeded"}));
}

TEST_F(MeasureTest, LinesThatNobodyWantsAreNotMade) {
  lines_.minimum = LogLevel::kInfo;
  const auto workflow = PutHere(Tasks("w", 1));
  StartHere(*workflow);
  TickHere();
  End(Verdict::kSucceeded);
  EXPECT_TRUE(lines_.lines.empty());
  StartHere(*workflow);
  TickHere();
  End(Verdict::kFailed);
  ASSERT_EQ(lines_.lines.size(), 1U);
  EXPECT_EQ(lines_.lines[0].second.at("verdict"), "failed");
}

}  // namespace
}  // namespace headworks::engine
