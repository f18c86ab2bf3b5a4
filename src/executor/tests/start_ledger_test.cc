#include "headworks/executor/start_ledger.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

namespace headworks::executor {
namespace {

model::AttemptKey Key(std::int64_t run, std::int64_t epoch) {
  return {
      .tenant = TenantId("public"), .run = RunNo(run), .task = TaskNo(0), .epoch = Epoch(epoch)};
}

class StartLedgerTest : public testing::Test {
 protected:
  StartLedgerTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("headworks-ledger-" + std::to_string(::getpid()))),
        path_(folder_ / "db.started") {
    std::filesystem::create_directories(folder_);
  }
  ~StartLedgerTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<StartLedger> Open(std::size_t capacity = 100, std::string_view boot = "boot-1",
                                    std::int64_t next_run = 1) {
    auto ledger = StartLedger::Open(path_, boot, capacity, RunNo(next_run));
    EXPECT_TRUE(ledger) << ledger.error().message;
    return ledger ? *std::move(ledger) : nullptr;
  }
  const std::filesystem::path folder_;
  const std::string path_;
};

TEST_F(StartLedgerTest, RemembersMarksUntilTheyAreCleared) {
  const auto ledger = Open();
  EXPECT_FALSE(ledger->WasStarted(Key(1, 1)));
  EXPECT_TRUE(ledger->MarkStarted(Key(1, 1)));
  EXPECT_TRUE(ledger->WasStarted(Key(1, 1)));
  EXPECT_FALSE(ledger->WasStarted(Key(1, 2)));
  EXPECT_FALSE(ledger->WasStarted(Key(2, 1)));
  ledger->Clear(std::array{Key(1, 1), Key(9, 9)});
  EXPECT_FALSE(ledger->WasStarted(Key(1, 1)));
  EXPECT_TRUE(ledger->MarkStarted(Key(1, 1)));
}

TEST_F(StartLedgerTest, AStartIsClaimedOnce) {
  auto ledger = Open();
  EXPECT_TRUE(ledger->MarkStarted(Key(1, 1)));
  EXPECT_EQ(ledger->MarkStarted(Key(1, 1)).error().code, Code::kConflict);
  ledger.reset();
  EXPECT_EQ(Open()->MarkStarted(Key(1, 1)).error().code, Code::kConflict);
}

TEST_F(StartLedgerTest, IsBoundedByItsCapacity) {
  const auto ledger = Open(3);
  for (int epoch = 1; epoch <= 3; ++epoch) EXPECT_TRUE(ledger->MarkStarted(Key(1, epoch)));
  EXPECT_EQ(ledger->MarkStarted(Key(1, 4)).error().code, Code::kAtCapacity);
  ledger->Clear(std::array{Key(1, 2)});
  EXPECT_TRUE(ledger->MarkStarted(Key(1, 4)));
}

TEST_F(StartLedgerTest, WhatAnEarlierIncarnationLeftTakesNoRoom) {
  auto ledger = Open(2);
  EXPECT_TRUE(ledger->MarkStarted(Key(1, 1)));
  EXPECT_TRUE(ledger->MarkStarted(Key(1, 2)));
  ledger.reset();
  ledger = Open(2);
  EXPECT_TRUE(ledger->MarkStarted(Key(1, 3)));
  EXPECT_TRUE(ledger->MarkStarted(Key(1, 4)));
  EXPECT_EQ(ledger->MarkStarted(Key(1, 5)).error().code, Code::kAtCapacity);
}

TEST_F(StartLedgerTest, AfterAnotherBootAttemptsOfOlderRunsMayHaveStarted) {
  auto ledger = Open();
  EXPECT_TRUE(ledger->MarkStarted(Key(1, 1)));
  ledger.reset();
  ledger = Open(100, "boot-2", 8);
  EXPECT_NE(ledger->unknown_because(), "");
  EXPECT_TRUE(ledger->WasStarted(Key(7, 2)));
  EXPECT_FALSE(ledger->WasStarted(Key(8, 2)));
  EXPECT_TRUE(ledger->MarkStarted(Key(7, 2)));
  EXPECT_TRUE(ledger->MarkStarted(Key(8, 2)));

  // The boundary stands for as long as the machine does.
  ledger.reset();
  ledger = Open(100, "boot-2", 20);
  EXPECT_EQ(ledger->unknown_because(), "");
  EXPECT_TRUE(ledger->WasStarted(Key(7, 3)));
  EXPECT_TRUE(ledger->WasStarted(Key(8, 2)));
  EXPECT_FALSE(ledger->WasStarted(Key(8, 3)));
}

TEST_F(StartLedgerTest, AMissingOrDamagedFileTellsNothingOfOlderRuns) {
  const auto expect_unknown = [this] {
    const auto ledger = Open(100, "boot-1", 5);
    EXPECT_NE(ledger->unknown_because(), "");
    EXPECT_TRUE(ledger->WasStarted(Key(4, 1)));
    EXPECT_FALSE(ledger->WasStarted(Key(5, 1)));
  };
  expect_unknown();
  const auto size = std::filesystem::file_size(path_);
  std::filesystem::resize_file(path_, size - 1);
  expect_unknown();
  std::ofstream(path_, std::ios::in | std::ios::out) << "other";
  expect_unknown();
  std::ofstream(path_, std::ios::trunc) << "x";
  expect_unknown();
}

TEST_F(StartLedgerTest, SaysWhereItCannotBeMade) {
  const auto ledger = StartLedger::Open(folder_ / "absent" / "x", "boot", 1, RunNo(1));
  ASSERT_FALSE(ledger);
  EXPECT_EQ(ledger.error().code, Code::kUnavailable);
  EXPECT_NE(ledger.error().message.find("absent"), std::string::npos);
}

TEST_F(StartLedgerTest, GrowsWithWhatIsMarkedAndShrinksWhenItIsOpenedAgain) {
  constexpr int kMarks = 10'000;
  auto ledger = Open(kMarks);
  const auto small = std::filesystem::file_size(path_);
  EXPECT_LT(small, 100'000U);
  for (int epoch = 1; epoch <= kMarks; ++epoch) ASSERT_TRUE(ledger->MarkStarted(Key(1, epoch)));
  EXPECT_GT(std::filesystem::file_size(path_), kMarks * 16U);
  for (int again = 0; again < 2; ++again) {
    for (int epoch = 1; epoch <= kMarks; ++epoch) ASSERT_TRUE(ledger->WasStarted(Key(1, epoch)));
    EXPECT_FALSE(ledger->WasStarted(Key(1, kMarks + 1)));
    ledger.reset();
    ledger = Open(kMarks);
  }
  for (int epoch = 1; epoch <= kMarks; ++epoch) ledger->Clear(std::array{Key(1, epoch)});
  ledger.reset();
  ledger = Open(kMarks);
  EXPECT_EQ(std::filesystem::file_size(path_), small);
}

TEST_F(StartLedgerTest, WhereItCannotGrowAStartWaitsUntilItCan) {
  auto ledger = Open(10'000);
  // A folder in the place of the file that it would make: no disk has room for it.
  std::filesystem::create_directories(path_ + ".new/full");
  int epoch = 1;
  while (epoch <= 10'000 && ledger->MarkStarted(Key(1, epoch))) ++epoch;
  ASSERT_GT(epoch, 2'048);
  ASSERT_LT(epoch, 4'096);
  EXPECT_EQ(ledger->MarkStarted(Key(1, epoch)).error().code, Code::kUnavailable);
  EXPECT_FALSE(ledger->WasStarted(Key(1, epoch)));
  for (int e = 1; e < epoch; ++e) ASSERT_TRUE(ledger->WasStarted(Key(1, e)));
  ledger->Clear(std::array{Key(1, 1)});
  EXPECT_TRUE(ledger->MarkStarted(Key(1, epoch)));
  EXPECT_FALSE(ledger->MarkStarted(Key(1, epoch + 1)));
  std::filesystem::remove_all(path_ + ".new");
  EXPECT_TRUE(ledger->MarkStarted(Key(1, epoch + 1)));
}

TEST_F(StartLedgerTest, EqualsASetUnderRandomUse) {
  auto ledger = Open(64);
  std::set<std::pair<std::int64_t, std::int64_t>> model;
  std::mt19937_64 random(7);  // NOLINT(*-msc51-cpp): the same every time
  for (int step = 0; step < 200'000; ++step) {
    const std::int64_t run = 1 + static_cast<std::int64_t>(random() % 5);
    const std::int64_t epoch = 1 + static_cast<std::int64_t>(random() % 40);
    if (random() % 2 == 0) {
      ledger->Clear(std::array{Key(run, epoch)});
      model.erase({run, epoch});
    } else if (model.size() < 64) {
      ASSERT_EQ(ledger->MarkStarted(Key(run, epoch)).has_value(), model.emplace(run, epoch).second);
    }
    ASSERT_EQ(ledger->WasStarted(Key(run, epoch)), model.contains({run, epoch}));
    if (step % 20'000 == 0) {
      ledger.reset();
      ledger = Open(64);
      for (int r = 1; r <= 5; ++r)
        for (int e = 1; e <= 40; ++e)
          ASSERT_EQ(ledger->WasStarted(Key(r, e)), model.contains({r, e}));
    }
  }
}

TEST_F(StartLedgerTest, ThreadsMarkAndClearAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 5'000;
  auto ledger = Open(std::size_t{kThreads} * 3);
  std::vector<std::jthread> threads;
  for (int thread = 1; thread <= kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (int round = 1; round <= kRounds; ++round) {
        EXPECT_TRUE(ledger->MarkStarted(Key(thread, round)));
        if (round > 2) ledger->Clear(std::array{Key(thread, round - 2)});
      }
    });
  threads.clear();
  for (int thread = 1; thread <= kThreads; ++thread) {
    EXPECT_FALSE(ledger->WasStarted(Key(thread, kRounds - 2)));
    EXPECT_TRUE(ledger->WasStarted(Key(thread, kRounds - 1)));
    EXPECT_TRUE(ledger->WasStarted(Key(thread, kRounds)));
  }
}

/// A child marks, says by a pipe what it has marked and cleared, and is killed at any moment.
/// What it said must be in the ledger; what it had not come to must not.
TEST_F(StartLedgerTest, MarksOutliveKillMinusNine) {
  constexpr std::int64_t kWindow = 8;  // marks that stay before they are cleared
  for (int round = 0; round < 20; ++round) {
    std::filesystem::remove(path_);
    std::array<int, 2> ends;
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto ledger = StartLedger::Open(path_, "boot-1", 2 * kWindow, RunNo(1));
      if (!ledger) ::_exit(1);
      for (std::int64_t epoch = 1;; ++epoch) {
        if (!(*ledger)->MarkStarted(Key(1, epoch))) ::_exit(2);
        if (epoch > kWindow) (*ledger)->Clear(std::array{Key(1, epoch - kWindow)});
        if (::write(ends[1], &epoch, sizeof epoch) != sizeof epoch) ::_exit(3);
      }
    }
    ::close(ends[1]);
    std::int64_t said = 0;
    while (said < 1000 + 37 * round && ::read(ends[0], &said, sizeof said) == sizeof said) {
    }
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "exit code " << WEXITSTATUS(status);
    while (::read(ends[0], &said, sizeof said) == sizeof said) {
    }
    ::close(ends[0]);

    const auto ledger = Open();
    EXPECT_EQ(ledger->unknown_because(), "");
    // The child said `said` after its mark and its clear; it may have come one step further.
    for (std::int64_t epoch = said - kWindow + 2; epoch <= said; ++epoch)
      EXPECT_TRUE(ledger->WasStarted(Key(1, epoch))) << epoch << " of " << said;
    EXPECT_FALSE(ledger->WasStarted(Key(1, said - kWindow)));
    EXPECT_FALSE(ledger->WasStarted(Key(1, said + 2)));
  }
}

}  // namespace
}  // namespace headworks::executor
