#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "follow.h"
#include "headworks/log_store/memory_log_store.h"
#include "reader_pipe.h"

namespace headworks::cli {
namespace {

using model::TaskState;
using std::chrono::seconds;

constexpr Instant kNow{seconds(1'800'000'000)};
constexpr RunNo kRun{7};

/// A real store, and what was read of it.
class WatchedLogs final : public log_store::LogStore {
 public:
  Status Append(std::span<const log_store::Batch> batches) override {
    return logs_->Append(batches);
  }
  Result<log_store::Page> Read(const log_store::Query& query) override {
    return Count(logs_->Read(query));
  }
  Result<log_store::Page> Tail(const log_store::Query& query) override {
    return Count(logs_->Tail(query));
  }
  Status DeleteRun(const TenantId& tenant, RunNo run) override {
    return logs_->DeleteRun(tenant, run);
  }

  std::size_t read_bytes = 0;
  std::size_t largest_page = 0;
  std::size_t most_lines = 0;

 private:
  Result<log_store::Page> Count(Result<log_store::Page> page) {
    std::size_t bytes = 0;
    for (const log_store::Entry& entry : page->entries) bytes += entry.line.bytes.size();
    read_bytes += bytes;
    largest_page = std::max(largest_page, bytes);
    most_lines = std::max(most_lines, page->entries.size());
    return page;
  }

  std::unique_ptr<log_store::LogStore> logs_ = log_store::NewMemoryLogStore();
};

/// Tasks a, b and c; those that run have the epochs 1, 2 and 3.
class PresenterTest : public testing::Test {
 protected:
  void SetUp() override {
    model::WorkflowDefinition definition;
    definition.name.workflow = "w";
    for (const char* id : {"a", "b", "c"}) {
      model::Task task;
      task.id = id;
      task.action = model::ShellAction{.script = "true"};
      definition.tasks.push_back(task);
    }
    view_.workflow = *model::Workflow::Create(std::move(definition));
    view_.header.run_no = kRun;
    view_.header.state = model::RunState::kRunning;
    view_.tasks.resize(3);
    for (std::uint32_t no = 0; no < 3; ++no) {
      view_.tasks[no].state = TaskState::kRunning;
      view_.tasks[no].epoch = Epoch(no + 1);
      view_.tasks[no].since = kNow;
    }
  }

  void Append(std::uint32_t task, int count, std::size_t bytes) {
    log_store::Batch batch{
        .attempt = {
            .tenant = TenantId("t"), .run = kRun, .task = TaskNo(task), .epoch = Epoch(task + 1)}};
    for (int i = 0; i < count; ++i) {
      const std::string text = fmt::format("{} ", ++numbers_[task]);
      batch.lines.push_back({.number = numbers_[task],
                             .at = kNow,
                             .bytes = text + std::string(bytes - text.size(), 'x')});
    }
    ASSERT_TRUE(logs_.Append({&batch, 1}));
  }

  void End(std::uint32_t task) {
    view_.tasks[task].state = TaskState::kSucceeded;
    view_.tasks[task].since = kNow + seconds(1);
    view_.AddAttempt({.task = TaskNo(task),
                      .epoch = Epoch(task + 1),
                      .queued_at = kNow,
                      .outcome = {.started_at = kNow, .ended_at = kNow + seconds(1)}});
  }

  /// One call, and what came of it.
  bool Update() {
    const auto told = presenter_->Update(view_, lines_, kNow);
    most_held_ = std::max(most_held_, outlet_.held());
    return told && *told;
  }

  /// To the end, with a reader that takes all.
  std::string Tell() {
    std::string text;
    while (!Update()) text += pipe_.Take();
    while (!outlet_.Pump()) text += pipe_.Take();
    return text + pipe_.Take();
  }

  WatchedLogs logs_;
  std::int64_t numbers_[3] = {};
  RunView view_;
  ReaderPipe pipe_;
  Outlet outlet_{pipe_.to()};
  LineReader lines_{logs_, TenantId("t"), kRun};
  std::unique_ptr<Presenter> presenter_ = NewPlainPresenter(outlet_, Terminal{});
  std::size_t most_held_ = 0;
};

TEST_F(PresenterTest, FloodIsReadAPageAtATimeAsItsReaderTakesIt) {
  constexpr std::size_t kLine = log_store::kMaxLineBytes;
  constexpr int kLines = 400;  // 25 MiB of each task
  for (std::uint32_t task = 0; task < 3; ++task) Append(task, kLines, kLine);
  End(0);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Update()) << "the pipe is full";
  const std::size_t page = log_store::kMaxPageBytes + kLine;
  EXPECT_LE(logs_.read_bytes, page) << "nobody has read that yet";

  const std::string text = Tell();
  EXPECT_LE(logs_.largest_page, page);
  EXPECT_LE(most_held_, Outlet::kRoom + page + page / 100);
  for (const char task : {'a', 'b', 'c'}) {
    std::size_t at = 0;
    for (int i = 1; i <= kLines; ++i) {
      at = text.find(fmt::format("\n{} | {} ", task, i), at);
      ASSERT_NE(at, std::string::npos) << task << i;
    }
  }
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(text, '\n')), 3 * kLines + 4U);
}

TEST_F(PresenterTest, FloodOfShortLinesIsReadAPageAtATime) {
  for (int i = 0; i < 3; ++i) Append(1, 10'000, 8);
  const std::string text = Tell();
  EXPECT_EQ(std::ranges::count(text, '\n'), 30'000 + 3);
  EXPECT_LE(logs_.most_lines, 10'000U);
}

TEST_F(PresenterTest, AttemptThatIsOverIsToldAsAWholeThoughItsLinesTakeManyPages) {
  for (int i = 0; i < 3; ++i)
    for (std::uint32_t task = 0; task < 2; ++task) Append(task, 4'000, 8);
  End(0);
  End(1);
  const std::string text = Tell();
  const std::size_t end = text.find("task a succeeded in 1.0s\n");
  EXPECT_LT(text.find("\na | 12000 "), end);
  EXPECT_LT(end, text.find("task b started\n"));
  EXPECT_LT(text.find("\nb | 12000 "), text.find("task b succeeded in 1.0s\n"));
  EXPECT_EQ(Tell(), "") << "once";
}

TEST_F(PresenterTest, LinesThatComeLaterAreToldOnce) {
  Append(0, 2, 4);
  EXPECT_NE(Tell().find("task a started\na | 1 xx\na | 2 xx\n"), std::string::npos);
  Append(0, 1, 4);
  EXPECT_EQ(Tell(), "a | 3 xx\n");
  End(0);
  EXPECT_EQ(Tell(), "task a succeeded in 1.0s\n");
}

TEST_F(PresenterTest, RerunReadsNoLineOfWhatItKeeps) {
  Append(0, 2, 4);
  End(0);
  presenter_->Skip(view_);
  EXPECT_EQ(Tell().find("a | "), std::string::npos);
  EXPECT_EQ(logs_.read_bytes, 0U);
}

TEST_F(PresenterTest, ScreenReadsOneLineOfEachTask) {
  for (std::uint32_t task = 0; task < 3; ++task) Append(task, 1'000, 1'000);
  presenter_ = NewLivePresenter(outlet_, stdout, Terminal{.screen = true, .interactive = true});
  const std::string text = Tell();
  EXPECT_NE(text.find("1000 xxx"), std::string::npos) << text;
  EXPECT_EQ(logs_.read_bytes, 3'000U);
}

TEST_F(PresenterTest, ScreenThatTakesNothingGetsNoFurtherFrame) {
  presenter_ = NewLivePresenter(outlet_, stdout, Terminal{.screen = true, .interactive = true});
  outlet_.Write(std::string(Outlet::kRoom, 'x'));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Update());
  EXPECT_LT(outlet_.held(), Outlet::kRoom);
  EXPECT_NE(Tell().find("run 7"), std::string::npos);
}

}  // namespace
}  // namespace headworks::cli
