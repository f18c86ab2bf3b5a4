#include "courier.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "headworks/base/json.h"

namespace headworks::alert {
namespace json = boost::json;
namespace {

using task_queue::ClaimedItem;
using task_queue::ItemState;
using task_queue::Settlement;
using task_queue::TenantQueue;

constexpr char kHolder[] = "alert command";
/// What of an alert is a variable of the command, too: ALERT_QUEUE, ...
constexpr std::array<std::string_view, 11> kVariables{"alert",  "id",       "tenant", "queue",
                                                      "item",   "workflow", "run",    "task",
                                                      "budget", "reason",   "count"};

json::value ParsedPayload(const ClaimedItem& item) {
  auto parsed = ParseJson(item.payload, {.max_bytes = task_queue::kMaxPayloadBytes});
  return parsed ? *std::move(parsed) : json::value(item.payload);
}

/// What is told of many alerts.
json::object SumOf(const TenantId& tenant, const std::vector<ClaimedItem>& items) {
  std::map<std::string, std::int64_t, std::less<>> kinds;
  json::array first;
  for (const ClaimedItem& item : items) {
    ++kinds[std::string(KindOf(item.id))];
    if (first.size() < static_cast<std::size_t>(Courier::kFew))
      first.push_back(ParsedPayload(item));
  }
  return {{"alert", "summary"},
          {"tenant", tenant.value},
          {"count", items.size()},
          {"kinds", json::value_from(kinds)},
          {"alerts", std::move(first)}};
}

Call CallOf(const TenantId& tenant, const std::vector<ClaimedItem>& items) {
  const json::value told =
      items.size() > 1 ? json::value(SumOf(tenant, items)) : ParsedPayload(items.front());
  Call call{.tenant = tenant, .input = json::serialize(told), .env = {}};
  const json::object* const object = told.if_object();
  if (object == nullptr) return call;
  for (const std::string_view name : kVariables) {
    const json::value* const value = object->if_contains(name);
    if (value == nullptr || value->is_null()) continue;
    std::string text =
        value->is_string() ? std::string(value->get_string()) : json::serialize(*value);
    std::erase(text, '\0');  // what no variable can hold
    std::string variable = name == "alert" ? "ALERT_KIND" : "ALERT_";
    if (name != "alert")
      for (const char c : name) variable += static_cast<char>(c - 'a' + 'A');
    call.env[variable] = std::move(text);
  }
  return call;
}

}  // namespace

Status Courier::Tick(std::span<const TenantQueue> all) {
  if (!delivery_) return Next(all);
  if (!end_) {
    const std::lock_guard lock(mail_->mutex);
    end_ = mail_->end;
  }
  if (end_) return Finish(CommandEnd(*end_));
  return clock_.Monotonic() >= delivery_->extend_at ? Extend() : Status();
}

Status Courier::Next(std::span<const TenantQueue> all) {
  std::vector<const TenantQueue*> waiting;
  for (const TenantQueue& queue : all)
    if (queue.record.name == kCommandQueue && queue.record.pending + queue.record.processing > 0)
      waiting.push_back(&queue);
  // The tenant after the last one comes first.
  std::ranges::rotate(waiting, std::ranges::find_if(waiting, [&](const auto* queue) {
                        return queue->tenant > last_;
                      }));
  Status first;  // the trouble of one tenant is not another's (I11)
  for (const TenantQueue* queue : waiting) {
    const auto took = Take(*queue);
    if (!took && first) first = took.error();
    if (!took || !*took) continue;
    last_ = queue->tenant;
    break;
  }
  return first;
}

Result<bool> Courier::Take(const TenantQueue& queue) {
  const auto& record = queue.record;
  Rest& rest = rests_[queue.tenant];
  if (rest.pending == record.pending && rest.processing == record.processing &&
      rest.enqueued == record.enqueued && clock_.Monotonic() < rest.until)
    return false;
  HEADWORKS_ASSIGN(auto polled,
                   queues_.tasks().Poll(
                       {.tenant = queue.tenant,
                        .queue = kCommandQueue,
                        .max_items = record.pending > kFew ? task_queue::kMaxBatch : std::size_t{1},
                        .visibility = kLease,
                        .holder = kHolder}));
  if (polled.items.empty()) {
    // One that was paused is asked again soon: nothing tells of its end.
    const Duration pause = polled.paused ? kFirstRetry : polled.next.value_or(kLongestRest);
    rest = {record.pending, record.processing, record.enqueued, clock_.Monotonic() + pause};
    return false;
  }
  rests_.erase(queue.tenant);
  delivery_ = {queue.tenant, std::move(polled.items), clock_.Monotonic() + kExtend};
  mail_ = std::make_shared<Mail>();
  const Status started = commands_.Start(CallOf(queue.tenant, delivery_->items),
                                         [mail = mail_, wake = wake_](CommandEnd end) {
                                           {
                                             const std::lock_guard lock(mail->mutex);
                                             mail->end = std::move(end);
                                           }
                                           wake();
                                         });
  if (!started) end_ = CommandEnd{CommandEnd::How::kFailed, started.error().message};
  return true;
}

Status Courier::Extend() {
  std::vector<task_queue::Claim> claims;
  for (const ClaimedItem& item : delivery_->items) claims.push_back(item.claim);
  // One that is lost all the same is told of again; the command is not stopped for it.
  HEADWORKS_TRY(queues_.tasks().Extend(delivery_->tenant, kCommandQueue, claims, kLease));
  delivery_->extend_at = clock_.Monotonic() + kExtend;
  return {};
}

Status Courier::Finish(const CommandEnd& end) {
  std::vector<Settlement> settlements;
  for (const ClaimedItem& item : delivery_->items) {
    Settlement& said = settlements.emplace_back(Settlement{.claim = item.claim});
    if (end.how == CommandEnd::How::kStopped) said.kind = Settlement::Kind::kHandBack;
    if (end.how != CommandEnd::How::kFailed) continue;
    said.kind = Settlement::Kind::kNack;
    said.reason = end.why.substr(0, task_queue::kMaxReasonBytes);
    said.delay = RetryDelay(item.attempt);
  }
  HEADWORKS_ASSIGN(const auto answers,
                   queues_.tasks().Settle(delivery_->tenant, kCommandQueue, settlements));
  std::size_t given_up = 0;
  for (const auto& answer : answers)
    if (answer && *answer == ItemState::kDead) ++given_up;
  Count(end, given_up);
  delivery_.reset();
  end_.reset();
  mail_.reset();
  return {};
}

void Courier::Count(const CommandEnd& end, std::size_t given_up) {
  if (end.how == CommandEnd::How::kDone) ++succeeded_;
  if (end.how != CommandEnd::How::kFailed) return;
  ++failed_;
  given_up_ += given_up;
  const std::string& first = delivery_->items.front().id;
  const std::string count = fmt::format("{}", delivery_->items.size());
  if (given_up > 0)
    log_.Error(
        "the alert command failed to the last; alerts are given up, `headworks queue redrive` "
        "tries them again",
        {{"tenant", delivery_->tenant.value},
         {"queue", kCommandQueue},
         {"first", first},
         {"alerts", fmt::format("{}", given_up)},
         {"error", end.why}});
  else
    log_.Warning("the alert command failed; it is tried again",
                 {{"tenant", delivery_->tenant.value},
                  {"first", first},
                  {"alerts", count},
                  {"error", end.why}});
}

Status Courier::Stop() {
  if (!delivery_) return {};
  commands_.Stop();
  if (!end_) {
    const std::lock_guard lock(mail_->mutex);
    end_ = mail_->end.value_or(CommandEnd{CommandEnd::How::kStopped});
  }
  return Finish(CommandEnd(*end_));
}

}  // namespace headworks::alert
