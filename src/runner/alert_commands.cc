#include "alert_commands.h"

#include <fmt/format.h>

#include <utility>

#include "headworks/executor_process/process_executor.h"
#include "headworks/log_store/memory_log_store.h"
#include "headworks/task_queue/redact.h"

namespace headworks {
namespace {

constexpr char kId[] = "alert";
constexpr Duration kGrace = std::chrono::seconds(5);
constexpr std::size_t kMaxLogBytes = std::size_t{64} << 10;
/// Of what the command printed last, for people.
constexpr std::size_t kShownLines = 5;

/// A workflow that is the command.
Result<std::shared_ptr<const model::Workflow>> WorkflowOf(const std::string& command,
                                                          const alert::Call& call) {
  model::WorkflowDefinition definition;
  definition.name = {.tenant = call.tenant.value, .package = "headworks", .workflow = kId};
  model::Task task;
  task.id = kId;
  task.action = model::ShellAction{.script = "exec <\"$HEADWORKS_INPUT\"\n" + command, .shell = {}};
  task.env = call.env;
  task.grace = kGrace;
  definition.tasks.push_back(std::move(task));
  return model::Workflow::Create(std::move(definition));
}

}  // namespace

AlertCommands::AlertCommands(Options options, Clock& clock, Logger& log)
    : options_(std::move(options)),
      clock_(clock),
      log_(log),
      lines_(log_store::NewMemoryLogStore()) {}

AlertCommands::~AlertCommands() { executor_.reset(); }

Result<std::unique_ptr<AlertCommands>> AlertCommands::Open(Options options, Clock& clock,
                                                           Logger& log) {
  std::unique_ptr<AlertCommands> self(new AlertCommands(std::move(options), clock, log));
  HEADWORKS_ASSIGN(
      self->executor_,
      executor_process::ProcessExecutor::Open(
          {.supervisor_path = self->options_.supervisor_path,
           .state_dir = self->options_.state_dir,
           .store_id = self->options_.store_id,
           .max_concurrent = 1,
           .max_log_bytes = kMaxLogBytes},
          {.resolver = *self, .log_store = *self->lines_, .clock = clock, .log = log}));
  HEADWORKS_TRY(self->executor_->Start(*self));
  return self;
}

Status AlertCommands::Start(const alert::Call& call, std::function<void(alert::CommandEnd)> done) {
  HEADWORKS_ASSIGN(auto workflow, WorkflowOf(options_.command, call));
  const executor::Attempt attempt{
      .key = {.tenant = call.tenant, .run = RunNo(1), .task = TaskNo(0), .epoch = Epoch(++calls_)},
      .run_id = RunId(kId),
      .timeout = options_.timeout,
      .workflow = std::move(workflow)};
  {
    const std::scoped_lock lock(mutex_);
    running_ = attempt.key;
    input_ = call.input;
    done_ = std::move(done);
  }
  const executor::OfferResult offered = executor_->Offer(attempt);
  if (offered.disposition == model::Disposition::kDispatched) return {};
  const std::scoped_lock lock(mutex_);
  done_ = nullptr;
  return Error{Code::kUnavailable, "the command cannot be started: " + offered.cause};
}

void AlertCommands::Stop() {
  std::unique_lock lock(mutex_);
  if (!done_) return;
  const model::AttemptKey key = running_;
  lock.unlock();
  executor_->Cancel(key);
  lock.lock();
  over_.wait(lock, [this] { return !done_; });
}

void AlertCommands::Started(const model::AttemptKey& /*key*/) {}
void AlertCommands::CapacityChanged() {}

void AlertCommands::Hear(executor::Word /*word*/, std::function<void(executor::Heard)> reply) {
  reply(executor::Reply::kStop);  // nothing runs elsewhere
}

Result<executor::Resolved> AlertCommands::Resolve(const executor::Attempt& /*attempt*/) {
  const std::scoped_lock lock(mutex_);
  return executor::Resolved{.context_json = input_, .merged_json = input_, .rendered = {}};
}

std::string AlertCommands::WhyOf(const model::AttemptKey& key, const model::Outcome& outcome) {
  std::string why = outcome.error;
  const auto printed =
      lines_->Tail({.tenant = key.tenant, .run = key.run, .max_lines = kShownLines});
  if (!printed) return why;
  for (const log_store::Entry& entry : printed->entries)
    why += "\n" + log_store::DisplayText(entry.line.bytes);
  return task_queue::RedactCredentials(why);
}

void AlertCommands::Ended(const model::AttemptKey& key, model::Outcome outcome) {
  using How = alert::CommandEnd::How;
  using model::Verdict;
  alert::CommandEnd end;
  if (outcome.verdict == Verdict::kCancelled || outcome.verdict == Verdict::kInterrupted)
    end.how = How::kStopped;
  else if (outcome.verdict != Verdict::kSucceeded && outcome.verdict != Verdict::kSkipped)
    end = {.how = How::kFailed, .why = WhyOf(key, outcome)};
  executor_->Settled({&key, 1});
  if (const Status forgotten = lines_->DeleteRun(key.tenant, key.run); !forgotten)
    log_.Warning("what the alert command printed is kept", {{"error", forgotten.error().message}});
  const std::scoped_lock lock(mutex_);
  if (!done_) return;
  std::exchange(done_, nullptr)(std::move(end));
  over_.notify_all();
}

}  // namespace headworks
