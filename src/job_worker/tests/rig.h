#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "headworks/author/fields.h"
#include "headworks/base/random.h"
#include "headworks/job_worker/job_worker.h"
#include "headworks/store_memory/memory_store.h"
#include "headworks/store_sqlite/sqlite_store.h"

namespace headworks {

using task_queue::ItemState;
using namespace std::chrono_literals;

inline const TenantId kTenant{"acme"};

struct Mail {
  std::string to;
  int copies = 1;
};
HEADWORKS_FIELDS(Mail, to, copies);

/// The queues of a store that some cannot reach.
class Cut final : public task_queue::Queues, task_queue::TaskQueue {
 public:
  explicit Cut(task_queue::Queues& inner) : inner_(inner) {}
  std::atomic<bool> polls_cut = false, settles_cut = false, extends_cut = false;
  std::atomic<Code> code = Code::kUnavailable;  // what is cut is answered so
  /// Settled, and the answer lost: so many times.
  std::atomic<int> answers_lost = 0;
  std::atomic<int> polls = 0, settles = 0, extends = 0;
  std::atomic<std::size_t> largest_poll = 0;
  /// What a poll says instead of working; kInternal = nothing.
  std::atomic<Code> broken = Code::kInternal;

  task_queue::TaskQueue& tasks() override { return *this; }
  task_queue::QueueAdmin& admin() override { return inner_.admin(); }
  task_queue::QueueSurvey& survey() override { return inner_.survey(); }
  task_queue::Bell& bell() override { return inner_.bell(); }

 private:
  Error Gone() const { return {code, "cut"}; }

  Result<std::vector<task_queue::Enqueued>> Enqueue(
      const TenantId& tenant, std::string_view queue,
      std::span<const task_queue::NewItem> items) override {
    return inner_.tasks().Enqueue(tenant, queue, items);
  }
  Result<task_queue::Polled> Poll(const task_queue::PollRequest& request) override {
    ++polls;
    largest_poll = std::max(largest_poll.load(), request.max_items);
    if (broken != Code::kInternal) return Error{broken, "broken"};
    if (polls_cut) return Gone();
    return inner_.tasks().Poll(request);
  }
  Result<std::vector<Result<ItemState>>> Settle(
      const TenantId& tenant, std::string_view queue,
      std::span<const task_queue::Settlement> settlements) override {
    ++settles;
    if (settles_cut) return Gone();
    auto answer = inner_.tasks().Settle(tenant, queue, settlements);
    if (answers_lost.fetch_sub(1) > 0) return Gone();
    return answer;
  }
  Result<std::vector<Status>> Extend(const TenantId& tenant, std::string_view queue,
                                     std::span<const task_queue::Claim> claims,
                                     Duration visibility) override {
    Result<std::vector<Status>> answer = Gone();
    if (!extends_cut) answer = inner_.tasks().Extend(tenant, queue, claims, visibility);
    ++extends;
    extends.notify_all();
    return answer;
  }
  Result<ItemState> Cancel(const TenantId& tenant, std::string_view queue,
                           std::string_view id) override {
    return inner_.tasks().Cancel(tenant, queue, id);
  }

  task_queue::Queues& inner_;
};

/// Keeps its lines.
class Lines final : public Logger {
 public:
  void Write(LogLevel /*level*/, std::string_view message, Fields fields) override {
    const std::scoped_lock lock(mutex_);
    text_ += message;
    for (const auto& [name, value] : fields) text_ += fmt::format(" {}={}", name, value);
    text_ += '\n';
  }
  std::string text() const {
    const std::scoped_lock lock(mutex_);
    return text_;
  }
  bool Has(std::string_view part) const { return text().find(part) != std::string::npos; }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// Closed until it is opened; counts who came.
class Gate {
 public:
  void Pass() {
    std::unique_lock lock(mutex_);
    ++came_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
  }
  /// Comes, and waits for the token alone.
  void UntilCancelled(const JobContext& context) {
    std::unique_lock lock(mutex_);
    ++came_;
    changed_.notify_all();
    changed_.wait(lock, context.stop_token(), [] { return false; });
  }
  void Open() {
    const std::scoped_lock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void Await(int came) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return came_ >= came; });
  }
  int came() const {
    const std::scoped_lock lock(mutex_);
    return came_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  int came_ = 0;
  bool is_open_ = false;
};

/// The way of a worker to queues, which it outlives: straight, or over a server, by the program
/// that these tests are in.
class Way {
 public:
  virtual ~Way() = default;
  virtual Result<std::unique_ptr<JobWorker>> Open(JobWorkerOptions options) = 0;
};
std::unique_ptr<Way> MakeWay(task_queue::Queues& queues, Clock& clock, Logger& log,
                             const JobWorkerOptions& options);

/// A worker, its thread and its way to the queues.
struct Working {
  Working(task_queue::Queues& inner, Clock& clock, JobWorkerOptions options = {}) : queues(inner) {
    options.tenant = kTenant;
    way = MakeWay(queues, clock, log, options);
    auto opened = way->Open(std::move(options));
    EXPECT_TRUE(opened) << opened.error().message;
    worker = *std::move(opened);
  }
  ~Working() {
    if (thread.joinable()) EXPECT_TRUE(Leave());
  }
  void Start() {
    thread = std::thread([this] { ended.set_value(worker->Run()); });
  }
  /// What Run returned.
  Status Await() {
    thread.join();
    return ended.get_future().get();
  }
  Status Leave() {
    worker->Drain();
    return Await();
  }
  JobFigures figures(std::size_t line = 0) const { return worker->Figures()[line]; }

  Cut queues;
  Lines log;
  std::unique_ptr<Way> way;
  std::unique_ptr<JobWorker> worker;
  std::promise<Status> ended;
  std::thread thread;
};

/// Queues in memory, or in a file of SQLite.
class JobWorkerTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "Memory") {
      memory_ = store_memory::Open(store_memory::NewStorage(), clock_);
      return;
    }
    folder_ =
        std::filesystem::temp_directory_path() / fmt::format("headworks-jobs-{:x}", random_.Next());
    std::filesystem::create_directories(folder_);
    sqlite_ = OpenFile();
  }
  ~JobWorkerTest() override {
    sqlite_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  std::string path() const { return folder_ / "jobs.db"; }
  std::unique_ptr<store_sqlite::Database> OpenFile() {
    auto opened = store_sqlite::Open(path(), {.clock = &clock_});
    EXPECT_TRUE(opened) << opened.error().message;
    return *std::move(opened);
  }
  task_queue::Queues& queues() { return memory_ ? memory_->queues() : sqlite_->queues(); }

  void Push(const std::string& queue, const std::string& id, const std::string& payload,
            int max_attempts = 0) {
    const task_queue::NewItem item{.id = id, .payload = payload, .max_attempts = max_attempts};
    const auto pushed = queues().tasks().Enqueue(kTenant, queue, {&item, 1});
    ASSERT_TRUE(pushed) << pushed.error().message;
  }
  task_queue::ItemRecord Item(const std::string& queue, const std::string& id) {
    const auto item = queues().admin().GetItem(kTenant, queue, id);
    EXPECT_TRUE(item) << item.error().message;
    return item->item;
  }
  ItemState StateOf(const std::string& queue, const std::string& id) {
    return Item(queue, id).state;
  }
  template <typename Condition>
  bool Eventually(const Condition& condition) {
    const Duration until = clock_.Monotonic() + 60s;
    while (!condition())
      if (clock_.Monotonic() > until)
        return false;
      else
        std::this_thread::sleep_for(5ms);  // tidy-allow(sleep): what a store does gives no signal
    return true;
  }
  bool Becomes(const std::string& queue, const std::string& id, ItemState state) {
    return Eventually([&] { return StateOf(queue, id) == state; });
  }

  std::filesystem::path folder_;
  SystemClock clock_;
  SystemRandom random_;
  std::unique_ptr<store_memory::Database> memory_;
  std::unique_ptr<store_sqlite::Database> sqlite_;
};

inline std::string NameOf(const testing::TestParamInfo<std::string>& info) { return info.param; }

}  // namespace headworks
