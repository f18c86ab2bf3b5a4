#include "dead_watch.h"

#include <algorithm>

namespace headworks::alert {
namespace {

using task_queue::Enqueued;
using task_queue::ItemNo;
using task_queue::ItemRecord;
using task_queue::QueueRecord;
using task_queue::TenantQueue;

/// More than dead items are kept: they may be alerted late.
constexpr Duration kMargin = std::chrono::hours(24);

auto FiguresOf(const QueueRecord& record) {
  return std::tuple(record.failed, record.dead, record.enqueued);
}

}  // namespace

bool DeadWatch::IsTarget(const std::string& queue) const {
  return queue == kCommandQueue || std::ranges::find(targets_, queue) != targets_.end();
}

DeadWatch::Looked DeadWatch::Look(std::span<const TenantQueue> all) {
  Looked looked;
  std::size_t budget = kMostAtOnce;
  std::map<Key, Seen> still;
  for (const TenantQueue& queue : all) {
    // No alert is about an alert.
    if (IsTarget(queue.record.name)) continue;
    const Key key(queue.tenant, queue.record.name);
    Seen& seen = still[key];
    if (auto known = seen_.extract(key)) seen = std::move(known.mapped());
    if (seen.figures == FiguresOf(queue.record)) continue;
    if (queue.record.dead == 0 && !seen.figures) {
      seen.figures = FiguresOf(queue.record);
      continue;
    }
    if (budget == 0) continue;
    const Status one = LookAt(queue, seen, budget, looked.written);
    if (looked.trouble) looked.trouble = one;
  }
  seen_ = std::move(still);  // without those that are gone
  looked.more = budget == 0;
  return looked;
}

Status DeadWatch::LookAt(const TenantQueue& queue, Seen& seen, std::size_t& budget,
                         std::uint64_t& written) {
  const bool first = !seen.figures;
  task_queue::QueueSurvey::DeadAfter from{seen.last, ItemNo(0)};
  if (seen.resume) from = *seen.resume;
  for (;;) {
    const std::size_t limit = std::min(budget, task_queue::kMaxBatch);
    HEADWORKS_ASSIGN(const auto page,
                     queues_.survey().ListDead(queue.tenant, queue.record.name, from, limit));
    std::vector<Alert> alerts;
    for (const ItemRecord& item : page)
      if (item.ended_at != seen.last || !seen.at_last.contains({item.no, item.claim}))
        alerts.push_back(OfDeadItem(queue.tenant, queue.record.name, item));
    if (!alerts.empty()) HEADWORKS_TRY(Write(queue, alerts, first, written));
    for (const ItemRecord& item : page) {
      if (item.ended_at != seen.last) seen.at_last.clear();
      seen.last = item.ended_at;
      seen.at_last.insert({item.no, item.claim});
      from = {item.ended_at, item.no};
    }
    budget -= page.size();
    if (page.size() < limit) break;
    seen.resume = from;
    if (budget == 0) return {};
  }
  seen.resume.reset();
  seen.figures = FiguresOf(queue.record);
  return {};
}

Status DeadWatch::Write(const TenantQueue& queue, const std::vector<Alert>& alerts,
                        bool may_be_known, std::uint64_t& written) {
  const TenantId& tenant = queue.tenant;
  HEADWORKS_TRY(KeepIds(tenant, queue.record.settings.dead_retention + kMargin));
  std::set<std::string> known;
  if (may_be_known) {  // to read is cheaper than to write
    task_queue::ItemFilter filter{.limit = task_queue::kMaxBatch};
    for (const Alert& alert : alerts) filter.ids.push_back(alert.id);
    HEADWORKS_ASSIGN(const auto items, queues_.admin().ListItems(tenant, target_, filter));
    for (const ItemRecord& item : items) known.insert(item.id);
  }
  std::vector<task_queue::NewItem> items;
  for (const Alert& alert : alerts)
    if (!known.contains(alert.id))
      items.push_back(
          {.id = alert.id, .payload = alert.payload, .max_attempts = AttemptsIn(target_)});
  if (items.empty()) return {};
  HEADWORKS_ASSIGN(const auto answers, queues_.tasks().Enqueue(tenant, target_, items));
  written += static_cast<std::uint64_t>(std::ranges::count(answers, Enqueued::kInserted));
  return {};
}

Status DeadWatch::KeepIds(const TenantId& tenant, Duration window) {
  window = std::min(window, task_queue::kLongestDelay);
  const auto record = queues_.admin().GetQueue(tenant, target_);
  if (!record && record.error().code != Code::kNotFound) return Error(record.error());
  if (record && record->settings.dedup_window >= window) return {};
  HEADWORKS_TRY(queues_.admin().Configure(tenant, target_, {.dedup_window = window}));
  return {};
}

}  // namespace headworks::alert
