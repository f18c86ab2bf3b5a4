#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <future>
#include <thread>

#include "headworks/author/author.h"
#include "headworks/runner/runner.h"
#include "headworks/worker_api/worker_service.h"

// Workers that come for attempts, over the seam that whatever carries their words implements
// (I3, I4, I5, I7).
namespace headworks {
namespace {

using executor::Reply;
using model::Verdict;
using worker_api::WorkerService;
using namespace std::chrono_literals;

/// Calls a service and waits for its answer.
template <typename T, typename Call>
Result<T> Wait(const Call& call) {
  const auto promise = std::make_shared<std::promise<Result<T>>>();
  auto answer = promise->get_future();
  call([promise](Result<T> said) { promise->set_value(std::move(said)); });
  if (answer.wait_for(60s) != std::future_status::ready)
    return Error{Code::kInternal, "was not answered"};
  return answer.get();
}

bool Eventually(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (!holds() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  return holds();
}

/// One worker, by hand: it does what a test says.
class Hand {
 public:
  Hand(Runner& runner, std::string name, std::vector<std::string> labels = {},
       std::string incarnation = "one", std::string tenant = "public")
      : who{TenantId(std::move(tenant)), std::move(name), std::move(incarnation)},
        labels_(std::move(labels)) {
    Meet(runner);
  }

  /// Goes on with (another) engine.
  void Meet(Runner& runner) {
    service = runner.worker_service();
    ASSERT_NE(service, nullptr);
    const auto welcome = Wait<worker_api::Welcome>([&](const auto& done) {
      service->Register({.who = who,
                         .slots = {{"default", 4}},
                         .labels = labels_,
                         .version = "1",
                         .host = "here"},
                        done);
    });
    ASSERT_TRUE(welcome) << welcome.error().message;
  }
  Result<worker_api::Polled> Poll(Duration wait = 30s, std::uint32_t free = 1) {
    return Wait<worker_api::Polled>([&](const auto& done) {
      service->PollFor({.who = who, .free = {{"default", free}}, .wait = wait}, done);
    });
  }
  /// The one attempt that comes.
  worker_api::Assignment Get() {
    for (const auto begin = std::chrono::steady_clock::now();
         std::chrono::steady_clock::now() - begin < 60s;) {
      const auto polled = Poll();
      EXPECT_TRUE(polled) << polled.error().message;
      if (!polled || !polled->assignments.empty())
        return polled ? polled->assignments[0] : worker_api::Assignment{};
    }
    ADD_FAILURE() << "nothing came";
    return {};
  }
  /// Says it again for as long as it is not judged.
  Result<worker_api::Started> Begin(const worker_api::Assignment& assignment) {
    for (const auto begin = std::chrono::steady_clock::now();;) {
      auto started = Wait<worker_api::Started>(
          [&](const auto& done) { service->Start(who, assignment.start_token, done); });
      const bool again =
          started ? started->reply == Reply::kAskAgain : started.error().code == Code::kUnavailable;
      if (!again || std::chrono::steady_clock::now() - begin > 60s) return started;
      std::this_thread::yield();
    }
  }
  worker_api::Started GetAndBegin() {
    auto started = Begin(Get());
    EXPECT_TRUE(started && started->reply == Reply::kGoOn);
    return started ? *std::move(started) : worker_api::Started{};
  }
  Result<Reply> Complete(const std::string& token, model::Outcome outcome = {}) {
    for (const auto begin = std::chrono::steady_clock::now();;) {
      auto reply = Wait<Reply>(
          [&](const auto& done) { service->Complete(token, outcome, std::move(done)); });
      const bool again =
          reply ? *reply == Reply::kAskAgain : reply.error().code == Code::kUnavailable;
      if (!again || std::chrono::steady_clock::now() - begin > 60s) return reply;
      std::this_thread::yield();
    }
  }
  std::future<Result<worker_api::Beaten>> BeatFor(const std::string& token, Duration wait) {
    const auto promise = std::make_shared<std::promise<Result<worker_api::Beaten>>>();
    service->Beat({.who = who, .work_tokens = {token}, .wait = wait},
                  [promise](auto said) { promise->set_value(std::move(said)); });
    return promise->get_future();
  }
  Result<worker_api::Beaten> Beat(const std::string& token, Duration wait = 0s) {
    auto answer = BeatFor(token, wait);
    if (answer.wait_for(60s) != std::future_status::ready)
      return Error{Code::kInternal, "was not answered"};
    return answer.get();
  }

  WorkerService* service = nullptr;
  const worker_api::Identity who;

 private:
  const std::vector<std::string> labels_;
};

class WorkersTest : public testing::Test {
 protected:
  WorkersTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "workers-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    options_.database_url = "sqlite:" + folder + "/db";
    options_.command_executor = "queue";
    WorkflowBuilder plain("plain"), hop("hop");
    plain.Task("a").Exec({"work"});
    hop.Task("a").Exec({"work"});
    hop.Task("b").Run("echo ${{ needs.a.output.n }}").Needs({"a"});
    workflows_ = {*plain.Build(), *hop.Build()};
  }
  ~WorkersTest() override {
    runner_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Open() {
    runner_.reset();
    auto opened = Runner::Open(options_);
    ASSERT_TRUE(opened) << opened.error().message;
    runner_ = *std::move(opened);
    for (const auto& workflow : workflows_) ASSERT_TRUE(runner_->Register(workflow));
  }
  /// So that a test sees leases end.
  void ShortLease() {
    options_.worker_lease = 1s;
    options_.worker_heartbeat = 300ms;
  }
  std::vector<model::AttemptRecord> Attempts(RunNo run, std::uint32_t task = 0) {
    return *runner_->query().ListAttempts(TenantId("public"), run, TaskNo(task), Epoch(0), 100);
  }
  model::RunState End(RunNo run) {
    const auto result = runner_->Find(std::to_string(run.value))->Wait(60s);
    EXPECT_TRUE(result) << result.error().message;
    return result ? result->state : model::RunState::kRunning;
  }

  std::filesystem::path folder_;
  RunnerOptions options_;
  std::vector<std::shared_ptr<const model::Workflow>> workflows_;
  std::unique_ptr<Runner> runner_;
};

TEST_F(WorkersTest, AWorkerRunsARunToItsEnd) {
  Open();
  Hand worker(*runner_, "w");
  const RunNo run = runner_->Start("hop")->run();
  const auto first = worker.GetAndBegin();
  EXPECT_EQ(first.job.task, "a");
  EXPECT_EQ(first.job.run_id, runner_->Find(std::to_string(run.value))->run_id());
  const auto alone = model::Workflow::FromCanonicalJson(first.job.definition_json);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ((*alone)->size(), 1U);
  EXPECT_EQ(*worker.Complete(first.work_token, {.output = R"({"n": 7})"}), Reply::kGoOn);
  const auto second = worker.GetAndBegin();
  EXPECT_EQ(second.job.task, "b");
  ASSERT_TRUE(second.job.resolved.rendered);
  EXPECT_TRUE(second.job.resolved.context_json.find(R"("n":7)") != std::string::npos);
  const auto logged = Wait<Reply>([&](const auto& done) {
    worker.service->Log(second.work_token, {{.number = 1, .bytes = "seven"}}, done);
  });
  EXPECT_EQ(*logged, Reply::kGoOn);
  const auto lines = runner_->logs().Read({.tenant = TenantId("public"), .run = run});
  ASSERT_EQ(lines->entries.size(), 1U) << "stored when it is answered (I6)";
  EXPECT_EQ(*worker.Complete(second.work_token), Reply::kGoOn);
  EXPECT_EQ(End(run), model::RunState::kSucceeded);
  EXPECT_EQ(*worker.Complete(second.work_token), Reply::kStop) << "it is over";
}

TEST_F(WorkersTest, ASilentWorkerLosesItsAttemptToAnother) {
  ShortLease();
  Open();
  Hand silent(*runner_, "silent"), other(*runner_, "other");
  const RunNo run = runner_->Start("plain")->run();
  const auto lost = silent.GetAndBegin();
  const auto second = other.GetAndBegin();  // after a lease
  silent.Meet(*runner_);                    // it may be forgotten by now
  EXPECT_EQ(silent.Beat(lost.work_token)->pulses.at(0).reply, Reply::kStop);
  EXPECT_EQ(*silent.Complete(lost.work_token), Reply::kStop);
  EXPECT_EQ(*other.Complete(second.work_token), Reply::kGoOn);
  EXPECT_EQ(End(run), model::RunState::kSucceeded);
  ASSERT_EQ(Attempts(run).size(), 2U);
  EXPECT_EQ(Attempts(run)[0].outcome.verdict, Verdict::kLost);
  EXPECT_EQ(Attempts(run)[0].outcome.error, "worker silent has said nothing for 1.0s");
}

TEST_F(WorkersTest, WhoeverSaysThatItLivesKeepsItsAttempt) {
  ShortLease();
  Open();
  Hand worker(*runner_, "w");
  const RunNo run = runner_->Start("plain")->run();
  const auto started = worker.GetAndBegin();
  for (int beat = 0; beat < 10; ++beat)
    EXPECT_EQ(worker.Beat(started.work_token, 300ms)->pulses.at(0).reply, Reply::kGoOn);
  EXPECT_EQ(*worker.Complete(started.work_token), Reply::kGoOn);
  EXPECT_EQ(End(run), model::RunState::kSucceeded);
  EXPECT_EQ(Attempts(run).size(), 1U);
}

TEST_F(WorkersTest, AnAttemptIsToldToStopAMinuteBeforeItsCeiling) {
  options_.worker_attempt_ceiling = 61s;
  Open();
  Hand worker(*runner_, "w");
  const RunNo run = runner_->Start("plain")->run();
  const auto started = worker.GetAndBegin();
  Reply reply = Reply::kGoOn;
  for (int beat = 0; beat < 100 && reply == Reply::kGoOn; ++beat)
    reply = worker.Beat(started.work_token, 100ms)->pulses.at(0).reply;
  EXPECT_EQ(reply, Reply::kCancel);
  EXPECT_EQ(*worker.Complete(started.work_token, {.verdict = Verdict::kCancelled}), Reply::kGoOn);
  EXPECT_EQ(End(run), model::RunState::kFailed);
  ASSERT_EQ(Attempts(run).size(), 1U);
  EXPECT_EQ(Attempts(run)[0].outcome.reason, model::Reason::kCredentialCeiling);
}

TEST_F(WorkersTest, ATaskGoesOnThroughARestartOfTheEngine) {
  Open();
  Hand worker(*runner_, "w");
  const RunNo run = runner_->Start("plain")->run();
  const auto assignment = worker.Get();
  const auto started = worker.Begin(assignment);
  Open();
  worker.service = runner_->worker_service();
  // Its last answer may have been lost: it says the same again.
  EXPECT_EQ(worker.Beat(started->work_token).error().code, Code::kNotFound);
  worker.Meet(*runner_);
  const auto again = worker.Begin(assignment);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->reply, Reply::kGoOn);
  EXPECT_EQ(again->job.task, "a");
  EXPECT_EQ(worker.Beat(started->work_token)->pulses.at(0).reply, Reply::kGoOn);
  EXPECT_EQ(*worker.Complete(started->work_token), Reply::kGoOn);
  EXPECT_EQ(End(run), model::RunState::kSucceeded);
  ASSERT_EQ(Attempts(run).size(), 1U);
}

TEST_F(WorkersTest, AVerdictThatComesAfterARestartIsTheFirstWord) {
  Open();
  Hand worker(*runner_, "w");
  const RunNo run = runner_->Start("plain")->run();
  const auto started = worker.GetAndBegin();
  Open();
  worker.service = runner_->worker_service();
  EXPECT_EQ(*worker.Complete(started.work_token, {.output = R"({"x": 1})"}), Reply::kGoOn);
  EXPECT_EQ(End(run), model::RunState::kSucceeded);
  EXPECT_EQ(Attempts(run).size(), 1U);
}

TEST_F(WorkersTest, AHolderThatIsNotHeardAfterARestartLosesItAfterALease) {
  ShortLease();
  Open();
  const RunNo run = [&] {
    Hand worker(*runner_, "w");
    const RunNo started = runner_->Start("plain")->run();
    worker.GetAndBegin();
    return started;
  }();
  const auto opened = std::chrono::steady_clock::now();
  Open();
  Hand other(*runner_, "other");
  const auto second = other.GetAndBegin();
  EXPECT_GE(std::chrono::steady_clock::now() - opened, options_.worker_lease) << "and not before";
  EXPECT_EQ(*other.Complete(second.work_token), Reply::kGoOn);
  EXPECT_EQ(End(run), model::RunState::kSucceeded);
  EXPECT_EQ(Attempts(run)[0].outcome.verdict, Verdict::kLost);
}

TEST_F(WorkersTest, AHolderHasTheLongerLeaseThatItWasPromised) {
  options_.worker_lease = 3s;
  options_.worker_heartbeat = 1s;
  Open();
  const RunNo run = [&] {
    Hand worker(*runner_, "w");
    const RunNo started = runner_->Start("plain")->run();
    worker.GetAndBegin();
    return started;
  }();
  ShortLease();
  const auto opened = std::chrono::steady_clock::now();
  Open();
  Hand other(*runner_, "other");
  const auto second = other.GetAndBegin();
  EXPECT_GE(std::chrono::steady_clock::now() - opened, 3s);
  EXPECT_EQ(*other.Complete(second.work_token), Reply::kGoOn);
  EXPECT_EQ(End(run), model::RunState::kSucceeded);
}

TEST_F(WorkersTest, WhatWaitedThroughARestartIsOfferedAgainUnderTheSameEpoch) {
  Open();
  const RunNo run = runner_->Start("plain")->run();
  Hand worker(*runner_, "w");
  const auto first = worker.Get();
  Open();
  worker.Meet(*runner_);
  const auto second = worker.Get();
  EXPECT_EQ(first.attempt, second.attempt);
  // The token of the first engine is as good.
  const auto started = worker.Begin(first);
  EXPECT_EQ(started->reply, Reply::kGoOn);
  EXPECT_EQ(*worker.Complete(started->work_token), Reply::kGoOn);
  EXPECT_EQ(End(run), model::RunState::kSucceeded);
}

TEST_F(WorkersTest, ACancelIsPushedToTheWorker) {
  Open();
  Hand worker(*runner_, "w");
  const auto handle = runner_->Start("plain");
  const auto started = worker.GetAndBegin();
  auto beat = worker.BeatFor(started.work_token, 15s);
  EXPECT_EQ(beat.wait_for(200ms), std::future_status::timeout);
  ASSERT_TRUE(handle->Cancel());
  ASSERT_EQ(beat.wait_for(10s), std::future_status::ready);
  EXPECT_EQ(beat.get()->pulses.at(0).reply, Reply::kCancel);
  EXPECT_EQ(worker.BeatFor(started.work_token, 15s).wait_for(300ms), std::future_status::timeout)
      << "it knows";
  EXPECT_EQ(*worker.Complete(started.work_token, {.verdict = Verdict::kCancelled}), Reply::kGoOn);
  EXPECT_EQ(End(handle->run()), model::RunState::kCancelled);
}

TEST_F(WorkersTest, ACancelWithdrawsWhatWaitsAndWhatIsAssignedAtOnce) {
  Open();
  const auto waits = runner_->Start("plain");
  ASSERT_TRUE(waits->Cancel());
  EXPECT_EQ(End(waits->run()), model::RunState::kCancelled);
  Hand worker(*runner_, "w");
  const auto assigned = runner_->Start("plain");
  const auto assignment = worker.Get();
  ASSERT_TRUE(assigned->Cancel());
  EXPECT_EQ(End(assigned->run()), model::RunState::kCancelled);
  EXPECT_EQ(worker.Begin(assignment)->reply, Reply::kStop);
  EXPECT_TRUE(worker.Poll(0s)->assignments.empty());
}

TEST_F(WorkersTest, HandingBackCostsNothing) {
  Open();
  Hand first(*runner_, "first");
  const RunNo run = runner_->Start("plain")->run();
  const auto assignment = first.Get();
  EXPECT_TRUE(Wait<bool>([&](const auto& done) {
    first.service->HandBack(first.who, {assignment.start_token}, done);
  }));
  Hand second(*runner_, "second");
  const auto started = second.GetAndBegin();
  EXPECT_EQ(started.job.attempt, assignment.attempt) << "the same epoch";
  EXPECT_EQ(first.Begin(assignment)->reply, Reply::kStop) << "the gate has let another in";
  EXPECT_EQ(*second.Complete(started.work_token), Reply::kGoOn);
  EXPECT_EQ(End(run), model::RunState::kSucceeded);
  EXPECT_EQ(Attempts(run).size(), 1U);
}

TEST_F(WorkersTest, WhoeverDoesNotBeginWithinALeaseGivesItUp) {
  ShortLease();
  Open();
  Hand slow(*runner_, "slow"), quick(*runner_, "quick");
  const RunNo run = runner_->Start("plain")->run();
  const auto assignment = slow.Get();
  const auto started = quick.GetAndBegin();
  EXPECT_EQ(started.job.attempt, assignment.attempt);
  EXPECT_EQ(*quick.Complete(started.work_token), Reply::kGoOn);
  EXPECT_EQ(End(run), model::RunState::kSucceeded);
  EXPECT_EQ(Attempts(run).size(), 1U);
}

TEST_F(WorkersTest, WhatALeavingWorkerHoldsIsLostAtOnce) {
  Open();
  Hand first(*runner_, "first"), second(*runner_, "second");
  const RunNo run = runner_->Start("plain")->run();
  first.GetAndBegin();
  EXPECT_TRUE(Wait<bool>([&](const auto& done) { first.service->Leave(first.who, done); }));
  EXPECT_TRUE(Wait<bool>([&](const auto& done) { first.service->Leave(first.who, done); }));
  const auto started = second.GetAndBegin();
  EXPECT_EQ(*second.Complete(started.work_token), Reply::kGoOn);
  EXPECT_EQ(End(run), model::RunState::kSucceeded);
  EXPECT_EQ(Attempts(run)[0].outcome.verdict, Verdict::kLost);
}

TEST_F(WorkersTest, AWorkerOfAnotherTenantGetsNothing) {
  Open();
  Hand stranger(*runner_, "w", {}, "one", "other");
  // It waits for longer than whoever gets it.
  const auto polled = std::make_shared<std::promise<Result<worker_api::Polled>>>();
  auto theirs = polled->get_future();
  stranger.service->PollFor({.who = stranger.who, .free = {{"default", 1}}, .wait = 60s},
                            [polled](auto said) { polled->set_value(std::move(said)); });
  ASSERT_TRUE(runner_->Start("plain"));
  Hand own(*runner_, "w");
  const auto assignment = own.Get();
  if (theirs.wait_for(0s) == std::future_status::ready)
    EXPECT_TRUE(theirs.get()->assignments.empty());
  EXPECT_EQ(stranger.Begin(assignment).error().code, Code::kPermissionDenied);
}

TEST_F(WorkersTest, AnOutputThatIsNoneFailsTheTask) {
  Open();
  Hand worker(*runner_, "w");
  const RunNo run = runner_->Start("plain")->run();
  const auto started = worker.GetAndBegin();
  EXPECT_EQ(*worker.Complete(started.work_token, {.output = "[1]"}), Reply::kGoOn);
  EXPECT_EQ(End(run), model::RunState::kFailed);
  EXPECT_EQ(Attempts(run)[0].outcome.reason, model::Reason::kOutput);
}

TEST_F(WorkersTest, CommandsReachWorkersFromTheEnginesProcessAndFromOthers) {
  Open();
  Hand worker(*runner_, "w");
  const TenantId tenant("public");
  const auto command = [&](Runner& runner, control::WorkerCommandKind kind, std::string name) {
    return runner.control().CommandWorkers(
        {.tenant = tenant, .kind = kind, .name = std::move(name), .actor = "ann"}, 60s);
  };
  using enum control::WorkerCommandKind;
  ASSERT_TRUE(Eventually([&] { return !runner_->workers().ListWorkers(tenant)->empty(); }));
  EXPECT_EQ(command(*runner_, kCordon, "nobody").error().code, Code::kNotFound);
  const auto cordoned = command(*runner_, kCordon, "w");
  ASSERT_TRUE(cordoned) << cordoned.error().message;
  EXPECT_TRUE(cordoned->taken);
  EXPECT_EQ(cordoned->names, std::vector<std::string>{"w"});
  EXPECT_TRUE(worker.Poll(0s)->drain);
  EXPECT_EQ(runner_->workers().ListOrders(tenant)->at(0).actor, "ann");

  const auto other = *Runner::Attach(options_);
  EXPECT_TRUE(command(*other, kUncordon, "*")->taken);
  EXPECT_FALSE(worker.Poll(0s)->drain);
  EXPECT_TRUE(command(*other, kDrain, "w")->taken);
  EXPECT_TRUE(worker.Poll(0s)->leave);
  ASSERT_TRUE(Wait<bool>([&](const auto& done) { worker.service->Leave(worker.who, done); }));
  ASSERT_TRUE(Eventually([&] {
    return runner_->workers().ListWorkers(tenant)->at(0).presence == store::WorkerPresence::kGone;
  }));
  EXPECT_EQ(command(*other, kDrain, "w").error().code, Code::kConflict);
  ASSERT_TRUE(runner_->Shutdown());
  EXPECT_FALSE(other->control().CommandWorkers({tenant, kCordon, "w", "ann"}, 0s)->taken);
}

TEST_F(WorkersTest, ShutdownAnswersWhoeverWaitsAndLeavesWhatRunsElsewhere) {
  Open();
  Hand worker(*runner_, "w");
  ASSERT_TRUE(runner_->Start("plain"));
  const auto started = worker.GetAndBegin();
  auto beat = worker.BeatFor(started.work_token, 15s);
  std::promise<Result<worker_api::Polled>> polled;
  worker.service->PollFor({.who = worker.who, .free = {{"default", 1}}, .wait = 60s},
                          [&](auto said) { polled.set_value(std::move(said)); });
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(runner_->Shutdown());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s) << "it waits for nothing elsewhere";
  EXPECT_TRUE(polled.get_future().get()->assignments.empty());
  EXPECT_EQ(beat.get()->pulses.size(), 1U);
  EXPECT_EQ(worker.Poll().error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace headworks
