#include "records.h"

#include <boost/json.hpp>

#include "headworks/base/json.h"

namespace headworks::cli {
namespace json = boost::json;
namespace {

json::value Seconds(Instant from, Instant to) {
  if (from == Instant{} || to == Instant{} || to < from) return nullptr;
  return std::chrono::duration<double>(to - from).count();
}

json::value TextOrNull(std::string_view text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::value ReasonOrNull(model::Reason reason) {
  return reason == model::Reason::kNone ? json::value(nullptr)
                                        : json::value(model::ReasonName(reason));
}

}  // namespace

json::value JsonTime(Instant instant) {
  if (instant == Instant{} || instant == kNever) return nullptr;
  return json::value(FormatInstant(instant));
}

json::object RunJson(const model::RunHeader& header) {
  json::object counts;
  for (std::size_t state = 0; state < model::kTaskStateCount; ++state)
    if (header.counts[state] != 0)
      counts[model::TaskStateName(static_cast<model::TaskState>(state))] = header.counts[state];
  return {
      {"run", header.run_no.value},
      {"id", header.run_id.value},
      {"tenant", header.tenant.value},
      {"package", header.name.package},
      {"workflow", header.name.workflow},
      {"version", header.version},
      {"state", model::RunStateName(header.state)},
      {"reason", ReasonOrNull(header.reason)},
      {"paused", header.paused_at != Instant{}},
      {"cancel_requested", header.cancel_requested_at != Instant{}},
      {"stuck", TextOrNull(header.stuck_reason)},
      {"priority", header.priority},
      {"generation", header.generation},
      {"start_key", TextOrNull(header.start_key)},
      {"concurrency_key",
       header.concurrency_key ? json::value(*header.concurrency_key) : json::value(nullptr)},
      {"rerun_of",
       header.rerun_of.value == 0 ? json::value(nullptr) : json::value(header.rerun_of.value)},
      {"created_at", JsonTime(header.created_at)},
      {"started_at", JsonTime(header.started_at)},
      {"finished_at", JsonTime(header.finished_at)},
      {"seconds", Seconds(header.started_at, header.finished_at)},
      {"counts", counts},
  };
}

json::object AttemptJson(const RunView& view, const model::AttemptRecord& attempt) {
  const model::Outcome& outcome = attempt.outcome;
  return {
      {"task", view.id(attempt.task)},
      {"epoch", attempt.epoch.value},
      {"try", attempt.try_no},
      {"generation", attempt.generation},
      {"verdict", model::VerdictName(outcome.verdict)},
      {"reason", ReasonOrNull(outcome.reason)},
      {"error", TextOrNull(outcome.error)},
      {"exit_code", outcome.exit_code ? json::value(*outcome.exit_code) : json::value(nullptr)},
      {"signal", outcome.signal ? json::value(*outcome.signal) : json::value(nullptr)},
      {"queued_at", JsonTime(attempt.queued_at)},
      {"started_at", JsonTime(outcome.started_at)},
      {"ended_at", JsonTime(outcome.ended_at)},
      {"seconds", Seconds(outcome.started_at, outcome.ended_at)},
  };
}

json::object TaskJson(const RunView& view, TaskNo no) {
  const model::TaskRun& task = view.tasks[no.value];
  const model::AttemptRecord* last = view.LastAttempt(no);
  const auto holder = view.holders.find(no);
  json::array needs;
  for (const TaskNo up : view.workflow->upstreams(no)) needs.emplace_back(view.id(up));
  return {
      {"task", view.id(no)},
      {"state", model::TaskStateName(task.state)},
      {"reason", ReasonOrNull(task.reason)},
      {"needs", needs},
      {"tries", task.tries},
      {"losses", task.losses},
      {"epoch", task.epoch.value},
      {"since", JsonTime(task.since)},
      {"not_before",
       task.state == model::TaskState::kParked ? JsonTime(task.not_before) : json::value(nullptr)},
      {"holder", holder == view.holders.end() ? json::value(nullptr) : TextOrNull(holder->second)},
      {"last_attempt", last == nullptr ? json::value(nullptr) : AttemptJson(view, *last)},
  };
}

json::value ParsedJson(std::string_view text) {
  if (text.empty()) return nullptr;
  auto value = ParseJson(text, {.max_bytes = std::size_t{16} << 20, .max_depth = 64});
  return value ? *std::move(value) : json::value(text);
}

}  // namespace headworks::cli
