#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "headworks/model/workflow.h"
#include "headworks/task_queue/slot_id.h"
#include "headworks/task_queue/task_queue.h"

/// Whole runs as items of a durable queue: whoever takes one runs the workflow with an engine of
/// its own.
namespace headworks::run_queue {

/// What a Task is made of.
struct TaskFields {
  /// Known once in its queue (I8).  Empty = SlotTaskId(schedule_id, planned_fire_time).
  std::string task_id;
  /// Whose slot it is, as ids of items are; empty = nobody's: then it needs a task_id.
  std::string schedule_id;
  /// As Workflow::canonical_json() writes it: data, never anything to execute.
  std::string workflow_blob;
  /// Of the slot; none without a schedule_id.
  std::optional<task_queue::PlannedTime> planned_fire_time;
  std::string queue_name = task_queue::kDefaultQueue;
  /// A JSON object: the run's parameters, each read as `headworks run -p NAME=VALUE` reads it.
  std::string kwargs = "{}";
  /// A JSON object: the run's input.
  std::string input = "{}";
};

/// A run to hand over.  Immutable; what is here has been checked.
class Task {
 public:
  /// kInvalidArgument says which field is wrong, and how.
  static Result<Task> Create(TaskFields fields);
  /// Reads what `payload()` wrote, of the item `id` in `queue`.  Errors as for Create.
  static Result<Task> FromPayload(std::string_view queue, std::string_view id,
                                  std::string_view payload);

  const TaskFields& fields() const { return fields_; }
  const model::Workflow& workflow() const { return *workflow_; }
  const std::shared_ptr<const model::Workflow>& shared_workflow() const { return workflow_; }
  /// `kwargs` as "name=value" each.
  const std::vector<std::string>& params() const { return params_; }
  /// Canonical JSON, at most task_queue::kMaxPayloadBytes.
  const std::string& payload() const { return payload_; }

 private:
  Task() = default;
  TaskFields fields_;
  std::shared_ptr<const model::Workflow> workflow_;
  std::vector<std::string> params_;
  std::string payload_;
};

/// Puts it into its queue, as the item `task_id`.  Errors are those of TaskQueue::Enqueue, and
/// kInvalidArgument for a workflow of another tenant.
Result<task_queue::Enqueued> Push(task_queue::TaskQueue& queue, const TenantId& tenant,
                                  const Task& task, int priority = 0);

}  // namespace headworks::run_queue
