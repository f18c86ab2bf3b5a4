#include "headworks/worker/worker.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "headworks/author/author.h"
#include "headworks/runner/runner.h"

// A worker and an engine in one process, over the seam between them.
namespace headworks::worker {
namespace {

using namespace std::chrono_literals;
using worker_api::WorkerService;

/// The engine's service, unless it is cut off: then whatever is said is answered kUnavailable, at
/// once, until it is joined again.  What was said before is still answered.
class Line final : public WorkerService {
 public:
  explicit Line(Runner& runner) : engine_(*runner.worker_service()) {}
  void Cut(bool cut) { cut_ = cut; }
  /// Who says lines is told that the attempt is another's.
  void FenceLogs(bool fence) { fence_logs_ = fence; }
  int completes() const { return completes_; }

  void Register(worker_api::Registration r, Done<worker_api::Welcome> done) override {
    if (!Passes(done)) return;
    engine_.Register(std::move(r), std::move(done));
  }
  void PollFor(worker_api::Poll poll, Done<worker_api::Polled> done) override {
    if (!Passes(done)) return;
    engine_.PollFor(std::move(poll), std::move(done));
  }
  void Start(const worker_api::Identity& who, std::string token,
             Done<worker_api::Started> done) override {
    if (!Passes(done)) return;
    engine_.Start(who, std::move(token), std::move(done));
  }
  void Beat(worker_api::Heartbeat beat, Done<worker_api::Beaten> done) override {
    if (!Passes(done)) return;
    engine_.Beat(std::move(beat), std::move(done));
  }
  void Log(std::string token, std::vector<log_store::Line> lines,
           Done<executor::Reply> done) override {
    if (!Passes(done)) return;
    if (fence_logs_) return done(executor::Reply::kStop);
    if (std::ranges::any_of(lines, [](const auto& line) { return line.bytes == "refuse me"; }))
      return done(Error{Code::kInvalidArgument, "refused"});
    engine_.Log(std::move(token), std::move(lines), std::move(done));
  }
  void PutArtifact(worker_api::ArtifactPut put, Done<worker_api::ArtifactTaken> done) override {
    if (!Passes(done)) return;
    engine_.PutArtifact(std::move(put), std::move(done));
  }
  void GetArtifact(worker_api::ArtifactGet get, Done<worker_api::ArtifactPiece> done) override {
    if (!Passes(done)) return;
    engine_.GetArtifact(std::move(get), std::move(done));
  }
  void Complete(std::string token, model::Outcome outcome, Done<executor::Reply> done) override {
    ++completes_;
    if (!Passes(done)) return;
    engine_.Complete(std::move(token), std::move(outcome), std::move(done));
  }
  void HandBack(const worker_api::Identity& who, std::vector<std::string> tokens,
                Done<bool> done) override {
    if (!Passes(done)) return;
    engine_.HandBack(who, std::move(tokens), std::move(done));
  }
  void Leave(const worker_api::Identity& who, Done<bool> done) override {
    if (!Passes(done)) return;
    engine_.Leave(who, std::move(done));
  }

 private:
  template <typename T>
  bool Passes(const Done<T>& done) {
    if (!cut_) return true;
    done(Error{Code::kUnavailable, "cut"});
    return false;
  }

  WorkerService& engine_;
  std::atomic<bool> cut_ = false, fence_logs_ = false;
  std::atomic<int> completes_ = 0;
};

class WorkerTest : public testing::Test {
 protected:
  WorkerTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "worker-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    Add("greet", [](TaskContext& context) -> TaskResult<Json> {
      context.Log("hello");
      return Json(R"({"done":true})");
    });
    Add("stubborn", [this](TaskContext&) -> TaskResult<Json> {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, 60s, [this] { return released_; });
      return Json("{}");
    });
  }
  ~WorkerTest() override {
    StopWorker();
    runner_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Add(const std::string& name, TaskFunction function) {
    ASSERT_TRUE(registry_.Register({.task = name}, std::move(function), "here"));
  }
  void OpenEngine(Duration lease = 60s) {
    RunnerOptions options{.database_url = "sqlite:" + folder_ + "/db",
                          .function_executor = "queue",
                          .command_executor = "queue",
                          .worker_lease = lease,
                          .worker_heartbeat = std::min<Duration>(lease / 4, 15s)};
    options.registry = &registry_;
    auto opened = Runner::Open(options);
    ASSERT_TRUE(opened) << opened.error().message;
    runner_ = *std::move(opened);
    line_ = std::make_unique<Line>(*runner_);
  }
  void StartWorker(WorkerOptions options = {}, const TaskRegistry* registry = nullptr) {
    options.tenant = TenantId("public");
    options.name = "w";
    if (options.slots.empty()) options.slots = {{"default", 2}};
    options.state_dir = folder_ + "/worker";
    options.supervisor_path = HEADWORKS_SUPERVISOR;
    auto opened = Worker::Open(options, {.service = *line_,
                                         .registry = registry != nullptr ? *registry : registry_,
                                         .clock = clock_,
                                         .random = random_,
                                         .log = log_,
                                         .tell = tell_,
                                         .end_program = [this](const std::string&) {
                                           const std::scoped_lock lock(mutex_);
                                           must_end_ = true;
                                           changed_.notify_all();
                                         }});
    ASSERT_TRUE(opened) << opened.error().message;
    worker_ = *std::move(opened);
    thread_ = std::jthread([this] { ended_ = worker_->Run(); });
  }
  void StopWorker() {
    Release();
    if (!worker_) return;
    worker_->Drain();
    worker_->Drain();
    if (thread_.joinable()) thread_.join();
    worker_.reset();
  }
  void Release() {
    const std::scoped_lock lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  RunHandle Begin(WorkflowBuilder& builder) {
    auto workflow = builder.Build();
    EXPECT_TRUE(workflow) << workflow.error().message;
    const Status registered = runner_->Register(*workflow);
    EXPECT_TRUE(registered) << registered.error().message;
    auto handle = runner_->Start((*workflow)->name().workflow);
    EXPECT_TRUE(handle) << handle.error().message;
    return *handle;
  }
  static RunResult End(const RunHandle& handle) {
    auto result = handle.Wait(60s);
    EXPECT_TRUE(result) << result.error().message;
    return result.value_or(RunResult{});
  }
  std::vector<std::string> LogOf(const RunHandle& handle) {
    auto page = runner_->logs().Read(
        {.tenant = TenantId("public"), .run = handle.run(), .max_lines = 10'000});
    EXPECT_TRUE(page) << page.error().message;
    std::vector<std::string> lines;
    for (const auto& entry : page->entries) lines.push_back(entry.line.bytes);
    return lines;
  }
  bool Eventually(const std::function<bool()>& holds) {
    std::unique_lock lock(mutex_);
    const Duration until = clock_.Monotonic() + 60s;
    while (!holds() && clock_.Monotonic() < until) changed_.wait_for(lock, 5ms);
    return holds();
  }
  std::vector<model::AttemptRecord> Attempts(const RunHandle& handle) {
    auto attempts =
        runner_->query().ListAttempts(TenantId("public"), handle.run(), TaskNo(0), Epoch(0), 100);
    EXPECT_TRUE(attempts) << attempts.error().message;
    return attempts.value_or(std::vector<model::AttemptRecord>{});
  }

  std::string folder_;
  SystemClock clock_;
  SystemRandom random_;
  NullLogger log_;
  TaskRegistry registry_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Line> line_;
  std::unique_ptr<Worker> worker_;
  std::jthread thread_;
  Status ended_;
  std::function<void(const std::string&)> tell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false, must_end_ = false;
};

TEST_F(WorkerTest, RunsCommandsAndFunctionsWithTheirInputsOutputsAndLogs) {
  OpenEngine();
  StartWorker();
  WorkflowBuilder flow("flow");
  flow.Task("a").Run("echo from a; echo '{\"n\": 41}' > $HEADWORKS_OUTPUT");
  flow.Task("b")
      .Run("echo n is ${{ needs.a.output.n + 1 }}; echo $HEADWORKS_IDEMPOTENCY_KEY >&2")
      .Needs({"a"});
  flow.Task("c").Function("greet").Needs({"b"});
  const RunHandle run = Begin(flow);
  EXPECT_EQ(End(run).state, model::RunState::kSucceeded);
  EXPECT_EQ(LogOf(run),
            (std::vector<std::string>{"from a", "n is 42", run.run_id().value + "/b", "hello"}));
  EXPECT_EQ(run.Output("c").value_or(""), R"({"done":true})");
  EXPECT_EQ(worker_->Figures().started, 3U);
}

TEST_F(WorkerTest, AFailureAndItsRetriesAreTheEnginesAffair) {
  OpenEngine();
  StartWorker();
  WorkflowBuilder flow("flow");
  flow.Task("a").Run("exit 7");
  const RunHandle run = Begin(flow);
  const RunResult result = End(run);
  EXPECT_EQ(result.state, model::RunState::kFailed);
  ASSERT_EQ(result.failures.size(), 1U);
  EXPECT_EQ(result.failures[0].second, "exit code 7");
}

TEST_F(WorkerTest, ManyLinesArriveWholeAndInOrder) {
  OpenEngine();
  StartWorker();
  WorkflowBuilder flow("flow");
  flow.Task("a").Run("i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done");
  const RunHandle run = Begin(flow);
  EXPECT_EQ(End(run).state, model::RunState::kSucceeded);
  const auto lines = LogOf(run);
  ASSERT_EQ(lines.size(), 3'000U);
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i], std::to_string(i));
}

TEST_F(WorkerTest, LinesThatTheEngineRefusesAreMissingWithANote) {
  OpenEngine();
  StartWorker();
  WorkflowBuilder flow("flow");
  flow.Task("a").Run("echo refuse me");
  const RunHandle run = Begin(flow);
  EXPECT_EQ(End(run).state, model::RunState::kSucceeded);
  const auto lines = LogOf(run);
  ASSERT_FALSE(lines.empty());
  EXPECT_NE(lines.front().find("lines are missing here"), std::string::npos) << lines.front();
}

TEST_F(WorkerTest, AShortCutCostsNothing) {
  OpenEngine(20s);
  StartWorker();
  WorkflowBuilder flow("flow");
  flow.Task("a").Run("echo begun; touch " + folder_ + "/begun; while ! [ -e " + folder_ +
                     "/go ]; do sleep 0.05; done; echo done");
  const RunHandle run = Begin(flow);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(folder_ + "/begun"); }));
  line_->Cut(true);
  std::ofstream(folder_ + "/go") << "";
  const int before = line_->completes();
  ASSERT_TRUE(Eventually([&] { return worker_->Figures().running == 0; }));
  // The verdict waits for the lines, and both for the line.
  EXPECT_EQ(line_->completes(), before);
  line_->Cut(false);
  EXPECT_EQ(End(run).state, model::RunState::kSucceeded);
  EXPECT_EQ(LogOf(run), (std::vector<std::string>{"begun", "done"}));
  EXPECT_EQ(Attempts(run).size(), 1U);
}

TEST_F(WorkerTest, ALongCutStopsTheCodeBeforeTheLeaseEnds) {
  OpenEngine(2s);
  StartWorker();
  WorkflowBuilder flow("flow");
  flow.Task("a").Run("if [ -e " + folder_ + "/pid ]; then exit 0; fi; echo $$ > " + folder_ +
                     "/pid; trap '' TERM; while :; do sleep 0.1; done");
  const RunHandle run = Begin(flow);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(folder_ + "/pid"); }));
  line_->Cut(true);
  ASSERT_TRUE(Eventually([&] { return worker_->Figures().running == 0; }));
  EXPECT_EQ(worker_->Figures().stopped_for_lease, 1U);
  line_->Cut(false);
  EXPECT_EQ(End(run).state, model::RunState::kSucceeded);
}

TEST_F(WorkerTest, ASupervisorThatDiesIsALossOfWhatItRan) {
  OpenEngine();
  StartWorker();
  WorkflowBuilder flow("flow");
  flow.Task("a").Run("[ -e " + folder_ + "/begun ] && exit 0; touch " + folder_ +
                     "/begun; exec sleep 600");
  const RunHandle run = Begin(flow);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(folder_ + "/begun"); }));
  pid_t supervisor = 0;
  std::ifstream(folder_ + "/worker/supervisor.lock") >> supervisor;
  ASSERT_GT(supervisor, 0);
  ASSERT_EQ(kill(supervisor, SIGKILL), 0);
  EXPECT_EQ(End(run).state, model::RunState::kSucceeded);
  const auto attempts = Attempts(run);
  ASSERT_EQ(attempts.size(), 2U);
  EXPECT_EQ(attempts[0].outcome.verdict, model::Verdict::kLost);
  EXPECT_EQ(attempts[0].outcome.reason, model::Reason::kLost);
}

TEST_F(WorkerTest, AFunctionThatDoesNotStopEndsTheProgram) {
  OpenEngine(1s);
  StartWorker();
  WorkflowBuilder flow("flow");
  flow.Task("a").Function("stubborn");
  Begin(flow);
  ASSERT_TRUE(Eventually([&] { return worker_->Figures().running == 1; }));
  line_->Cut(true);
  EXPECT_TRUE(Eventually([&] { return must_end_; }));
  line_->Cut(false);
}

TEST_F(WorkerTest, AFunctionThatDoesNotStopEndsTheProgramAlsoWhereRunHangs) {
  OpenEngine(1s);
  tell_ = [this](const std::string& line) {
    // Whoever reads standard output has stopped.
    std::unique_lock lock(mutex_);
    if (line.starts_with("second/")) changed_.wait_for(lock, 60s, [this] { return released_; });
  };
  StartWorker();
  WorkflowBuilder first("first"), second("second");
  first.Task("a").Function("stubborn");
  second.Task("a").Run("touch " + folder_ + "/begun");
  Begin(first);
  ASSERT_TRUE(Eventually([&] { return worker_->Figures().running == 1; }));
  Begin(second);
  EXPECT_TRUE(Eventually([&] { return must_end_; }));
}

TEST_F(WorkerTest, WhatWasHeldUpBeyondItsLeaseNeverBegins) {
  OpenEngine(1s);
  std::atomic<int> began = 0;
  Add("count", [&](TaskContext&) -> TaskResult<Json> {
    ++began;
    return Json("{}");
  });
  std::atomic<bool> hung = false;
  tell_ = [&](const std::string& line) {
    if (line.find(" started") == std::string::npos || hung.exchange(true)) return;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 2s, [this] { return released_; });
  };
  StartWorker();
  WorkflowBuilder flow("flow");
  flow.Task("a").Function("count");
  EXPECT_EQ(End(Begin(flow)).state, model::RunState::kSucceeded);
  EXPECT_TRUE(hung);
  EXPECT_EQ(began, 1);
  EXPECT_FALSE(must_end_);
}

TEST_F(WorkerTest, ADrainEndsAlsoWhereAFunctionDoesNot) {
  OpenEngine();
  StartWorker({.drain_timeout = 100ms, .report_patience = 500ms});
  WorkflowBuilder flow("flow");
  flow.Task("a").Function("stubborn").Grace(500ms);
  Begin(flow);
  ASSERT_TRUE(Eventually([&] { return worker_->Figures().running == 1; }));
  worker_->Drain();
  EXPECT_TRUE(Eventually([&] { return must_end_; }));
  thread_.join();
  ASSERT_FALSE(ended_);
  EXPECT_EQ(ended_.error().code, Code::kDrainTimeout);
}

TEST_F(WorkerTest, AChattyTaskIsStoppedWhereNobodyTakesItsLines) {
  Add("chatty", [](TaskContext& context) -> TaskResult<Json> {
    while (!context.cancelled()) context.Log(std::string(60'000, 'x'));
    throw Cancelled{};
  });
  const std::string chatty = "yes " + std::string(1'000, 'x');
  for (const bool function : {true, false}) {
    SCOPED_TRACE(function ? "function" : "command");
    OpenEngine(4s);
    StartWorker({.report_patience = 200ms});
    WorkflowBuilder flow(function ? "f" : "c");
    if (function)
      flow.Task("a").Function("chatty");
    else
      flow.Task("a").Run(chatty).Grace(100ms);
    const RunHandle run = Begin(flow);
    ASSERT_TRUE(Eventually([&] { return worker_->Figures().running == 1; }));
    line_->Cut(true);
    // Its lines fill their share; its lease ends; and it ends, as one that was interrupted.
    ASSERT_TRUE(Eventually([&] { return worker_->Figures().unreported == 1; }));
    EXPECT_EQ(worker_->Figures().running, 0U);
    EXPECT_FALSE(must_end_);
    StopWorker();
    EXPECT_EQ(ended_.error().code, Code::kDrainTimeout);
    line_->Cut(false);
    runner_.reset();
    std::filesystem::remove_all(folder_ + "/db");
  }
}

TEST_F(WorkerTest, AChattyTaskThatIsSomebodyElsesGivesItsSlotBack) {
  OpenEngine(60s);
  StartWorker({.slots = {{"default", 1}}});
  WorkflowBuilder chatty("chatty");
  // Says each mebibyte that it has written.
  chatty.Task("a").Run("echo x > " + folder_ + "/said; trap '' TERM; while :; do head -c 1048576 " +
                       "/dev/zero | tr '\\0' x | fold -w 1000; echo x >> " + folder_ +
                       "/said; done");
  Begin(chatty);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(folder_ + "/said"); }));
  line_->Cut(true);
  const auto said = [&] {
    std::error_code ec;
    return std::filesystem::file_size(folder_ + "/said", ec);
  };
  // Its share is full once it says nothing more.
  const Duration give_up_at = clock_.Monotonic() + 60s;
  for (std::uintmax_t before = 0; said() != before || before < std::uintmax_t{2} * 8;) {
    ASSERT_LT(clock_.Monotonic(), give_up_at);
    before = said();
    const Duration until = clock_.Monotonic() + 500ms;
    Eventually([&] { return clock_.Monotonic() >= until; });
  }
  line_->FenceLogs(true);
  line_->Cut(false);
  ASSERT_TRUE(Eventually([&] { return worker_->Figures().fenced == 1; }));
  // The engine, which knows nothing of that, counts its slot until the lease is over.
  EXPECT_TRUE(Eventually([&] { return worker_->Figures().running == 0; }));
}

TEST_F(WorkerTest, WhatThisWorkerDoesNotKnowIsForAnotherTry) {
  OpenEngine();
  // The engine knows it, and this worker is of an older program.
  TaskRegistry older;
  StartWorker({}, &older);
  WorkflowBuilder flow("flow");
  flow.Task("a").Function("greet").Retry({.max_attempts = 2, .initial = 10ms});
  const RunHandle run = Begin(flow);
  EXPECT_EQ(End(run).state, model::RunState::kFailed);
  const auto attempts = Attempts(run);
  ASSERT_EQ(attempts.size(), 2U);
  EXPECT_EQ(attempts[0].outcome.verdict, model::Verdict::kRetry);
  EXPECT_EQ(attempts[0].outcome.reason, model::Reason::kDispatchFailed);
}

TEST_F(WorkerTest, CancelReachesTheCode) {
  OpenEngine();
  StartWorker();
  WorkflowBuilder flow("flow");
  flow.Task("a").Run("touch " + folder_ + "/begun; exec sleep 600");
  const RunHandle run = Begin(flow);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(folder_ + "/begun"); }));
  EXPECT_TRUE(run.Cancel());
  EXPECT_EQ(End(run).state, model::RunState::kCancelled);
}

TEST_F(WorkerTest, DrainEndsOnceNothingRuns) {
  OpenEngine();
  StartWorker();
  WorkflowBuilder flow("flow");
  flow.Task("a").Run("touch " + folder_ + "/begun; while ! [ -e " + folder_ +
                     "/go ]; do sleep 0.05; done");
  const RunHandle run = Begin(flow);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(folder_ + "/begun"); }));
  worker_->Drain();
  std::ofstream(folder_ + "/go") << "";
  thread_.join();
  EXPECT_TRUE(ended_) << ended_.error().message;
  EXPECT_EQ(End(run).state, model::RunState::kSucceeded);
  worker_.reset();
}

TEST_F(WorkerTest, DrainInterruptsWhatDoesNotEnd) {
  OpenEngine();
  StartWorker({.drain_timeout = 100ms});
  WorkflowBuilder flow("flow");
  flow.Task("a").Run("[ -e " + folder_ + "/begun ] && exit 0; touch " + folder_ +
                     "/begun; exec sleep 600");
  const RunHandle run = Begin(flow);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(folder_ + "/begun"); }));
  worker_->Drain();
  thread_.join();
  EXPECT_TRUE(ended_) << ended_.error().message;
  worker_.reset();
  StartWorker();
  EXPECT_EQ(End(run).state, model::RunState::kSucceeded);
  const auto attempts = Attempts(run);
  ASSERT_EQ(attempts.size(), 2U);
  EXPECT_EQ(attempts[0].outcome.verdict, model::Verdict::kInterrupted);
  EXPECT_EQ(attempts[0].outcome.error, "its worker drained");
}

TEST_F(WorkerTest, AStateFolderIsOneWorkers) {
  OpenEngine();
  StartWorker();
  const auto second = Worker::Open(
      {.tenant = TenantId("public"),
       .name = "w",
       .slots = {{"default", 1}},
       .state_dir = folder_ + "/worker",
       .supervisor_path = HEADWORKS_SUPERVISOR},
      {.service = *line_, .registry = registry_, .clock = clock_, .random = random_, .log = log_});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_NE(second.error().message.find("another name or state folder"), std::string::npos);
}

TEST_F(WorkerTest, OptionsOutOfBoundsAreNamed) {
  OpenEngine();
  const WorkerOptions good{.tenant = TenantId("t"),
                           .name = std::string(64, 'n'),
                           .slots = {{"q", 10'000}},
                           .state_dir = folder_ + "/w",
                           .supervisor_path = "/nowhere"};
  const auto fault = [&](WorkerOptions options) {
    const auto opened = Worker::Open(std::move(options), {.service = *line_,
                                                          .registry = registry_,
                                                          .clock = clock_,
                                                          .random = random_,
                                                          .log = log_});
    EXPECT_FALSE(opened);
    return opened ? "" : opened.error().message;
  };
  EXPECT_NE(fault(good).find("/nowhere"), std::string::npos);
  WorkerOptions bad = good;
  bad.tenant = TenantId();
  EXPECT_EQ(fault(bad), R"("" is no name of a tenant; use 1 to 100 letters, digits, _ . and -)");
  bad = good;
  bad.name += "n";
  EXPECT_NE(fault(bad).find("is no name of a worker"), std::string::npos);
  bad = good;
  bad.slots = {};
  EXPECT_EQ(fault(bad), "a worker needs a queue");
  bad.slots = {{"a b", 1}};
  EXPECT_NE(fault(bad).find("'a b' is no queue"), std::string::npos);
  bad.slots = {{"q", 0}};
  EXPECT_NE(fault(bad).find("no slots"), std::string::npos);
  bad.slots = {{"q", 10'000}, {"r", 1}};
  EXPECT_EQ(fault(bad), "10001 slots in sum; at most 10000");
  bad.slots.clear();
  for (int i = 0; i < 65; ++i) bad.slots[std::to_string(i)] = 1;
  EXPECT_EQ(fault(bad), "65 queues; at most 64");
  bad = good;
  bad.labels.assign(65, "l");
  EXPECT_EQ(fault(bad), "65 labels; at most 64");
  bad.labels = {std::string(129, 'l')};
  EXPECT_NE(fault(bad).find("has 129 bytes; 1 to 128"), std::string::npos);
  bad = good;
  bad.host = "caf\xe9";
  EXPECT_NE(fault(bad).find("is no UTF-8"), std::string::npos);
  bad = good;
  bad.labels = {"\xff"};
  EXPECT_NE(fault(bad).find("is no UTF-8"), std::string::npos);
  bad = good;
  bad.poll_wait = worker_api::kMaxWait + 1us;
  EXPECT_NE(fault(bad).find("poll_wait"), std::string::npos);
}

}  // namespace
}  // namespace headworks::worker
