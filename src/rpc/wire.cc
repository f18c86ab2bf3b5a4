#include "wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headworks/base/text.h"
#include "headworks/rpc/rpc_server.h"

namespace headworks::rpc {
namespace {

std::int64_t ToUs(Instant at) { return at.time_since_epoch().count(); }
Instant At(std::int64_t us) { return Instant(Duration(us)); }
/// Of a line, and of what is compared with one: 1970 to 9999.
Instant BoundedAt(std::int64_t us) {
  constexpr Instant kLast = std::chrono::sys_days(std::chrono::year(9999) / 12 / 31);
  return std::clamp(At(us), Instant{}, kLast);
}
/// A worker's clock; nobody is misled by less, which may as well be the time that the words took.
constexpr Duration kClockMayBeOff = std::chrono::minutes(1);

template <typename Map>
std::map<std::string, std::string> Texts(const Map& from) {
  return {from.begin(), from.end()};
}

template <typename Repeated>
std::vector<std::string> List(const Repeated& from) {
  return {from.begin(), from.end()};
}

void ToWire(const model::AttemptKey& from, v1::AttemptKey& to) {
  to.set_tenant(from.tenant.value);
  to.set_run(from.run.value);
  to.set_task(from.task.value);
  to.set_map_index(from.map_index);
  to.set_epoch(from.epoch.value);
}

model::AttemptKey FromWire(const v1::AttemptKey& from) {
  return {.tenant = TenantId(from.tenant()),
          .run = RunNo(from.run()),
          .task = TaskNo(from.task()),
          .map_index = from.map_index(),
          .epoch = Epoch(from.epoch())};
}

void ToWire(const model::Action& from, v1::Rendered& to) {
  if (const auto* shell = std::get_if<model::ShellAction>(&from)) {
    to.mutable_shell()->set_script(shell->script);
    for (const std::string& word : shell->shell) to.mutable_shell()->add_shell(word);
  } else if (const auto* exec = std::get_if<model::ExecAction>(&from)) {
    for (const std::string& word : exec->argv) to.mutable_exec()->add_argv(word);
  } else {
    to.mutable_function()->set_function(std::get<model::FunctionAction>(from).function);
  }
}

model::Action ActionOf(const v1::Rendered& from) {
  if (from.has_exec()) return model::ExecAction{List(from.exec().argv())};
  if (from.has_function()) return model::FunctionAction{from.function().function()};
  return model::ShellAction{from.shell().script(), List(from.shell().shell())};
}

void ToWire(const executor::Rendered& from, v1::Rendered& to) {
  ToWire(from.action, to);
  to.mutable_bound()->insert(from.bound.begin(), from.bound.end());
  to.mutable_workflow_env()->insert(from.workflow_env.begin(), from.workflow_env.end());
  to.mutable_env()->insert(from.env.begin(), from.env.end());
  for (const std::string& file : from.env_file) to.add_env_file(file);
  to.set_cwd(from.cwd);
  to.mutable_artifacts()->insert(from.artifacts.begin(), from.artifacts.end());
  to.set_idempotency_key(from.idempotency_key);
}

executor::Rendered FromWire(const v1::Rendered& from) {
  return {.action = ActionOf(from),
          .bound = Texts(from.bound()),
          .workflow_env = Texts(from.workflow_env()),
          .env = Texts(from.env()),
          .env_file = List(from.env_file()),
          .cwd = from.cwd(),
          .artifacts = Texts(from.artifacts()),
          .idempotency_key = from.idempotency_key()};
}

void ToWire(std::string_view name, const model::Artifact& from, v1::Artifact& to) {
  to.set_name(std::string(name));
  to.set_file(from.file);
  to.set_sha256(from.sha256);
  to.set_size(from.size);
  to.set_executable(from.executable);
}

model::Artifact FromWire(const v1::Artifact& from) {
  return {.file = from.file(),
          .sha256 = from.sha256(),
          .size = from.size(),
          .executable = from.executable()};
}

void ToWire(const worker_api::Job& from, v1::Job& to) {
  ToWire(from.attempt, *to.mutable_attempt());
  to.set_run_id(from.run_id.value);
  to.set_workflow(from.workflow);
  to.set_task(from.task);
  to.set_version(from.version);
  to.set_try_no(from.try_no);
  to.set_generation(from.generation);
  to.set_timeout_us(from.timeout.count());
  to.set_idempotency_key(from.idempotency_key);
  to.set_definition_json(from.definition_json);
  to.set_context_json(from.resolved.context_json);
  to.set_merged_json(from.resolved.merged_json);
  if (from.resolved.rendered) ToWire(*from.resolved.rendered, *to.mutable_rendered());
  for (const executor::NeededArtifact& each : from.resolved.artifacts) {
    v1::NeededArtifact& needed = *to.add_artifacts();
    ToWire(each.name, each.artifact, *needed.mutable_artifact());
    needed.set_path(each.path);
  }
}

worker_api::Job FromWire(const v1::Job& from) {
  worker_api::Job job{
      .attempt = FromWire(from.attempt()),
      .run_id = RunId(from.run_id()),
      .workflow = from.workflow(),
      .task = from.task(),
      .version = from.version(),
      .try_no = from.try_no(),
      .generation = from.generation(),
      .timeout = Duration(from.timeout_us()),
      .idempotency_key = from.idempotency_key(),
      .definition_json = from.definition_json(),
      .resolved = {
          .context_json = from.context_json(), .merged_json = from.merged_json(), .rendered = {}}};
  if (from.has_rendered()) job.resolved.rendered = FromWire(from.rendered());
  for (const v1::NeededArtifact& each : from.artifacts())
    job.resolved.artifacts.push_back({.artifact = FromWire(each.artifact()),
                                      .name = each.artifact().name(),
                                      .path = each.path()});
  return job;
}

}  // namespace

void ToWire(const worker_api::Identity& from, v1::Identity& to) {
  to.set_tenant(from.tenant.value);
  to.set_worker(from.worker);
  to.set_incarnation(from.incarnation);
}

worker_api::Identity FromWire(const v1::Identity& from) {
  return {.tenant = TenantId(from.tenant()),
          .worker = from.worker(),
          .incarnation = from.incarnation()};
}

void ToWire(const worker_api::Registration& from, v1::RegisterRequest& to) {
  ToWire(from.who, *to.mutable_who());
  to.mutable_slots()->insert(from.slots.begin(), from.slots.end());
  for (const std::string& label : from.labels) to.add_labels(label);
  to.set_version(from.version);
  to.set_host(from.host);
  to.set_protocol(from.protocol);
  to.set_artifact_dir(from.artifact_dir);
}

worker_api::Registration FromWire(const v1::RegisterRequest& from) {
  return {.who = FromWire(from.who()),
          .slots = {from.slots().begin(), from.slots().end()},
          .labels = List(from.labels()),
          .version = from.version(),
          .host = from.host(),
          .protocol = from.protocol(),
          .artifact_dir = from.artifact_dir()};
}

void ToWire(const worker_api::Welcome& from, v1::RegisterResponse& to) {
  to.set_lease_us(from.lease.count());
  to.set_heartbeat_every_us(from.heartbeat_every.count());
}

worker_api::Welcome FromWire(const v1::RegisterResponse& from) {
  return {.lease = Duration(from.lease_us()),
          .heartbeat_every = Duration(from.heartbeat_every_us())};
}

void ToWire(const worker_api::Poll& from, v1::PollRequest& to) {
  ToWire(from.who, *to.mutable_who());
  to.mutable_free()->insert(from.free.begin(), from.free.end());
  to.set_wait_us(from.wait.count());
}

worker_api::Poll FromWire(const v1::PollRequest& from) {
  return {.who = FromWire(from.who()),
          .free = {from.free().begin(), from.free().end()},
          .wait = Duration(from.wait_us())};
}

void ToWire(const worker_api::Polled& from, v1::PollResponse& to) {
  for (const worker_api::Assignment& each : from.assignments) {
    v1::Assignment& assignment = *to.add_assignments();
    ToWire(each.attempt, *assignment.mutable_attempt());
    assignment.set_queue(each.queue);
    assignment.set_start_token(each.start_token);
  }
  to.set_drain(from.drain);
  to.set_leave(from.leave);
}

worker_api::Polled FromWire(const v1::PollResponse& from) {
  worker_api::Polled polled{.assignments = {}, .drain = from.drain(), .leave = from.leave()};
  for (const v1::Assignment& each : from.assignments())
    polled.assignments.push_back({.attempt = FromWire(each.attempt()),
                                  .queue = each.queue(),
                                  .start_token = each.start_token()});
  return polled;
}

void ToWire(const worker_api::Started& from, v1::StartResponse& to) {
  to.set_reply(ToWire(from.reply));
  to.set_work_token(from.work_token);
  if (from.reply == executor::Reply::kGoOn) ToWire(from.job, *to.mutable_job());
}

worker_api::Started FromWire(const v1::StartResponse& from) {
  return {.reply = FromWire(from.reply()),
          .work_token = from.work_token(),
          .job = FromWire(from.job())};
}

void ToWire(const worker_api::Heartbeat& from, v1::HeartbeatRequest& to) {
  ToWire(from.who, *to.mutable_who());
  for (const std::string& token : from.work_tokens) to.add_work_tokens(token);
  to.set_wait_us(from.wait.count());
}

worker_api::Heartbeat FromWire(const v1::HeartbeatRequest& from) {
  return {.who = FromWire(from.who()),
          .work_tokens = List(from.work_tokens()),
          .wait = Duration(from.wait_us())};
}

void ToWire(const worker_api::Beaten& from, v1::HeartbeatResponse& to) {
  to.set_leave(from.leave);
  for (const worker_api::Pulse& each : from.pulses) {
    v1::Pulse& pulse = *to.add_pulses();
    pulse.set_reply(ToWire(each.reply));
    pulse.set_work_token(each.work_token);
  }
}

worker_api::Beaten FromWire(const v1::HeartbeatResponse& from) {
  worker_api::Beaten beaten{.pulses = {}, .leave = from.leave()};
  beaten.pulses.reserve(static_cast<std::size_t>(from.pulses_size()));
  for (const v1::Pulse& each : from.pulses())
    beaten.pulses.push_back({.reply = FromWire(each.reply()), .work_token = each.work_token()});
  return beaten;
}

void ToWire(const std::vector<log_store::Line>& from, v1::LogRequest& to) {
  for (const log_store::Line& each : from) {
    v1::Line& line = *to.add_lines();
    line.set_number(each.number);
    line.set_stream(static_cast<v1::Stream>(each.stream));
    line.set_at_us(ToUs(each.at));
    line.set_bytes(each.bytes);
  }
}

Result<std::vector<log_store::Line>> FromWire(const v1::LogRequest& from, Instant now) {
  const Duration off = from.sent_at_us() == 0 ? Duration(0) : now - BoundedAt(from.sent_at_us());
  const bool moved = off > kClockMayBeOff || off < -kClockMayBeOff;
  std::vector<log_store::Line> lines;
  lines.reserve(static_cast<std::size_t>(from.lines_size()));
  for (const v1::Line& each : from.lines()) {
    if (each.stream() < v1::STREAM_STDOUT || each.stream() > v1::STREAM_NOTE)
      return Error{Code::kInvalidArgument,
                   fmt::format("line {}: {} is no stream; 1 is stdout, 2 stderr, 3 a note",
                               each.number(), static_cast<int>(each.stream()))};
    lines.push_back({.number = each.number(),
                     .stream = static_cast<log_store::Stream>(each.stream()),
                     .at = moved ? std::min(BoundedAt(each.at_us()) + off, now) : At(each.at_us()),
                     .bytes = each.bytes()});
  }
  return lines;
}

namespace {

constexpr std::pair<Code, v1::ArtifactFault> kFaults[] = {
    {Code::kUnavailable, v1::ARTIFACT_FAULT_UNAVAILABLE},
    {Code::kNotFound, v1::ARTIFACT_FAULT_NOT_FOUND},
    {Code::kCorrupt, v1::ARTIFACT_FAULT_DAMAGED},
    {Code::kInvalidArgument, v1::ARTIFACT_FAULT_TOO_LARGE},
};

/// Of both answers of artifacts.
template <typename Response>
void FailureToWire(const std::optional<Error>& from, Response& to) {
  if (!from) return;
  to.set_fault(v1::ARTIFACT_FAULT_UNAVAILABLE);
  for (const auto& [code, fault] : kFaults)
    if (code == from->code) to.set_fault(fault);
  to.set_why(from->message.substr(0, ValidUtf8Prefix(from->message)));
}

template <typename Response>
std::optional<Error> FailureFromWire(const Response& from) {
  if (from.fault() == v1::ARTIFACT_FAULT_NONE) return std::nullopt;
  Error error{Code::kUnavailable, from.why()};
  for (const auto& [code, fault] : kFaults)
    if (fault == from.fault()) error.code = code;
  return error;
}

}  // namespace

void ToWire(worker_api::ArtifactPut from, v1::PutArtifactRequest& to) {
  to.set_work_token(std::move(from.work_token));
  to.set_upload(std::move(from.upload));
  to.set_offset(from.offset);
  to.set_bytes(std::move(from.bytes));
  to.set_sha256(std::move(from.sha256));
}

worker_api::ArtifactPut FromWire(const v1::PutArtifactRequest& from) {
  return {.work_token = from.work_token(),
          .upload = from.upload(),
          .offset = from.offset(),
          .bytes = from.bytes(),
          .sha256 = from.sha256()};
}

void ToWire(const worker_api::ArtifactTaken& from, v1::PutArtifactResponse& to) {
  to.set_reply(ToWire(from.reply));
  to.set_have(from.have);
  to.set_stored(from.stored);
  FailureToWire(from.failure, to);
}

worker_api::ArtifactTaken FromWire(const v1::PutArtifactResponse& from) {
  return {.reply = FromWire(from.reply()),
          .have = from.have(),
          .stored = from.stored(),
          .failure = FailureFromWire(from)};
}

void ToWire(const worker_api::ArtifactGet& from, v1::GetArtifactRequest& to) {
  to.set_work_token(from.work_token);
  to.set_sha256(from.sha256);
  to.set_offset(from.offset);
  to.set_max_bytes(static_cast<std::uint32_t>(from.max_bytes));
}

worker_api::ArtifactGet FromWire(const v1::GetArtifactRequest& from) {
  return {.work_token = from.work_token(),
          .sha256 = from.sha256(),
          .offset = from.offset(),
          .max_bytes = from.max_bytes()};
}

void ToWire(const worker_api::ArtifactPiece& from, v1::GetArtifactResponse& to) {
  to.set_reply(ToWire(from.reply));
  to.set_bytes(from.bytes);
  to.set_last(from.last);
  FailureToWire(from.failure, to);
}

worker_api::ArtifactPiece FromWire(const v1::GetArtifactResponse& from) {
  return {.reply = FromWire(from.reply()),
          .bytes = from.bytes(),
          .last = from.last(),
          .failure = FailureFromWire(from)};
}

void ToWire(const model::Outcome& from, v1::Outcome& to) {
  // What is no result is the engine's to refuse.
  const auto result = model::ReadResult(from.output);
  to.set_verdict(static_cast<v1::Verdict>(from.verdict));
  to.set_reason(static_cast<std::uint32_t>(from.reason));
  to.set_error(from.error);
  to.set_output(result ? result->output : from.output);
  if (result)
    for (const auto& [name, artifact] : result->artifacts)
      ToWire(name, artifact, *to.add_artifacts());
  if (from.exit_code) to.set_exit_code(*from.exit_code);
  if (from.signal) to.set_signal(*from.signal);
  to.set_not_before_us(ToUs(from.not_before));
  to.set_started_at_us(ToUs(from.started_at));
  to.set_ended_at_us(ToUs(from.ended_at));
}

Result<model::Outcome> FromWire(const v1::Outcome& from) {
  if (from.verdict() < v1::VERDICT_SUCCEEDED || from.verdict() > v1::VERDICT_LOST)
    return Error{Code::kInvalidArgument, fmt::format("outcome: {} is no verdict; give 1 to 8",
                                                     static_cast<int>(from.verdict()))};
  // A newer worker's: what came of the attempt is its verdict.
  auto reason = static_cast<model::Reason>(std::min(from.reason(), 255U));
  if (reason != model::Reason::kUnknown &&
      model::ReasonName(reason) == model::ReasonName(model::Reason::kUnknown))
    reason = model::Reason::kError;
  model::Outcome outcome{.verdict = static_cast<model::Verdict>(from.verdict()),
                         .reason = reason,
                         .error = from.error(),
                         .output = from.output(),
                         .exit_code = {},
                         .signal = {},
                         .not_before = At(from.not_before_us()),
                         .started_at = At(from.started_at_us()),
                         .ended_at = At(from.ended_at_us())};
  model::TaskResult result{.output = std::move(outcome.output), .artifacts = {}};
  for (const v1::Artifact& each : from.artifacts()) result.artifacts[each.name()] = FromWire(each);
  outcome.output = model::WriteResult(result);
  if (from.has_exit_code()) outcome.exit_code = from.exit_code();
  if (from.has_signal()) outcome.signal = from.signal();
  return outcome;
}

v1::Reply ToWire(executor::Reply from) { return static_cast<v1::Reply>(from); }

executor::Reply FromWire(v1::Reply from) {
  if (from < v1::REPLY_GO_ON || from > v1::REPLY_ASK_AGAIN) return executor::Reply::kAskAgain;
  return static_cast<executor::Reply>(from);
}

Status CheckLines(const std::vector<log_store::Line>& lines) {
  std::size_t bytes = 0;
  for (const log_store::Line& line : lines) {
    if (line.bytes.size() > log_store::kMaxLineBytes)
      return Error{Code::kInvalidArgument,
                   fmt::format("line {} has {} bytes; at most {}, split it", line.number,
                               line.bytes.size(), log_store::kMaxLineBytes)};
    bytes += worker_api::BytesOf(line);
  }
  if (bytes > worker_api::kMaxLogBytes)
    return Error{Code::kInvalidArgument,
                 fmt::format("{} lines with {} bytes; at most {} at a time", lines.size(), bytes,
                             worker_api::kMaxLogBytes)};
  return {};
}

Status CheckOutcome(const model::Outcome& outcome) {
  const auto result = model::ReadResult(outcome.output);
  const std::size_t bytes = result ? result->output.size() : outcome.output.size();
  if (bytes > worker_api::kMaxOutputBytes)
    return Error{Code::kInvalidArgument, fmt::format("the output has {} bytes; at most {}", bytes,
                                                     worker_api::kMaxOutputBytes)};
  return {};
}

Status CheckPut(const worker_api::ArtifactPut& put) {
  if (put.bytes.size() > worker_api::kMaxPieceBytes)
    return Error{Code::kInvalidArgument, fmt::format("a piece of {} bytes; at most {}",
                                                     put.bytes.size(), worker_api::kMaxPieceBytes)};
  return {};
}

Status CheckGet(const worker_api::ArtifactGet& get) {
  if (get.max_bytes == 0 || get.max_bytes > worker_api::kMaxPieceBytes)
    return Error{Code::kInvalidArgument, fmt::format("a piece of {} bytes; 1 to {}", get.max_bytes,
                                                     worker_api::kMaxPieceBytes)};
  return {};
}

}  // namespace headworks::rpc
