#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "tests/harness.h"

// What a task may do to leave something behind, and that nothing is when its verdict comes.
namespace headworks::executor_process::testing {
namespace {

using model::Reason;
using model::Verdict;

class Tree : public ExecutorTest {
 protected:
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }
  /// A script that leaves its pid in a file, then sleeps.
  std::string Sleeper(const std::string& file) const {
    return "echo $$ > " + File(file) + ".new; mv " + File(file) + ".new " + File(file) +
           "; exec sleep 1000";
  }
};

TEST_F(Tree, GrandchildrenDoNotOutliveTheMainProcess) {
  const auto attempt = Next(Shell("sh -c '" + Sleeper("child") + "' &\nwhile ! [ -e " +
                                  File("child") + " ]; do sleep 0.01; done"));
  const model::Outcome outcome = Run(attempt);
  EXPECT_EQ(outcome.verdict, Verdict::kSucceeded) << outcome.error;
  EXPECT_FALSE(Alive(PidFrom(File("child"))));
  ASSERT_EQ(Lines(attempt).size(), 1U);
  EXPECT_EQ(Lines(attempt)[0].stream, log_store::Stream::kNote);
}

TEST_F(Tree, WhatFinishesByItselfWithinTheGraceIsNotKilled) {
  const auto attempt = Next(Shell("(sleep 0.05; echo late) &\necho early"));
  EXPECT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Texts(attempt), (std::vector<std::string>{"early", "late"}));
}

TEST_F(Tree, ADaemonThatLeftSessionAndGroupIsKilled) {
  const auto attempt = Next(Shell("setsid sh -c '" + Sleeper("daemon") + "' &\nwhile ! [ -e " +
                                  File("daemon") + " ]; do sleep 0.01; done"));
  EXPECT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  EXPECT_FALSE(Alive(PidFrom(File("daemon"))));
}

TEST_F(Tree, ADaemonThatAlsoShedItsEnvironmentIsKilled) {
  const auto other = Next(Shell(Sleeper("other")));
  ASSERT_EQ(executor_->Offer(other).disposition, model::Disposition::kDispatched);
  ASSERT_GT(PidFrom(File("other")), 0);
  const auto attempt =
      Next(Shell("setsid env -i /bin/sh -c 'setsid /bin/sh -c \"" + Sleeper("daemon") +
                 "\" &' &\nwhile ! [ -e " + File("daemon") + " ]; do sleep 0.01; done"));
  EXPECT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  // Nothing tells it from what the other attempt may have started: it goes with the last of both.
  const pid_t daemon = PidFrom(File("daemon"));
  executor_->Cancel(other.key);
  EXPECT_EQ(sink_.Await(other.key).verdict, Verdict::kCancelled);
  EXPECT_FALSE(Alive(daemon));
}

TEST_F(Tree, AnAttemptDoesNotEndWhatBelongsToAnother) {
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

TEST_F(Tree, CancelEndsAllOfATree) {
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

TEST_F(Tree, WhoIgnoresTermIsKilledAfterTheGrace) {
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

TEST_F(Tree, AStoppedProcessIsEndedToo) {
  auto task = Shell("echo $$ > " + File("pid") + "; kill -STOP $$; sleep 1000");
  task.grace = std::chrono::seconds(20);
  const auto attempt = Next(task);
  ASSERT_EQ(executor_->Offer(attempt).disposition, model::Disposition::kDispatched);
  ASSERT_GT(PidFrom(File("pid")), 0);
  executor_->Cancel(attempt.key);
  EXPECT_EQ(sink_.Await(attempt.key).signal, SIGTERM);
}

TEST_F(Tree, TimeoutIsARetryWithItsReason) {
  auto task = Shell("sleep 1000 & wait");
  task.timeout = std::chrono::milliseconds(100);
  const model::Outcome outcome = Run(task);
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.reason, Reason::kTimeout);
  EXPECT_EQ(outcome.error, "timed out after 100ms");
}

TEST_F(Tree, ATaskThatCatchesTermSaysItsLastWords) {
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

TEST_F(Tree, DrainInterruptsWhatDoesNotEndInTime) {
  const auto attempt = Next(Shell(Sleeper("pid")));
  ASSERT_EQ(executor_->Offer(attempt).disposition, model::Disposition::kDispatched);
  const pid_t pid = PidFrom(File("pid"));
  EXPECT_TRUE(executor_->Drain(std::chrono::milliseconds(20)));
  EXPECT_EQ(sink_.Await(attempt.key).verdict, Verdict::kInterrupted);
  EXPECT_FALSE(Alive(pid));
  EXPECT_EQ(executor_->Offer(Next(Shell("true"))).disposition, model::Disposition::kDeferred);
  EXPECT_TRUE(executor_->Drain(std::chrono::milliseconds(20)));
}

TEST_F(Tree, DestructionLeavesNothing) {
  const auto attempt = Next(Shell("setsid sh -c '" + Sleeper("aside") + "' &\n" + Sleeper("main")));
  ASSERT_EQ(executor_->Offer(attempt).disposition, model::Disposition::kDispatched);
  const pid_t aside = PidFrom(File("aside"));
  const pid_t main = PidFrom(File("main"));
  executor_.reset();
  EXPECT_FALSE(Alive(aside) || Alive(main));
}

TEST_F(Tree, AKilledSupervisorLeavesNothingAndIsReplaced) {
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
  EXPECT_EQ(Run(Shell("true")).verdict, Verdict::kSucceeded);
  EXPECT_NE(PidFrom(folder_.path() + "/state/supervisor.lock"), supervisor);
}

TEST_F(Tree, ATermToTheSupervisorIsNotItsEnd) {
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

TEST_F(Tree, ASignalledTaskSaysWhichSignal) {
  const model::Outcome outcome = Run(Shell("kill -SEGV $$"));
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.reason, Reason::kSignal);
  EXPECT_EQ(outcome.signal, SIGSEGV);
  EXPECT_FALSE(outcome.exit_code.has_value());
  EXPECT_EQ(outcome.error, "killed by SIGSEGV (11)");
}

}  // namespace
}  // namespace headworks::executor_process::testing
