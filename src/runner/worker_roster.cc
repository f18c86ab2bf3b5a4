#include "worker_roster.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace headworks {
namespace {

using store::WorkerPresence;
using store::WorkerRecord;

worker_api::Identity IdentityOf(const WorkerRecord& row) {
  return {row.tenant, row.name, row.incarnation};
}

bool IsGone(const WorkerRecord& row) { return row.presence == WorkerPresence::kGone; }

WorkerRecord MakeRow(const executor_queue::WorkerStatus& status) {
  const worker_api::Registration& registration = *status.registration;
  WorkerRecord row{.tenant = registration.who.tenant,
                   .name = registration.who.worker,
                   .incarnation = registration.who.incarnation,
                   .labels = registration.labels,
                   .version = registration.version,
                   .host = registration.host,
                   .protocol = registration.protocol,
                   .connected_at = status.registered_at,
                   .heard_at = status.heard_at};
  for (const auto& [queue, slots] : registration.slots) {
    const auto load = status.loads.find(queue);
    const auto [held, running] =
        load == status.loads.end() ? executor_queue::WorkerStatus::Load{} : load->second;
    row.queues.push_back({queue, slots, held, running});
  }
  return row;
}

}  // namespace

Status WorkerRoster::Open() {
  opened_ = clock_.Monotonic();
  HEADWORKS_ASSIGN(auto rows, store_.ListPresent());
  std::vector<Known*> all;
  for (WorkerRecord& row : rows) {
    row.presence = WorkerPresence::kSilent;
    if (!row.fault.empty())
      log_.Warning("what is known of a worker is damaged; it is written anew",
                   {{"error", row.fault}});
    row.fault.clear();
    Known& known = known_[IdentityOf(row)];
    known.row = std::move(row);
    all.push_back(&known);
  }
  HEADWORKS_TRY(Write(all, opened_));
  HEADWORKS_TRY(store_.WriteWorkers({}, clock_.Now()));
  forget_at_ = opened_ + kForget;
  return TakeOrders();
}

void WorkerRoster::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    while (!stop.stop_requested()) {
      const Duration pause = Tick();
      std::unique_lock lock(mutex);
      stopped_.wait_for(lock, stop, pause, [] { return false; });
    }
  });
}

Duration WorkerRoster::Tick() {
  const Duration now = clock_.Monotonic();
  Note(TakeOrders(), orders_trouble_);
  if (now >= next_look_) {
    next_look_ = now + std::min<Duration>(kLook, options_.lease / 4);
    Note(Look(Hurry::kNo), look_trouble_);
  }
  return kOrders;
}

void WorkerRoster::Close() {
  Stop();
  if (!std::exchange(closed_, true)) Note(Look(Hurry::kAll), look_trouble_);
}

void WorkerRoster::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

std::string WorkerRoster::trouble() const {
  const std::scoped_lock lock(mutex_);
  return look_trouble_.empty() ? orders_trouble_ : look_trouble_;
}

Status WorkerRoster::Look(Hurry hurry) {
  const Duration now = clock_.Monotonic();
  for (auto& [who, known] : known_) known.seen = false;
  for (const executor_queue::WorkerStatus& status : queue_.Roster()) See(status);
  for (const auto& [who, why] : queue_.TakeDepartures())  // some of whom were there just now
    if (const auto known = known_.find(who); known != known_.end()) known->second.departure = why;
  std::vector<Known*> due;
  for (auto at = known_.begin(); at != known_.end();) {
    Known& known = at->second;
    if (!known.seen && !Miss(known, now)) {
      at = known_.erase(at);
      continue;
    }
    ++at;
    if (hurry == Hurry::kAll ? known.row != known.stored : IsDue(known, now)) due.push_back(&known);
  }
  if (!due.empty()) HEADWORKS_TRY(Write(due, now));
  if (now < forget_at_) return {};
  HEADWORKS_TRY(store_.WriteWorkers({}, clock_.Now()));
  forget_at_ = now + kForget;
  return {};
}

Status WorkerRoster::TakeOrders() {
  HEADWORKS_ASSIGN(const std::int64_t version, inbox_.DataVersion());
  if (version == version_) return {};
  const Duration now = clock_.Monotonic();
  const bool all = now >= all_orders_at_;
  HEADWORKS_ASSIGN(auto orders, all ? store_.ListAllOrders() : store_.ListNewOrders());
  if (all) orders_.clear();
  std::vector<store::WorkerOrder> fresh;
  for (store::WorkerOrder& order : orders) {
    if (!order.taken) fresh.push_back(order);
    const Identity whom{order.tenant, order.name, order.incarnation};
    orders_.insert_or_assign(whom, std::move(order));
  }
  if (all || !fresh.empty()) queue_.SetOrders(Standing());
  if (!fresh.empty()) HEADWORKS_TRY(store_.NoteTaken(fresh));
  for (const store::WorkerOrder& order : fresh)
    log_.Info(!order.incarnation.empty() ? "a worker is told to drain"
              : order.stands             ? "a worker is cordoned"
                                         : "a worker is uncordoned",
              {{"tenant", order.tenant.value}, {"worker", order.name}, {"actor", order.actor}});
  if (all) all_orders_at_ = now + kForget;
  version_ = version;
  return {};
}

executor_queue::WorkerOrders WorkerRoster::Standing() const {
  executor_queue::WorkerOrders all;
  for (const auto& [whom, order] : orders_) {
    if (!order.stands) continue;
    if (order.incarnation.empty())
      all.cordoned.emplace(order.tenant, order.name);
    else
      all.leaving.insert(whom);
  }
  return all;
}

void WorkerRoster::See(const executor_queue::WorkerStatus& status) {
  Known& known = known_[status.registration->who];
  known.row = MakeRow(status);
  if (status.silence >= 2 * options_.heartbeat_every) known.row.presence = WorkerPresence::kSilent;
  known.ours = true;
  known.departure.reset();
  known.seen = true;
}

bool WorkerRoster::Miss(Known& known, Duration now) const {
  using executor_queue::Departure;
  if (IsGone(known.row)) return true;  // that could not be written yet
  if (!known.departure && !known.ours && now < opened_ + options_.lease) return true;
  if (known.departure == Departure::kLeft && !known.written)
    return false;  // as if it had never been there
  known.row.presence = WorkerPresence::kGone;
  known.row.gone_at = clock_.Now();
  const std::string lease = FormatDuration(options_.lease);
  if (known.departure == Departure::kLeft)
    known.row.gone_why = "it left";
  else if (known.departure == Departure::kDisplaced)
    known.row.gone_why = "another of its name took its place";
  else if (known.departure || known.ours)
    known.row.gone_why = fmt::format("nothing was heard of it for a lease of {}", lease);
  else
    known.row.gone_why = fmt::format(
        "it did not come back within a lease of {} after the engine had started", lease);
  for (WorkerRecord::Queue& queue : known.row.queues) queue.held = queue.running = 0;
  return true;
}

bool WorkerRoster::IsDue(const Known& known, Duration now) {
  if (!known.written) return true;
  const WorkerRecord& row = known.row;
  const WorkerRecord& stored = known.stored;
  const Duration since = now - *known.written;
  if (row.presence != stored.presence || row.connected_at != stored.connected_at ||
      row.labels != stored.labels || row.version != stored.version || row.host != stored.host ||
      !std::ranges::equal(row.queues, stored.queues, {}, &WorkerRecord::Queue::name,
                          &WorkerRecord::Queue::name) ||
      !std::ranges::equal(row.queues, stored.queues, {}, &WorkerRecord::Queue::slots,
                          &WorkerRecord::Queue::slots))
    return since >= kChanged;
  return since >= (row.queues != stored.queues ? kLoad : kHeard);
}

Status WorkerRoster::Write(std::span<Known* const> due, Duration now) {
  const Instant wall = clock_.Now();
  while (!due.empty()) {
    const auto part = due.first(std::min(due.size(), kBatch));
    std::vector<WorkerRecord> rows;
    rows.reserve(part.size());
    for (Known* const known : part) {
      known->row.written_at = wall;
      rows.push_back(known->row);
    }
    HEADWORKS_TRY(store_.WriteWorkers(rows, wall));
    for (Known* const known : part) {
      if (IsGone(known->row)) {
        known_.erase(IdentityOf(known->row));
        continue;
      }
      known->stored = known->row;
      known->written = now;
    }
    due = due.subspan(part.size());
  }
  return {};
}

void WorkerRoster::Note(const Status& done, std::string& trouble) {
  const std::scoped_lock lock(mutex_);
  if (!done && look_trouble_.empty() && orders_trouble_.empty())
    log_.Warning("workers are not looked after", {{"error", done.error().message}});
  trouble = done ? std::string() : done.error().message;
}

}  // namespace headworks
