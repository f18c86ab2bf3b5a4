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
/// How long the engine waits for what executors know of attempts.
constexpr Duration kInspectWait = std::chrono::milliseconds(200);
/// An answer that came too late for its question is good for the next one within this.
constexpr Duration kLateIsGood = std::chrono::minutes(2);
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
    lane.asked.notify_all();
  }
  over_ = true;
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
  {
    const std::scoped_lock lock(mutex_);
    has_askers_ = true;
  }
  for (std::size_t i = 0; i < lanes_.size(); ++i) threads_.emplace_back([this, i] { Ask(i); });
  for (Lane& lane : lanes_)
    for (std::size_t i = 0; i < std::max<std::size_t>(config_.workers, 1); ++i)
      threads_.emplace_back([this, &lane] { Work(lane); });
  return {};
}

executor::Capacity BufferedDispatcher::GetCapacity(std::size_t lane) const {
  executor::Capacity inner;
  Throws(lane, "GetCapacity", [&] { inner = ports_.inner.GetCapacity(lane); });
  if (config_.buffer_size == 0) return inner;
  const std::scoped_lock lock(mutex_);
  if (sink_ == nullptr || closed_) return {.max = inner.max, .used = inner.max};
  return {.max = inner.max, .used = inner.max - FreeLocked(lanes_[lane], inner.free())};
}

executor::Credit BufferedDispatcher::GetCredit(std::size_t lane, const TenantId& tenant,
                                               const std::string& line) const {
  executor::Credit inner;
  Throws(lane, "GetCredit", [&] { inner = ports_.inner.GetCredit(lane, tenant, line); });
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
  lane.late.erase(IdOf(entry.attempt.key));
  if (lane.question) lane.question->here.insert(IdOf(entry.attempt.key));
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
  if (cancel) {  // it came before the executor knew what to cancel
    PassCancel(lock, entry.attempt);
    lock.lock();
  }
  if (recovered) {
    lock.unlock();
    // If it is not told: what waits comes back by itself, later.
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

template <typename Call>
std::optional<std::string> BufferedDispatcher::Throws(std::size_t lane, std::string_view what,
                                                      const Call& call) const {
  auto thrown = ThrownBy(call);
  if (!thrown && throwing_ == 0) return thrown;
  std::unique_lock lock(mutex_);
  const bool changed =
      thrown ? throws_.emplace(lane, what).second : throws_.erase(std::pair(lane, what)) > 0;
  throwing_ = throws_.size();
  lock.unlock();
  if (thrown && changed)
    ports_.log.Error("an executor threw; that is said once, until it answers again",
                     {{"executor", std::string(LaneName(lane))},
                      {"call", std::string(what)},
                      {"error", *thrown}});
  return thrown;
}

void BufferedDispatcher::PassCancel(std::unique_lock<std::mutex>& lock, const Attempt& attempt) {
  if (has_askers_) {
    Lane& lane = lanes_[ports_.inner.LaneOf(attempt.key.tenant, attempt.task())];
    if (lane.cancelling.insert(IdOf(attempt.key)).second) {
      lane.cancels.push_back(attempt);
      ++cancels_;
      lane.asked.notify_one();
    }
    lock.unlock();
  } else {
    lock.unlock();
    CancelInner(attempt);
  }
}

void BufferedDispatcher::Cancel(const Attempt& attempt) {
  std::unique_lock lock(mutex_);
  const auto at = entries_.find(IdOf(attempt.key));
  if (at != entries_.end()) at->second.cancelled = true;
  for (Entry* told : telling_)
    if (IdOf(told->attempt.key) == IdOf(attempt.key)) told->cancelled = true;
  if (at == entries_.end() || at->second.sending) return PassCancel(lock, attempt);
  Lane& lane = lanes_[at->second.lane];
  static_cast<void>(WithdrawLocked(at));
  const bool room = RoomWantedLocked(lane);
  PassCancel(lock, attempt);
  if (!Tell(attempt, NotTaken(DispatchError::kNoCapacity, "withdrawn before it was sent"))) {
    // It is sent after all, and cancelled where it arrives.
    lock.lock();
    PutLocked(attempt, ports_.clock.Monotonic()).cancelled = true;
    lock.unlock();
    lane.work.notify_one();
  }
  if (room) TellRoom();
}

void BufferedDispatcher::Ask(std::size_t number) {
  Lane& lane = lanes_[number];
  std::unique_lock lock(mutex_);
  for (;;) {
    lane.asked.wait(lock, [&] {
      return over_ || !lane.cancels.empty() || (lane.question && !lane.question->begun);
    });
    if (over_) return;
    if (!lane.cancels.empty()) {
      // It stays there for Close to name it; nobody else takes any.
      const Attempt& attempt = lane.cancels.front();
      lane.cancelling.erase(
          IdOf(attempt.key));  // another one may tell what this one came too early for
      lock.unlock();
      CancelInner(attempt);
      lock.lock();
      lane.cancels.pop_front();
      if (--cancels_ == 0) quiet_.notify_all();
      continue;
    }
    const std::shared_ptr<Question> question = lane.question;
    question->begun = true;
    lock.unlock();
    auto answers = InspectInner(number, question->attempts);
    lock.lock();
    question->answers = std::move(answers);
    question->answered = true;
    lane.question = nullptr;
    if (question->left) KeepLocked(lane, *question);
    answered_.notify_all();
  }
}

void BufferedDispatcher::KeepLocked(Lane& lane, Question& question) {
  lane.late.clear();
  lane.late_at = ports_.clock.Monotonic();
  for (std::size_t i = 0; i < question.attempts.size(); ++i) {
    const Id id = IdOf(question.attempts[i].key);
    executor::Inspection& answer = question.answers[i];
    const bool stale =
        std::holds_alternative<executor::Absent>(answer) && question.here.contains(id);
    if (!stale && !std::holds_alternative<executor::Unknown>(answer))
      lane.late.emplace(id, std::move(answer));
  }
}

std::vector<executor::Inspection> BufferedDispatcher::InspectInner(
    std::size_t lane, std::span<const Attempt> attempts) {
  const auto unknown = [&](const std::string& why) {
    return std::vector<executor::Inspection>(attempts.size(), executor::Unknown{why});
  };
  Result<std::vector<executor::Inspection>> known = std::vector<executor::Inspection>();
  if (const auto thrown = Throws(lane, "Inspect", [&] { known = ports_.inner.Inspect(attempts); }))
    return unknown(fmt::format("executor {} threw: {}", LaneName(lane), *thrown));
  return known ? *std::move(known) : unknown(known.error().message);
}

Result<std::vector<executor::Inspection>> BufferedDispatcher::Inspect(
    std::span<const Attempt> attempts) {
  enum class Place : std::uint8_t { kGone, kWaiting, kSending };
  std::vector<Place> places(attempts.size(), Place::kGone);
  std::vector<executor::Inspection> answers(attempts.size());
  std::vector<std::shared_ptr<Question>> questions(lanes());
  std::unique_lock lock(mutex_);
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    const Id id = IdOf(attempts[i].key);
    if (const auto at = entries_.find(id); at != entries_.end())
      places[i] = at->second.sending ? Place::kSending : Place::kWaiting;
    else if (IsToldLocked(id))
      places[i] = Place::kSending;
    const std::size_t lane = ports_.inner.LaneOf(attempts[i].key.tenant, attempts[i].task());
    if (has_askers_ && TakeLateLocked(lanes_[lane], id, answers[i])) continue;
    auto& question = questions[lane];
    if (!question) question = std::make_shared<Question>();
    question->attempts.push_back(attempts[i]);
    question->at.push_back(i);
    if (places[i] != Place::kGone) question->here.insert(id);
  }
  AskLanes(lock, questions);
  for (std::size_t lane = 0; lane < questions.size(); ++lane) {
    if (!questions[lane]) continue;
    Question& question = *questions[lane];
    question.left = !question.answered;
    for (std::size_t k = 0; k < question.at.size(); ++k)
      if (question.answered)
        answers[question.at[k]] = std::move(question.answers[k]);
      else
        answers[question.at[k]] =
            executor::Unknown{fmt::format("executor {} has not answered yet", LaneName(lane))};
  }
  lock.unlock();
  for (std::size_t i = 0; i < attempts.size(); ++i)
    if (places[i] != Place::kGone && (std::holds_alternative<executor::Absent>(answers[i]) ||
                                      std::holds_alternative<executor::Unknown>(answers[i])))
      answers[i] = executor::Pending{places[i] == Place::kWaiting ? "waits in the dispatch buffer"
                                                                  : "is being sent"};
  return answers;
}

bool BufferedDispatcher::TakeLateLocked(Lane& lane, const Id& id, executor::Inspection& answer) {
  const auto late = lane.late.find(id);
  if (late == lane.late.end()) return false;
  const bool good = ports_.clock.Monotonic() - lane.late_at <= kLateIsGood;
  if (good) answer = std::move(late->second);
  lane.late.erase(late);
  return good;
}

void BufferedDispatcher::AskLanes(std::unique_lock<std::mutex>& lock,
                                  std::span<const std::shared_ptr<Question>> questions) {
  if (!has_askers_) {
    lock.unlock();
    for (std::size_t lane = 0; lane < questions.size(); ++lane) {
      if (!questions[lane]) continue;
      questions[lane]->answers = InspectInner(lane, questions[lane]->attempts);
      questions[lane]->answered = true;
    }
    return lock.lock();
  }
  for (std::size_t lane = 0; lane < questions.size(); ++lane) {
    if (!questions[lane] || lanes_[lane].question) continue;  // it has yet to answer another one
    lanes_[lane].question = questions[lane];
    lanes_[lane].asked.notify_one();
  }
  answered_.wait_for(lock, kInspectWait, [&] {
    for (std::size_t lane = 0; lane < questions.size(); ++lane)
      if (questions[lane] && lanes_[lane].question == questions[lane]) return false;
    return true;
  });
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
  // Where one throws, those of the others are settled all the same.
  if (throwing_ != 0 || ThrownBy([&] { ports_.inner.Settled(attempts); }))
    for (const Attempt& attempt : attempts)
      Throws(ports_.inner.LaneOf(attempt.key.tenant, attempt.task()), "Settled",
             [&] { ports_.inner.Settled({&attempt, 1}); });
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
                  [this] { return sending_ == 0 && cancels_ == 0; });
  abandoned = untold_;
  for (const auto& [id, entry] : entries_) abandoned.push_back(NameOf(entry.attempt));
  for (const Entry* entry : telling_) abandoned.push_back(NameOf(entry->attempt));
  for (const Lane& lane : lanes_)
    for (const Attempt& attempt : lane.cancels)
      abandoned.push_back("the cancellation of " + NameOf(attempt));
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
