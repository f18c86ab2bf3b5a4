#include "headworks/store_conformance/samples.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace headworks::store::conformance {
namespace {

Instant At(std::int64_t seconds) { return kT0 + std::chrono::seconds(seconds); }
std::int64_t Micros(Instant t) { return t.time_since_epoch().count(); }

}  // namespace

model::RunHeader PlainHeader(RunNo run, const TenantId& tenant) {
  model::RunHeader h;
  h.run_no = run;
  h.run_id = RunId(fmt::format("0191a0b1-{:04x}-7000-8000-0000000000aa", run.value));
  h.tenant = tenant;
  h.name = {tenant.value, "embedded", "report"};
  h.version = std::string(64, 'a');
  h.shard = kShard;
  h.created_at = At(run.value);
  h.state = model::RunState::kRunning;
  h.wake_at = Instant{};
  h.root_run = run;
  h.counts[0] = 3;
  return h;
}

model::RunHeader FullHeader(RunNo run, const TenantId& tenant) {
  model::RunHeader h = PlainHeader(run, tenant);
  const auto n = run.value;
  h.name = {tenant.value, "data", "etl"};
  h.version = std::string(64, 'b');
  SetState(h, model::RunState::kFailed);
  h.reason = model::Reason::kCancelRest;
  h.priority = -5;
  h.generation = 3;
  h.next_epoch = Epoch(n + 11);
  h.started_at = At(n + 1);
  h.paused_at = At(n + 3);
  h.cancel_requested_at = At(n + 4);
  h.finally_started_at = At(n + 5);
  h.finally_stopped = true;
  h.expires_at = At(n + 6);
  h.wake_at = At(n + 7);
  h.start_key = fmt::format("key-{}", n);
  h.concurrency_key = fmt::format("customer-{}", n % 2);
  h.trace_context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  h.rerun_of = RunNo(n + 100);
  h.root_run = RunNo(n + 101);
  h.reset = {model::ResetCursor::Kind::kFrom, TaskNo(2)};
  for (std::size_t i = 0; i < h.counts.size(); ++i) h.counts[i] = static_cast<std::uint32_t>(i * i);
  h.counts[3] = 4'000'000'000U;
  return h;
}

void SetState(model::RunHeader& h, model::RunState state) {
  h.state = state;
  h.finished_at = model::IsTerminal(state) ? At(h.run_no.value + 2) : Instant{};
  if (state == model::RunState::kPending) h.wake_at = Instant{};
}

RunWrite NewRun(model::RunHeader header, std::string input) {
  RunWrite write;
  write.header = std::move(header);
  write.insert_input = std::move(input);
  return write;
}

RunWrite UpdateRun(model::RunHeader header) {
  RunWrite write;
  write.header = std::move(header);
  return write;
}

RunWrite::TaskWrite TaskAt(std::uint32_t task, model::TaskState state,
                           std::optional<std::string> output) {
  RunWrite::TaskWrite write;
  write.row.task = TaskNo(task);
  write.row.state = state;
  write.row.reason = model::Reason::kBackoff;
  write.row.epoch = Epoch(task + 1);
  write.row.generation = task + 2;
  write.row.snoozes = task + 3;
  write.row.tries = static_cast<std::uint16_t>(task + 4);
  write.row.losses = static_cast<std::uint16_t>(task + 5);
  write.row.dispatch_failures = static_cast<std::uint8_t>(task + 6);
  write.row.zombie = task % 2 == 1;
  write.row.admitted = task % 3 == 1;
  write.row.not_before = At(task);
  write.row.since = At(task + 7);
  write.row.deadline = At(task + 8);
  write.executor = model::IsLive(state) ? "process" : "";
  write.holder = model::IsLive(state) ? fmt::format("holder-{}", task) : "";
  write.output = std::move(output);
  return write;
}

model::AttemptRecord AttemptAt(std::uint32_t task, std::int64_t epoch) {
  model::AttemptRecord a;
  a.task = TaskNo(task);
  a.epoch = Epoch(epoch);
  a.try_no = 2;
  a.generation = 1;
  a.queued_at = At(epoch);
  a.outcome.verdict = model::Verdict::kRetry;
  a.outcome.reason = model::Reason::kExitCode;
  a.outcome.error = fmt::format("exit {}\n\"quoted\"", epoch);
  a.outcome.exit_code = static_cast<int>(epoch % 256);
  if (epoch % 2 == 0) {
    a.outcome.exit_code.reset();
    a.outcome.signal = 9;
  }
  a.outcome.not_before = At(epoch + 1);
  a.outcome.started_at = At(epoch + 2);
  a.outcome.ended_at = At(epoch + 3);
  return a;
}

InboxRow Message(std::string kind, std::string dedupe_key, RunNo run, const TenantId& tenant) {
  InboxRow row;
  row.tenant = tenant;
  row.shard = kShard;
  row.kind = std::move(kind);
  row.dedupe_key = std::move(dedupe_key);
  row.run = run;
  row.payload = R"({"who":"me"})";
  row.appended_at = At(5);
  return row;
}

std::string Text(const Guard& g) {
  return fmt::format("shard {} term {} round {}", g.shard.value, g.term.value, g.round.value);
}

std::string Text(const model::RunHeader& h) {
  return fmt::format(
      "run {} id {} of {}/{}::{}::{} version {} shard {} state {} reason {} priority {} "
      "generation {} next_epoch {} created {} started {} finished {} paused {} cancel {} "
      "finally {} {} expires {} wake {} start_key '{}' trace '{}' rerun_of {} root {} stuck '{}' "
      "{} reset {} {} counts {} concurrency {}",
      h.run_no.value, h.run_id.value, h.tenant.value, h.name.tenant, h.name.package,
      h.name.workflow, h.version, h.shard.value, std::to_underlying(h.state),
      std::to_underlying(h.reason), h.priority, h.generation, h.next_epoch.value,
      Micros(h.created_at), Micros(h.started_at), Micros(h.finished_at), Micros(h.paused_at),
      Micros(h.cancel_requested_at), Micros(h.finally_started_at), h.finally_stopped,
      Micros(h.expires_at), Micros(h.wake_at), h.start_key, h.trace_context, h.rerun_of.value,
      h.root_run.value, h.stuck_reason, Micros(h.stuck_since), std::to_underlying(h.reset.kind),
      h.reset.task.value, h.counts, h.concurrency_key.value_or("none"));
}

std::string Text(const model::StoredTask& t) {
  return fmt::format(
      "task {} state {} reason {} epoch {} generation {} snoozes {} tries {} losses {} "
      "dispatch_failures {} zombie {} admitted {} not_before {} since {} deadline {}",
      t.task.value, std::to_underlying(t.state), std::to_underlying(t.reason), t.epoch.value,
      t.generation, t.snoozes, t.tries, t.losses, t.dispatch_failures, t.zombie, t.admitted,
      Micros(t.not_before), Micros(t.since), Micros(t.deadline));
}

std::string Text(const model::AttemptRecord& a) {
  const auto& o = a.outcome;
  return fmt::format(
      "task {} epoch {} try {} generation {} queued {} verdict {} reason {} error '{}' output '{}' "
      "exit {} signal {} not_before {} started {} ended {}",
      a.task.value, a.epoch.value, a.try_no, a.generation, Micros(a.queued_at),
      std::to_underlying(o.verdict), std::to_underlying(o.reason), o.error, o.output,
      o.exit_code.value_or(-1), o.signal.value_or(-1), Micros(o.not_before), Micros(o.started_at),
      Micros(o.ended_at));
}

std::string Text(const model::RunEventRecord& e) {
  return fmt::format("at {} {} by '{}': '{}'", Micros(e.at), e.kind, e.actor, e.detail);
}

std::string Text(const RunImage& image) {
  return Text(image.header) + "\n" + Text(image.tasks) + "\n" + Text(image.executors) + "\n" +
         Text(image.holders);
}

std::string Text(const TaskEnd& end) {
  return fmt::format("{} '{}'", model::TaskStateName(end.state), end.output);
}

std::string Text(const RunRecord& run) { return Text(run.header); }

std::string Text(const TaskRecord& t) {
  return fmt::format("{} executor '{}' holder '{}' has_output {}", Text(t.row), t.executor,
                     t.holder, t.has_output);
}

std::string Text(const InboxRow& r) {
  return fmt::format("{}: {} shard {} {} key '{}' run {} payload '{}' at {}", r.id, r.tenant.value,
                     r.shard.value, r.kind, r.dedupe_key, r.run.value, r.payload,
                     Micros(r.appended_at));
}

std::string Text(const Answer& a) {
  return fmt::format(
      "{} key '{}' {} run {} id '{}'", a.tenant.value, a.dedupe_key,
      a.error ? std::string(CodeName(a.error->code)) + ": " + a.error->message : "ok", a.run.value,
      a.run_id.value);
}

std::string Text(const WorkflowRecord& w) {
  return fmt::format("{}::{}::{} version {} source '{}' enabled {} at {}", w.name.tenant,
                     w.name.package, w.name.workflow, w.version, w.source, w.enabled,
                     Micros(w.registered_at));
}

std::string Text(const PoolRecord& p) {
  return fmt::format("{} limit {} declared {} at {}", p.name, p.limit, p.declared,
                     Micros(p.set_at));
}

std::string Text(const Permit& p) {
  return fmt::format("{} {} {}/{} of {}: {} at {}", p.tenant.value, p.pool, p.run.value,
                     p.epoch.value, p.task.value, p.weight, Micros(p.granted_at));
}

std::string Text(const Instant& instant) { return std::to_string(Micros(instant)); }
std::string Text(const TenantId& tenant) { return tenant.value; }
std::string Text(const RunNo& run) { return std::to_string(run.value); }
std::string Text(std::size_t count) { return std::to_string(count); }
std::string Text(const std::string& text) { return "'" + text + "'"; }

}  // namespace headworks::store::conformance
