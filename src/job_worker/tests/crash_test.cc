#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "rig.h"

namespace headworks {
namespace {

/// job_program, in a process of its own.
class Program {
 public:
  explicit Program(const std::string& path) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string program = HEADWORKS_JOB_PROGRAM;
    std::string database = path;
    char* argv[] = {program.data(), database.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    said_ = fdopen(ends[0], "r");
  }
  ~Program() {
    if (pid_ > 0) Kill();
    std::fclose(said_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Its next line.
  std::string Line() {
    std::array<char, 100> line{};
    return std::fgets(line.data(), line.size(), said_) == nullptr ? "" : line.data();
  }
  void Kill() {
    EXPECT_EQ(kill(pid_, SIGKILL), 0);
    EXPECT_EQ(waitpid(pid_, nullptr, 0), pid_);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  std::FILE* said_ = nullptr;
};

class JobCrashTest : public JobWorkerTest {};
INSTANTIATE_TEST_SUITE_P(Jobs, JobCrashTest, testing::Values("Sqlite"), NameOf);

TEST_P(JobCrashTest, WhatAKilledProcessHadComesToAnotherWhenTheLeaseEnds) {
  Push("q", "a", R"({"n": 17})");
  Program first(path());
  ASSERT_EQ(first.Line(), "begun 1\n");
  Working second(queues(), clock_, {.name = "second"});
  std::atomic<int> attempt = 0;
  std::string payload;
  ASSERT_TRUE(second.worker->Handle<Json>("q", [&](const Json& json, JobContext& context) {
    payload = json.text;
    attempt = context.attempt();
  }));
  second.Start();
  // The first one extends its lease, so nobody else gets the item.
  const Duration longer = clock_.Monotonic() + 4s;
  EXPECT_TRUE(Eventually([&] { return clock_.Monotonic() > longer; }));
  EXPECT_EQ(attempt, 0);
  EXPECT_EQ(Item("q", "a").holder, "first");
  first.Kill();
  EXPECT_TRUE(Becomes("q", "a", ItemState::kCompleted));
  EXPECT_TRUE(second.Leave());
  EXPECT_EQ(attempt, 2);
  EXPECT_EQ(payload, R"({"n": 17})");
  EXPECT_EQ(Item("q", "a").holder, "second");
}

}  // namespace
}  // namespace headworks
