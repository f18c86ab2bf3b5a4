#include "headworks/task_queue_conformance/harness.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

namespace headworks::task_queue::conformance {

std::string Text(const ItemRecord& i) {
  return fmt::format("{} '{}' {} p{} {}/{} r{} c{} at {} {} {} {} claim {} '{}' {}@{} {}b {} '{}'",
                     i.no.value, i.id, StateName(i.state), i.priority, i.attempts, i.max_attempts,
                     i.redrives, i.cancel_requested, i.enqueued_at.time_since_epoch().count(),
                     i.available_at.time_since_epoch().count(),
                     i.claimed_at.time_since_epoch().count(), i.ended_at.time_since_epoch().count(),
                     i.claim.value, i.holder, i.lease_until.count(), i.lease_boot != 0,
                     i.payload_bytes, i.payload_digest, i.reason);
}

std::string Text(const QueueSettings& s) {
  return fmt::format("{} {} {} {} {}/{} {} {} {}", s.visibility.count(), s.max_attempts,
                     s.backoff.count(), s.max_backoff.count(), s.rate ? s.rate->count : 0,
                     s.rate ? s.rate->per.count() : 0, s.max_depth, s.dedup_window.count(),
                     s.dead_retention.count());
}

std::string Text(const QueueRecord& r) {
  return fmt::format("{} [{}] paused {} {} {} {} | {} {} {} {} {} | {} {:.3f} {:.3f} {:.3f}",
                     r.name, Text(r.settings), r.paused, r.pending, r.processing, r.dead,
                     r.enqueued, r.completed, r.failed, r.duplicates, r.differing,
                     r.oldest_age.count(), r.enqueue_rate, r.complete_rate, r.fail_rate);
}

std::string Text(const Polled& polled) {
  std::string text =
      fmt::format("paused {} next {} [", polled.paused, polled.next ? polled.next->count() : -1);
  for (const ClaimedItem& i : polled.items) {
    text += fmt::format("{} '{}' {} p{} {}/{} {} {}\n ", FormatClaim(i.claim), i.id, i.payload,
                        i.priority, i.attempt, i.max_attempts, i.lease.count(),
                        i.enqueued_at.time_since_epoch().count());
  }
  return text + "]";
}

Result<Enqueued> QueueConformance::Push(NewItem item, const std::string& queue,
                                        const TenantId& tenant) {
  HEADWORKS_ASSIGN(const auto answers, tasks().Enqueue(tenant, queue, std::span(&item, 1)));
  return answers.at(0);
}

std::vector<std::string> QueueConformance::Poll(std::size_t max, const std::string& queue) {
  auto polled = tasks().Poll(
      {.tenant = kTenant, .queue = queue, .max_items = max, .visibility = {}, .holder = "h"});
  EXPECT_TRUE(polled) << polled.error().message;
  std::vector<std::string> ids;
  for (ClaimedItem& item : polled->items) {
    ids.push_back(item.id);
    claimed_.push_back(std::move(item));
  }
  return ids;
}

Claim QueueConformance::ClaimOf(const std::string& id) const {
  for (const ClaimedItem& item : claimed_ | std::views::reverse) {
    if (item.id == id) return item.claim;
  }
  ADD_FAILURE() << id << " was never claimed";
  return {};
}

std::string QueueConformance::Settle(Claim claim, Settlement::Kind kind, std::string reason,
                                     std::optional<Duration> delay) {
  const Settlement settlement{claim, kind, std::move(reason), delay};
  const auto answers = tasks().Settle(kTenant, "q", std::span(&settlement, 1));
  if (!answers) return "call: " + answers.error().message;
  return std::string(answers->at(0) ? StateName(*answers->at(0))
                                    : CodeName(answers->at(0).error().code));
}

std::string QueueConformance::Extend(Claim claim, Duration visibility) {
  const auto answers = tasks().Extend(kTenant, "q", std::span(&claim, 1), visibility);
  return answers ? CodeOf(answers->at(0)) : "call: " + answers.error().message;
}

ItemRecord QueueConformance::Item(const std::string& id) {
  auto item = admin().GetItem(kTenant, "q", id);
  EXPECT_TRUE(item) << item.error().message;
  return item ? item->item : ItemRecord();
}

QueueRecord QueueConformance::Queue() {
  auto record = admin().GetQueue(kTenant, "q");
  EXPECT_TRUE(record) << record.error().message;
  return record ? *record : QueueRecord();
}

void QueueConformance::MakeDead(const std::string& id, const std::string& reason) {
  QUEUE_EXPECT_OK(Push({.id = id, .payload = "{}", .priority = 1'000, .max_attempts = 1}));
  EXPECT_EQ(Poll(1), std::vector{id});
  EXPECT_EQ(Nack(id, reason), "dead");
}

}  // namespace headworks::task_queue::conformance
