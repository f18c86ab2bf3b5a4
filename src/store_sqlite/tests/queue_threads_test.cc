#include <fmt/format.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core.h"
#include "group_writer.h"
#include "headworks/task_queue/long_poll.h"
#include "tests/engine.h"
#include "tests/scratch_folder.h"

/// Queues under many threads: also run under TSan.
namespace headworks::store_sqlite {
namespace {

namespace fs = std::filesystem;

using store::conformance::kTenant;
using task_queue::Enqueued;
using task_queue::NewItem;
using task_queue::Settlement;

TEST(SqliteQueueThreads, OneIdFromManyProducersIsOneItemAndTheFirstPayloadStands) {
  constexpr int kThreads = 8;
  constexpr int kIds = 20;
  const ScratchFolder folder;
  // Half of them speak for another process.
  const std::array databases{MustOpen(folder.File("db")), MustOpen(folder.File("db"))};
  std::array<std::atomic<int>, kIds> winner{};
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        auto& queue = databases[static_cast<std::size_t>(t % 2)]->queues().tasks();
        for (std::size_t i = 0; i < kIds; ++i) {
          const NewItem item{.id = fmt::format("{:03}", i), .payload = fmt::format("{}", t)};
          const auto answers = queue.Enqueue(kTenant, "q", std::span(&item, 1));
          ASSERT_TRUE(answers) << answers.error().message;
          if (answers->at(0) == Enqueued::kInserted) winner[i] += 100 + t;
        }
      });
    }
  }
  const auto polled =
      databases[0]->queues().tasks().Poll({.tenant = kTenant, .queue = "q", .max_items = 1'000});
  ASSERT_EQ(polled->items.size(), std::size_t{kIds});
  for (const auto& item : polled->items) {
    const auto i = static_cast<std::size_t>(std::stoi(item.id));
    EXPECT_EQ(item.payload, fmt::format("{}", winner[i] - 100)) << item.id;
  }
  EXPECT_EQ(databases[0]->queues().admin().GetQueue(kTenant, "q")->differing,
            kIds * (kThreads - 1));
}

TEST(SqliteQueueThreads, ManyLongPollsTakeEachItemOnce) {
  constexpr int kPollers = 50;
  constexpr int kItems = 400;
  const ScratchFolder folder;
  SystemClock clock;
  const auto db = MustOpen(folder.File("db"));
  const auto producer = MustOpen(folder.File("db"));
  std::mutex mutex;
  std::multiset<std::string> taken;
  std::stop_source done;
  {
    std::vector<std::jthread> pollers;
    pollers.reserve(kPollers);
    for (int p = 0; p < kPollers; ++p) {
      pollers.emplace_back([&] {
        while (!done.stop_requested()) {
          const auto polled = LongPoll(db->queues().tasks(), db->queues().bell(), clock,
                                       {.tenant = kTenant, .queue = "q", .max_items = 3},
                                       std::chrono::minutes(5), done.get_token());
          ASSERT_TRUE(polled) << polled.error().message;
          std::vector<Settlement> acks;
          for (const auto& item : polled->items) acks.push_back({item.claim});
          if (acks.empty()) continue;
          const auto answers = db->queues().tasks().Settle(kTenant, "q", acks);
          ASSERT_TRUE(answers);
          for (const auto& answer : *answers) EXPECT_OK(answer);
          const std::lock_guard lock(mutex);
          for (const auto& item : polled->items) taken.insert(item.id);
          if (taken.size() == kItems) done.request_stop();
        }
      });
    }
    for (int i = 0; i < kItems; ++i) {
      const NewItem item{.id = fmt::format("{}", i), .payload = "1"};
      auto& queue = (i % 2 == 0 ? *db : *producer).queues().tasks();
      EXPECT_OK(queue.Enqueue(kTenant, "q", std::span(&item, 1)));
    }
  }
  EXPECT_EQ(taken.size(), std::size_t{kItems});
  EXPECT_EQ(std::set<std::string>(taken.begin(), taken.end()).size(), std::size_t{kItems});
}

TEST(GroupWriter, WritesThatWaitShareACommitAndABadOneFailsAlone) {
  constexpr int kThreads = 6;
  const ScratchFolder folder;
  const auto core = Core::Open(folder.File("db"), {}).value();
  GroupWriter writer(*core);
  ASSERT_TRUE(
      core->Write([](Connection& c) { return c.Run("CREATE TABLE t (x INTEGER PRIMARY KEY)"); }));
  std::atomic<int> refused = 0;
  const auto wal = fs::file_size(folder.File("db-wal"));
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    std::unique_lock busy(core->writer_mutex());
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const Status status = writer.Write([&](Connection& c) -> Status {
          HEADWORKS_TRY(c.Run("INSERT INTO t VALUES (?1)", t));
          if (t == 2) return Error{Code::kAtCapacity, "no"};
          return {};
        });
        if (!status) ++refused;
      });
    }
    while (writer.waiting() < kThreads) std::this_thread::yield();
  }
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(core->Write([](Connection& c) {
                  return c.Value<std::string>("SELECT group_concat(x) FROM t");
                })
                .value(),
            "0,1,3,4,5");
  // One page, once: five commits would have written it five times.
  EXPECT_EQ(fs::file_size(folder.File("db-wal")), wal + 24 + 4'096);
}

}  // namespace
}  // namespace headworks::store_sqlite
