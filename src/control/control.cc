#include "headworks/control/control.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <limits>

#include "headworks/base/json.h"

namespace headworks::control {
namespace {

namespace json = boost::json;

/// Of both stored forms.  A reader takes every format up to its own.
constexpr std::int64_t kFormat = 1;
/// Inputs were bounded at the border; this only keeps a damaged row from eating memory.
constexpr JsonLimits kLimits{.max_bytes = std::size_t{16} << 20, .max_depth = 64};

/// Reads fields one by one and remembers the first fault, so that callers stay straight.
class FieldReader {
 public:
  FieldReader(const json::object& object, std::string_view what) : object_(object), what_(what) {}

  std::string Text(std::string_view key, bool required = false) {
    const json::value* value = object_.if_contains(key);
    if (value != nullptr && value->is_string() && !(required && value->get_string().empty()))
      return std::string(value->get_string());
    if (value != nullptr || required) Fail(key, "must be a text");
    return {};
  }

  std::int64_t Integer(std::string_view key, std::int64_t low, std::int64_t high) {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr && low <= 0 && high >= 0) return 0;
    if (value != nullptr && value->is_int64() && value->get_int64() >= low &&
        value->get_int64() <= high)
      return value->get_int64();
    Fail(key, fmt::format("must be an integer from {} to {}", low, high));
    return low;
  }

  void Fail(std::string_view key, std::string_view why) {
    if (!error_)
      error_ = Error{Code::kCorrupt, fmt::format("stored {}: field '{}' {}", what_, key, why)};
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const json::object& object_;
  std::string_view what_;
  std::optional<Error> error_;
};

Result<json::object> ParseStored(std::string_view payload, std::string_view what) {
  auto object = ParseJsonObject(payload, what, kLimits);
  if (!object)
    return Error{Code::kCorrupt, fmt::format("stored {}: {}", what, object.error().message)};
  const json::value* format = object->if_contains("format");
  if (format == nullptr || !format->is_int64() || format->get_int64() < 1)
    return Error{Code::kCorrupt, fmt::format("stored {}: it names no format", what)};
  if (format->get_int64() > kFormat)
    return Error{Code::kUnavailable,
                 fmt::format("stored {}: format {} was written by a newer Headworks, this one "
                             "reads up to {}: upgrade the engine",
                             what, format->get_int64(), kFormat)};
  return object;
}

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

}  // namespace

std::string_view CommandKindName(CommandKind kind) {
  switch (kind) {
    case CommandKind::kCancel:
      return "cancel";
    case CommandKind::kPause:
      return "pause";
    case CommandKind::kResume:
      return "resume";
    case CommandKind::kRerun:
      return "rerun";
    case CommandKind::kMark:
      return "mark";
    case CommandKind::kUnstick:
      return "unstick";
    case CommandKind::kDelete:
      return "delete";
  }
  return "unknown";
}

std::string_view WorkerCommandKindName(WorkerCommandKind kind) {
  switch (kind) {
    case WorkerCommandKind::kCordon:
      return "cordon";
    case WorkerCommandKind::kUncordon:
      return "uncordon";
    case WorkerCommandKind::kDrain:
      return "drain";
  }
  return "unknown";
}

Status CheckStart(const StartRequest& request) {
  constexpr int kMost = StartRequest::kMaxPriority;
  if (request.priority < -kMost || request.priority > kMost)
    return Error{Code::kInvalidArgument,
                 fmt::format("priority {} of a run of {}: must be from {} to {}", request.priority,
                             request.name.ToString(), -kMost, kMost)};
  return {};
}

std::string EncodeStart(const StartRequest& request) {
  json::object object{
      {"format", kFormat},
      {"tenant", request.tenant.value},
      {"package", request.name.package},
      {"workflow", request.name.workflow},
      {"version", request.version},
      {"input", request.input},
      {"start_key", request.start_key},
      {"priority", request.priority},
      {"actor", request.actor},
      {"rerun_of", request.rerun_of.value},
  };
  if (request.concurrency_key) object["concurrency_key"] = *request.concurrency_key;
  return json::serialize(object);
}

Result<StartRequest> DecodeStart(std::string_view payload) {
  HEADWORKS_ASSIGN(const json::object object, ParseStored(payload, "start request"));
  FieldReader read(object, "start request");
  StartRequest request;
  request.tenant = TenantId(read.Text("tenant", true));
  request.name = {.tenant = request.tenant.value,
                  .package = read.Text("package", true),
                  .workflow = read.Text("workflow", true)};
  request.version = read.Text("version", true);
  request.input = read.Text("input");
  if (object.contains("concurrency_key")) request.concurrency_key = read.Text("concurrency_key");
  request.start_key = read.Text("start_key");
  request.priority = static_cast<int>(
      read.Integer("priority", -StartRequest::kMaxPriority, StartRequest::kMaxPriority));
  request.actor = read.Text("actor");
  request.rerun_of = RunNo(read.Integer("rerun_of", 0, kLargest));
  if (read.error()) return *read.error();
  return request;
}

std::string EncodeCommand(const Command& command) {
  return json::serialize(json::object{
      {"format", kFormat},
      {"tenant", command.tenant.value},
      {"kind", static_cast<std::int64_t>(command.kind)},
      {"run", command.run.value},
      {"rerun", static_cast<std::int64_t>(command.rerun)},
      {"task", command.task},
      {"mark", static_cast<std::int64_t>(command.mark)},
      {"actor", command.actor},
  });
}

Result<Command> DecodeCommand(std::string_view payload) {
  using Reset = model::ResetCursor::Kind;
  HEADWORKS_ASSIGN(const json::object object, ParseStored(payload, "command"));
  FieldReader read(object, "command");
  Command command;
  command.tenant = TenantId(read.Text("tenant", true));
  command.kind =
      static_cast<CommandKind>(read.Integer("kind", static_cast<std::int64_t>(CommandKind::kCancel),
                                            static_cast<std::int64_t>(CommandKind::kDelete)));
  command.run = RunNo(read.Integer("run", 1, kLargest));
  command.rerun = static_cast<Reset>(read.Integer("rerun", static_cast<std::int64_t>(Reset::kNone),
                                                  static_cast<std::int64_t>(Reset::kMark)));
  command.task = read.Text("task");
  command.mark = static_cast<model::TaskState>(
      read.Integer("mark", 0, static_cast<std::int64_t>(model::TaskState::kCancelled)));
  command.actor = read.Text("actor");
  const bool from = command.kind == CommandKind::kRerun && command.rerun == Reset::kFrom;
  if (command.kind == CommandKind::kRerun && command.rerun != Reset::kFailed && !from &&
      command.rerun != Reset::kAll)
    read.Fail("rerun", "must be failed, from or all");
  if (command.kind == CommandKind::kMark && command.mark != model::TaskState::kSucceeded &&
      command.mark != model::TaskState::kFailed && command.mark != model::TaskState::kSkipped)
    read.Fail("mark", "must be succeeded, failed or skipped");
  if ((from || command.kind == CommandKind::kMark) && command.task.empty())
    read.Fail("task", "must name a task");
  if (read.error()) return *read.error();
  return command;
}

}  // namespace headworks::control
