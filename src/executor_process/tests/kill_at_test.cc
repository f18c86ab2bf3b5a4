#include <fcntl.h>

#include <csignal>

#include "supervisor_client.h"
#include "tests/harness.h"

// An attempt whose time is over is killed, whatever its engine does.
namespace headworks::executor_process::testing {
namespace {

using namespace std::chrono_literals;
using model::Verdict;

class KillAt : public ExecutorTest {
 protected:
  executor::Attempt Running(const std::string& script) {
    const auto attempt = Next(Shell(script));
    EXPECT_EQ(executor_->Offer(attempt).disposition, model::Disposition::kDispatched);
    EXPECT_TRUE(sink_.AwaitStarted(attempt.key));
    return attempt;
  }
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }
};

TEST_F(KillAt, KillsWithoutGraceWhenTheTimeHasCome) {
  const auto attempt =
      Running("trap '' TERM; echo $$ > " + File("pid") + "; while :; do sleep 1; done");
  const pid_t pid = PidFrom(File("pid"));
  const Duration before = clock_.Monotonic();
  executor_->KillAt(attempt.key, before + 300ms);
  const model::Outcome outcome = sink_.Await(attempt.key);
  EXPECT_GE(clock_.Monotonic() - before, 300ms);
  EXPECT_LT(clock_.Monotonic() - before, 5s);
  EXPECT_FALSE(Alive(pid));
  EXPECT_EQ(outcome.verdict, Verdict::kInterrupted);
  EXPECT_EQ(outcome.signal, SIGKILL);
}

TEST_F(KillAt, ALaterCallMovesIt) {
  const auto attempt = Running("sleep 1.2; echo whole");
  executor_->KillAt(attempt.key, clock_.Monotonic() + 400ms);
  executor_->KillAt(attempt.key, clock_.Monotonic() + 60s);
  EXPECT_EQ(sink_.Await(attempt.key).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Texts(attempt), std::vector<std::string>{"whole"});
}

TEST_F(KillAt, WhatIsPastIsAtOnceAlsoBeforeTheStart) {
  const auto attempt = Running("exec sleep 60");
  executor_->KillAt(attempt.key, 1us);
  EXPECT_EQ(sink_.Await(attempt.key).verdict, Verdict::kInterrupted);
  const auto late = Next(Shell("exec sleep 60"));
  ASSERT_EQ(executor_->Offer(late).disposition, model::Disposition::kDispatched);
  executor_->KillAt(late.key, Duration(0));
  EXPECT_EQ(sink_.Await(late.key).verdict, Verdict::kInterrupted);
  executor_->KillAt(late.key, Duration(0));  // an unknown one is ignored
}

TEST_F(KillAt, WhatIsOfferedTooLateNeverBegins) {
  const auto late = Next(Shell("touch " + File("begun")));
  ASSERT_EQ(executor_->OfferUntil(late, clock_.Monotonic()).disposition,
            model::Disposition::kDispatched);
  EXPECT_EQ(sink_.Await(late.key).verdict, Verdict::kInterrupted);
  EXPECT_NE(access(File("begun").c_str(), F_OK), 0);
  const auto early = Next(Shell("touch " + File("begun")));
  ASSERT_EQ(executor_->OfferUntil(early, clock_.Monotonic() + 60s).disposition,
            model::Disposition::kDispatched);
  EXPECT_EQ(sink_.Await(early.key).verdict, Verdict::kSucceeded);
}

TEST_F(KillAt, OneTimeForAllHoldsForLaterOnesToo) {
  const auto running = Running("exec sleep 60");
  executor_->KillAllAt(clock_.Monotonic() + 60s);
  executor_->KillAllAt(clock_.Monotonic());
  EXPECT_EQ(sink_.Await(running.key).verdict, Verdict::kInterrupted);
  const auto late = Next(Shell("exec sleep 60"));
  ASSERT_EQ(executor_->Offer(late).disposition, model::Disposition::kDispatched);
  EXPECT_EQ(sink_.Await(late.key).verdict, Verdict::kInterrupted);
  executor_->KillAllAt(clock_.Monotonic() + 60s);
  const auto early = Next(Shell("true"));
  ASSERT_EQ(executor_->Offer(early).disposition, model::Disposition::kDispatched);
  EXPECT_EQ(sink_.Await(early.key).verdict, Verdict::kSucceeded);
}

TEST_F(KillAt, ACancelThatIsUnderWayStaysACancel) {
  const auto attempt = Running("trap '' TERM; while :; do sleep 1; done");
  executor_->Cancel(attempt.key);
  executor_->KillAt(attempt.key, clock_.Monotonic() + 300ms);
  EXPECT_EQ(sink_.Await(attempt.key).verdict, Verdict::kCancelled);
}

/// As of an engine that is stopped once it has said the one word.
TEST_F(KillAt, AStartNamesItsEnd) {
  SupervisorClient supervisor({.program = SupervisorPath(),
                               .lock_file = File("lock"),
                               .store_id = "kill-at",
                               .become_subreaper = false,
                               .places = {}},
                              log_);
  const Status started = supervisor.Start();
  ASSERT_TRUE(started) << started.error().message;
  const auto spawn = [&](std::int64_t epoch, const std::string& script, Duration kill_at) {
    const auto null = [] { return Fd(open("/dev/null", O_WRONLY | O_CLOEXEC)); };
    const Status said = supervisor.Spawn({.attempt = {.run = 1, .epoch = epoch},
                                          .argv = {"/bin/sh", "-c", script},
                                          .env = {"PATH=/usr/bin:/bin"},
                                          .cwd = "/",
                                          .stdout_fd = null(),
                                          .stderr_fd = null(),
                                          .kill_at = kill_at});
    EXPECT_TRUE(said) << said.error().message;
    supervisor.Flush();
  };
  std::map<std::int64_t, supervisor::Ended> ended;
  const auto await = [&](std::int64_t epoch) {
    return WaitUntil([&] {
      std::vector<SupervisorEvent> events;
      EXPECT_TRUE(supervisor.Read(events));
      for (const auto& event : events)
        if (const auto* end = std::get_if<supervisor::Ended>(&event))
          ended[end->attempt.epoch] = *end;
      return ended.contains(epoch);
    });
  };
  spawn(1, "touch " + File("late"), clock_.Monotonic());
  ASSERT_TRUE(await(1));
  EXPECT_EQ(ended[1].cause, supervisor::Cause::kKillAt);
  EXPECT_NE(access(File("late").c_str(), F_OK), 0) << "it began when another might have";
  const Duration before = clock_.Monotonic();
  spawn(2, "trap '' TERM; echo $$ > " + File("pid") + "; while :; do sleep 1; done",
        before + 500ms);
  const pid_t pid = PidFrom(File("pid"));
  ASSERT_TRUE(WaitUntil([&] { return !Alive(pid); }));
  EXPECT_GE(clock_.Monotonic() - before, 500ms);
  ASSERT_TRUE(await(2));
  EXPECT_EQ(ended[2].cause, supervisor::Cause::kKillAt);
}

}  // namespace
}  // namespace headworks::executor_process::testing
