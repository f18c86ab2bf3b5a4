#include "headworks/dispatch/buffered_dispatcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "headworks/executor/attempt_log.h"
#include "headworks/executor/execution_status.h"

namespace headworks::dispatch {
namespace {

using executor::Attempt;
using executor::DispatchError;
using executor::NotTaken;
using executor::OfferResult;
using model::Disposition;

constexpr std::size_t kMaxBufferSize = 1'000'000;
constexpr std::size_t kMaxWorkers = 1'024;
constexpr std::size_t kNamedInClose = 20;
/// How long a worker waits after its sink threw.
constexpr Duration kAfterThrow = std::chrono::seconds(1);
constexpr Duration kLongestWait = std::chrono::hours(24 * 365);

std::string NameOf(const Attempt& attempt) {
  return fmt::format("{} of run {} (epoch {})", attempt.task().id, attempt.run_id.value,
                     attempt.key.epoch.value);
}

/// What `call` threw; nullopt = nothing.
template <typename Call>
std::optional<std::string> ThrownBy(const Call& call) {
  try {
    call();
    return std::nullopt;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something that is no std::exception";
  }
}

}  // namespace

BufferedDispatcher::BufferedDispatcher(const BufferConfig& config, const BufferPorts& ports)
    : config_(config), ports_(ports) {}

BufferedDispatcher::~BufferedDispatcher() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  for (Lane& lane : lanes_) {
    lane.queue.clear();
    lane.work.notify_all();
  }
}

Status BufferedDispatcher::StartWithoutThreads(executor::AttemptSink& sink,
                                               dispatcher::RetrySink& late) {
  const auto check = [](std::string_view name, std::size_t value, std::size_t max) -> Status {
    if (value <= max) return {};
    return Error{Code::kInvalidArgument,
                 fmt::format("dispatch buffer: {} is {}; at most {}", name, value, max)};
  };
  HEADWORKS_TRY(check("buffer_size", config_.buffer_size, kMaxBufferSize));
  HEADWORKS_TRY(check("workers", config_.workers, kMaxWorkers));
  const std::scoped_lock lock(mutex_);
  if (sink_ != nullptr) return Error{Code::kConflict, "dispatch buffer: started already"};
  sink_ = &sink;
  late_ = &late;
  lanes_ = std::vector<Lane>(ports_.inner.lanes());
  return {};
}

Status BufferedDispatcher::Start(executor::AttemptSink& sink, dispatcher::RetrySink& late) {
  HEADWORKS_TRY(StartWithoutThreads(sink, late));
  if (config_.buffer_size == 0) return {};
  for (Lane& lane : lanes_)
    for (std::size_t i = 0; i < std::max<std::size_t>(config_.workers, 1); ++i)
      threads_.emplace_back([this, &lane] { Work(lane); });
  return {};
}

executor::Capacity BufferedDispatcher::GetCapacity(std::size_t lane) const {
  const executor::Capacity inner = ports_.inner.GetCapacity(lane);
  if (config_.buffer_size == 0) return inner;
  const std::scoped_lock lock(mutex_);
  if (sink_ == nullptr || closed_) return {.max = inner.max, .used = inner.max};
  return {.max = inner.max, .used = inner.max - FreeLocked(lanes_[lane], inner.free())};
}

executor::Credit BufferedDispatcher::GetCredit(std::size_t lane, const TenantId& tenant,
                                               const std::string& line) const {
  const executor::Credit inner = ports_.inner.GetCredit(lane, tenant, line);
  if (config_.buffer_size == 0) return inner;
  const std::scoped_lock lock(mutex_);
  if (sink_ == nullptr || closed_) return {.others = false};
  const Lane& here = lanes_[lane];
  return {.all = FreeLocked(here, inner.all),
          .tenant = FreeLocked(here, inner.tenant),
          .line = FreeLocked(here, inner.line),
          .others = inner.others};
}

std::uint32_t BufferedDispatcher::FreeLocked(const Lane& lane, std::uint32_t free) const {
  const std::size_t places = free - std::min(free, lane.entries);
  const std::size_t room = config_.buffer_size - std::min(config_.buffer_size, lane.queue.size());
  const auto left = static_cast<std::uint32_t>(std::min(places, room));
  if (left == 0) lane.room_wanted = true;
  return left;
}

OfferResult BufferedDispatcher::Dispatch(const Attempt& attempt) {
  const Duration now = ports_.clock.Monotonic();
  if (config_.buffer_size == 0) {
    OfferResult result = Send(attempt);
    ports_.metrics.Latency(ports_.clock.Monotonic() - now);
    return result;
  }
  std::unique_lock lock(mutex_);
  if (sink_ == nullptr || closed_)
    return NotTaken(DispatchError::kNoCapacity, closed_ ? "the dispatch buffer is closing"
                                                        : "the dispatch buffer is not started");
  if (entries_.contains(IdOf(attempt.key))) return {.answered = false};
  Lane& lane = lanes_[ports_.inner.LaneOf(attempt.key.tenant, attempt.task())];
  if (lane.queue.size() >= config_.buffer_size) {
    lane.room_wanted = true;
    ports_.metrics.AtCapacity();
    return NotTaken(DispatchError::kNoCapacity, "the dispatch buffer is full");
  }
  PutLocked(attempt, now);
  lock.unlock();
  lane.work.notify_one();
  return {.answered = false};
}

BufferedDispatcher::Entry& BufferedDispatcher::PutLocked(const Attempt& attempt, Duration now) {
  const Id id = IdOf(attempt.key);
  Entries::node_type node;
  if (spare_.empty()) {
    node = entries_.extract(entries_.try_emplace(id).first);
  } else {
    node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = id;
  }
  Entry& entry = node.mapped();
  entry.attempt = attempt;  // into the memory that its texts have
  entry.lane = ports_.inner.LaneOf(attempt.key.tenant, attempt.task());
  entry.taken_at = now;
  entry.cancelled = false;
  return EnqueueLocked(std::move(node));
}

BufferedDispatcher::Entry& BufferedDispatcher::EnqueueLocked(Entries::node_type node) {
  Entry& entry = entries_.insert(std::move(node)).position->second;
  entry.sending = false;
  Lane& lane = lanes_[entry.lane];
  ++lane.entries;
  lane.queue.push_back(&entry);
  DepthChangedLocked(+1);
  return entry;
}

void BufferedDispatcher::Work(Lane& lane) {
  for (;;) {
    std::unique_lock lock(mutex_);
    lane.work.wait(lock, [&] { return !lane.queue.empty() || closed_; });
    if (lane.queue.empty()) return;
    lock.unlock();
    if (SendOne(lane) != Sent::kUntold) continue;
    lock.lock();
    lane.work.wait_for(lock, kAfterThrow, [this] { return closed_; });
  }
}

bool BufferedDispatcher::SendNext() {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    std::unique_lock lock(mutex_);
    Lane& lane = lanes_[next_lane_++ % lanes_.size()];
    lock.unlock();
    if (SendOne(lane) != Sent::kNothing) return true;
  }
  return false;
}

BufferedDispatcher::Sent BufferedDispatcher::SendOne(Lane& lane) {
  std::unique_lock lock(mutex_);
  if (lane.queue.empty()) return Sent::kNothing;
  Entry& entry = *lane.queue.front();
  lane.queue.pop_front();
  entry.sending = true;
  ++sending_;
  DepthChangedLocked(-1);
  lock.unlock();

  const OfferResult result = Send(entry.attempt);
  ports_.metrics.Latency(ports_.clock.Monotonic() - entry.taken_at);
  const bool taken = result.disposition == Disposition::kDispatched;

  lock.lock();
  Entries::node_type sent = ExtractLocked(entries_.find(IdOf(entry.attempt.key)));
  const bool told = taken || TellLate(lock, sent, result);
  --sending_;
  const bool recovered = taken && std::exchange(lane.troubled, false);
  if (result.disposition == Disposition::kTransient) lane.troubled = true;
  const bool cancel = taken && entry.cancelled;
  const bool room = RoomWantedLocked(lane);
  if (closed_ && sending_ == 0) quiet_.notify_all();
  if (cancel || recovered) {
    lock.unlock();
    // It came before the executor knew what to cancel.
    if (cancel) CancelInner(entry.attempt);
    if (recovered)  // if it is not told: what waits comes back by itself, later
      Guard("that an executor answers again could not be told", entry.attempt,
            [&] { late_->HandleDispatchRecovery(entry.attempt.key); });
    lock.lock();
  }
  if (sent) SpareLocked(std::move(sent));
  lock.unlock();
  if (room) TellRoom();
  return told ? Sent::kSent : Sent::kUntold;
}

bool BufferedDispatcher::TellLate(std::unique_lock<std::mutex>& lock, Entries::node_type& sent,
                                  const OfferResult& result) {
  // It has left the buffer: whoever hears this may offer it again before the call returns.  Whoever
  // asks meanwhile hears that it is pending.
  Entry& entry = sent.mapped();
  telling_.push_back(&entry);
  lock.unlock();
  const bool told = Tell(entry.attempt, result);
  lock.lock();
  std::erase(telling_, &entry);
  if (told) return true;
  if (closed_)
    untold_.push_back(NameOf(entry.attempt));
  else if (const auto again = entries_.find(IdOf(entry.attempt.key)); again != entries_.end())
    again->second.cancelled |= entry.cancelled;
  else
    EnqueueLocked(std::move(sent));
  return false;
}

OfferResult BufferedDispatcher::Send(const Attempt& attempt) {
  OfferResult result;
  if (const auto thrown = ThrownBy([&] { result = ports_.inner.Dispatch(attempt); }))
    result = AfterThrow(attempt, *thrown);
  if (result.disposition != Disposition::kDispatched) ports_.metrics.InnerError(result);
  return result;
}

OfferResult BufferedDispatcher::AfterThrow(const Attempt& attempt, std::string_view what) {
  executor::ForAttempt(ports_.log, attempt)
      .Error("an offer threw; only its attempt is concerned", {{"error", std::string(what)}});
  const std::string cause = fmt::format("its executor threw: {}", what);
  // It may have happened all the same: a new epoch needs a definite no (I4).
  try {
    const auto known = ports_.inner.Inspect({&attempt, 1});
    if (!known || std::holds_alternative<executor::Unknown>(known->front()))
      return NotTaken(DispatchError::kStore, cause);
    if (!std::holds_alternative<executor::Absent>(known->front())) return {};
  } catch (...) {
    return NotTaken(DispatchError::kStore, cause);
  }
  return NotTaken(DispatchError::kExecutionFailed, cause);
}

bool BufferedDispatcher::Tell(const Attempt& attempt, const OfferResult& result) {
  const auto thrown = ThrownBy([&] { late_->HandleDispatchFailure(attempt.key, result); });
  if (thrown)
    executor::ForAttempt(ports_.log, attempt)
        .Error("an answer could not be told; its attempt is sent again",
               {{"answer", std::string(model::DispositionName(result.disposition))},
                {"error", *thrown}});
  return !thrown;
}

template <typename Call>
void BufferedDispatcher::Guard(std::string_view failure, const Attempt& attempt, const Call& call) {
  if (const auto thrown = ThrownBy(call))
    executor::ForAttempt(ports_.log, attempt).Error(failure, {{"error", *thrown}});
}

void BufferedDispatcher::TellRoom() {
  if (const auto thrown = ThrownBy([&] { sink_->CapacityChanged(); }))
    ports_.log.Error("that the dispatch buffer has room could not be told", {{"error", *thrown}});
}

void BufferedDispatcher::CancelInner(const Attempt& attempt) {
  Guard("a cancellation threw; its attempt goes on until it ends by itself", attempt,
        [&] { ports_.inner.Cancel(attempt); });
}

BufferedDispatcher::Entries::node_type BufferedDispatcher::ExtractLocked(Entries::iterator at) {
  --lanes_[at->second.lane].entries;
  return entries_.extract(at);
}

Attempt BufferedDispatcher::WithdrawLocked(Entries::iterator at) {
  std::erase(lanes_[at->second.lane].queue, &at->second);
  DepthChangedLocked(-1);
  Entries::node_type node = ExtractLocked(at);
  Attempt attempt = std::move(node.mapped().attempt);
  SpareLocked(std::move(node));
  return attempt;
}

void BufferedDispatcher::SpareLocked(Entries::node_type node) {
  node.mapped().attempt.workflow = nullptr;  // the rest is used again
  spare_.push_back(std::move(node));
}

bool BufferedDispatcher::IsToldLocked(const Id& id) const {
  return std::ranges::any_of(telling_,
                             [&](const Entry* entry) { return IdOf(entry->attempt.key) == id; });
}

void BufferedDispatcher::DepthChangedLocked(std::ptrdiff_t by) {
  depth_ += static_cast<std::size_t>(by);
  ports_.metrics.QueueDepth(depth_);
}

bool BufferedDispatcher::RoomWantedLocked(Lane& lane) {
  return lane.room_wanted && !closed_ && lane.queue.size() < config_.buffer_size &&
         std::exchange(lane.room_wanted, false);
}

void BufferedDispatcher::Cancel(const Attempt& attempt) {
  std::unique_lock lock(mutex_);
  const auto at = entries_.find(IdOf(attempt.key));
  if (at != entries_.end()) at->second.cancelled = true;
  for (Entry* told : telling_)
    if (IdOf(told->attempt.key) == IdOf(attempt.key)) told->cancelled = true;
  if (at == entries_.end() || at->second.sending) {
    lock.unlock();
    return CancelInner(attempt);
  }
  Lane& lane = lanes_[at->second.lane];
  static_cast<void>(WithdrawLocked(at));
  const bool room = RoomWantedLocked(lane);
  lock.unlock();
  CancelInner(attempt);
  if (!Tell(attempt, NotTaken(DispatchError::kNoCapacity, "withdrawn before it was sent"))) {
    // It is sent after all, and cancelled where it arrives.
    lock.lock();
    PutLocked(attempt, ports_.clock.Monotonic()).cancelled = true;
    lock.unlock();
    lane.work.notify_one();
  }
  if (room) TellRoom();
}

Result<std::vector<executor::Inspection>> BufferedDispatcher::Inspect(
    std::span<const Attempt> attempts) {
  enum class Place : std::uint8_t { kGone, kWaiting, kSending };
  std::vector<Place> places(attempts.size(), Place::kGone);
  {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = 0; i < attempts.size(); ++i)
      if (const auto at = entries_.find(IdOf(attempts[i].key)); at != entries_.end())
        places[i] = at->second.sending ? Place::kSending : Place::kWaiting;
      else if (IsToldLocked(IdOf(attempts[i].key)))
        places[i] = Place::kSending;
  }
  auto known = ports_.inner.Inspect(attempts);
  auto answers = known ? *std::move(known)
                       : std::vector<executor::Inspection>(
                             attempts.size(), executor::Unknown{known.error().message});
  for (std::size_t i = 0; i < attempts.size(); ++i)
    if (places[i] != Place::kGone && (std::holds_alternative<executor::Absent>(answers[i]) ||
                                      std::holds_alternative<executor::Unknown>(answers[i])))
      answers[i] = executor::Pending{places[i] == Place::kWaiting ? "waits in the dispatch buffer"
                                                                  : "is being sent"};
  return answers;
}

void BufferedDispatcher::Settled(std::span<const Attempt> attempts) {
  bool room = false;
  std::unique_lock lock(mutex_);
  for (const Attempt& attempt : attempts) {
    // It was to be sent again, and had arrived the first time.
    const auto at = entries_.find(IdOf(attempt.key));
    if (at == entries_.end() || at->second.sending) continue;
    Lane& lane = lanes_[at->second.lane];
    static_cast<void>(WithdrawLocked(at));
    room |= RoomWantedLocked(lane);
  }
  lock.unlock();
  ports_.inner.Settled(attempts);
  if (room) TellRoom();
}

Status BufferedDispatcher::Close(Duration timeout) {
  const OfferResult closing =
      NotTaken(DispatchError::kNoCapacity, "the dispatch buffer is closing");
  std::vector<Attempt> waiting;
  std::unique_lock lock(mutex_);
  closed_ = true;
  for (Lane& lane : lanes_) {
    while (!lane.queue.empty())
      waiting.push_back(WithdrawLocked(entries_.find(IdOf(lane.queue.front()->attempt.key))));
    lane.work.notify_all();
  }
  sending_ += waiting.size();  // another Close waits for these too
  lock.unlock();
  std::vector<std::string> abandoned;
  for (const Attempt& attempt : waiting)
    if (!Tell(attempt, closing)) abandoned.push_back(NameOf(attempt));

  lock.lock();
  sending_ -= waiting.size();
  if (sending_ == 0) quiet_.notify_all();
  std::ranges::move(abandoned, std::back_inserter(untold_));
  quiet_.wait_for(lock, std::min(config_.drain_timeout, kLongestWait),
                  [this] { return sending_ == 0; });
  abandoned = untold_;
  for (const auto& [id, entry] : entries_) abandoned.push_back(NameOf(entry.attempt));
  lock.unlock();

  Status drained = ports_.inner.Close(timeout);
  if (abandoned.empty()) return drained;
  const std::size_t count = abandoned.size();
  abandoned.resize(std::min(count, kNamedInClose));
  std::string message = fmt::format("{} attempts are still on their way to an executor: {}", count,
                                    fmt::join(abandoned, "; "));
  if (!drained) message += "; " + drained.error().message;
  return Error{Code::kDrainTimeout, std::move(message)};
}

void FailEveryTask::HandleDispatchFailure(const model::AttemptKey& key, const OfferResult& result) {
  if (result.disposition == Disposition::kDeferred)
    return sink_.Ended(key,
                       executor::OutcomeOf(executor::ExecutionStatus::kInterrupted, result.cause));
  failures_.MarkTaskDispatchFailed(
      key, fmt::format("{}: {}", model::DispositionName(result.disposition), result.cause));
}

}  // namespace headworks::dispatch
