#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "headworks/author/author.h"
#include "headworks/base/random.h"
#include "headworks/executor/attempt_gate.h"
#include "headworks/runner/runner.h"
#include "headworks/token/jwt_issuer.h"

// Attempts in processes of their own, which an engine hears only by what they say (I3, I5, I7).
namespace headworks {
namespace {

using executor::Attempt;
using executor::Reply;
using executor::Word;
using model::Verdict;
using namespace std::chrono_literals;

using Id = std::pair<long, long>;  // run, epoch

/// One worker process at the other end of a socket.  `heard` is called on a thread of its own, with
/// each line that it says, and with "" when it is dead.
class Worker {
 public:
  using Heard = std::function<void(Worker&, const std::string&)>;

  Worker(std::string worker, Heard heard) : name(std::move(worker)), heard_(std::move(heard)) {
    int ends[2] = {};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    char program[] = HEADWORKS_REMOTE_WORKER;
    char* argv[] = {program, nullptr};
    EXPECT_EQ(posix_spawn(&pid_, program, &actions, nullptr, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    socket_ = ends[0];
    reader_ = std::jthread([this] { Read(); });
  }
  ~Worker() {
    shutdown(socket_, SHUT_RDWR);
    reader_.join();
    close(socket_);
  }

  void Send(const std::string& line) {
    const std::string text = line + "\n";
    // One that is dead is heard of by its reader.
    static_cast<void>(send(socket_, text.data(), text.size(), MSG_NOSIGNAL));
  }
  void Kill() const { kill(pid_, SIGKILL); }

  const std::string name;

 private:
  void Read() {
    std::string input;
    char buffer[4'096];
    for (ssize_t bytes = 0; (bytes = read(socket_, buffer, sizeof buffer)) > 0;) {
      input.append(buffer, static_cast<std::size_t>(bytes));
      for (std::size_t end = 0; (end = input.find('\n')) != std::string::npos;
           input.erase(0, end + 1))
        heard_(*this, input.substr(0, end));
    }
    waitpid(pid_, nullptr, 0);  // the kernel's word that it is over
    heard_(*this, "");
  }

  const Heard heard_;
  pid_t pid_ = 0;
  int socket_ = -1;
  std::jthread reader_;
};

/// Sends each attempt to the workers that a test names, and passes on what they say.
class Remote final : public executor::Executor {
 public:
  explicit Remote(int workers, token::JwtOptions tokens = {},
                  executor::AttemptGateOptions gate = {})
      : issuer_(*token::JwtIssuer::Create(tokens, token::TokenKeys::Generate(random_), clock_)),
        gate_(gate, *issuer_, clock_) {
    for (int i = 0; i < workers; ++i) Hire();
  }
  ~Remote() override {
    const auto workers = [&] {
      const std::scoped_lock lock(mutex_);
      sink_ = nullptr;
      return std::move(workers_);
    }();
  }

  std::string_view Name() const override { return "remote"; }
  Status Start(executor::AttemptSink& sink) override {
    const std::scoped_lock lock(mutex_);
    sink_ = &sink;
    return {};
  }
  executor::OfferResult Offer(const Attempt& attempt) override {
    const std::scoped_lock lock(mutex_);
    if (sink_ == nullptr) return NotTaken(executor::DispatchError::kNoCapacity, "closing");
    const Id id(attempt.key.run.value, attempt.key.epoch.value);
    if (keys_.contains(id)) return {};
    const auto token = gate_.Admit(attempt);
    if (!token) return NotTaken(executor::DispatchError::kContext, token.error().message);
    keys_.emplace(id, attempt.key);
    offers_[id] = "offer " + std::to_string(id.first) + " " +
                  std::to_string(attempt.key.task.value) + " " + std::to_string(id.second) + " " +
                  *token;
    for (int copies = 0; copies < deliveries; ++copies) {
      workers_[next_ % workers_.size()]->Send(offers_[id]);
      ++next_;
    }
    return {};
  }
  void Cancel(const model::AttemptKey&) override {}  // their next word is answered with it
  executor::Capacity GetCapacity() const override { return {100, 0}; }
  Result<std::vector<executor::Inspection>> Inspect(std::span<const Attempt> attempts) override {
    const std::scoped_lock lock(mutex_);
    std::vector<executor::Inspection> answers;
    for (const Attempt& attempt : attempts) {
      const Id id(attempt.key.run.value, attempt.key.epoch.value);
      if (!keys_.contains(id))
        answers.emplace_back(executor::Absent{});
      else if (lost_.contains(id))
        answers.emplace_back(executor::Ended{Lost()});
      else if (holders_.contains(id))
        answers.emplace_back(executor::Running{});
      else
        answers.emplace_back(executor::Pending{"a worker has it"});
    }
    return answers;
  }
  std::vector<model::AttemptKey> List() const override { return {}; }
  executor::Metrics GetMetrics() const override { return {}; }
  void Settled(std::span<const model::AttemptKey>) override {}
  /// What runs elsewhere goes on without an engine.
  Status Drain(Duration) override {
    std::unique_lock lock(mutex_);
    sink_ = nullptr;
    changed_.wait(lock, [this] { return speaking_ == 0; });
    return {};
  }

  /// How many workers get each attempt, in turn.
  int deliveries = 1;
  /// A worker that dies is replaced.
  bool replaces = false;

  /// Waits until a worker has told `event`, e.g. "began 1 1"; returns which one.
  std::string Await(const std::string& event) {
    std::unique_lock lock(mutex_);
    std::string by;
    EXPECT_TRUE(changed_.wait_for(lock, 60s, [&] {
      for (const auto& [what, worker] : events_)
        if (what == event) by = worker;
      return !by.empty();
    })) << event;
    return by;
  }
  int Count(const std::string& event) {
    const std::scoped_lock lock(mutex_);
    return static_cast<int>(
        std::ranges::count(events_, event, &std::pair<std::string, std::string>::first));
  }
  void Tell(const std::string& worker, const std::string& line) {
    const std::scoped_lock lock(mutex_);
    for (const auto& each : workers_)
      if (each->name == worker) each->Send(line);
  }
  /// An attempt once more, to this worker.
  void Deliver(const std::string& worker, const Id& id) {
    std::unique_lock lock(mutex_);
    const std::string offer = offers_.at(id);
    lock.unlock();
    Tell(worker, offer);
  }
  int renewals() {
    const std::scoped_lock lock(mutex_);
    return renewals_;
  }
  void Kill(const std::string& worker) {
    const std::scoped_lock lock(mutex_);
    for (const auto& each : workers_)
      if (each->name == worker) each->Kill();
  }
  /// The platform says that an attempt is lost, whatever its worker does.
  void DeclareLost(const Id& id) {
    const std::scoped_lock lock(mutex_);
    sink_->Ended(keys_.at(id), Lost());
  }
  /// Replies that `worker` got for this attempt so far, but for those that told it to stop.
  int Heard(const std::string& worker, const Id& id) {
    const std::scoped_lock lock(mutex_);
    return heard_[{worker, id}];
  }
  /// Waits for so many more words of anybody, whatever they are answered.
  void AwaitWords(int more) {
    std::unique_lock lock(mutex_);
    const int until = words_ + more;
    EXPECT_TRUE(changed_.wait_for(lock, 60s, [&] { return words_ >= until; }));
  }

 private:
  static model::Outcome Lost() {
    return {.verdict = Verdict::kLost, .reason = model::Reason::kLost, .error = "its worker died"};
  }
  void Hire() {
    workers_.push_back(std::make_unique<Worker>(
        "worker-" + std::to_string(workers_.size() + 1),
        [this](Worker& worker, const std::string& line) { OnLine(worker, line); }));
  }

  void OnLine(Worker& worker, const std::string& line) {
    if (line.empty()) return OnDeath(worker.name);
    if (!line.starts_with("say ")) {
      const std::scoped_lock lock(mutex_);
      events_.emplace_back(line, worker.name);
      std::istringstream words(line);
      std::string what;
      Id id;
      words >> what >> id.first >> id.second;
      if (what == "began") holders_[id] = worker.name;
      changed_.notify_all();
      return;
    }
    std::istringstream words(line.substr(4));
    long number = 0;
    int kind = 0;
    Id id;
    std::string token, verdict;
    words >> number >> kind >> id.first >> id.second >> token >> verdict;
    const auto reply = [this, &worker, number, id,
                        kind](const Result<executor::AttemptGate::Answer>& answer) {
      // Whose token is no longer good stops.
      const Reply said = answer ? answer->reply : Reply::kStop;
      worker.Send("reply " + std::to_string(number) + " " + std::to_string(static_cast<int>(said)) +
                  " " + (answer ? answer->token : ""));
      const std::scoped_lock lock(mutex_);
      if (answer && !answer->token.empty() && Word::Kind(kind) == Word::Kind::kHeartbeat)
        ++renewals_;
      if (said == Reply::kGoOn || said == Reply::kCancel) ++heard_[{worker.name, id}];
      ++words_;
      changed_.notify_all();
    };
    std::unique_lock lock(mutex_);
    executor::AttemptSink* const sink = sink_;
    if (sink == nullptr) {
      lock.unlock();
      return reply(executor::AttemptGate::Answer{});  // no engine is to be reached: ask again
    }
    ++speaking_;
    lock.unlock();
    if (Word::Kind(kind) == Word::Kind::kStarted)
      gate_.Open(*sink, token, worker.name, reply);
    else
      gate_.Say(*sink, token, Word::Kind(kind),
                {.verdict = verdict == "cancelled" ? Verdict::kCancelled : Verdict::kSucceeded},
                reply);
    lock.lock();
    --speaking_;
    changed_.notify_all();
  }

  void OnDeath(const std::string& worker) {
    const std::scoped_lock lock(mutex_);
    if (sink_ == nullptr) return;
    if (replaces) Hire();
    for (const auto& [id, holder] : holders_)
      if (holder == worker && lost_.insert(id).second) sink_->Ended(keys_.at(id), Lost());
  }

  SystemClock clock_;
  SystemRandom random_;
  const std::unique_ptr<token::JwtIssuer> issuer_;
  executor::AttemptGate gate_;
  std::mutex mutex_;
  std::condition_variable changed_;
  executor::AttemptSink* sink_ = nullptr;
  std::map<Id, model::AttemptKey> keys_;
  std::map<Id, std::string> offers_;
  std::map<Id, std::string> holders_;
  std::set<Id> lost_;
  std::vector<std::pair<std::string, std::string>> events_;
  std::map<std::pair<std::string, Id>, int> heard_;
  int words_ = 0;
  int renewals_ = 0;
  int speaking_ = 0;  // calls of the sink that have yet to return
  std::size_t next_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;
};

class RemoteTest : public testing::Test {
 protected:
  RemoteTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "remote-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    options_.database_url = "sqlite:" + folder + "/db";
    options_.drain_timeout = 0s;
    options_.executors["remote"] = &remote_;
    options_.command_executor = "remote";
    // A run's later tasks are numbered behind its first.
    WorkflowBuilder plain("plain"), poison("poison");
    plain.Task("a").Exec({"work"});
    poison.Task("a").Exec({"work"});
    poison.Task("b").Exec({"die"}).Needs({"a"});
    workflows_ = {*plain.Build(), *poison.Build()};
  }
  ~RemoteTest() override {
    runner_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Open() {
    auto opened = Runner::Open(options_);
    ASSERT_TRUE(opened) << opened.error().message;
    runner_ = *std::move(opened);
    for (const auto& workflow : workflows_) ASSERT_TRUE(runner_->Register(workflow));
  }
  std::vector<model::AttemptRecord> Attempts(RunNo run, std::uint32_t task = 0) {
    return *runner_->query().ListAttempts(TenantId("public"), run, TaskNo(task), Epoch(0), 100);
  }
  static std::string Of(std::string_view what, RunNo run, long epoch) {
    return std::string(what) + " " + std::to_string(run.value) + " " + std::to_string(epoch);
  }

  std::filesystem::path folder_;
  Remote remote_{2};
  RunnerOptions options_;
  std::vector<std::shared_ptr<const model::Workflow>> workflows_;
  std::unique_ptr<Runner> runner_;
};

TEST_F(RemoteTest, OfTwoWorkersWithOneAttemptOneBeginsAndTheOtherStops) {
  remote_.deliveries = 2;
  Open();
  const auto handle = runner_->Start("plain");
  ASSERT_TRUE(handle) << handle.error().message;
  const std::string holder = remote_.Await(Of("began", handle->run(), 1));
  const std::string other = remote_.Await(Of("stopped", handle->run(), 1));
  EXPECT_NE(holder, other);
  remote_.AwaitWords(5);
  EXPECT_EQ(remote_.Count(Of("began", handle->run(), 1)), 1);
  EXPECT_EQ(remote_.Count(Of("stopped", handle->run(), 1)), 1);
  EXPECT_EQ(remote_.Heard(other, {handle->run().value, 1}), 0);
  remote_.Tell(holder, Of("finish", handle->run(), 1));
  EXPECT_EQ(handle->Wait(60s)->state, model::RunState::kSucceeded);
}

TEST_F(RemoteTest, AStaleSpeakerStopsWithinOneHeartbeat) {
  Open();
  const auto handle = runner_->Start("plain");
  ASSERT_TRUE(handle) << handle.error().message;
  const RunNo run = handle->run();
  const std::string stale = remote_.Await(Of("began", run, 1));
  remote_.DeclareLost({run.value, 1});
  const std::string holder = remote_.Await(Of("began", run, 2));
  EXPECT_NE(holder, stale);
  const int heard = remote_.Heard(stale, {run.value, 1});
  EXPECT_EQ(remote_.Await(Of("stopped", run, 1)), stale);
  EXPECT_EQ(remote_.Heard(stale, {run.value, 1}), heard) << "its first word after that stopped it";
  EXPECT_EQ(remote_.Count(Of("stopped", run, 2)), 0);
  remote_.Tell(holder, Of("finish", run, 2));
  EXPECT_EQ(handle->Wait(60s)->state, model::RunState::kSucceeded);
  ASSERT_EQ(Attempts(run).size(), 2U);
  EXPECT_EQ(Attempts(run)[0].outcome.verdict, Verdict::kLost);
  EXPECT_EQ(Attempts(run)[1].outcome.verdict, Verdict::kSucceeded);
}

TEST_F(RemoteTest, WhatGoesOnThroughAnOutageSettlesWithoutALoss) {
  Open();
  const RunNo run = runner_->Start("plain")->run();
  const std::string holder = remote_.Await(Of("began", run, 1));
  runner_.reset();
  remote_.AwaitWords(5);  // and nobody answers
  remote_.Tell(holder, Of("finish", run, 1));
  remote_.AwaitWords(5);
  Open();
  EXPECT_EQ(runner_->Find(std::to_string(run.value))->Wait(60s)->state,
            model::RunState::kSucceeded);
  ASSERT_EQ(Attempts(run).size(), 1U);
  EXPECT_EQ(Attempts(run)[0].outcome.verdict, Verdict::kSucceeded);
  EXPECT_EQ(remote_.Count(Of("began", run, 1)), 1);
  EXPECT_EQ(remote_.Count(Of("stopped", run, 1)), 0);
}

TEST_F(RemoteTest, AfterAnOutageASecondHolderIsStillRefused) {
  Open();
  const RunNo run = runner_->Start("plain")->run();
  const std::string holder = remote_.Await(Of("began", run, 1));
  runner_.reset();
  const std::string other = holder == "worker-1" ? "worker-2" : "worker-1";
  remote_.Deliver(other, {run.value, 1});
  remote_.AwaitWords(5);
  Open();
  EXPECT_EQ(remote_.Await(Of("stopped", run, 1)), other);
  remote_.Tell(holder, Of("finish", run, 1));
  EXPECT_EQ(runner_->Find(std::to_string(run.value))->Wait(60s)->state,
            model::RunState::kSucceeded);
  EXPECT_EQ(remote_.Count(Of("began", run, 1)), 1);
}

TEST_F(RemoteTest, AWorkerThatIsKilledLosesItsAttemptAndAnotherGoesOn) {
  Open();
  const auto handle = runner_->Start("plain");
  const RunNo run = handle->run();
  remote_.Kill(remote_.Await(Of("began", run, 1)));
  remote_.Tell(remote_.Await(Of("began", run, 2)), Of("finish", run, 2));
  EXPECT_EQ(handle->Wait(60s)->state, model::RunState::kSucceeded);
  EXPECT_EQ(Attempts(run)[0].outcome.verdict, Verdict::kLost);
}

TEST_F(RemoteTest, PoisonThatKillsItsWorkerEachTimeEndsAsLostAfterItsBudget) {
  remote_.replaces = true;
  Open();
  const auto handle = runner_->Start("poison");
  const RunNo run = handle->run();
  remote_.Tell(remote_.Await(Of("began", run, 1)), Of("finish", run, 1));
  const auto result = handle->Wait(60s);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->state, model::RunState::kFailed);
  ASSERT_EQ(result->failures.size(), 1U);
  EXPECT_EQ(result->failures[0], (std::pair<std::string, std::string>("b", "its worker died")));
  const auto attempts = Attempts(run, 1);
  ASSERT_EQ(attempts.size(), 6U);
  for (const auto& attempt : attempts) EXPECT_EQ(attempt.outcome.verdict, Verdict::kLost);
  const auto rows = runner_->query().ListTasks(TenantId("public"), run, TaskNo(0), 10);
  EXPECT_EQ(rows->at(0).row.reason, model::Reason::kLost);
  EXPECT_EQ(rows->at(0).row.tries, 0);
}

TEST_F(RemoteTest, AtTheCeilingOfItsTokenAnAttemptIsStoppedAndSaysWhy) {
  Remote brief(1, {.work_valid = 2s, .ceiling = 4s},
               {.renew_before = 2s, .stop_before_ceiling = 2s});
  options_.executors["remote"] = &brief;
  Open();
  const auto handle = runner_->Start("plain");
  ASSERT_TRUE(handle) << handle.error().message;
  brief.Await(Of("began", handle->run(), 1));
  const auto result = handle->Wait(60s);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->state, model::RunState::kFailed);
  const auto attempts = Attempts(handle->run());
  ASSERT_EQ(attempts.size(), 1U);
  EXPECT_EQ(attempts[0].outcome.verdict, Verdict::kFailed);
  EXPECT_EQ(attempts[0].outcome.reason, model::Reason::kCredentialCeiling);
  EXPECT_GT(brief.renewals(), 0) << "until then each heartbeat renewed it";
  EXPECT_EQ(brief.Count(Of("stopped", handle->run(), 1)), 0) << "it could say how it ended";
  runner_.reset();
}

TEST_F(RemoteTest, AHolderWhoseTokenHasEndedIsHeardNoMore) {
  Remote strict(1, {.work_valid = 1s}, {.renew_before = 0s});
  options_.executors["remote"] = &strict;
  Open();
  const auto handle = runner_->Start("plain");
  strict.Await(Of("began", handle->run(), 1));
  strict.Await(Of("stopped", handle->run(), 1));
  strict.Tell("worker-1", Of("finish", handle->run(), 1));
  EXPECT_FALSE(handle->Wait(200ms)) << "what it says does not count";
  strict.DeclareLost({handle->run().value, 1});
  strict.Await(Of("began", handle->run(), 2));
  runner_.reset();
}

TEST_F(RemoteTest, ExecutorsThatHoldAttemptsAreNotLeftOut) {
  Open();
  const RunNo run = runner_->Start("plain")->run();
  const std::string holder = remote_.Await(Of("began", run, 1));
  runner_.reset();
  RunnerOptions without = options_;
  without.executors.clear();
  without.command_executor = "process";
  without.pools = {{"gpu", 1}};
  auto refused = Runner::Open(without);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_EQ(refused.error().message,
            "executor 'remote' still has 1 attempts of 1 runs in " + (folder_ / "db").string() +
                ", but by this configuration no task goes to it, and nobody else knows what became "
                "of them; start once more with 'remote' as function_executor, command_executor or "
                "a tenant's executor until they are over");
  EXPECT_TRUE(Runner::Attach(options_).value()->limits().ListPools(TenantId("public"))->empty());
  // The same under another name.
  without.executors["renamed"] = &remote_;
  without.command_executor = "renamed";
  EXPECT_FALSE(Runner::Open(without));
  Open();
  remote_.Tell(holder, Of("finish", run, 1));
  EXPECT_EQ(runner_->Find(std::to_string(run.value))->Wait(60s)->state,
            model::RunState::kSucceeded);
  runner_.reset();
  EXPECT_TRUE(Runner::Open(without)) << "it holds nothing any more";
}

}  // namespace
}  // namespace headworks
