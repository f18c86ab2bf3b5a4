// Measure: figures and log lines about what was done, for whoever watches.  Where no such lines are
// wanted, additions only, and no allocation per task.

#include "headworks/engine/engine.h"
#include "headworks/executor/attempt_log.h"

namespace headworks::engine {

void Engine::Measure(Slot& slot) {
  const model::RunHeader& header = slot.run.header;
  if (slot.insert_input) ++stats_.runs_started;
  if (slot.changes.finished) {
    ++stats_.runs_finished;
    ++stats_.runs_ended[static_cast<std::size_t>(header.state)];
  }
  for (const model::AttemptRecord& record : slot.changes.attempts) {
    const model::Outcome& outcome = record.outcome;
    ++stats_.attempts_ended[static_cast<std::size_t>(outcome.verdict)];
    LogEnd(slot, record);
    // Of one that is lost only the end of the doubt is known.
    if (outcome.verdict == model::Verdict::kLost || outcome.started_at == Instant{} ||
        outcome.ended_at < outcome.started_at)
      continue;
    stats_.lanes[LaneOf(slot, record.task)].attempt_duration.Observe(outcome.ended_at -
                                                                     outcome.started_at);
  }
  CountTasks(slot, true);
}

void Engine::LogOffer(std::string_view message, const executor::Attempt& attempt,
                      const executor::OfferResult& result) {
  const bool usual = result.disposition == model::Disposition::kDispatched ||
                     result.disposition == model::Disposition::kDeferred;
  const LogLevel level = usual ? LogLevel::kDebug : LogLevel::kInfo;
  if (!logger_.Wants(level)) return;
  const Logger::Field fields[] = {
      {"executor",
       std::string(dispatcher_.LaneName(dispatcher_.LaneOf(attempt.key.tenant, attempt.task())))},
      {"disposition",
       std::string(result.answered ? model::DispositionName(result.disposition) : "buffered")},
      {"cause", result.cause},
      {"error", result.error ? std::string(executor::DispatchErrorName(*result.error)) : ""}};
  executor::ForAttempt(logger_, attempt)
      .Write(level, message, std::span(fields).first(result.error ? 4 : 3));
}

void Engine::LogEnd(const Slot& slot, const model::AttemptRecord& record) {
  using model::Verdict;
  const Verdict verdict = record.outcome.verdict;
  const bool usual = verdict == Verdict::kSucceeded || verdict == Verdict::kSkipped ||
                     verdict == Verdict::kSnoozed;
  const LogLevel level = usual ? LogLevel::kDebug : LogLevel::kInfo;
  if (!logger_.Wants(level)) return;
  executor::Attempt attempt = MakeAttempt(slot, record.task, record.epoch);
  attempt.try_no = record.try_no;
  // Not what the task said of its failure: that is for those who may see its output.
  const Logger::Field fields[] = {
      {"verdict", std::string(model::VerdictName(verdict))},
      {"reason", std::string(model::ReasonName(record.outcome.reason))}};
  executor::ForAttempt(logger_, attempt).Write(level, "attempt ended", fields);
}

void Engine::CountTasks(Slot& slot, bool ended) {
  const auto& counts = slot.run.header.counts;
  for (std::size_t state = 0; state < counts.size(); ++state) {
    const std::int64_t more = std::int64_t{counts[state]} - slot.counted[state];
    stats_.tasks[state] += more;
    if (ended && more > 0 && model::IsTerminal(static_cast<model::TaskState>(state)))
      stats_.tasks_ended[state] += static_cast<std::uint64_t>(more);
  }
  slot.counted = counts;
}

void Engine::Publish() {
  stats_.runs_in_memory = slots_.size();
  stats_.task_states_in_memory = task_states_;
  stats_.live_attempts = 0;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    stats_.lanes[lane].ready = lanes_[lane].ready.size();
    stats_.lanes[lane].live = lanes_[lane].live;
    const Duration since = soft_failures_.empty() ? Duration(0) : lanes_[lane].held_up_since;
    stats_.lanes[lane].held_up = since == Duration(0) ? Duration(0) : clock_.Monotonic() - since;
    stats_.live_attempts += lanes_[lane].live;
  }
  stats_.runs_stuck = stuck_works_.size() + unloadable_.size();
  stats_.timers = timers_.size();
  stats_.permits_held = static_cast<std::uint64_t>(pools_.used());
  stats_.tasks_for_permits = pools_.waiting();
  stats_.tasks_above_limit = pools_.above_limit();
  stats_.pools = pools_.Figures();
  const ActiveRuns::Waiting waiting = active_runs_.waiting();
  stats_.runs_for_workflow = waiting.for_workflow;
  stats_.runs_for_key = waiting.for_key;
  stats_.runs_for_rate = waiting.for_rate;
  stats_.lost = lost_;
  if (!pending_ && !lost_ && !renewal_failed_) stats_.trouble.clear();
  const std::scoped_lock lock(mutex_);
  // A half round queues once more what was queued in the whole one.
  stats_.queueing = (start_tasks_ && !queueing_stopped_) || !isolated_.empty();
  published_ = stats_;
}

}  // namespace headworks::engine
