#include <optional>

#include "headworks/base/random.h"
#include "naive_run.h"
#include "test_run.h"

/// Random workflows under random events against `NaiveRun`, with a crash after every step.
namespace headworks::model {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(Mix64(seed + 1)) {}
  /// 0 to n - 1.
  std::uint32_t Roll(std::size_t n) { return static_cast<std::uint32_t>(random_.Next() % n); }
  bool Percent(std::uint32_t p) { return Roll(100) < p; }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[Roll(from.size())];
  }

 private:
  SeededRandom random_;
};

WorkflowDefinition RandomWorkflow(Dice& dice) {
  WorkflowDefinition d;
  d.name.workflow = "w";
  if (dice.Percent(30)) d.timeout = minutes(1 + dice.Roll(30));
  if (dice.Percent(25)) d.on_failure = OnFailure::kCancelRest;
  if (dice.Percent(10)) d.cancel_timeout = d.finally_timeout;
  const std::uint32_t size = 1 + (dice.Percent(50) ? dice.Roll(8) : dice.Roll(30));
  std::vector<std::vector<std::string>> ids(3);
  for (std::uint32_t i = 0; i < size; ++i) {
    Task task;
    task.id = fmt::format("t{}", i);
    task.action = ShellAction{.script = "true"};
    if (i > 0 && dice.Percent(25)) {
      task.role = dice.Percent(50) ? TaskRole::kOnCancel : TaskRole::kFinally;
    }
    auto& peers = ids[static_cast<std::size_t>(task.role)];
    for (int n = static_cast<int>(dice.Roll(4)); n > 0 && !peers.empty(); --n) {
      const std::string& up = dice.Pick(peers);
      if (std::ranges::find(task.needs, up) == task.needs.end()) task.needs.push_back(up);
    }
    if (dice.Percent(30)) {
      task.group = fmt::format("g{}_{}", static_cast<int>(task.role), dice.Roll(2));
      task.id = fmt::format("{}[{}]", task.group, i);
      task.matrix = fmt::format(R"({{"n":{}}})", i);
    }
    peers.push_back(task.id);
    if (dice.Percent(50)) task.trigger_rule = static_cast<TriggerRule>(dice.Roll(11));
    task.allow_failure = dice.Percent(15);
    task.retry.max_attempts = static_cast<int>(1 + dice.Roll(3));
    task.retry.max_losses = static_cast<int>(1 + dice.Roll(3));
    if (dice.Percent(30)) task.timeout = minutes(1 + dice.Roll(10));
    if (dice.Percent(20)) task.when = {"true"};
    if (dice.Percent(15)) task.deadline = minutes(1 + dice.Roll(10));
    d.tasks.push_back(std::move(task));
  }
  return d;
}

/// One seed.  In exact mode every event is followed to its end before the next one, and each task
/// is compared with the naive model; otherwise events come between the rounds of large
/// consequences, and what is compared is what must hold then too.
class Walk {
 public:
  explicit Walk(std::uint64_t seed)
      : dice_(seed),
        exact_(dice_.Percent(60)),
        real_(RandomWorkflow(dice_), dice_.Percent(50) ? 1 + dice_.Roll(4) : 1000),
        naive_(*real_.run.workflow) {
    real_.quiet = true;
  }

  /// The first thing that did not hold; empty = all did.
  std::string Go() {
    const std::uint32_t events = 5 + dice_.Roll(80);
    for (std::uint32_t i = 0; i < events && real_.fault.empty(); ++i) RandomEvent();
    if (real_.run.header.state == RunState::kPending) Send(StartRun{}, [&] { naive_.Start(); });
    for (int i = 0; real_.fault.empty() && !Done(); ++i) {
      if (i > 5000) real_.Fail("the run does not end: " + real_.States());
      Help();
    }
    if (real_.fault.empty()) CheckEnd();
    return real_.fault;
  }

 private:
  const Workflow& workflow() const { return *real_.run.workflow; }
  RunHeader& header() { return real_.run.header; }
  TaskRun& At(TaskNo no) { return real_.run.tasks[no.value]; }
  TaskNo AnyTask() { return TaskNo{dice_.Roll(real_.run.tasks.size())}; }
  /// Sometimes a task stands for its whole matrix.
  bool AnyGroup(TaskNo no) { return dice_.Percent(50) && !workflow().task(no).group.empty(); }

  template <typename Naive>
  Status Do(const Event& event, Naive&& naive) {
    const Status status = StepOnce(event);
    if (!exact_) return status;
    while (More() && real_.fault.empty()) Continue();
    naive();
    Compare();
    return status;
  }

  /// An event that is never refused.
  template <typename Naive>
  void Send(const Event& event, Naive&& naive) {
    if (const Status status = Do(event, naive); !status) real_.Fail(status.error().message);
  }

  void Continue() {
    if (const Status status = StepOnce(ContinueRun{}); !status) {
      real_.Fail(status.error().message);
    }
  }

  Status StepOnce(const Event& event) {
    const bool paused = header().paused_at != Instant{};
    const bool resetting = header().reset.kind != ResetCursor::Kind::kNone;
    const Status status = real_.Do(event);
    for (const TaskNo no : real_.changes.ready) ready_.insert(no);
    for (const auto& asked : real_.changes.evaluate) asked_.push_back(asked);
    for (const auto& cancel : real_.changes.cancels) told_.insert(cancel.epoch);
    for (const auto& offer : real_.changes.offers) {
      if (offer.epoch <= last_epoch_) real_.Fail("an epoch was given out twice");
      last_epoch_ = offer.epoch;
      if (paused || resetting) real_.Fail("queued while paused or during a reset");
      if (Stop(offer.task)) real_.Fail("queued after a cancel");
      if (!workflow().task(offer.task).when.empty() && !At(offer.task).admitted)
        real_.Fail("queued without an answer to its `when`");
    }
    if (real_.changes.finished != (real_.changes.finished && IsTerminal(header().state))) {
      real_.Fail("finished, but not terminal");
    }
    for (TaskNo no; no.value < real_.run.tasks.size(); ++no.value) {
      if (IsLive(At(no).state) && Stop(no) && !told_.contains(At(no).epoch)) {
        real_.Fail("a live attempt was not told to stop");
      }
    }
    return status;
  }

  bool More() const { return !real_.run.to_settle.empty() || !real_.run.to_reset.empty(); }

  bool Stop(TaskNo no) {
    switch (workflow().task(no).role) {
      case TaskRole::kMain:
        return header().cancel_requested_at != Instant{};
      case TaskRole::kOnCancel:
        return header().finally_started_at != Instant{} || header().finally_stopped;
      case TaskRole::kFinally:
        return header().finally_stopped;
    }
    return false;
  }

  void Compare() {
    const auto differ = [this](std::string_view what) {
      std::string want;
      for (std::size_t i = 0; i < naive_.tasks.size(); ++i) {
        want += fmt::format("{}{}:{}", i ? " " : "", workflow().task(TaskNo(i)).id,
                            TaskStateName(naive_.tasks[i].state));
      }
      real_.Fail(fmt::format("{}\n  is {} {}\nnaive {} {}", what, RunStateName(header().state),
                             real_.States(), RunStateName(naive_.state), want));
    };
    if (header().state != naive_.state) differ("run state");
    if ((header().paused_at != Instant{}) != naive_.paused) differ("paused");
    for (std::size_t i = 0; i < naive_.tasks.size(); ++i) {
      const TaskRun& task = real_.run.tasks[i];
      const NaiveRun::NaiveTask& want = naive_.tasks[i];
      if (task.state != want.state) return differ(fmt::format("state of task {}", i));
      if (task.zombie != want.zombie) return differ(fmt::format("zombie {}", i));
      if (task.tries != want.tries || task.losses != want.losses ||
          task.dispatch_failures != want.dispatch_failures) {
        return differ(fmt::format("budgets of task {}", i));
      }
    }
  }

  // ---- Events.

  std::vector<TaskNo> Live(bool zombies) {
    std::vector<TaskNo> live;
    for (TaskNo no; no.value < real_.run.tasks.size(); ++no.value) {
      if (IsLive(At(no).state) || (zombies && At(no).zombie)) live.push_back(no);
    }
    return live;
  }

  void QueueAny() {
    // Now and then one that nobody named: it may be asked about, waiting, or over.
    const bool named = !ready_.empty() && !dice_.Percent(5);
    const TaskNo no = named ? *std::next(ready_.begin(), dice_.Roll(ready_.size())) : AnyTask();
    ready_.erase(no);
    Send(QueueTask{no}, [&] { naive_.Queue(no); });
  }

  /// Answers a question, now and then one that is no longer asked.
  void AnswerQuestion() {
    if (asked_.empty()) return;
    const std::size_t which = dice_.Roll(asked_.size());
    const Changes::Evaluation asked = asked_[which];
    if (!dice_.Percent(10)) asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(which));
    WhenEvaluated answer{.task = asked.task, .since = asked.since, .holds = dice_.Percent(70)};
    if (dice_.Percent(10)) answer.error = "no such field";
    const TaskRun& task = At(asked.task);
    const bool open =
        task.state == TaskState::kReady && task.since == asked.since && !task.admitted;
    Send(answer, [&] {
      if (open) naive_.Evaluated(asked.task, answer.holds, !answer.error.empty());
    });
  }

  void End(TaskNo no, Verdict verdict) {
    Outcome outcome;
    outcome.verdict = verdict;
    if (dice_.Percent(20)) outcome.output = "{}";
    if (verdict == Verdict::kSnoozed) outcome.not_before = real_.now + seconds(dice_.Roll(600));
    const Epoch epoch = At(no).epoch;
    Send(AttemptEnded{no, epoch, outcome}, [&] { naive_.Ended(no, verdict); });
    if (real_.changes.superseded && !More()) real_.Fail("a live verdict was superseded");
    if (dice_.Percent(10)) {  // said twice
      Send(AttemptEnded{no, epoch, outcome}, [] {});
      if (!real_.changes.superseded) real_.Fail("a repeated verdict counted");
    }
  }

  void EndAny() {
    const std::vector<TaskNo> live = Live(true);
    if (live.empty()) return;
    static const std::vector<Verdict> verdicts = {
        Verdict::kSucceeded, Verdict::kSucceeded, Verdict::kSucceeded,   Verdict::kSucceeded,
        Verdict::kRetry,     Verdict::kRetry,     Verdict::kFailed,      Verdict::kSkipped,
        Verdict::kSnoozed,   Verdict::kLost,      Verdict::kInterrupted, Verdict::kCancelled};
    End(dice_.Pick(live), dice_.Pick(verdicts));
  }

  void StaleSpeech() {
    const TaskNo no = AnyTask();
    const Epoch epoch{static_cast<std::int64_t>(
        dice_.Roll(static_cast<std::size_t>(header().next_epoch.value) + 2))};
    if (At(no).epoch == epoch) return;
    Outcome outcome;
    const std::vector<Event> events = {AttemptEnded{no, epoch, outcome}, AttemptStarted{no, epoch},
                                       OfferAnswered{no, epoch, Disposition::kRefused, ""}};
    Send(dice_.Pick(events), [] {});
    if (!real_.changes.superseded) real_.Fail("a stale word was not superseded");
  }

  void StartAny() {
    const std::vector<TaskNo> live = Live(false);
    if (live.empty()) return;
    const TaskNo no = dice_.Pick(live);
    Send(AttemptStarted{no, At(no).epoch}, [&] { naive_.Started(no); });
  }

  void AnswerAny() {
    const std::vector<TaskNo> live = Live(false);
    if (live.empty()) return;
    const TaskNo no = dice_.Pick(live);
    const auto disposition = static_cast<Disposition>(1 + dice_.Roll(6));
    Send(OfferAnswered{no, At(no).epoch, disposition, "why"},
         [&] { naive_.Answered(no, disposition); });
  }

  bool NextTimer() {
    if (real_.timers.empty()) return false;
    const Instant when = real_.timers.begin()->first;
    const std::optional<TaskNo> task = real_.timers.begin()->second;
    real_.timers.erase(real_.timers.begin());
    real_.now = std::max(real_.now, when);
    if (task && header().state == RunState::kRunning && At(*task).deadline == when) {
      Send(TimerDue{when, task}, [&] { naive_.Deadline(*task); });
      return true;
    }
    const bool relevant =
        header().state == RunState::kRunning &&
        (task ? IsTimerOf(*task, when) : header().wake_at != kNever && RunDeadline() == when);
    Send(TimerDue{when, task}, [&] {
      if (!relevant) return;
      task ? naive_.TaskTimer(*task) : naive_.RunTimer();
    });
    return true;
  }
  bool IsTimerOf(TaskNo no, Instant when) {
    const TaskRun& task = At(no);
    if (task.state == TaskState::kParked) return task.not_before == when;
    if (IsLive(task.state) && task.reason == Reason::kDeadline &&
        task.deadline + workflow().definition().cancel_timeout == when) {
      return true;
    }
    const Duration timeout = workflow().task(no).timeout;
    return task.state == TaskState::kRunning && timeout > Duration{0} &&
           task.since + timeout + workflow().definition().cancel_timeout == when;
  }
  Instant RunDeadline() {
    const WorkflowDefinition& d = workflow().definition();
    const RunHeader& h = header();
    if (h.finally_started_at != Instant{}) {
      return h.finally_started_at + d.finally_timeout +
             (h.finally_stopped ? d.cancel_timeout : Duration{0});
    }
    if (h.cancel_requested_at != Instant{}) return h.cancel_requested_at + d.cancel_timeout;
    return d.timeout > Duration{0} ? h.started_at + d.timeout : kNever;
  }

  template <typename Naive>
  void Command(const Event& event, Naive&& naive) {
    bool want = true;
    const Status status = Do(event, [&] { want = naive(); });
    if (exact_ && status.has_value() != want) {
      real_.Fail(fmt::format("command {}: {}", event.index(),
                             status ? "accepted" : status.error().message));
    }
  }

  void RandomCommand() {
    switch (dice_.Roll(6)) {
      case 0:
        return Command(CancelRun{"x"}, [&] { return naive_.CancelByUser(); });
      case 1:
        return Command(PauseRun{"x"}, [&] { return naive_.Pause(); });
      case 2:
        return Command(ResumeRun{"x"}, [&] { return naive_.Resume(); });
      case 3: {
        auto kind = static_cast<ResetCursor::Kind>(1 + dice_.Roll(3));
        const TaskNo no = AnyTask();
        if (kind == ResetCursor::Kind::kFrom && AnyGroup(no)) kind = ResetCursor::Kind::kFromGroup;
        return Command(RerunTasks{kind, no, "x"}, [&] { return naive_.Rerun(kind, no); });
      }
      default: {
        static const std::vector<TaskState> states = {TaskState::kSucceeded, TaskState::kFailed,
                                                      TaskState::kSkipped};
        const TaskNo no = AnyTask();
        const TaskState as = dice_.Pick(states);
        const bool group = AnyGroup(no);
        return Command(MarkTask{no, as, "x", group}, [&] { return naive_.Mark(no, as, group); });
      }
    }
  }

  void RandomEvent() {
    const std::uint32_t roll = dice_.Roll(100);
    real_.now += seconds(dice_.Roll(3));
    if (roll < 6 || (roll < 30 && header().state == RunState::kPending)) {
      Send(StartRun{}, [&] { naive_.Start(); });
    } else if (roll < 31) {
      QueueAny();
    } else if (roll < 35) {
      AnswerQuestion();
    } else if (roll < 45) {
      StartAny();
    } else if (roll < 65) {
      EndAny();
    } else if (roll < 69) {
      AnswerAny();
    } else if (roll < 73) {
      StaleSpeech();
    } else if (roll < 80) {
      NextTimer();
    } else if (roll < 87) {
      Send(ContinueRun{}, [] {});
    } else if (roll < 91) {
      Crash();
    } else {
      RandomCommand();
    }
  }

  void Crash() {
    real_.Crash();
    ready_.clear();
    for (const TaskNo no : real_.changes.ready) ready_.insert(no);
    asked_ = real_.changes.evaluate;
    if (real_.run.header.paused_at != Instant{} && !ready_.empty()) real_.Fail("ready in a pause");
    for (const auto& cancel : real_.changes.cancels) told_.insert(cancel.epoch);
  }

  // ---- To the end: whatever the run asks for is done.

  bool Done() { return IsTerminal(header().state) && !More() && Live(true).empty(); }

  void Help() {
    if (More()) {
      Send(ContinueRun{}, [] {});
    } else if (const std::vector<TaskNo> live = Live(true); !live.empty()) {
      End(live.front(), dice_.Percent(90) ? Verdict::kSucceeded : Verdict::kRetry);
    } else if (header().paused_at != Instant{}) {
      Command(ResumeRun{"x"}, [&] { return naive_.Resume(); });
    } else if (!ready_.empty()) {
      QueueAny();
    } else if (!asked_.empty()) {
      AnswerQuestion();
    } else if (!NextTimer()) {
      real_.Fail("nothing to do, but the run has not ended: " + real_.States());
    }
  }

  void CheckEnd() {
    const RunHeader& h = header();
    if (h.finished_at == Instant{}) real_.Fail("no end time");
    if (h.started_at == Instant{}) return;  // cancelled before it started
    bool bad = false;
    for (TaskNo no; no.value < real_.run.tasks.size(); ++no.value) {
      const TaskState s = At(no).state;
      if (!IsTerminal(s)) real_.Fail("a task is not settled");
      bad |= (s == TaskState::kFailed || s == TaskState::kCancelled) &&
             !workflow().task(no).allow_failure;
    }
    RunState want = bad ? RunState::kFailed : RunState::kSucceeded;
    if (h.cancel_requested_at != Instant{}) {
      want = h.reason == Reason::kCancelRequested ? RunState::kCancelled : RunState::kFailed;
    }
    if (h.state != want) real_.Fail("wrong outcome");
    if (h.wake_at != kNever) real_.Fail("an ended run wants to be woken");
  }

  Dice dice_;
  bool exact_;
  TestRun real_;
  NaiveRun naive_;
  std::set<TaskNo> ready_;  // from effects alone
  std::vector<Changes::Evaluation> asked_;
  std::set<Epoch> told_;
  Epoch last_epoch_{0};
};

void WalkSeeds(std::uint64_t first, std::uint64_t count) {
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + count && failures < 3; ++seed) {
    const std::string fault = Walk(seed).Go();
    if (fault.empty()) continue;
    ++failures;
    ADD_FAILURE() << "seed " << seed << ": " << fault;
  }
}

TEST(StepModel, AgreesWithTheNaiveModel) { WalkSeeds(0, 3000); }

/// `--gtest_also_run_disabled_tests --gtest_random_seed=N` takes the N-th million of seeds.
TEST(StepModel, DISABLED_Soak) {
  const auto n = static_cast<std::uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  WalkSeeds(n * 1'000'000, 1'000'000);
}

}  // namespace
}  // namespace headworks::model
