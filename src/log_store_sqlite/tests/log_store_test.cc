#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "headworks/log_store/chunk.h"
#include "headworks/log_store/memory_log_store.h"
#include "headworks/log_store_sqlite/sqlite_log_store.h"

namespace headworks::log_store {
namespace {

const TenantId kTenant("public");

model::AttemptKey Key(std::int64_t run, std::uint32_t task, std::int64_t epoch) {
  return {.tenant = kTenant, .run = RunNo(run), .task = TaskNo(task), .epoch = Epoch(epoch)};
}

Line LineOf(std::int64_t number, std::string bytes, Stream stream = Stream::kStdout) {
  return {.number = number,
          .stream = stream,
          .at = Instant(Duration(1'000 + number)),
          .bytes = std::move(bytes)};
}

Batch BatchOf(const model::AttemptKey& key, std::int64_t first, int count) {
  Batch batch{.attempt = key, .lines = {}};
  for (int i = 0; i < count; ++i) {
    batch.lines.push_back(
        LineOf(first + i, fmt::format("e{} line {}", key.epoch.value, first + i)));
  }
  return batch;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "headworks-logs-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string File() const { return (path_ / "store-logs").string(); }

 private:
  std::filesystem::path path_;
};

/// The one suite that every adapter passes.
class LogStoreConformance : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("memory")) {
      store_ = NewMemoryLogStore();
    } else {
      auto opened = log_store_sqlite::OpenSqliteLogStore(folder_.File());
      ASSERT_TRUE(opened) << opened.error().message;
      store_ = *std::move(opened);
    }
  }

  void Append(std::vector<Batch> batches) {
    const Status status = store_->Append(batches);
    ASSERT_TRUE(status) << status.error().message;
  }

  std::vector<std::string> Texts(const Query& query, bool tail = false) {
    const auto page = tail ? store_->Tail(query) : store_->Read(query);
    EXPECT_TRUE(page) << page.error().message;
    std::vector<std::string> texts;
    for (const Entry& entry : page->entries) texts.push_back(entry.line.bytes);
    return texts;
  }

  TemporaryFolder folder_;
  std::unique_ptr<LogStore> store_;
};

using Strings = std::vector<std::string>;

TEST_P(LogStoreConformance, ReturnsWhatWasAppendedByteForByte) {
  Batch batch{.attempt = Key(1, 0, 1), .lines = {}};
  batch.lines = {LineOf(1, std::string("\0\xFF\xFE\x80", 4)), LineOf(2, ""),
                 LineOf(3, std::string(kMaxLineBytes, 'x'), Stream::kStderr),
                 LineOf(4, "cut here", Stream::kNote)};
  Append({batch});
  const auto page = store_->Read({.tenant = kTenant, .run = RunNo(1)});
  ASSERT_TRUE(page);
  ASSERT_EQ(page->entries.size(), batch.lines.size());
  for (std::size_t i = 0; i < batch.lines.size(); ++i) {
    EXPECT_EQ(page->entries[i].line, batch.lines[i]);
    EXPECT_EQ(page->entries[i].attempt, batch.attempt);
  }
  EXPECT_FALSE(page->more);
}

TEST_P(LogStoreConformance, SelectsByTenantRunTaskAndEpoch) {
  Append({BatchOf(Key(1, 0, 1), 1, 1), BatchOf(Key(1, 1, 2), 1, 1), BatchOf(Key(1, 1, 3), 1, 1)});
  Append({BatchOf(Key(2, 0, 1), 1, 2)});
  EXPECT_EQ(Texts({.tenant = kTenant, .run = RunNo(1)}),
            (Strings{"e1 line 1", "e2 line 1", "e3 line 1"}));
  EXPECT_EQ(Texts({.tenant = kTenant, .run = RunNo(1), .task = TaskNo(1)}),
            (Strings{"e2 line 1", "e3 line 1"}));
  EXPECT_EQ(Texts({.tenant = kTenant, .run = RunNo(1), .epoch = Epoch(3)}), (Strings{"e3 line 1"}));
  EXPECT_EQ(Texts({.tenant = kTenant, .run = RunNo(1), .map_index = 0}), Strings{});
  EXPECT_EQ(Texts({.tenant = TenantId("other"), .run = RunNo(1)}), Strings{});
  EXPECT_EQ(Texts({.tenant = kTenant, .run = RunNo(3)}), Strings{});
}

TEST_P(LogStoreConformance, PagesMeetWithoutGapOrRepeat) {
  for (int i = 0; i < 10; ++i) {
    Append({BatchOf(Key(1, 0, 1), 1 + 7 * i, 7), BatchOf(Key(1, 1, 2), 1 + 3 * i, 3)});
  }
  for (const std::size_t size : {1U, 2U, 7U, 99U, 100U, 101U}) {
    Query query{.tenant = kTenant, .run = RunNo(1), .max_lines = size};
    Strings all;
    for (bool more = true; more;) {
      const auto page = store_->Read(query);
      ASSERT_TRUE(page);
      ASSERT_LE(page->entries.size(), size);
      for (const Entry& entry : page->entries) all.push_back(entry.line.bytes);
      query.after = page->next;
      more = page->more;
    }
    EXPECT_EQ(all, Texts({.tenant = kTenant, .run = RunNo(1)})) << size;
    EXPECT_EQ(all.size(), 100U);
    // Nothing is left, until something comes.
    EXPECT_EQ(Texts(query), Strings{});
  }
}

TEST_P(LogStoreConformance, FollowsFromTheLastCursor) {
  Append({BatchOf(Key(1, 0, 1), 1, 3)});
  const auto first = store_->Read({.tenant = kTenant, .run = RunNo(1)});
  ASSERT_TRUE(first);
  Append({BatchOf(Key(1, 0, 1), 4, 2)});
  EXPECT_EQ(Texts({.tenant = kTenant, .run = RunNo(1), .after = first->next}),
            (Strings{"e1 line 4", "e1 line 5"}));
}

TEST_P(LogStoreConformance, TailIsTheEndOldestFirstAndReadsOn) {
  Append({BatchOf(Key(1, 0, 1), 1, 30)});
  Append({BatchOf(Key(1, 0, 1), 31, 2), BatchOf(Key(1, 1, 2), 1, 1)});
  const Query query{.tenant = kTenant, .run = RunNo(1), .epoch = Epoch(1), .max_lines = 4};
  const auto page = store_->Tail(query);
  ASSERT_TRUE(page);
  EXPECT_TRUE(page->more);
  EXPECT_EQ(Texts(query, true), (Strings{"e1 line 29", "e1 line 30", "e1 line 31", "e1 line 32"}));
  Append({BatchOf(Key(1, 0, 1), 33, 1)});
  EXPECT_EQ(Texts({.tenant = kTenant, .run = RunNo(1), .epoch = Epoch(1), .after = page->next}),
            (Strings{"e1 line 33"}));
}

TEST_P(LogStoreConformance, TailDoesNotGoBackPastItsCursor) {
  Append({BatchOf(Key(1, 0, 1), 1, 5)});
  const auto two = store_->Read({.tenant = kTenant, .run = RunNo(1), .max_lines = 2});
  ASSERT_TRUE(two);
  EXPECT_EQ(Texts({.tenant = kTenant, .run = RunNo(1), .after = two->next}, true),
            (Strings{"e1 line 3", "e1 line 4", "e1 line 5"}));
}

TEST_P(LogStoreConformance, DeleteRunRemovesThatRunOnly) {
  for (int i = 0; i < 200; ++i) Append({BatchOf(Key(1, 0, 1), 1 + i, 1)});
  Append({BatchOf(Key(2, 0, 1), 1, 1)});
  ASSERT_TRUE(store_->DeleteRun(TenantId("other"), RunNo(1)));
  EXPECT_EQ(Texts({.tenant = kTenant, .run = RunNo(1)}).size(), 200U);
  ASSERT_TRUE(store_->DeleteRun(kTenant, RunNo(1)));
  ASSERT_TRUE(store_->DeleteRun(kTenant, RunNo(1)));
  EXPECT_EQ(Texts({.tenant = kTenant, .run = RunNo(1)}), Strings{});
  EXPECT_EQ(Texts({.tenant = kTenant, .run = RunNo(2)}), (Strings{"e1 line 1"}));
}

TEST_P(LogStoreConformance, RefusesWhatExceedsABoundAndChangesNothing) {
  Batch line_too_long{.attempt = Key(1, 0, 1), .lines = {LineOf(1, "fits")}};
  line_too_long.lines.push_back(LineOf(2, std::string(kMaxLineBytes + 1, 'x')));
  EXPECT_EQ(store_->Append({{line_too_long}}).error().code, Code::kInvalidArgument);
  Batch at_bound{.attempt = Key(1, 0, 1), .lines = {}};
  for (std::size_t i = 0; i < kMaxAppendBytes / kMaxLineBytes; ++i) {
    at_bound.lines.push_back(
        LineOf(static_cast<std::int64_t>(i) + 1, std::string(kMaxLineBytes, 'x')));
  }
  Batch above = at_bound;
  above.lines.push_back(LineOf(static_cast<std::int64_t>(above.lines.size()) + 1, "x"));
  EXPECT_EQ(store_->Append({{above}}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Texts({.tenant = kTenant, .run = RunNo(1)}), Strings{});
  Append({at_bound});
  for (const std::size_t lines : {std::size_t{0}, kMaxPageLines + 1}) {
    const Query query{.tenant = kTenant, .run = RunNo(1), .max_lines = lines};
    EXPECT_EQ(store_->Read(query).error().code, Code::kInvalidArgument);
    EXPECT_EQ(store_->Tail(query).error().code, Code::kInvalidArgument);
  }
}

TEST_P(LogStoreConformance, APageEndsEarlyAboveItsBytes) {
  Batch batch{.attempt = Key(1, 0, 1), .lines = {}};
  const std::size_t lines = kMaxPageBytes / kMaxLineBytes + 8;
  for (std::size_t i = 0; i < lines; ++i) {
    batch.lines.push_back(
        LineOf(static_cast<std::int64_t>(i) + 1, std::string(kMaxLineBytes, 'x')));
  }
  Append({batch});
  const auto page = store_->Read({.tenant = kTenant, .run = RunNo(1)});
  ASSERT_TRUE(page);
  EXPECT_TRUE(page->more);
  EXPECT_EQ(page->entries.size(), kMaxPageBytes / kMaxLineBytes + 1);
  EXPECT_EQ(Texts({.tenant = kTenant, .run = RunNo(1), .after = page->next}).size(),
            lines - page->entries.size());
}

TEST_P(LogStoreConformance, ConcurrentAppendsAllArriveInOrderPerAttempt) {
  constexpr int kThreads = 4, kAppends = 50;
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kAppends; ++i) {
          const std::vector<Batch> batches{BatchOf(Key(1, 0, t + 1), 1 + i, 1)};
          EXPECT_TRUE(store_->Append(batches));
        }
      });
    }
  }
  for (int t = 0; t < kThreads; ++t) {
    const auto page = store_->Read({.tenant = kTenant, .run = RunNo(1), .epoch = Epoch(t + 1)});
    ASSERT_TRUE(page);
    ASSERT_EQ(page->entries.size(), static_cast<std::size_t>(kAppends));
    for (int i = 0; i < kAppends; ++i) {
      EXPECT_EQ(page->entries[static_cast<std::size_t>(i)].line.number, i + 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Adapters, LogStoreConformance, testing::Values("memory", "sqlite"),
                         [](const auto& info) { return std::string(info.param); });

TEST(SqliteLogStore, IsReadWhileAnotherHandleWrites) {
  const TemporaryFolder folder;
  const auto writer = log_store_sqlite::OpenSqliteLogStore(folder.File());
  const auto reader = log_store_sqlite::OpenSqliteLogStore(folder.File());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(reader);
  const std::vector<Batch> batches{BatchOf(Key(1, 0, 1), 1, 3)};
  ASSERT_TRUE((*writer)->Append(batches));
  const auto page = (*reader)->Read({.tenant = kTenant, .run = RunNo(1)});
  ASSERT_TRUE(page);
  EXPECT_EQ(page->entries.size(), 3U);
}

TEST(SqliteLogStore, KeepsLinesOverReopening) {
  const TemporaryFolder folder;
  for (int i = 0; i < 3; ++i) {
    const auto store = log_store_sqlite::OpenSqliteLogStore(folder.File());
    ASSERT_TRUE(store);
    const std::vector<Batch> batches{BatchOf(Key(1, 0, 1), 1 + i, 1)};
    ASSERT_TRUE((*store)->Append(batches));
    EXPECT_EQ((*store)->Read({.tenant = kTenant, .run = RunNo(1)})->entries.size(),
              static_cast<std::size_t>(i) + 1);
  }
}

TEST(SqliteLogStore, SaysWhenTheFileIsNoDatabase) {
  const TemporaryFolder folder;
  std::ofstream(folder.File()) << std::string(8'192, 'x');
  const auto store = log_store_sqlite::OpenSqliteLogStore(folder.File());
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kCorrupt);
  EXPECT_NE(store.error().message.find(folder.File()), std::string::npos);
}

TEST(SqliteLogStore, SaysWhenTheFolderIsMissing) {
  const auto store = log_store_sqlite::OpenSqliteLogStore("/nonexistent/folder/logs");
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kUnavailable);
}

TEST(Chunk, RefusesDamage) {
  std::size_t taken = 0;
  const std::vector<Line> lines{LineOf(1, "one"), LineOf(2, "two")};
  const std::string chunk = EncodeChunk(lines, taken);
  ASSERT_EQ(taken, 2U);
  EXPECT_EQ(*DecodeChunk(chunk, 1), lines);
  // Cut after the format byte it is empty; at a line's end it is shorter; anywhere else damaged.
  for (std::size_t size = 0; size < chunk.size(); ++size) {
    const bool whole = size == 1 || size == 1 + 13 + 3;
    EXPECT_EQ(DecodeChunk(std::string_view(chunk).substr(0, size), 1).has_value(), whole) << size;
  }
}

TEST(DisplayText, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(DisplayText("plain äß 漢 🙂"), "plain äß 漢 🙂");
  EXPECT_EQ(DisplayText("a\xFF"
                        "b\xC3"),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_EQ(DisplayText("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(DisplayText("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace headworks::log_store
