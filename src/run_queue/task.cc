#include "headworks/run_queue/task.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "headworks/base/json.h"
#include "headworks/spec/params.h"
#include "headworks/task_queue/checks.h"

namespace headworks::run_queue {
namespace {

namespace json = boost::json;

constexpr std::string_view kType = task_queue::kRunType;
constexpr int kVersion = 1;
constexpr JsonLimits kLimits{.max_bytes = task_queue::kMaxPayloadBytes};

Error Invalid(std::string_view field, std::string_view what) {
  return {Code::kInvalidArgument, fmt::format("{}: {}", field, what)};
}

/// Texts as they are, all else as JSON: as on a command line.
std::vector<std::string> Assignments(const json::object& kwargs) {
  std::vector<std::string> assignments;
  for (const auto& [name, value] : kwargs)
    assignments.push_back(
        fmt::format("{}={}", std::string_view(name),
                    value.is_string() ? std::string(value.get_string()) : CanonicalJson(value)));
  return assignments;
}

Result<std::string> TextOf(const json::object& from, std::string_view name) {
  const json::value* value = from.if_contains(name);
  if (value == nullptr || !value->is_string()) return Invalid(name, "is missing, or no text");
  return std::string(value->get_string());
}

Result<std::string> ObjectOf(const json::object& from, std::string_view name) {
  const json::value* value = from.if_contains(name);
  if (value == nullptr || !value->is_object()) return Invalid(name, "is missing, or no object");
  return CanonicalJson(*value);
}

}  // namespace

Result<Task> Task::Create(TaskFields fields) {
  Task task;
  // Any tenant will do: it is not the task's.
  HEADWORKS_TRY(task_queue::CheckQueue(TenantId("any"), fields.queue_name));
  if (fields.planned_fire_time.has_value() == fields.schedule_id.empty())
    return Invalid("planned_fire_time", fields.schedule_id.empty()
                                            ? "is a slot's, and there is no schedule_id"
                                            : "is needed for the slot of a schedule");
  json::value fire_time;
  if (fields.planned_fire_time) {
    const auto text = task_queue::FormatPlannedTime(*fields.planned_fire_time);
    if (!text) return Invalid("planned_fire_time", text.error().message);
    fire_time = *text;
  }
  if (!fields.schedule_id.empty())
    if (auto good = task_queue::CheckId(TenantId("any"), fields.queue_name, fields.schedule_id);
        !good)
      return Invalid("schedule_id", good.error().message);
  if (fields.task_id.empty()) {
    if (fields.schedule_id.empty())
      return Invalid("task_id", "is needed where there is no schedule_id to make one of");
    HEADWORKS_ASSIGN(fields.task_id,
                     task_queue::SlotTaskId(fields.schedule_id, *fields.planned_fire_time));
  }
  if (auto good = task_queue::CheckId(TenantId("any"), fields.queue_name, fields.task_id); !good)
    return Invalid("task_id", good.error().message);
  auto workflow = model::Workflow::FromCanonicalJson(fields.workflow_blob);
  if (!workflow) return Invalid("workflow_blob", workflow.error().message);
  if ((*workflow)->canonical_json() != fields.workflow_blob)
    return Invalid("workflow_blob", "is a workflow, but not in its canonical form");
  task.workflow_ = *std::move(workflow);
  auto kwargs = ParseJsonObject(fields.kwargs, "kwargs", kLimits);
  if (!kwargs) return Error(kwargs.error());
  auto input = ParseJsonObject(fields.input, "input", kLimits);
  if (!input) return Error(input.error());
  task.params_ = Assignments(*kwargs);
  if (const auto read = spec::ParseParams(task.workflow().definition(), task.params_, fields.input);
      !read)
    return Invalid("kwargs", read.error().message);
  task.payload_ = CanonicalJson(json::object{{"type", kType},
                                             {"version", kVersion},
                                             {"schedule_id", fields.schedule_id},
                                             {"planned_fire_time", fire_time},
                                             {"workflow_blob", fields.workflow_blob},
                                             {"kwargs", *std::move(kwargs)},
                                             {"input", *std::move(input)}});
  if (task.payload_.size() > task_queue::kMaxPayloadBytes)
    return Error{
        Code::kInvalidArgument,
        fmt::format("workflow_blob, kwargs and input have {} bytes together; at most {} are "
                    "taken: store what is large elsewhere, and send where it is",
                    task.payload_.size(), task_queue::kMaxPayloadBytes)};
  task.fields_ = std::move(fields);
  return task;
}

Result<Task> Task::FromPayload(std::string_view queue, std::string_view id,
                               std::string_view payload) {
  HEADWORKS_ASSIGN(const auto object, ParseJsonObject(payload, "the payload", kLimits));
  const json::value* type = object.if_contains("type");
  const json::value* version = object.if_contains("version");
  if (type == nullptr || *type != json::value(kType))
    return Invalid("the payload",
                   fmt::format("is no run to take up: its \"type\" is not \"{}\"", kType));
  if (version == nullptr || *version != json::value(kVersion))
    return Invalid("the payload", fmt::format("has a version that is not {}; this program cannot "
                                              "read it",
                                              kVersion));
  TaskFields fields{.task_id = std::string(id), .queue_name = std::string(queue)};
  HEADWORKS_ASSIGN(fields.schedule_id, TextOf(object, "schedule_id"));
  if (!fields.schedule_id.empty()) {
    HEADWORKS_ASSIGN(const std::string fire_time, TextOf(object, "planned_fire_time"));
    HEADWORKS_ASSIGN(fields.planned_fire_time, task_queue::ParsePlannedTime(fire_time));
  }
  HEADWORKS_ASSIGN(fields.workflow_blob, TextOf(object, "workflow_blob"));
  HEADWORKS_ASSIGN(fields.kwargs, ObjectOf(object, "kwargs"));
  HEADWORKS_ASSIGN(fields.input, ObjectOf(object, "input"));
  return Create(std::move(fields));
}

Result<task_queue::Enqueued> Push(task_queue::TaskQueue& queue, const TenantId& tenant,
                                  const Task& task, int priority) {
  if (task.workflow().name().tenant != tenant.value)
    return Invalid("workflow_blob", fmt::format("is tenant {}'s, and the queue is {}'s",
                                                task.workflow().name().tenant, tenant.value));
  const task_queue::NewItem item{
      .id = task.fields().task_id, .payload = task.payload(), .priority = priority};
  HEADWORKS_ASSIGN(const auto answers, queue.Enqueue(tenant, task.fields().queue_name, {&item, 1}));
  return answers.front();
}

}  // namespace headworks::run_queue
