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
  return task_queue::CheckPoll({.tenant = options.tenant, .holder = options.name});
}

/// A queue, its handler and its slots.
struct Line {
  std::string queue;
  JobFunction function;
  JobQueueOptions options;

  Duration pause{};  // after trouble; of the thread that claims

  // Guarded by the worker's mutex.
  std::deque<std::shared_ptr<HeldJob>> waiting;
  std::condition_variable arrived;
  std::condition_variable_any freed;
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
  Impl(JobWorkerOptions options, const RemoteJobPorts& ports)
      : options_(std::move(options)), ports_(ports) {}
  Impl(JobWorkerOptions options, const JobWorkerPorts& ports)
      : options_(std::move(options)),
        database_(std::in_place, ports.queues, ports.clock),
        ports_{.items = *database_, .clock = ports.clock, .log = ports.log} {}

  Status HandleText(std::string queue, JobFunction function, JobQueueOptions options) override;
  Status Run() override;
  void Drain() override;
  std::vector<JobFigures> Figures() const override;

 private:
  Status Start();
  Status StartSlots(std::vector<std::jthread>& slots);
  Status ClaimAll();
  Status Claim(Line& line);
  std::size_t AwaitFree(Line& line);
  void Trouble(Line& line, const Error& error);
  void Take(Line& line, task_queue::Polled polled, Duration claimed_at);
  void Serve(Line& line);
  std::shared_ptr<HeldJob> Next(Line& line);
  void Work(Line& line, HeldJob& job);
  void Count(Line& line, Settlement::Kind kind, std::optional<ItemState> state);
  std::vector<std::string> AwaitSlots();

  task_queue::PollRequest Request(const std::string& queue, Duration lease) const {
    return {
        .tenant = options_.tenant, .queue = queue, .visibility = lease, .holder = options_.name};
  }

  const JobWorkerOptions options_;
  std::optional<task_queue::DatabaseSource> database_;  // where there is no other
  const RemoteJobPorts ports_;
  std::stop_source leaving_;                  // nothing more is claimed
  std::stop_source stop_;                     // what runs is told to stop
  std::vector<std::unique_ptr<Line>> lines_;  // grows under mutex_, until Run
  mutable std::mutex mutex_;                  // before the keeper's
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  bool is_started_ = false;
  bool is_closed_ = false;             // nothing more comes to the lines
  std::int64_t serving_ = 0;           // slots that have not ended
  Status ended_;                       // why no more can be claimed
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
  keeper_.emplace(options_.tenant, ports_.items, ports_.clock, ports_.log);
  return {};
}

Status Impl::Run() {
  HEADWORKS_TRY(Start());
  std::vector<std::jthread> slots;
  Status ended = StartSlots(slots);
  if (ended) ended = ClaimAll();
  leaving_.request_stop();
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

Error NoThread(std::string_view what, const std::system_error& error) {
  return {Code::kUnavailable,
          fmt::format("no thread can be started for {} ({}); give the queues fewer slots, or this "
                      "program more threads",
                      what, error.what())};
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
    return NoThread(fmt::format("slot {}", slots.size() + 1), error);
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

/// Until drained, or one of the queues will not work again.
Status Impl::ClaimAll() {
  const auto claim = [this](Line& line) {
    const Status ended = Claim(line);
    if (ended) return;
    leaving_.request_stop();
    const std::scoped_lock lock(mutex_);
    if (ended_) ended_ = ended;
  };
  std::vector<std::jthread> others;
  try {
    for (std::size_t i = 1; i < lines_.size(); ++i)
      others.emplace_back([&, i] { claim(*lines_[i]); });
  } catch (const std::system_error& error) {
    leaving_.request_stop();
    return NoThread(fmt::format("queue {}", lines_[others.size() + 1]->queue), error);
  }
  claim(*lines_.front());
  others.clear();
  const std::scoped_lock lock(mutex_);
  return ended_;
}

/// An error is one that does not pass.
Status Impl::Claim(Line& line) {
  auto request = Request(line.queue, line.options.lease);
  while ((request.max_items = AwaitFree(line)) > 0) {
    const Duration asked_at = ports_.clock.Monotonic();
    // After trouble its end is not to wait for an item.
    const Duration wait = line.pause > Duration() ? Duration() : kLongestWait;
    auto polled = ports_.items.Await(request, wait, leaving_.get_token());
    if (polled) {
      if (line.pause > Duration())
        ports_.log.Info("a queue answers again", {{"queue", line.queue}});
      line.pause = {};
      const Duration claimed_at = asked_at + polled->waited;
      Take(line, *std::move(polled), claimed_at);
    } else if (task_queue::Passes(polled.error())) {
      Trouble(line, polled.error());
    } else {
      return polled.error();
    }
  }
  return {};
}

/// How many slots are free, once some are; 0 = nothing more is to be claimed.
std::size_t Impl::AwaitFree(Line& line) {
  std::unique_lock lock(mutex_);
  line.freed.wait(lock, leaving_.get_token(), [&] { return line.free > 0; });
  if (leaving_.stop_requested()) return 0;
  return std::min<std::size_t>(line.free, task_queue::kMaxBatch);
}

void Impl::Trouble(Line& line, const Error& error) {
  line.pause = std::clamp(2 * line.pause, kFirstPause, kLongestPause);
  if (line.pause == kFirstPause)
    ports_.log.Warning("a queue does not answer; it is asked again",
                       {{"queue", line.queue}, {"error", error.message}});
  std::unique_lock lock(mutex_);
  line.figures.trouble = error.message;
  line.freed.wait_for(lock, leaving_.get_token(), line.pause, [] { return false; });
}

void Impl::Take(Line& line, task_queue::Polled polled, Duration claimed_at) {
  std::vector<std::shared_ptr<HeldJob>> jobs;
  jobs.reserve(polled.items.size());
  for (task_queue::ClaimedItem& item : polled.items)
    jobs.push_back(std::make_shared<HeldJob>(line.queue, std::move(item), claimed_at));
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
    line.freed.notify_all();
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
  return std::unique_ptr<JobWorker>(std::make_unique<Impl>(std::move(options), ports));
}

Result<std::unique_ptr<JobWorker>> JobWorker::OpenRemote(JobWorkerOptions options,
                                                         const RemoteJobPorts& ports) {
  HEADWORKS_TRY(Check(options));
  return std::unique_ptr<JobWorker>(std::make_unique<Impl>(std::move(options), ports));
}

}  // namespace headworks
