#include "headworks/alert/alert.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "headworks/base/text.h"
#include "headworks/task_queue/checks.h"
#include "headworks/task_queue/redact.h"

namespace headworks::alert {
namespace json = boost::json;
namespace {

json::value TimeOrNull(Instant at) {
  return at == Instant{} ? json::value(nullptr) : json::value(FormatInstant(at));
}

json::object Head(std::string_view kind, const TenantId& tenant, std::string_view id, Instant at) {
  return {{"alert", kind}, {"id", id}, {"tenant", tenant.value}, {"at", TimeOrNull(at)}};
}

/// What an attempt said of its failure, fit to be sent about.
std::string ErrorOf(const model::AttemptRecord& attempt) {
  std::string text = task_queue::RedactCredentials(ReplaceInvalidUtf8(attempt.outcome.error));
  if (text.size() > kMaxErrorBytes)
    text.resize(ValidUtf8Prefix(std::string_view(text).substr(0, kMaxErrorBytes)));
  return text;
}

/// Which budget the end of the task used up; null: trying again was no use, or not allowed.
json::value BudgetOf(const model::StoredTask& row, const model::AttemptRecord* last) {
  if (row.reason == model::Reason::kLost) return "losses";
  if (row.reason == model::Reason::kDispatchFailed && row.dispatch_failures > 0)
    return "dispatch_failures";
  if (last != nullptr && last->outcome.verdict == model::Verdict::kRetry) return "tries";
  return nullptr;
}

json::object OfRun(std::string_view kind, const model::RunHeader& run, std::string_view id,
                   Instant at) {
  json::object object = Head(kind, run.tenant, id, at);
  object["package"] = run.name.package;
  object["workflow"] = run.name.workflow;
  object["run"] = run.run_no.value;
  object["run_id"] = run.run_id.value;
  return object;
}

}  // namespace

Alert OfDeadItem(const TenantId& tenant, std::string_view queue,
                 const task_queue::ItemRecord& item) {
  Alert alert{tenant,
              fmt::format("{}:{}:{}", kDeadLetter, queue,
                          task_queue::FormatClaim({.item = item.no, .number = item.claim})),
              {}};
  json::object object = Head(kDeadLetter, tenant, alert.id, item.ended_at);
  object["queue"] = queue;
  object["item"] = item.id;
  object["attempts"] = item.attempts;
  object["redrives"] = item.redrives;
  object["holder"] = item.holder;
  object["reason"] = item.reason;
  alert.payload = json::serialize(object);
  return alert;
}

std::optional<Alert> OfTask(const model::RunHeader& run, const model::Task& task,
                            const model::StoredTask& row, const model::AttemptRecord* last) {
  if (row.state != model::TaskState::kFailed || task.allow_failure ||
      row.reason == model::Reason::kMarked)
    return std::nullopt;
  Alert alert{run.tenant,
              fmt::format("{}:{}:{}.{}.{}", kTaskFailed, run.run_no.value, row.task.value,
                          row.generation, row.epoch.value),
              {}};
  json::object object = OfRun(kTaskFailed, run, alert.id, row.since);
  object["task"] = task.id;
  object["map_index"] = -1;
  object["try"] = last != nullptr ? last->try_no : row.tries;
  object["budget"] = BudgetOf(row, last);
  object["reason"] = model::ReasonName(row.reason);
  object["error"] = last != nullptr ? json::value(ErrorOf(*last)) : json::value(nullptr);
  alert.payload = json::serialize(object);
  return alert;
}

Alert OfStuckRun(const model::RunHeader& run) {
  Alert alert{run.tenant,
              fmt::format("{}:{}:{}", kRunStuck, run.run_no.value,
                          run.stuck_since.time_since_epoch().count()),
              {}};
  json::object object = OfRun(kRunStuck, run, alert.id, run.stuck_since);
  object["reason"] = task_queue::RedactCredentials(ReplaceInvalidUtf8(run.stuck_reason));
  alert.payload = json::serialize(object);
  return alert;
}

Alert OfTest(const TenantId& tenant, std::string_view id, std::string_view actor, Instant at) {
  Alert alert{tenant, fmt::format("{}:{}", kTest, id), {}};
  json::object object = Head(kTest, tenant, alert.id, at);
  object["by"] = actor;
  alert.payload = json::serialize(object);
  return alert;
}

std::string_view KindOf(std::string_view id) { return id.substr(0, id.find(':')); }

Status CheckQueue(std::string_view queue) {
  if (queue.empty()) return {};
  if (queue == kCommandQueue)
    return Error{Code::kInvalidArgument,
                 fmt::format("'{}' is where alerts wait for the command; choose another queue for "
                             "alerts",
                             queue)};
  return task_queue::CheckQueue(TenantId("public"), queue);
}

std::vector<std::string> QueuesOf(bool has_command, const std::string& queue) {
  std::vector<std::string> queues;
  if (has_command) queues.emplace_back(kCommandQueue);
  if (!queue.empty()) queues.push_back(queue);
  return queues;
}

int AttemptsIn(std::string_view queue) { return queue == kCommandQueue ? kCommandAttempts : 0; }

void AddItems(std::span<const Alert> alerts, std::span<const std::string> queues,
              std::vector<store::QueuedItem>& items) {
  items.reserve(items.size() + alerts.size() * queues.size());
  for (const std::string& queue : queues)
    for (const Alert& alert : alerts)
      items.push_back({.tenant = alert.tenant,
                       .queue = queue,
                       .id = alert.id,
                       .payload = alert.payload,
                       .max_attempts = AttemptsIn(queue)});
}

}  // namespace headworks::alert
