#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "supervisor/cgroup.h"
#include "tests/harness.h"

// What a task may do to leave something behind, and that nothing is when its verdict comes.
namespace headworks::executor_process::testing {
namespace {

using model::Reason;
using model::Verdict;

/// How it is known what belongs to an attempt.
enum class By : unsigned char { kMark, kGroup, kGroupVersion1 };

class Tree : public ExecutorTest, public ::testing::WithParamInterface<By> {
 protected:
  void SetUp() override {
    if (GetParam() == By::kGroup && !CanMakeGroup(supervisor::CgroupPlaces())) {
      GTEST_SKIP() << "no control group can be made here";
    }
    if (GetParam() == By::kGroupVersion1 && !CanMakeGroup(Version1())) {
      GTEST_SKIP() << "no control group of version 1 can be made here";
    }
    Open();
    const std::string group = LinesOf(ReadText(folder_.path() + "/state/supervisor.lock"))[1];
    EXPECT_EQ(group.empty(), GetParam() == By::kMark) << group;
  }
  ProcessExecutorOptions Options() const override {
    ProcessExecutorOptions options = ExecutorTest::Options();
    options.control_groups = GetParam() != By::kMark;
    if (GetParam() == By::kGroupVersion1) options.control_group_parent = Version1().front().folder;
    return options;
  }
  static std::vector<supervisor::CgroupPlace> Version1() {
    std::vector<supervisor::CgroupPlace> places = supervisor::CgroupPlaces();
    std::erase_if(places, [](const auto& place) { return place.version != 1; });
    return places;
  }
  bool Ended(const executor::Attempt& attempt) {
    const auto answer = executor_->Inspect({{attempt}});
    return std::holds_alternative<executor::Ended>(answer->front());
  }
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }
  /// A script that leaves its pid in a file, then sleeps.
  std::string Sleeper(const std::string& file) const {
    return "echo $$ > " + File(file) + ".new; mv " + File(file) + ".new " + File(file) +
           "; exec sleep 1000";
  }
};

TEST_P(Tree, GrandchildrenDoNotOutliveTheMainProcess) {
  const auto attempt = Next(Shell("sh -c '" + Sleeper("child") + "' &\nwhile ! [ -e " +
                                  File("child") + " ]; do sleep 0.01; done"));
  const model::Outcome outcome = Run(attempt);
  EXPECT_EQ(outcome.verdict, Verdict::kSucceeded) << outcome.error;
  EXPECT_FALSE(Alive(PidFrom(File("child"))));
  ASSERT_EQ(Lines(attempt).size(), 1U);
  EXPECT_EQ(Lines(attempt)[0].stream, log_store::Stream::kNote);
}

TEST_P(Tree, WhatFinishesByItselfWithinTheGraceIsNotKilled) {
  const auto attempt = Next(Shell("(sleep 0.05; echo late) &\necho early"));
  EXPECT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Texts(attempt), (std::vector<std::string>{"early", "late"}));
}

TEST_P(Tree, ADaemonThatLeftSessionAndGroupIsKilled) {
  const auto attempt = Next(Shell("setsid sh -c '" + Sleeper("daemon") + "' &\nwhile ! [ -e " +
                                  File("daemon") + " ]; do sleep 0.01; done"));
  EXPECT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  EXPECT_FALSE(Alive(PidFrom(File("daemon"))));
}

TEST_P(Tree, ADaemonThatAlsoShedItsEnvironmentIsKilled) {
  const auto other = Next(Shell(Sleeper("other")));
  ASSERT_EQ(executor_->Offer(other).disposition, model::Disposition::kDispatched);
  ASSERT_GT(PidFrom(File("other")), 0);
  const auto attempt =
      Next(Shell("setsid env -i /bin/sh -c 'setsid /bin/sh -c \"" + Sleeper("daemon") +
                 "\" &' &\nwhile ! [ -e " + File("daemon") + " ]; do sleep 0.01; done"));
  EXPECT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  const pid_t daemon = PidFrom(File("daemon"));
  // Without a group nothing tells it from what the other attempt may have started: then it goes
  // with the last of both.
  if (GetParam() != By::kMark) EXPECT_FALSE(Alive(daemon));
  EXPECT_TRUE(Alive(PidFrom(File("other"))));
  executor_->Cancel(other.key);
  EXPECT_EQ(sink_.Await(other.key).verdict, Verdict::kCancelled);
  EXPECT_FALSE(Alive(daemon));
}

/// What only a group can do.
class GroupedTree : public Tree {};

TEST_P(GroupedTree, WhoForksOnAndOnIsEnded) {
  // Each has left session and environment, and is gone before a list of processes is read.
  std::ofstream(File("hop")) << "echo $$ >> " + File("hops") + "\nsetsid env -i /bin/sh " +
                                    File("hop") + " &\n";
  const auto attempt = Next(Shell("/bin/sh " + File("hop") + "; while ! [ $(wc -l < " +
                                  File("hops") + ") -gt 20 ]; do sleep 0.01; done"));
  EXPECT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  const std::string hops = ReadText(File("hops"));
  EXPECT_TRUE(ProcessesWith(File("hop")).empty());
  EXPECT_EQ(ReadText(File("hops")), hops);
}

TEST_P(Tree, AnAttemptDoesNotEndWhatBelongsToAnother) {
  const auto other = Next(Shell("setsid sh -c '" + Sleeper("others") + "' &\n" + Sleeper("other")));
  ASSERT_EQ(executor_->Offer(other).disposition, model::Disposition::kDispatched);
  const pid_t others = PidFrom(File("others"));
  ASSERT_GT(PidFrom(File("other")), 0);
  EXPECT_EQ(Run(Shell("setsid sleep 1000 & true")).verdict, Verdict::kSucceeded);
  EXPECT_TRUE(Alive(others));
  executor_->Cancel(other.key);
  EXPECT_EQ(sink_.Await(other.key).verdict, Verdict::kCancelled);
  EXPECT_FALSE(Alive(others));
}

TEST_P(Tree, CancelEndsAllOfATree) {
  auto task = Shell("sh -c 'sh -c \"" + Sleeper("deep") + "\" & wait' &\nsetsid sh -c '" +
                    Sleeper("aside") + "' &\nwait");
  const auto attempt = Next(task);
  ASSERT_EQ(executor_->Offer(attempt).disposition, model::Disposition::kDispatched);
  const pid_t deep = PidFrom(File("deep"));
  const pid_t aside = PidFrom(File("aside"));
  ASSERT_TRUE(Alive(deep) && Alive(aside));
  executor_->Cancel(attempt.key);
  const model::Outcome outcome = sink_.Await(attempt.key);
  EXPECT_EQ(outcome.verdict, Verdict::kCancelled);
  EXPECT_EQ(outcome.reason, Reason::kCancelRequested);
  EXPECT_EQ(outcome.signal, SIGTERM);
  EXPECT_FALSE(Alive(deep) || Alive(aside));
}

TEST_P(Tree, WhoIgnoresTermIsKilledAfterTheGrace) {
  auto task = Shell("trap '' TERM; echo ready > " + File("ready") + "; sleep 1000; sleep 1000");
  task.grace = std::chrono::milliseconds(150);
  const auto attempt = Next(task);
  ASSERT_EQ(executor_->Offer(attempt).disposition, model::Disposition::kDispatched);
  ASSERT_TRUE(WaitUntil([&] { return !ReadText(File("ready")).empty(); }));
  const Duration before = clock_.Monotonic();
  executor_->Cancel(attempt.key);
  const model::Outcome outcome = sink_.Await(attempt.key);
  EXPECT_EQ(outcome.verdict, Verdict::kCancelled);
  EXPECT_EQ(outcome.signal, SIGKILL);
  EXPECT_NE(outcome.error.find("ignored SIGTERM"), std::string::npos) << outcome.error;
  EXPECT_GE(clock_.Monotonic() - before, task.grace);
}

TEST_P(Tree, AStoppedProcessIsEndedToo) {
  auto task = Shell("echo $$ > " + File("pid") + "; kill -STOP $$; sleep 1000");
  task.grace = std::chrono::seconds(20);
  const auto attempt = Next(task);
  ASSERT_EQ(executor_->Offer(attempt).disposition, model::Disposition::kDispatched);
  ASSERT_GT(PidFrom(File("pid")), 0);
  executor_->Cancel(attempt.key);
  EXPECT_EQ(sink_.Await(attempt.key).signal, SIGTERM);
}

TEST_P(Tree, TimeoutIsARetryWithItsReason) {
  auto task = Shell("sleep 1000 & wait");
  task.timeout = std::chrono::milliseconds(100);
  const model::Outcome outcome = Run(task);
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.reason, Reason::kTimeout);
  EXPECT_EQ(outcome.error, "timed out after 100ms");
}

TEST_P(Tree, ATaskThatCatchesTermSaysItsLastWords) {
  auto task = Shell("trap 'echo bye; exit 3' TERM; echo up > " + File("up") +
                    "; while :; do sleep 0.01; done");
  const auto attempt = Next(task);
  ASSERT_EQ(executor_->Offer(attempt).disposition, model::Disposition::kDispatched);
  ASSERT_TRUE(WaitUntil([&] { return !ReadText(File("up")).empty(); }));
  executor_->Cancel(attempt.key);
  const model::Outcome outcome = sink_.Await(attempt.key);
  EXPECT_EQ(outcome.verdict, Verdict::kCancelled);
  EXPECT_EQ(outcome.exit_code, 3);
  // The shell may remark that its sleep was terminated as well.
  ASSERT_FALSE(Texts(attempt).empty());
  EXPECT_EQ(Texts(attempt).back(), "bye");
}

TEST_P(Tree, DrainInterruptsWhatDoesNotEndInTime) {
  const auto attempt = Next(Shell(Sleeper("pid")));
  ASSERT_EQ(executor_->Offer(attempt).disposition, model::Disposition::kDispatched);
  const pid_t pid = PidFrom(File("pid"));
  EXPECT_TRUE(executor_->Drain(std::chrono::milliseconds(20)));
  EXPECT_EQ(sink_.Await(attempt.key).verdict, Verdict::kInterrupted);
  EXPECT_FALSE(Alive(pid));
  EXPECT_EQ(executor_->Offer(Next(Shell("true"))).disposition, model::Disposition::kDeferred);
  EXPECT_TRUE(executor_->Drain(std::chrono::milliseconds(20)));
}

TEST_P(Tree, DestructionLeavesNothing) {
  const auto attempt = Next(Shell("setsid sh -c '" + Sleeper("aside") + "' &\n" + Sleeper("main")));
  ASSERT_EQ(executor_->Offer(attempt).disposition, model::Disposition::kDispatched);
  const pid_t aside = PidFrom(File("aside"));
  const pid_t main = PidFrom(File("main"));
  executor_.reset();
  EXPECT_FALSE(Alive(aside) || Alive(main));
}

TEST_P(Tree, AKilledSupervisorLeavesNothingAndIsReplaced) {
  const auto attempt = Next(Shell("setsid sh -c '" + Sleeper("aside") + "' &\nsh -c '" +
                                  Sleeper("child") + "' &\n" + "echo said; " + Sleeper("main")));
  ASSERT_EQ(executor_->Offer(attempt).disposition, model::Disposition::kDispatched);
  const pid_t aside = PidFrom(File("aside"));
  const pid_t child = PidFrom(File("child"));
  const pid_t main = PidFrom(File("main"));
  ASSERT_TRUE(Alive(aside) && Alive(child) && Alive(main));
  bool alive_at_verdict = true;
  sink_.OnEnded([&](const model::AttemptKey&) {
    alive_at_verdict = Alive(aside) || Alive(child) || Alive(main);
  });
  const pid_t supervisor = PidFrom(folder_.path() + "/state/supervisor.lock");
  ASSERT_EQ(kill(supervisor, SIGKILL), 0);
  const model::Outcome outcome = sink_.Await(attempt.key);
  EXPECT_EQ(outcome.verdict, Verdict::kLost);
  EXPECT_EQ(outcome.reason, Reason::kLost);
  EXPECT_FALSE(alive_at_verdict);
  EXPECT_EQ(Texts(attempt), std::vector<std::string>{"said"});
  sink_.OnEnded(nullptr);
  const model::Outcome next = Run(Shell("true"));
  EXPECT_EQ(next.verdict, Verdict::kSucceeded) << next.error;
  EXPECT_NE(PidFrom(folder_.path() + "/state/supervisor.lock"), supervisor);
}

TEST_P(Tree, WhatKillsItsSupervisorTakesItsNeighboursAlongOnce) {
  // Of many runs: what is lost is offered again, under the next epoch.
  constexpr std::int64_t kPoison = 100;
  constexpr int kNeighbours = 8;
  std::map<std::int64_t, int> losses;
  std::map<std::int64_t, executor::Attempt> neighbours;
  const auto offer = [&](std::int64_t run, const std::string& script) {
    auto attempt = AttemptOf(run, ++last_epoch_, Shell(script), folder_.path());
    EXPECT_EQ(executor_->Offer(attempt).disposition, model::Disposition::kDispatched);
    return attempt;
  };
  const auto sleep = [&](std::int64_t run) {
    neighbours[run] = offer(run, "exec sleep 1000");
    ASSERT_TRUE(sink_.AwaitStarted(neighbours[run].key));
  };
  for (int run = 1; run <= kNeighbours; ++run) sleep(run);
  for (int loss = 0; loss < 6; ++loss) {
    const auto poison =
        offer(kPoison, "setsid sh -c '" + Sleeper("aside") + "' &\nwhile ! [ -e " + File("aside") +
                           " ]; do sleep 0.01; done\n" + "kill -9 $PPID; exec sleep 1000");
    EXPECT_EQ(sink_.Await(poison.key).verdict, Verdict::kLost);
    EXPECT_FALSE(Alive(PidFrom(File("aside"))));
    unlink(File("aside").c_str());
    for (int run = 1; run <= kNeighbours; ++run) {
      if (!Ended(neighbours[run])) continue;
      EXPECT_EQ(sink_.Await(neighbours[run].key).verdict, Verdict::kLost);
      ++losses[run];
      sleep(run);
    }
  }
  for (int run = 1; run <= kNeighbours; ++run) EXPECT_EQ(losses[run], 1) << "run " << run;
  // Those that were hurt are under supervisors of their own; that of a stranger is not theirs.
  const auto stranger = offer(kPoison + 1, "kill -9 $PPID; exec sleep 1000");
  EXPECT_EQ(sink_.Await(stranger.key).verdict, Verdict::kLost);
  for (int run = 1; run <= kNeighbours; ++run) EXPECT_FALSE(Ended(neighbours[run]));
  executor_->Cancel(neighbours[1].key);
  EXPECT_EQ(sink_.Await(neighbours[1].key).verdict, Verdict::kCancelled);
  EXPECT_EQ(Run(AttemptOf(1, ++last_epoch_, Shell("true"), folder_.path())).verdict,
            Verdict::kSucceeded);
}

TEST_P(Tree, ATermToTheSupervisorIsNotItsEnd) {
  // A service manager may send TERM to all processes of a service at once.
  const auto attempt = Next(Shell("echo $$ > " + File("pid") + "; while ! [ -e " + File("go") +
                                  " ]; do sleep 0.01; done"));
  ASSERT_EQ(executor_->Offer(attempt).disposition, model::Disposition::kDispatched);
  ASSERT_GT(PidFrom(File("pid")), 0);
  const pid_t supervisor = PidFrom(folder_.path() + "/state/supervisor.lock");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ASSERT_EQ(kill(supervisor, signal), 0);
  std::ofstream(File("go")) << "";
  EXPECT_EQ(sink_.Await(attempt.key).verdict, Verdict::kSucceeded);
  EXPECT_TRUE(Alive(supervisor));
}

TEST_P(Tree, ASignalledTaskSaysWhichSignal) {
  const model::Outcome outcome = Run(Shell("kill -SEGV $$"));
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.reason, Reason::kSignal);
  EXPECT_EQ(outcome.signal, SIGSEGV);
  EXPECT_FALSE(outcome.exit_code.has_value());
  EXPECT_EQ(outcome.error, "killed by SIGSEGV (11)");
}

std::string NameOf(const ::testing::TestParamInfo<By>& info) {
  switch (info.param) {
    case By::kMark:
      return "ByMark";
    case By::kGroup:
      return "ByGroup";
    case By::kGroupVersion1:
      return "ByGroupVersion1";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Told, Tree, ::testing::Values(By::kMark, By::kGroup, By::kGroupVersion1),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Told, GroupedTree, ::testing::Values(By::kGroup, By::kGroupVersion1),
                         NameOf);

}  // namespace
}  // namespace headworks::executor_process::testing
