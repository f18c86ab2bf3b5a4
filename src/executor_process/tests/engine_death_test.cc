#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/harness.h"

extern char** environ;

// An engine process dies by force; the next one finds nothing of its tasks, and knows which ran.
namespace headworks::executor_process::testing {
namespace {

namespace fs = std::filesystem;
using model::Verdict;

class EngineDeath : public ExecutorTest {
 protected:
  void SetUp() override {}
  void TearDown() override {
    if (engine_ > 0) Kill(engine_);
    executor_.reset();
  }

  void StartEngine(int grace_ms, const std::vector<std::string>& scripts) {
    std::vector<std::string> arguments{
        (fs::read_symlink("/proc/self/exe").parent_path() / "executor_process_engine").string(),
        folder_.path(), std::to_string(grace_ms)};
    arguments.insert(arguments.end(), scripts.begin(), scripts.end());
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    ASSERT_EQ(posix_spawn(&engine_, argv[0], nullptr, nullptr, argv.data(), environ), 0);
  }
  void KillEngine() {
    Kill(engine_);
    engine_ = -1;
  }
  void KillBoth() {
    const pid_t supervisor = SupervisorPid();
    // Stopped first, and waited for: it must not clean up after its supervisor.
    ASSERT_EQ(kill(engine_, SIGSTOP), 0);
    ASSERT_EQ(waitpid(engine_, nullptr, WUNTRACED), engine_);
    ASSERT_EQ(kill(supervisor, SIGKILL), 0);
    ASSERT_TRUE(WaitUntil([&] { return !Alive(supervisor); }));
    KillEngine();
  }
  static void Kill(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  pid_t SupervisorPid() { return PidFrom(folder_.path() + "/state/supervisor.lock"); }

  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string Sleeper(const std::string& file, const std::string& before = "") const {
    return before + "echo $$ > " + File(file) + ".new; mv " + File(file) + ".new " + File(file) +
           "; while :; do sleep 1000; done";
  }
  std::string Tree() const {
    return "setsid sh -c '" + Sleeper("aside") + "' &\nsh -c '" + Sleeper("child") + "' &\n" +
           Sleeper("main");
  }
  std::vector<pid_t> TreePids() {
    return {PidFrom(File("aside")), PidFrom(File("child")), PidFrom(File("main"))};
  }
  executor::Attempt Earlier(std::int64_t epoch) {
    return AttemptOf(1, epoch, Shell("true"), folder_.path());
  }
  bool IsLost(const executor::Attempt& attempt) {
    const auto answer = executor_->Inspect({{attempt}});
    const auto* ended = std::get_if<executor::Ended>(&answer->front());
    return ended != nullptr && ended->outcome.verdict == Verdict::kLost;
  }

  pid_t engine_ = -1;
};

TEST_F(EngineDeath, TheSupervisorEndsEverythingAndTheNextEngineKnowsWhatRan) {
  StartEngine(1'000, {Tree()});
  const std::vector<pid_t> pids = TreePids();
  for (const pid_t pid : pids) ASSERT_TRUE(Alive(pid));
  KillEngine();
  const auto ran = Earlier(1), never = Earlier(2);
  Open();
  for (const pid_t pid : pids) EXPECT_FALSE(Alive(pid));
  EXPECT_TRUE(IsLost(ran));
  EXPECT_TRUE(std::holds_alternative<executor::Absent>((*executor_->Inspect({{never}}))[0]));
  EXPECT_EQ(Run(never).verdict, Verdict::kSucceeded);
}

TEST_F(EngineDeath, WhatPrintedHadStarted) {
  StartEngine(1'000, {Sleeper("quiet"), Sleeper("loud")});
  ASSERT_TRUE(Alive(PidFrom(File("quiet"))) && Alive(PidFrom(File("loud"))));
  KillEngine();
  const auto quiet = Earlier(1), loud = Earlier(2);
  const Instant printed{std::chrono::hours(1)};
  const log_store::Batch batch{
      loud.key, {{1, log_store::Stream::kStdout, printed, "a line of the engine that died"}}};
  ASSERT_TRUE(logs_->Append({&batch, 1}));
  Open();
  const auto answers = executor_->Inspect({{quiet, loud}});
  const auto outcome = [&](std::size_t i) {
    return std::get<executor::Ended>((*answers)[i]).outcome;
  };
  EXPECT_EQ(outcome(0).verdict, Verdict::kLost);
  EXPECT_EQ(outcome(0).started_at, Instant{});
  EXPECT_EQ(outcome(1).verdict, Verdict::kLost);
  EXPECT_EQ(outcome(1).started_at, printed);
}

TEST_F(EngineDeath, WhoIgnoresTermIsWaitedForAndKilled) {
  StartEngine(300, {Sleeper("main", "trap '' TERM; ")});
  const pid_t pid = PidFrom(File("main"));
  ASSERT_TRUE(Alive(pid));
  KillEngine();
  Open();
  EXPECT_FALSE(Alive(pid));
}

TEST_F(EngineDeath, WaitingForAnEarlierEnginesTasksIsBounded) {
  StartEngine(1500, {Sleeper("main", "trap '' TERM; ")});
  ASSERT_GT(PidFrom(File("main")), 0);
  const pid_t supervisor = SupervisorPid();
  KillEngine();
  ProcessExecutorOptions options = Options();
  options.lock_wait = std::chrono::milliseconds(50);
  const ProcessPorts ports{
      .resolver = resolver_, .log_store = *logs_, .clock = clock_, .log = log_};
  const auto refused = ProcessExecutor::Open(options, ports);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_NE(refused.error().message.find(std::to_string(supervisor)), std::string::npos)
      << refused.error().message;
  // A second one while the first engine lives is refused in the same way; here its end is enough.
  options.lock_wait = kPatience;
  EXPECT_TRUE(ProcessExecutor::Open(options, ports));
}

TEST_F(EngineDeath, WhereBothDiedTheNextEngineSweepsByTheMark) {
  StartEngine(1'000, {Tree()});
  const std::vector<pid_t> pids = TreePids();
  KillBoth();
  // The main process dies with the supervisor; what left it does not.
  EXPECT_TRUE(Alive(pids[0]));
  Open();
  for (const pid_t pid : pids) EXPECT_FALSE(Alive(pid));
  EXPECT_TRUE(IsLost(Earlier(1)));
}

TEST_F(EngineDeath, WhereBothDiedTheGroupKnowsWhoShedTheMark) {
  if (!CanMakeGroup(supervisor::CgroupPlaces())) {
    GTEST_SKIP() << "no control group can be made here";
  }
  StartEngine(1'000, {"setsid env -i /bin/sh -c '" + Sleeper("aside") + "' &\n" + Sleeper("main")});
  const pid_t aside = PidFrom(File("aside"));
  ASSERT_GT(PidFrom(File("main")), 0);
  KillBoth();
  EXPECT_TRUE(Alive(aside));
  Open();
  EXPECT_FALSE(Alive(aside));
}

TEST_F(EngineDeath, WhatHadASupervisorOfItsOwnIsEndedToo) {
  for (const bool both : {false, true}) {
    StartEngine(0, {"[ -e " + File("once") + " ] || { : > " + File("once") +
                    "; kill -9 $PPID; exec sleep 1000; }\n" + Tree()});
    const std::vector<pid_t> pids = TreePids();
    const pid_t alone = PidFrom(folder_.path() + "/state/supervisor.lock-alone-0");
    ASSERT_TRUE(Alive(alone));
    if (both) {
      ASSERT_EQ(kill(engine_, SIGSTOP), 0);
      ASSERT_EQ(waitpid(engine_, nullptr, WUNTRACED), engine_);
      ASSERT_EQ(kill(alone, SIGKILL), 0);
      ASSERT_TRUE(WaitUntil([&] { return !Alive(alone); }));
    }
    KillEngine();
    Open();
    for (const pid_t pid : pids) EXPECT_FALSE(Alive(pid)) << both;
    EXPECT_TRUE(IsLost(Earlier(101)));
    executor_.reset();
    for (const char* file : {"once", "aside", "child", "main"}) fs::remove(File(file));
  }
}

TEST_F(EngineDeath, NothingOfAnotherStoreIsTouched) {
  StartEngine(1'000, {Tree()});
  const std::vector<pid_t> pids = TreePids();
  {
    TemporaryFolder elsewhere;
    ProcessExecutorOptions options = OptionsOf(elsewhere.path());
    ASSERT_TRUE(ProcessExecutor::Open(
        options, {.resolver = resolver_, .log_store = *logs_, .clock = clock_, .log = log_}));
  }
  for (const pid_t pid : pids) EXPECT_TRUE(Alive(pid));
  KillEngine();
  Open();
  for (const pid_t pid : pids) EXPECT_FALSE(Alive(pid));
}

}  // namespace
}  // namespace headworks::executor_process::testing
