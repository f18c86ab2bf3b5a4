#include "lease_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headworks/task_queue/checks.h"

namespace headworks {
namespace {

using task_queue::ItemState;
using task_queue::Settlement;

/// While the machine sleeps the clock of leases goes on and a wait may not.
constexpr Duration kLongestWait = std::chrono::seconds(1);
constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr Duration kLongestPause = std::chrono::seconds(5);

/// Where a settlement leads whose answer was lost.
ItemState StateAfter(Settlement::Kind kind, const task_queue::ClaimedItem& item) {
  switch (kind) {
    case Settlement::Kind::kAck:
      return ItemState::kCompleted;
    case Settlement::Kind::kNack:
      return item.attempt < item.max_attempts ? ItemState::kPending : ItemState::kDead;
    case Settlement::Kind::kHandBack:
      return ItemState::kPending;
    case Settlement::Kind::kReject:
      return ItemState::kDead;
  }
  return ItemState::kPending;
}

}  // namespace

LeaseKeeper::LeaseKeeper(TenantId tenant, task_queue::ItemSource& items, Clock& clock, Logger& log)
    : tenant_(std::move(tenant)),
      items_(items),
      clock_(clock),
      log_(log),
      thread_([this](const std::stop_token& stop) { Watch(stop); }) {}

void LeaseKeeper::Add(const std::shared_ptr<HeldJob>& job) {
  const std::scoped_lock lock(mutex_);
  job->extend_at = job->until - 2 * job->item.lease / 3;
  held_.emplace(job->item.claim.number, job);
  if (job->extend_at >= looks_at_) return;
  earlier_ = true;
  changed_.notify_all();
}

void LeaseKeeper::Remove(const HeldJob& job) {
  const std::scoped_lock lock(mutex_);
  held_.erase(job.item.claim.number);
}

StopCause LeaseKeeper::CauseOf(const HeldJob& job) const {
  const std::scoped_lock lock(mutex_);
  return job.cause;
}

std::uint32_t LeaseKeeper::CountLost(std::string_view queue) const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::uint32_t>(std::ranges::count_if(held_, [&](const auto& each) {
    return each.second->cause == StopCause::kLost && each.second->queue == queue;
  }));
}

std::vector<std::string> LeaseKeeper::StopAll() {
  Jobs all;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [number, job] : held_) {
      RaiseLocked(*job, StopCause::kDrain);
      all.push_back(job);
    }
  }
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const auto& job : all) {
    job->stop.request_stop();
    names.push_back(fmt::format("{}/{}", job->queue, job->item.id));
  }
  return names;
}

bool LeaseKeeper::RaiseLocked(HeldJob& job, StopCause cause) {
  if (job.cause >= cause) return false;
  job.cause = cause;
  return true;
}

void LeaseKeeper::Watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    earlier_ = false;
    const Duration now = clock_.Monotonic();
    looks_at_ = now + kLongestWait;
    std::map<std::string_view, Jobs> due;
    Jobs over;
    for (const auto& [number, job] : held_) {
      if (job->cause == StopCause::kLost) continue;
      if (now >= job->until) {
        RaiseLocked(*job, StopCause::kLost);
        over.push_back(job);
      } else if (now + job->item.lease / 10 >= job->extend_at) {  // several in one call
        due[job->queue].push_back(job);
      } else {
        looks_at_ = std::min({looks_at_, job->extend_at, job->until});
      }
    }
    if (due.empty() && over.empty()) {
      changed_.wait_for(lock, stop, looks_at_ - now, [this] { return earlier_; });
      continue;
    }
    lock.unlock();
    for (const auto& job : over) Lost(*job, "it ended by the clock of this program");
    for (const auto& [queue, jobs] : due) Extend(jobs.front()->queue, jobs);
    lock.lock();
  }
}

void LeaseKeeper::Extend(const std::string& queue, const Jobs& jobs) {
  std::vector<task_queue::Claim> claims;
  claims.reserve(jobs.size());
  for (const auto& job : jobs) claims.push_back(job->item.claim);
  const Duration asked_at = clock_.Monotonic();
  const auto answers = items_.Extend(tenant_, queue, claims, jobs.front()->item.lease);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    HeldJob& job = *jobs[i];
    const Status answer = answers ? (*answers)[i] : Status(answers.error());
    bool is_told = false;
    bool is_lost = false;
    {
      const std::scoped_lock lock(mutex_);
      is_told = HeardLocked(job, answer, asked_at);
      is_lost = job.cause == StopCause::kLost;
    }
    if (!is_told) continue;
    if (is_lost) {
      Lost(job, answer.error().message);
    } else {
      log_.Info("an item is to be cancelled; its handler is told to stop",
                {{"queue", queue}, {"item", job.item.id}});
      job.stop.request_stop();
    }
  }
}

bool LeaseKeeper::HeardLocked(HeldJob& job, const Status& answer, Duration asked_at) {
  const Duration lease = job.item.lease;
  if (answer || answer.error().code == Code::kCancelled) {
    job.until = asked_at + lease;
    job.extend_at = asked_at + lease / 3;
    return !answer && RaiseLocked(job, StopCause::kCancel);
  }
  job.extend_at = clock_.Monotonic() + lease / 5;
  // What is being settled hears of it by that.
  if (task_queue::Passes(answer.error()) || job.is_settling) return false;
  return RaiseLocked(job, StopCause::kLost);
}

void LeaseKeeper::Lost(HeldJob& job, std::string_view why) {
  log_.Warning("the lease of an item is lost; its handler is told to stop, and another may run it",
               {{"queue", job.queue}, {"item", job.item.id}, {"reason", std::string(why)}});
  job.stop.request_stop();
}

std::optional<ItemState> LeaseKeeper::Settle(HeldJob& job, Settlement settlement) {
  settlement.claim = job.item.claim;
  std::string why;
  bool is_repeated = false;
  {
    const std::scoped_lock lock(mutex_);
    job.is_settling = true;
    if (job.cause == StopCause::kLost) why = "its handler ended after that";
  }
  for (Duration pause{}; why.empty(); pause = std::clamp(2 * pause, kFirstPause, kLongestPause)) {
    const auto answers = items_.Settle(tenant_, job.queue, {&settlement, 1});
    const Result<ItemState> answer = answers ? answers->front() : answers.error();
    if (answer) return *answer;
    // Only this worker settles its claim: it was heard the first time.
    if (is_repeated && answer.error().code == Code::kConflict)
      return CauseOf(job) == StopCause::kCancel ? ItemState::kCancelled
                                                : StateAfter(settlement.kind, job.item);
    if (!task_queue::Passes(answer.error())) {
      why = answer.error().message;
      break;
    }
    is_repeated |= answer.error().code == Code::kUnavailable;  // it may have happened
    std::unique_lock lock(mutex_);
    const Duration left = job.until - clock_.Monotonic();
    if (left <= Duration() || job.cause == StopCause::kLost)
      why = answer.error().message;
    else
      changed_.wait_for(lock, std::min(pause, left));
  }
  log_.Warning("the lease of an item was lost, so what its handler says of it is dropped",
               {{"queue", job.queue}, {"item", job.item.id}, {"reason", why}});
  return std::nullopt;
}

}  // namespace headworks
