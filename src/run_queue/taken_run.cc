#include "taken_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <variant>

#include "headworks/task_queue/checks.h"

namespace headworks::run_queue {
namespace {

namespace fs = std::filesystem;
using Kind = task_queue::Settlement::Kind;

/// What a kill, and the commits that follow it, take beside the tasks' grace.
constexpr Duration kToStop = std::chrono::seconds(1);
constexpr Duration kLook = std::chrono::milliseconds(200);
/// A cancel of the item is heard within that.
constexpr Duration kExtendAtLeastEach = std::chrono::seconds(5);

/// Functions and commands are stopped one after the other.
Duration TimeToStop(const model::Workflow& workflow) {
  Duration functions{0}, commands{0};
  for (std::uint32_t no = 0; no < workflow.size(); ++no) {
    const model::Task& task = workflow.task(TaskNo(no));
    Duration& longest =
        std::holds_alternative<model::FunctionAction>(task.action) ? functions : commands;
    longest = std::max(longest, task.grace);
  }
  return functions + commands + kToStop;
}

bool CallsFunctions(const model::Workflow& workflow) {
  for (std::uint32_t no = 0; no < workflow.size(); ++no)
    if (std::holds_alternative<model::FunctionAction>(workflow.task(TaskNo(no)).action))
      return true;
  return false;
}

template <typename T>
Status OneOf(const Result<std::vector<T>>& answers) {
  if (!answers) return answers.error();
  if (!answers->front()) return answers->front().error();
  return {};
}

}  // namespace

TakenRun::TakenRun(const TakerOptions& options, const TakerPorts& ports,
                   task_queue::ClaimedItem item, std::string folder, std::stop_token stop)
    : options_(options),
      ports_(ports),
      item_(std::move(item)),
      folder_(std::move(folder)),
      stop_(std::move(stop)),
      lease_(options.lease),
      held_until_((ports.clock.Monotonic() + options.lease).count()) {}

std::string TakenRun::Name() const {
  return fmt::format("item {} of queue {}", item_.id, options_.queue);
}

Duration TakenRun::KillAt() const { return held_until() - kToStop / 4; }

bool TakenRun::MayRun() const { return !lost_ && ports_.clock.Monotonic() < StopAt(); }

void TakenRun::SetHeldUntil(Duration at) {
  {
    const std::scoped_lock lock(watch_mutex_);
    held_until_ = at.count();
    watch_.notify_all();
  }
  const std::scoped_lock lock(mutex_);
  if (engine_ != nullptr) engine_->StopCommandsAt(KillAt());
}

bool TakenRun::Extend() {
  const Duration began = ports_.clock.Monotonic();  // whoever answers counts from later
  const Status answer = OneOf(
      ports_.queues.tasks().Extend(options_.tenant, options_.queue, {&item_.claim, 1}, lease_));
  const bool cancelled = !answer && answer.error().code == Code::kCancelled;
  if (cancelled) cancel_ = true;
  if (answer || cancelled) {
    warned_ = false;
    SetHeldUntil(began + lease_);
    return true;
  }
  if (settling_) return false;  // it may be over by now
  if (!std::exchange(warned_, true))
    ports_.log.Warning(
        "a claim was not extended",
        {{"queue", options_.queue}, {"item", item_.id}, {"error", answer.error().message}});
  if (!task_queue::Passes(answer.error())) {
    lost_ = true;  // it may be another's already
    SetHeldUntil(began);
  }
  return false;
}

void TakenRun::KeepClaim(const std::stop_token& done) {
  while (!done.stop_requested() && !lost_) {
    const bool kept = Extend();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, done, kept ? std::min(lease_ / 3, kExtendAtLeastEach) : kAskAgain,
                      [] { return false; });
  }
}

void TakenRun::WatchEnd(const std::stop_token& done) {
  {
    std::unique_lock lock(watch_mutex_);
    for (;;) {
      const Duration until = held_until();
      const Duration left = until - ports_.clock.Monotonic();
      if (left <= Duration(0)) break;
      watch_.wait_for(lock, done, std::min(left, options_.lease),
                      [&] { return held_until() != until; });
      if (done.stop_requested()) return;
    }
  }
  if (!ports_.end_program) std::_Exit(5);
  ports_.end_program(Name() + ": a function runs on at the end of its claim");
}

Result<std::unique_ptr<Runner>> TakenRun::OpenEngine() {
  std::error_code ec;
  fs::create_directories(folder_, ec);
  if (ec)
    return Error{Code::kUnavailable,
                 fmt::format("folder {} cannot be made: {}", folder_, ec.message())};
  RunnerOptions options = options_.runner;
  options.tenant = options_.tenant.value;
  options.database_url = "sqlite:" + folder_ + "/headworks.db";
  options.scratch_dir.clear();  // beside its store
  options.artifact_dir.clear();
  options.drain_timeout = Duration(0);
  // Who put the run into the queue is told of its end, by the store that the queue is in.
  options.alert_command.clear();
  options.alert_queue.clear();
  options.stop_commands_at = KillAt();
  HEADWORKS_ASSIGN(auto engine, Runner::Open(std::move(options)));
  const std::scoped_lock lock(mutex_);
  engine_ = engine.get();
  engine_->StopCommandsAt(KillAt());  // it may have been extended meanwhile
  return engine;
}

Result<RunHandle> TakenRun::Start(Runner& engine, const Task& task) {
  HEADWORKS_TRY(engine.Register(task.shared_workflow(), "queue " + options_.queue));
  if (!MayRun()) return Error{Code::kUnavailable, "its claim is lost, or about to be"};
  return engine.Start(task.workflow().name().ToString(), {.input = task.fields().input,
                                                          .params = task.params(),
                                                          .start_key = item_.id,
                                                          .actor = "queue " + options_.queue});
}

/// What is this host's trouble is another's to run, at no cost (I7).
TakenRun::End TakenRun::HostCannotRun(const Error& error) {
  troubled_ = true;
  return {Kind::kHandBack, error.message};
}

TakenRun::End TakenRun::CannotRun(const Error& error) {
  if (task_queue::Passes(error) || error.code == Code::kConflict ||
      error.code == Code::kLeaseLost || error.code == Code::kCorrupt)
    return HostCannotRun(error);
  return {Kind::kNack, error.message};
}

TakenRun::End TakenRun::Run(const Task& task, std::jthread& keep) {
  std::jthread watch;
  if (CallsFunctions(task.workflow()))
    watch = std::jthread([this](const std::stop_token& done) { WatchEnd(done); });
  const auto engine = OpenEngine();
  if (!engine) return HostCannotRun(engine.error());  // no item has a say in that
  ports_.tell(
      fmt::format("{}: run of {}, in {}", Name(), task.workflow().name().workflow, folder_));
  const auto run = Start(**engine, task);
  const End end = run ? Follow(*run) : CannotRun(run.error());
  {
    const std::scoped_lock lock(mutex_);
    engine_ = nullptr;  // the times it was told are early; Shutdown may take long
  }
  // What does not stop is not to be kept for ever by a claim that is.
  if (end.kind != Kind::kAck) keep = {};
  if (const Status closed = (*engine)->Shutdown(); !closed)
    ports_.log.Warning("the engine of a run did not close well",
                       {{"folder", folder_}, {"error", closed.error().message}});
  return end;
}

TakenRun::End TakenRun::Follow(const RunHandle& run) {
  for (bool cancelled = false;;) {
    const auto ended = run.Wait(kLook);
    if (ended) {
      // An ack would say of an item that is to be cancelled that it was done all the same.
      if (cancel_ && ended->state == model::RunState::kCancelled)
        return {Kind::kNack, "cancelled", ended->state};
      return {Kind::kAck, {}, ended->state};
    }
    if (ended.error().code != Code::kUnavailable) return CannotRun(ended.error());
    if (lost_) return {.why = "its claim is lost"};
    if (!MayRun()) return {.why = "its queue does not answer"};
    if (stop_.stop_requested()) return {.why = "this runner leaves"};
    if (cancel_ && !cancelled) {
      const Status asked = run.Cancel();
      cancelled = asked || asked.error().code == Code::kConflict;  // or it has ended
    }
  }
}

void TakenRun::Settle(const End& end) {
  settling_ = true;
  const auto how = [&]() -> std::string {
    if (end.state != model::RunState{})
      return fmt::format("run {}", model::RunStateName(end.state));
    return (end.kind == Kind::kNack ? "cannot be run: " : "stopped: ") + end.why;
  };
  ports_.tell(fmt::format("{}: {}", Name(), how()));
  const task_queue::Settlement settlement{
      .claim = item_.claim,
      .kind = end.kind,
      .reason = end.kind == Kind::kNack ? end.why : std::string()};
  while (!lost_) {
    const Status answer =
        OneOf(ports_.queues.tasks().Settle(options_.tenant, options_.queue, {&settlement, 1}));
    // Settled already: by an earlier try whose answer was lost, or by an operator.
    if (answer || answer.error().code == Code::kConflict) return;
    if (!task_queue::Passes(answer.error()) || stop_.stop_requested() ||
        ports_.clock.Monotonic() >= held_until())
      return ports_.tell(fmt::format("{}: that was not heard, and it comes again: {}", Name(),
                                     answer.error().message));
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kAskAgain);
  }
}

bool TakenRun::Execute() {
  const auto refuse = [this](std::string why) {
    Settle({Kind::kNack, std::move(why)});
    return true;
  };
  const auto task = Task::FromPayload(options_.queue, item_.id, item_.payload);
  if (!task) return refuse(task.error().message);
  if (task->workflow().name().tenant != options_.tenant.value)
    return refuse("its workflow is another tenant's");
  to_stop_ = TimeToStop(task->workflow());
  if (3 * to_stop_ > task_queue::kLongestLease)
    return refuse(
        fmt::format("its tasks may take {} to stop; at most a third of {} is taken, which "
                    "is the longest lease",
                    FormatDuration(to_stop_), FormatDuration(task_queue::kLongestLease)));
  lease_ = std::max(lease_, 3 * to_stop_);
  while (!Extend()) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kAskAgain);
    if (lost_ || ports_.clock.Monotonic() >= held_until()) return true;
  }
  std::error_code ec;
  if (cancel_ && !fs::exists(folder_, ec)) return refuse("cancelled");
  std::jthread keep([this](const std::stop_token& done) { KeepClaim(done); });
  const End end = Run(*task, keep);
  Settle(end);
  return !troubled_;
}

}  // namespace headworks::run_queue
