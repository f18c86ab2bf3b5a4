#include "headworks/job_worker/job_worker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <thread>

#include "headworks/task_queue/checks.h"
#include "lease_keeper.h"

namespace headworks {
namespace {

using task_queue::ItemState;
using task_queue::Settlement;

constexpr Duration kShortestLease = std::chrono::milliseconds(100);
/// A queue is looked at so often though nobody rang.
constexpr Duration kLongestWait = std::chrono::seconds(30);
constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kLongestPause = std::chrono::seconds(10);
constexpr std::size_t kMostNames = 10;

Error Invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Status Check(const JobWorkerOptions& options) {
  if (options.name.empty())
    return Invalid("a worker of jobs has no name; give one, for people: it holds the items");
  if (options.drain_timeout < Duration() || options.drain_timeout > task_queue::kLongestDelay)
    return Invalid(fmt::format("worker {}: a drain_timeout of {}; give 0s to 10 years",
                               options.name, FormatDuration(options.drain_timeout)));
  return {};
}

/// A queue, its handler and its slots.
struct Line {
  std::string queue;
  JobFunction function;
  JobQueueOptions options;

  // Of the thread that claims.
  std::optional<task_queue::Bell::Seat> seat;  // while a slot is free
  Duration due{};
  Duration not_before{};  // after trouble
  Duration pause{};

  // Guarded by the worker's mutex.
  std::deque<std::shared_ptr<HeldJob>> waiting;
  std::condition_variable arrived;
  std::uint32_t free = 0;
  JobFigures figures;
};

/// Calls the handler: the wall behind which no exception comes.
JobResult Call(const JobFunction& function, std::string_view payload, JobContext& context) {
  try {
    return function(payload, context);
  } catch (const Fail& fail) {
    return fail;
  } catch (const RetryLater& later) {
    return later;
  } catch (const Cancelled&) {
    return Error{Code::kCancelled, "the handler stopped itself"};
  } catch (const std::exception& error) {
    return Error{Code::kInternal, error.what()};
  } catch (...) {
    return Error{Code::kInternal, "the handler threw something that is no std::exception"};
  }
}

Settlement Judge(const JobResult& result, StopCause cause) {
  if (result.done()) return {.kind = Settlement::Kind::kAck};
  if (result.fail() != nullptr)
    return {.kind = Settlement::Kind::kReject, .reason = result.fail()->what()};
  if (cause == StopCause::kDrain) return {.kind = Settlement::Kind::kHandBack};  // I7
  if (result.later() != nullptr)
    return {.kind = Settlement::Kind::kNack,
            .reason = result.later()->why,
            .delay = std::clamp(result.later()->delay, Duration(), task_queue::kLongestDelay)};
  return {.kind = Settlement::Kind::kNack, .reason = result.error()->message};
}

class Impl final : public JobWorker {
 public:
  Impl(JobWorkerOptions options, const JobWorkerPorts& ports)
      : options_(std::move(options)), ports_(ports) {}

  Status HandleText(std::string queue, JobFunction function, JobQueueOptions options) override;
  Status Run() override;
  void Drain() override;
  std::vector<JobFigures> Figures() const override;

 private:
  Status Start();
  Status StartSlots(std::vector<std::jthread>& slots);
  Status Claim();
  Result<Duration> Look(Line& line);
  void Trouble(Line& line, const Error& error);
  void Take(Line& line, task_queue::Polled polled, Duration asked_at);
  void Serve(Line& line);
  std::shared_ptr<HeldJob> Next(Line& line);
  void Work(Line& line, HeldJob& job);
  void Count(Line& line, Settlement::Kind kind, std::optional<ItemState> state);
  std::vector<std::string> AwaitSlots();
  void Wake();

  task_queue::PollRequest Request(const std::string& queue, Duration lease) const {
    return {
        .tenant = options_.tenant, .queue = queue, .visibility = lease, .holder = options_.name};
  }

  const JobWorkerOptions options_;
  const JobWorkerPorts ports_;
  std::stop_source leaving_;                  // nothing more is claimed
  std::stop_source stop_;                     // what runs is told to stop
  std::vector<std::unique_ptr<Line>> lines_;  // grows under mutex_, until Run
  mutable std::mutex mutex_;                  // after the bell's, before the keeper's
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  bool is_started_ = false;
  bool is_woken_ = false;
  bool is_closed_ = false;             // nothing more comes to the lines
  std::int64_t serving_ = 0;           // slots that have not ended
  std::optional<LeaseKeeper> keeper_;  // last: its thread reads what lines hold
};

Status Impl::HandleText(std::string queue, JobFunction function, JobQueueOptions options) {
  if (options.lease < kShortestLease || options.lease > task_queue::kLongestLease)
    return Invalid(fmt::format("queue {}: a lease of {}; give {} to {}", queue,
                               FormatDuration(options.lease), FormatDuration(kShortestLease),
                               FormatDuration(task_queue::kLongestLease)));
  HEADWORKS_TRY(task_queue::CheckPoll(Request(queue, options.lease)));
  if (!function) return Invalid(fmt::format("queue {}: its handler is empty", queue));
  const std::scoped_lock lock(mutex_);
  if (is_started_)
    return Error{Code::kConflict,
                 fmt::format("queue {}: the worker runs; say what handles it before", queue)};
  std::uint32_t slots = 0;
  for (const auto& line : lines_) {
    if (line->queue == queue)
      return Error{Code::kConflict, fmt::format("queue {} has a handler; one is enough", queue)};
    slots += line->options.slots;
  }
  if (options.slots < 1 || options.slots > kMaxJobSlots - slots)
    return Invalid(
        fmt::format("queue {}: {} slots; give 1 to {}, the queues of a worker have {} "
                    "together",
                    queue, options.slots, kMaxJobSlots - slots, kMaxJobSlots));
  auto line = std::make_unique<Line>();
  line->figures.queue = queue;
  line->figures.slots = line->free = options.slots;
  line->queue = std::move(queue);
  line->function = std::move(function);
  line->options = options;
  lines_.push_back(std::move(line));
  return {};
}

Status Impl::Start() {
  const std::scoped_lock lock(mutex_);
  if (is_started_)
    return Error{Code::kConflict, "this worker of jobs ran before; open another one"};
  if (lines_.empty())
    return Invalid("this worker of jobs has no handler; say which with Handle, before Run");
  is_started_ = true;
  keeper_.emplace(options_.tenant, ports_.queues.tasks(), ports_.clock, ports_.log);
  return {};
}

Status Impl::Run() {
  HEADWORKS_TRY(Start());
  std::vector<std::jthread> slots;
  Status ended = StartSlots(slots);
  if (ended) ended = Claim();
  leaving_.request_stop();
  for (const auto& line : lines_) line->seat.reset();
  {
    const std::scoped_lock lock(mutex_);
    is_closed_ = true;
    for (const auto& line : lines_) line->arrived.notify_all();
  }
  std::vector<std::string> late = AwaitSlots();
  slots.clear();
  HEADWORKS_TRY(ended);
  if (late.empty()) return {};
  const std::size_t count = late.size();
  late.resize(std::min(count, kMostNames));
  return Error{Code::kDrainTimeout,
               fmt::format("{} handlers did not end in time and were told to stop: {}{}", count,
                           fmt::join(late, ", "), count > kMostNames ? ", ..." : "")};
}

Status Impl::StartSlots(std::vector<std::jthread>& slots) {
  try {
    for (const auto& line : lines_)
      for (std::uint32_t i = 0; i < line->options.slots; ++i) {
        slots.emplace_back([this, &line = *line] { Serve(line); });
        const std::scoped_lock lock(mutex_);
        ++serving_;
      }
  } catch (const std::system_error& error) {
    return Error{Code::kUnavailable,
                 fmt::format("no thread can be started for slot {} ({}); give the queues fewer "
                             "slots, or this program more threads",
                             slots.size() + 1, error.what())};
  }
  return {};
}

/// Returns what had to be told to stop.
std::vector<std::string> Impl::AwaitSlots() {
  {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, stop_.get_token(), options_.drain_timeout,
                          [this] { return serving_ == 0; }))
      return {};
  }
  return keeper_->StopAll();
}

void Impl::Drain() {
  if (leaving_.request_stop()) return;
  stop_.request_stop();
}

void Impl::Wake() {
  const std::scoped_lock lock(mutex_);
  is_woken_ = true;
  changed_.notify_all();
}

/// Until drained, or the store will not work again.
Status Impl::Claim() {
  while (!leaving_.stop_requested()) {
    {
      const std::scoped_lock lock(mutex_);
      is_woken_ = false;
    }
    Duration next = ports_.clock.Monotonic() + kLongestWait;
    for (const auto& line : lines_) {
      HEADWORKS_ASSIGN(const Duration due, Look(*line));
      next = std::min(next, due);
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, leaving_.get_token(),
                      std::max(Duration(), next - ports_.clock.Monotonic()),
                      [this] { return is_woken_; });
  }
  return {};
}

/// Claims for the free slots if there may be something; returns when there may be something next.
/// An error is one that does not pass.
Result<Duration> Impl::Look(Line& line) {
  const Duration now = ports_.clock.Monotonic();
  auto request = Request(line.queue, line.options.lease);
  {
    const std::scoped_lock lock(mutex_);
    request.max_items = std::min<std::size_t>(line.free, task_queue::kMaxBatch);
  }
  if (request.max_items == 0) {
    line.seat.reset();  // others are woken instead
    return now + kLongestWait;
  }
  if (!line.seat) {
    line.seat.emplace(ports_.queues.bell(), options_.tenant, line.queue, [this] { Wake(); });
    line.due = now;
  }
  if (line.seat->Rang()) line.due = now;
  line.due = std::max(line.due, line.not_before);
  if (now < line.due) return line.due;
  auto polled = ports_.queues.tasks().Poll(request);
  if (!polled) {
    if (!task_queue::Passes(polled.error())) return polled.error();
    Trouble(line, polled.error());
    return line.due;
  }
  if (line.pause > Duration()) ports_.log.Info("a queue answers again", {{"queue", line.queue}});
  line.pause = line.not_before = Duration();
  // Where there was something there may be more.
  line.due = polled->items.empty()
                 ? now + std::min(polled->next.value_or(kLongestWait), kLongestWait)
                 : now;
  Take(line, *std::move(polled), now);
  return line.due;
}

void Impl::Trouble(Line& line, const Error& error) {
  line.pause = std::clamp(2 * line.pause, kFirstPause, kLongestPause);
  line.due = line.not_before = ports_.clock.Monotonic() + line.pause;
  if (line.pause == kFirstPause)
    ports_.log.Warning("a queue does not answer; it is asked again",
                       {{"queue", line.queue}, {"error", error.message}});
  const std::scoped_lock lock(mutex_);
  line.figures.trouble = error.message;
}

void Impl::Take(Line& line, task_queue::Polled polled, Duration asked_at) {
  std::vector<std::shared_ptr<HeldJob>> jobs;
  jobs.reserve(polled.items.size());
  for (task_queue::ClaimedItem& item : polled.items)
    jobs.push_back(std::make_shared<HeldJob>(line.queue, std::move(item), asked_at));
  for (const auto& job : jobs) keeper_->Add(job);
  const std::scoped_lock lock(mutex_);
  line.figures.trouble.clear();
  line.free -= static_cast<std::uint32_t>(jobs.size());
  line.figures.claimed += jobs.size();
  for (auto& job : jobs) {
    line.waiting.push_back(std::move(job));
    line.arrived.notify_one();
  }
}

/// One slot.
void Impl::Serve(Line& line) {
  while (const auto job = Next(line)) {
    Work(line, *job);
    keeper_->Remove(*job);
    const std::scoped_lock lock(mutex_);
    ++line.free;
    is_woken_ = true;
    changed_.notify_all();
  }
  const std::scoped_lock lock(mutex_);
  --serving_;
  changed_.notify_all();
}

/// Null once nothing more comes.
std::shared_ptr<HeldJob> Impl::Next(Line& line) {
  std::unique_lock lock(mutex_);
  line.arrived.wait(lock, [&] { return !line.waiting.empty() || is_closed_; });
  if (line.waiting.empty()) return nullptr;
  auto job = std::move(line.waiting.front());
  line.waiting.pop_front();
  return job;
}

void Impl::Work(Line& line, HeldJob& job) {
  Settlement settlement{.kind = Settlement::Kind::kHandBack};
  if (!leaving_.stop_requested()) {
    const task_queue::ClaimedItem& item = job.item;
    ScopedLogger log(ports_.log, {{"queue", line.queue}, {"item", item.id}});
    JobContext context({.queue = line.queue,
                        .id = item.id,
                        .attempt = item.attempt,
                        .max_attempts = item.max_attempts,
                        .priority = item.priority,
                        .enqueued_at = item.enqueued_at},
                       job.stop.get_token(), log);
    const JobResult result = Call(line.function, item.payload, context);
    settlement = Judge(result, keeper_->CauseOf(job));
  }
  const auto kind = settlement.kind;
  Count(line, kind, keeper_->Settle(job, std::move(settlement)));
}

void Impl::Count(Line& line, Settlement::Kind kind, std::optional<ItemState> state) {
  const std::scoped_lock lock(mutex_);
  JobFigures& figures = line.figures;
  if (!state)
    ++figures.lost;
  else if (*state == ItemState::kCompleted)
    ++figures.completed;
  else if (*state == ItemState::kCancelled)
    ++figures.cancelled;
  else if (*state == ItemState::kDead)
    ++figures.dead;
  else if (kind == Settlement::Kind::kHandBack)
    ++figures.handed_back;
  else
    ++figures.retried;
}

std::vector<JobFigures> Impl::Figures() const {
  const std::scoped_lock lock(mutex_);
  std::vector<JobFigures> all;
  for (const auto& line : lines_) {
    all.push_back(line->figures);
    all.back().running = line->options.slots - line->free;
    if (keeper_) all.back().overrunning = keeper_->CountLost(line->queue);
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<JobWorker>> JobWorker::Open(JobWorkerOptions options,
                                                   const JobWorkerPorts& ports) {
  HEADWORKS_TRY(Check(options));
  HEADWORKS_TRY(task_queue::CheckPoll({.tenant = options.tenant, .holder = options.name}));
  return std::unique_ptr<JobWorker>(std::make_unique<Impl>(std::move(options), ports));
}

}  // namespace headworks
