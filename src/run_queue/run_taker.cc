#include "headworks/run_queue/run_taker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "headworks/base/fd.h"
#include "headworks/base/file.h"
#include "headworks/base/json.h"
#include "headworks/task_queue/checks.h"
#include "headworks/task_queue/long_poll.h"
#include "taken_run.h"

namespace headworks::run_queue {
namespace {

namespace fs = std::filesystem;
using task_queue::ClaimedItem;
using task_queue::ItemState;

constexpr Duration kShortestLease = std::chrono::seconds(3);
constexpr Duration kShortestKeep = std::chrono::hours(1);
constexpr Duration kLongestWait = std::chrono::seconds(30);
constexpr Duration kAfterError = std::chrono::seconds(1);
constexpr Duration kAfterTrouble = std::chrono::seconds(5);
constexpr Duration kSweepEvery = std::chrono::hours(1);

Error Invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Status Check(const TakerOptions& options) {
  HEADWORKS_TRY(task_queue::CheckQueue(options.tenant, options.queue));
  if (options.slots < 1 || options.slots > kMaxSlots)
    return Invalid(fmt::format("{} runs at a time; give 1 to {}", options.slots, kMaxSlots));
  if (options.lease < kShortestLease || options.lease > task_queue::kLongestLease)
    return Invalid(fmt::format("a lease of {}; give {} to {}", FormatDuration(options.lease),
                               FormatDuration(kShortestLease),
                               FormatDuration(task_queue::kLongestLease)));
  if (options.keep < kShortestKeep)
    return Invalid(fmt::format("stores of runs are kept for {}; give {} or more",
                               FormatDuration(options.keep), FormatDuration(kShortestKeep)));
  if (options.drain_timeout < Duration(0)) return Invalid("drain_timeout is below zero");
  if (options.state_dir.empty()) return Invalid("whoever takes runs needs a state_dir");
  const RunnerOptions& runner = options.runner;
  if (runner.command_executor != "process" || runner.function_executor != "inline" ||
      !runner.tenant_executors.empty())
    return Invalid(
        "runs of a queue are run by this process alone: their commands by executor process, their "
        "functions by executor inline; tasks elsewhere could not be stopped before a claim ends");
  return {};
}

/// A folder that no other taker uses meanwhile.
class TakerFolder {
 public:
  static Result<std::unique_ptr<TakerFolder>> Open(const std::string& path, Random& random) {
    std::error_code ec;
    fs::create_directories(path, ec);
    if (ec)
      return Error{Code::kUnavailable,
                   fmt::format("folder {} cannot be made: {}", path, ec.message())};
    Fd lock(open((path + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock)
      return Error{Code::kUnavailable,
                   fmt::format("cannot open {}/lock: {}", path, std::strerror(errno))};
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
      return Error{Code::kConflict,
                   fmt::format("another runner uses {}; give this one a folder of its own", path)};
    std::unique_ptr<TakerFolder> folder(new TakerFolder(std::move(lock), path));
    HEADWORKS_TRY(folder->ReadId(random));
    return folder;
  }

  /// Random, the same over restarts.
  const std::string& id() const { return id_; }
  /// Of one item's run: an item that has the id of one that was forgotten is another.
  std::string FolderOf(const TakerOptions& options, const ClaimedItem& item) const {
    const std::string name =
        fmt::format("{}|{}|{}|{}|{}|{}", options.source, options.tenant.value, options.queue,
                    item.id, item.claim.item.value, item.enqueued_at.time_since_epoch().count());
    return fmt::format("{}/runs/{}", path_, Sha256Hex(name).substr(0, 32));
  }
  /// Removes what was not used since `before` and is not in `used`.
  void Sweep(Instant before, const std::set<std::string>& used, Logger& log) const {
    std::error_code ec;
    for (fs::directory_iterator at(path_ + "/runs", ec), end; !ec && at != end; at.increment(ec)) {
      const fs::path folder = at->path();
      std::error_code failed;
      auto written = fs::last_write_time(folder / "headworks.db", failed);
      if (failed) written = fs::last_write_time(folder, failed);
      if (failed || used.contains(folder.string()) ||
          std::chrono::file_clock::to_sys(written) > before)
        continue;
      fs::remove_all(folder, failed);
      if (failed)
        log.Warning("the folder of an old run cannot be removed",
                    {{"folder", folder.string()}, {"error", failed.message()}});
    }
  }

 private:
  TakerFolder(Fd lock, std::string path) : lock_(std::move(lock)), path_(std::move(path)) {}

  Status ReadId(Random& random) {
    const std::string file = path_ + "/id";
    if (std::ifstream known(file); known >> id_ && !id_.empty()) return {};
    id_ = fmt::format("{:016x}", random.Next());
    if (ReplaceFile(file, id_ + '\n', 0600)) return {};
    return Error{Code::kUnavailable,
                 fmt::format("cannot write {}: {}", file, std::strerror(errno))};
  }

  const Fd lock_;  // as long as this is there
  const std::string path_;
  std::string id_;
};

class Impl final : public RunTaker {
 public:
  Impl(TakerOptions options, const TakerPorts& ports, std::unique_ptr<TakerFolder> folder)
      : options_(std::move(options)),
        ports_(ports),
        folder_(std::move(folder)),
        serving_(options_.slots) {}

  Status CheckRequest() const { return task_queue::CheckPoll(Request()); }

  void Run() override {
    FindHeld();
    std::vector<std::jthread> slots;
    slots.reserve(options_.slots);
    for (std::uint32_t i = 0; i < options_.slots; ++i) slots.emplace_back([this] { Serve(); });
    Pause(leaving_.get_token(), Duration::max());
    ports_.tell(fmt::format("takes nothing more; what runs may end within {}",
                            FormatDuration(options_.drain_timeout)));
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop_.get_token(), options_.drain_timeout,
                        [this] { return serving_ == 0; });
    }
    stop_.request_stop();
    slots.clear();
    while (const auto item = NextHeld()) HandBack(*item);
  }

  void Drain() override {
    if (leaving_.request_stop()) return;
    stop_.request_stop();
  }

 private:
  /// What an earlier process of this state took and did not settle: its claims may hold.
  void FindHeld() {
    task_queue::ItemFilter filter{.states = {ItemState::kProcessing}, .limit = 1'000};
    for (;;) {
      const auto page = ports_.queues.admin().ListItems(options_.tenant, options_.queue, filter);
      if (!page) {
        if (page.error().code != Code::kNotFound)
          ports_.log.Warning("it is not known what this runner still holds",
                             {{"error", page.error().message}});
        return;
      }
      for (const auto& item : *page)
        if (item.holder.ends_with("/" + folder_->id())) TakeUp(item);
      if (page->size() < filter.limit) return;
      filter.after = page->back().no;
    }
  }

  void TakeUp(const task_queue::ItemRecord& record) {
    auto item = ports_.queues.admin().GetItem(options_.tenant, options_.queue, record.id);
    if (!item) return;  // it was settled meanwhile
    ClaimedItem claimed{.claim = {record.no, record.claim},
                        .id = record.id,
                        .payload = std::move(item->payload),
                        .enqueued_at = record.enqueued_at};
    if (held_.size() < options_.slots)
      held_.push_back(std::move(claimed));
    else
      HandBack(claimed);
  }

  /// It comes again at once, at no cost.
  void HandBack(const ClaimedItem& item) {
    const task_queue::Settlement settlement{.claim = item.claim,
                                            .kind = task_queue::Settlement::Kind::kHandBack};
    const auto answer =
        ports_.queues.tasks().Settle(options_.tenant, options_.queue, {&settlement, 1});
    if (!answer || !answer->front())
      ports_.log.Warning("an item was not handed back, and comes when its lease ends",
                         {{"queue", options_.queue}, {"item", item.id}});
  }

  std::optional<ClaimedItem> NextHeld() {
    const std::scoped_lock lock(mutex_);
    if (held_.empty()) return std::nullopt;
    ClaimedItem item = std::move(held_.front());
    held_.pop_front();
    return item;
  }

  void Serve() {
    while (!leaving_.stop_requested())
      if (auto item = Next()) {
        const std::string folder = folder_->FolderOf(options_, *item);
        Use(folder);
        const bool well =
            TakenRun(options_, ports_, *std::move(item), folder, stop_.get_token()).Execute();
        {
          const std::scoped_lock lock(mutex_);
          used_.erase(folder);
          changed_.notify_all();
        }
        if (!well) Pause(leaving_.get_token(), kAfterTrouble);
      }
    const std::scoped_lock lock(mutex_);
    --serving_;
    changed_.notify_all();
  }

  /// One run at a time: a claim that was lost while this program was stopped may be its own again.
  void Use(const std::string& folder) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !is_sweeping_ && !used_.contains(folder); });
    used_.insert(folder);
    const Duration now = ports_.clock.Monotonic();
    if (now < next_sweep_) return;
    next_sweep_ = now + kSweepEvery;
    std::set<std::string> used = used_;
    for (const ClaimedItem& item : held_) used.insert(folder_->FolderOf(options_, item));
    is_sweeping_ = true;
    lock.unlock();
    folder_->Sweep(ports_.clock.Now() - options_.keep, used, ports_.log);
    lock.lock();
    is_sweeping_ = false;
    changed_.notify_all();
  }

  std::optional<ClaimedItem> Next() {
    if (auto item = NextHeld()) return item;
    auto polled = task_queue::LongPoll(ports_.queues.tasks(), ports_.queues.bell(), ports_.clock,
                                       Request(), kLongestWait, leaving_.get_token());
    if (!polled) {
      ports_.log.Warning("the queue does not answer",
                         {{"queue", options_.queue}, {"error", polled.error().message}});
      Pause(leaving_.get_token(), kAfterError);
      return std::nullopt;
    }
    if (polled->items.empty()) return std::nullopt;
    if (!leaving_.stop_requested()) return std::move(polled->items.front());
    HandBack(polled->items.front());
    return std::nullopt;
  }

  task_queue::PollRequest Request() const {
    return {.tenant = options_.tenant,
            .queue = options_.queue,
            .visibility = options_.lease,
            .holder = fmt::format("{}/{}", options_.name, folder_->id())};
  }

  void Pause(const std::stop_token& until, Duration at_most) {
    std::unique_lock lock(mutex_);
    if (at_most == Duration::max())
      changed_.wait(lock, until, [] { return false; });
    else
      changed_.wait_for(lock, until, at_most, [] { return false; });
  }

  const TakerOptions options_;
  const TakerPorts ports_;
  const std::unique_ptr<TakerFolder> folder_;
  std::stop_source leaving_;  // nothing more is taken
  std::stop_source stop_;     // what runs is to be handed back
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  std::deque<ClaimedItem> held_;
  std::set<std::string> used_;  // folders
  bool is_sweeping_ = false;    // nothing comes to used_ meanwhile
  std::uint32_t serving_;       // slots that have not ended
  Duration next_sweep_{0};
};

}  // namespace

Result<std::unique_ptr<RunTaker>> RunTaker::Open(TakerOptions options, const TakerPorts& ports) {
  HEADWORKS_TRY(Check(options));
  HEADWORKS_TRY(FindSupervisor(options.runner));
  std::error_code ec;
  options.state_dir = fs::absolute(options.state_dir, ec).string();
  HEADWORKS_ASSIGN(auto folder, TakerFolder::Open(options.state_dir, ports.random));
  auto taker = std::make_unique<Impl>(std::move(options), ports, std::move(folder));
  HEADWORKS_TRY(taker->CheckRequest());
  return std::unique_ptr<RunTaker>(std::move(taker));
}

}  // namespace headworks::run_queue
