#include "headworks/sim/oracle.h"

#include <fmt/format.h>

#include <algorithm>

#include "headworks/sim/questions.h"

namespace headworks::sim {
namespace {

using model::Reason;
using model::RunState;
using model::TaskState;
using model::Verdict;

bool IsSet(Instant instant) { return instant != Instant{}; }

/// The trigger table once more, from the page of the design and not from the code under test: what
/// the ends of all upstreams allow.
struct Ends {
  std::uint32_t s = 0, f = 0, uf = 0, k = 0, n = 0;
};

bool MayRun(model::TriggerRule rule, const Ends& e) {
  using enum model::TriggerRule;
  if (e.n == 0) return true;
  switch (rule) {
    case kAllSuccess:
      return e.s == e.n;
    case kAllFailed:
      return e.f + e.uf == e.n;
    case kAllDone:
    case kAlways:
      return true;
    case kAllSkipped:
      return e.k == e.n;
    case kOneSuccess:
      return e.s > 0;
    case kOneFailed:
      return e.f + e.uf > 0;
    case kOneDone:
      return e.s + e.f > 0;
    case kNoneFailed:
      return e.f + e.uf == 0;
    case kNoneFailedMinOneSuccess:
      return e.f + e.uf == 0 && e.k < e.n;
    case kNoneSkipped:
      return e.k == 0;
  }
  return false;
}

bool MustBeUpstreamFailed(model::TriggerRule rule, const Ends& e) {
  using enum model::TriggerRule;
  switch (rule) {
    case kAllSuccess:
    case kNoneFailed:
    case kNoneFailedMinOneSuccess:
      return e.f + e.uf > 0;
    case kOneSuccess:
      return e.s == 0 && e.k < e.n;
    default:
      return false;
  }
}

}  // namespace

Oracle::Oracle(Journal& journal, FindTruth truth, FindWorkflow workflow)
    : journal_(journal), truth_(std::move(truth)), workflow_(std::move(workflow)) {}

void Oracle::Fail(RunNo run, std::string what) {
  journal_.Violated(fmt::format("{} (run {})", what, run.value));
}

std::string Oracle::Name(const RunPicture& run, TaskNo task) const {
  return run.workflow->task(task).id;
}

std::vector<RunNo> Oracle::TakeTouched() {
  std::ranges::sort(touched_);
  const auto repeats = std::ranges::unique(touched_);
  touched_.erase(repeats.begin(), repeats.end());
  return std::exchange(touched_, {});
}

std::vector<RunNo> Oracle::RunNos() const {
  std::vector<RunNo> numbers;
  numbers.reserve(runs_.size());
  for (const auto& [no, run] : runs_) numbers.push_back(no);
  return numbers;
}

bool Oracle::IsLiveEpoch(const model::AttemptKey& key) const {
  const auto run = runs_.find(key.run);
  if (run == runs_.end()) return false;
  const TaskPicture& task = run->second.tasks[key.task.value];
  return task.row.epoch == key.epoch && model::IsLive(task.row.state);
}

bool Oracle::IsZombie(const model::AttemptKey& key) const {
  const auto run = runs_.find(key.run);
  if (run == runs_.end()) return false;
  const TaskPicture& task = run->second.tasks[key.task.value];
  return task.row.epoch == key.epoch && task.row.zombie;
}

bool Oracle::Holds(const model::AttemptKey& key, std::string_view holder) const {
  const auto run = runs_.find(key.run);
  if (run == runs_.end()) return false;
  const TaskPicture& task = run->second.tasks[key.task.value];
  return task.row.epoch == key.epoch && task.holder == holder;
}

bool Oracle::CheckOffer(const executor::Attempt& attempt, const Incarnation& by, int owner) {
  if (by.number != owner) return false;
  if (IsLiveEpoch(attempt.key) || IsZombie(attempt.key)) return true;
  Fail(attempt.key.run, fmt::format("I1 offered without a committed row: {} epoch {}",
                                    attempt.task().id, attempt.key.epoch.value));
  return false;
}

void Oracle::Committed(const store::Round& round, const Incarnation& by, int owner) {
  if (by.number != owner)
    journal_.Violated(
        fmt::format("I3 engine {} committed, but {} owns the shards", by.number, owner));
  std::size_t rows = 0;
  newly_active_.clear();
  for (const auto& write : round.runs) {
    const auto known = runs_.find(write.header.run_no);
    const bool ran = known != runs_.end() && known->second.header.state == RunState::kRunning;
    const bool revived = std::ranges::any_of(write.events, [](const auto& event) {
      return event.kind == "rerun" || event.kind == "mark";
    });
    if (!ran) newly_active_.emplace(write.header.run_no, revived);
  }
  CheckAlerts(round);
  for (const auto& write : round.runs) {
    CheckRun(write);
    touched_.push_back(write.header.run_no);
    rows += 1 + write.tasks.size() + write.attempts.size() + write.events.size();
  }
  CheckLimits(round);
  if (rows > 4'000) journal_.Violated(fmt::format("I12 a round of {} rows", rows));
  for (const auto& key : round.deleted_runs) {
    const auto run = runs_.find(key.run);
    if (run == runs_.end()) continue;
    if (!model::IsTerminal(run->second.header.state)) Fail(key.run, "a live run was deleted");
    std::erase_if(start_keys_, [&](const auto& entry) { return entry.second == key.run; });
    runs_.erase(run);
  }
}

void Oracle::CheckAlerts(const store::Round& round) {
  std::set<std::string> told;
  for (const auto& write : round.runs) {
    const RunNo no = write.header.run_no;
    const auto known = runs_.find(no);
    const auto workflow = workflow_(write.header.version);
    for (const auto& task : write.tasks) {
      const model::StoredTask& row = task.row;
      if (row.state != TaskState::kFailed || row.reason == Reason::kMarked ||
          workflow->task(row.task).allow_failure)
        continue;
      const model::StoredTask* const before =
          known == runs_.end() ? nullptr : &known->second.tasks[row.task.value].row;
      const std::string id = fmt::format("task_failed:{}:{}.{}.{}", no.value, row.task.value,
                                         row.generation, row.epoch.value);
      // Written once more, it may be told once more, by the same name.
      if (before == nullptr || before->state != TaskState::kFailed ||
          before->generation != row.generation || before->epoch != row.epoch)
        alerts_.insert(id), told.insert(id);
    }
    // Anew where it was to come back and could not.
    if (!write.header.stuck_reason.empty() &&
        (known == runs_.end() || known->second.header.stuck_reason.empty() ||
         known->second.header.stuck_since != write.header.stuck_since)) {
      const std::string id = fmt::format("run_stuck:{}:{}", no.value,
                                         write.header.stuck_since.time_since_epoch().count());
      alerts_.insert(id), told.insert(id);
    }
  }
  for (const std::string& queue : alert_queues_) {
    std::set<std::string> missing = told;
    for (const store::QueuedItem& item : round.items) {
      if (item.queue != queue) continue;
      missing.erase(item.id);
      if (!alerts_.contains(item.id))
        journal_.Violated("an alert tells of what did not fail: " + item.id);
    }
    if (!missing.empty()) journal_.Violated("a failure is not told: " + *missing.begin());
  }
  if (alert_queues_.empty() && !round.items.empty())
    journal_.Violated("a round tells though nobody wants to hear");
}

void Oracle::CheckRun(const store::RunWrite& write) {
  const model::RunHeader& header = write.header;
  const auto [at, fresh] = runs_.try_emplace(header.run_no);
  RunPicture& run = at->second;
  if (fresh) {
    run.workflow = workflow_(header.version);
    run.tasks.resize(run.workflow->size());
    run.header = header;
    run.header.state = model::RunState::kPending;
    run.header.next_epoch = Epoch(1);
    for (std::uint32_t t = 0; t < run.tasks.size(); ++t) run.tasks[t].row.task = TaskNo(t);
    if (!write.insert_input) Fail(header.run_no, "a run was written before it was inserted");
    if (write.insert_input && !inputs_.insert(*write.insert_input).second)
      Fail(header.run_no, "I8 one start request made two runs");
    if (!header.start_key.empty() &&
        !start_keys_.emplace(header.name.ToString() + " " + header.start_key, header.run_no).second)
      Fail(header.run_no, "I8 one start key made two runs");
  }
  // A rerun of one that was cancelled while it was pending asks for no place.
  const bool started = run.header.state == model::RunState::kPending &&
                       header.state == model::RunState::kRunning &&
                       !newly_active_.at(header.run_no);
  if (header.next_epoch < run.header.next_epoch) Fail(header.run_no, "the next epoch fell");
  if (header.generation < run.header.generation) Fail(header.run_no, "the generation fell");
  if (header.version != run.header.version) Fail(header.run_no, "I2 the version changed");
  if (model::IsTerminal(run.header.state) && !model::IsTerminal(header.state) &&
      std::ranges::none_of(write.events, [](const auto& event) {
        return event.kind == "rerun" || event.kind == "mark";
      }))
    Fail(header.run_no, "an ended run lives again, and nobody asked for it");
  for (const auto& event : write.events)
    if (!event.actor.empty() && !event.actor.starts_with("engine") &&
        !run.applied.insert(event.actor + " " + event.kind).second)
      Fail(header.run_no, fmt::format("I8 {} of {} applied twice", event.kind, event.actor));
  for (const auto& record : write.attempts) CheckAttempt(run, record);
  for (const auto& task : write.tasks) {
    CheckHolder(run, task);
    CheckTask(run, write, task.row);
  }
  const auto says = [&](std::string_view kind) {
    return std::ranges::any_of(write.events, [&](const auto& e) { return e.kind == kind; });
  };
  run.marked |= says("mark");
  // In a cancelled run a mark decides nothing anew, and a rerun of what failed leaves it so.
  run.marked_in_cancel |= says("mark") && (IsSet(header.cancel_requested_at) ||
                                           IsSet(run.header.cancel_requested_at) || says("cancel"));
  run.header = header;
  CheckCounts(run);
  CheckMaxParallel(run);
  if (started) CheckMaxActive(run);
  CheckPermits(run, write);
  CheckRate(run, write);
  if (model::IsTerminal(header.state)) CheckOutcome(run);
}

void Oracle::CheckAttempt(RunPicture& run, const model::AttemptRecord& record) {
  const RunNo no = run.header.run_no;
  TaskPicture& task = run.tasks[record.task.value];
  if (!run.ended.insert(record.epoch).second)
    Fail(no, fmt::format("I3 epoch {} ended twice", record.epoch.value));
  if (task.row.epoch != record.epoch || !(model::IsLive(task.row.state) || task.row.zombie)) {
    Fail(no, fmt::format("I1 {} epoch {} ended, but it was not the stored live one",
                         Name(run, record.task), record.epoch.value));
  }
  CheckVerdictIsTrue(run, record);
  if (task.row.zombie) return;
  const Reason reason = record.outcome.reason;
  if (reason == Reason::kDispatchFailed) {
    ++task.dispatch_failures;
    return;
  }
  if (reason == Reason::kRefused) return;
  switch (record.outcome.verdict) {
    case Verdict::kSucceeded:
    case Verdict::kRetry:
    case Verdict::kFailed:
      ++task.tries;
      break;
    case Verdict::kLost:
      ++task.losses;
      break;
    case Verdict::kSnoozed:
      ++task.snoozes;
      break;
    case Verdict::kSkipped:
    case Verdict::kInterrupted:
    case Verdict::kCancelled:
      break;
  }
}

void Oracle::CheckVerdictIsTrue(const RunPicture& run, const model::AttemptRecord& record) {
  const RunNo no = run.header.run_no;
  const Site::Truth* truth = truth_(no, record.epoch);
  const bool begun = truth != nullptr && truth->begins > 0;
  const auto lie = [&](std::string_view what) {
    Fail(no, fmt::format("{}: {} epoch {} said {}, reason {}", what, Name(run, record.task),
                         record.epoch.value, model::VerdictName(record.outcome.verdict),
                         model::ReasonName(record.outcome.reason)));
  };
  const Reason reason = record.outcome.reason;
  if (reason == Reason::kDispatchFailed || reason == Reason::kRefused) {
    if (begun) lie("I5 a refused attempt ran");
    return;
  }
  // Ended for its holder's silence: lost, or long after its timeout or cancel.
  const bool for_silence =
      record.outcome.verdict == Verdict::kLost || record.outcome.verdict == Verdict::kCancelled ||
      (record.outcome.verdict == Verdict::kRetry && reason == Reason::kTimeout);
  if (truth != nullptr && truth->lapsed && for_silence) return;
  if (truth != nullptr && truth->outcome) {
    if (truth->outcome->verdict != record.outcome.verdict) lie("I3 not what the attempt said");
    return;
  }
  switch (record.outcome.verdict) {
    case Verdict::kInterrupted:
    case Verdict::kCancelled:
      // Ended by the owner: only what never began.
      if (begun) lie("I4 the owner ended an attempt that had begun");
      return;
    case Verdict::kLost:
      if (truth == nullptr || (begun ? truth->stage != Site::Stage::kVanished : !truth->dropped))
        lie("I7 nothing was lost");
      return;
    case Verdict::kRetry:
      // Its holder never heard that it might begin, and asked for longer than it may take.
      if (truth != nullptr && !begun && reason == Reason::kTimeout) return;
      [[fallthrough]];
    default:
      lie("I3 nobody said so");
  }
}

/// I5: once it has started, an epoch has one holder.
void Oracle::CheckHolder(RunPicture& run, const store::RunWrite::TaskWrite& write) {
  TaskPicture& task = run.tasks[write.row.task.value];
  if (task.row.state == TaskState::kRunning && task.row.epoch == write.row.epoch &&
      (model::IsLive(write.row.state) || write.row.zombie) && task.holder != write.holder)
    Fail(run.header.run_no,
         fmt::format("I5 {} epoch {} was with {}, and is with {}", Name(run, write.row.task),
                     write.row.epoch.value, task.holder, write.holder));
  task.holder = write.holder;
}

void Oracle::CheckTask(RunPicture& run, const store::RunWrite& write,
                       const model::StoredTask& row) {
  TaskPicture& task = run.tasks[row.task.value];
  const bool marked =
      std::ranges::any_of(write.events, [](const auto& e) { return e.kind == "mark"; });
  const bool reset = row.generation != task.row.generation ||
                     (model::IsTerminal(task.row.state) && !model::IsTerminal(row.state));
  if (reset && task.has_row) task.tries = task.losses = task.dispatch_failures = task.snoozes = 0;
  const bool asked = task.row.reason == Reason::kPermit;
  if (model::IsLive(row.state) && (asked || row.epoch != task.row.epoch))
    CheckQueued(run, write, row);
  if (task.row.state == TaskState::kSucceeded && !reset && row.state != TaskState::kSucceeded &&
      !marked)
    Fail(run.header.run_no, fmt::format("{} succeeded, and then it did not", Name(run, row.task)));
  if (row.epoch != Epoch(0) && row.epoch < task.row.epoch)
    Fail(run.header.run_no, fmt::format("epochs of {} fell", Name(run, row.task)));
  // An attempt that was given up and ended in one round: its verdict no longer counted.
  if (std::ranges::any_of(write.events, [](const auto& e) { return e.kind == "zombie"; })) {
    task.tries = std::min<int>(task.tries, row.tries);
    task.losses = std::min<int>(task.losses, row.losses);
    task.snoozes = std::min<int>(task.snoozes, static_cast<int>(row.snoozes));
  }
  // A mark may send finally tasks round once more, in the very round in which one ended.
  if (row.tries == 0 && row.losses == 0 && row.dispatch_failures == 0 && row.snoozes == 0 &&
      run.workflow->task(row.task).role != model::TaskRole::kMain)
    task.tries = task.losses = task.dispatch_failures = task.snoozes = 0;
  CheckBudgets(run, task, row, marked || reset);
  if ((row.reason == Reason::kWhen &&
       Questions::TruthOf(run.header.run_no, row.task) != Questions::Truth::kDoesNot) ||
      (row.reason == Reason::kExpression &&
       Questions::TruthOf(run.header.run_no, row.task) != Questions::Truth::kError))
    Fail(run.header.run_no,
         fmt::format("{} ended by its `when`, which says otherwise", Name(run, row.task)));
  if (row.state == TaskState::kParked && row.reason == Reason::kNone)
    Fail(run.header.run_no, fmt::format("I14 {} is parked without a reason", Name(run, row.task)));
  task.row = row;
  task.has_row = true;
}

void Oracle::CheckQueued(const RunPicture& run, const store::RunWrite& write,
                         const model::StoredTask& row) {
  const model::RunHeader& header = write.header;
  const RunNo no = header.run_no;
  const std::string name = Name(run, row.task);
  const model::StoredTask& before = run.tasks[row.task.value].row;
  const bool as_asked = before.reason == Reason::kPermit && row.epoch == before.epoch;
  if (!as_asked && (row.epoch < run.header.next_epoch || row.epoch >= header.next_epoch))
    Fail(no, fmt::format("{} got epoch {} out of order", name, row.epoch.value));
  if (header.state != model::RunState::kRunning) Fail(no, name + " queued in a run that is over");
  if (IsSet(header.paused_at)) Fail(no, name + " queued in a paused run");
  if (!header.stuck_reason.empty()) Fail(no, name + " queued in a stuck run");
  const auto role = run.workflow->task(row.task).role;
  if (IsSet(header.cancel_requested_at) && role == model::TaskRole::kMain)
    Fail(no, name + " queued after the cancel");
  if (role == model::TaskRole::kOnCancel && !IsSet(header.cancel_requested_at))
    Fail(no, name + " queued, but nobody cancelled");
  if (role == model::TaskRole::kFinally && !IsSet(header.finally_started_at))
    Fail(no, name + " queued before finally began");
  if (header.finally_stopped) Fail(no, name + " queued after the second cancel");
  if (!run.workflow->task(row.task).when.empty() &&
      Questions::TruthOf(no, row.task) != Questions::Truth::kHolds)
    Fail(no, name + " queued, but its `when` is not true");
}

void Oracle::CheckBudgets(const RunPicture& run, const TaskPicture& task,
                          const model::StoredTask& row, bool reset) {
  const auto equal = [&](int tries, int losses, int dispatch_failures, int snoozes) {
    return row.tries == tries && row.losses == losses &&
           row.dispatch_failures == dispatch_failures &&
           row.snoozes == static_cast<std::uint32_t>(snoozes);
  };
  if (equal(task.tries, task.losses, task.dispatch_failures, task.snoozes)) return;
  if (reset && equal(0, 0, 0, 0)) return;
  Fail(run.header.run_no,
       fmt::format("I7 {}: tries {} losses {} dispatch failures {} snoozes {} stored, but "
                   "{} {} {} {} happened",
                   Name(run, row.task), row.tries, row.losses, row.dispatch_failures, row.snoozes,
                   task.tries, task.losses, task.dispatch_failures, task.snoozes));
}

void Oracle::CheckCounts(const RunPicture& run) {
  std::array<std::uint32_t, model::kTaskStateCount> counts{};
  for (const auto& task : run.tasks) ++counts[static_cast<std::size_t>(task.row.state)];
  for (std::size_t s = static_cast<std::size_t>(TaskState::kQueued); s < counts.size(); ++s)
    if (counts[s] != run.header.counts[s])
      Fail(run.header.run_no,
           fmt::format("the header counts {} tasks {}, the rows {}", run.header.counts[s],
                       model::TaskStateName(static_cast<TaskState>(s)), counts[s]));
}

void Oracle::CheckMaxParallel(const RunPicture& run) {
  const int limit = run.workflow->definition().max_parallel;
  if (limit == 0) return;
  const auto live = std::ranges::count_if(run.tasks, [](const TaskPicture& task) {
    return model::IsLive(task.row.state) || task.row.zombie;
  });
  const auto zombies =
      std::ranges::count_if(run.tasks, [](const TaskPicture& task) { return task.row.zombie; });
  if (live > limit && live > zombies)
    Fail(run.header.run_no, fmt::format("{} attempts live, max_parallel {}", live, limit));
}

std::ptrdiff_t Oracle::CountActive(const RunPicture& of, bool with_key) const {
  // Another version may say more, or nothing: who of it starts in the same round is its own affair.
  return std::ranges::count_if(runs_, [&](const auto& entry) {
    const model::RunHeader& header = entry.second.header;
    const bool zombie =
        std::ranges::any_of(entry.second.tasks, [](const auto& task) { return task.row.zombie; });
    if (header.name != of.header.name || (header.state != RunState::kRunning && !zombie) ||
        (with_key && header.concurrency_key != of.header.concurrency_key))
      return false;
    const auto newly = newly_active_.find(entry.first);
    return newly == newly_active_.end() || zombie ||
           (!newly->second && header.version == of.header.version);
  });
}

void Oracle::CheckMaxActive(const RunPicture& run) {
  const auto check = [&](int limit, bool with_key, std::string_view what) {
    const auto active = limit > 0 ? CountActive(run, with_key) : 0;
    if (active > limit)
      Fail(run.header.run_no,
           fmt::format("started as number {} under way, {} {}", active, what, limit));
  };
  check(run.workflow->definition().max_active_runs, false, "max_active_runs");
  const auto& concurrency = run.workflow->definition().concurrency;
  if (concurrency.has_value() != run.header.concurrency_key.has_value())
    Fail(run.header.run_no, "it has a key without limits, or limits without a key");
  if (concurrency) check(concurrency->limit, true, "concurrency.limit");
}

/// I9: who holds permits is who has an attempt that is not provably over, and nobody else.
void Oracle::CheckPermits(const RunPicture& run, const store::RunWrite& write) {
  const RunNo no = run.header.run_no;
  for (const Epoch epoch : write.freed) permits_.erase({no, epoch});
  for (const auto& grant : write.grants)
    if (!permits_.emplace(std::pair(no, grant.epoch), grant).second)
      Fail(no, fmt::format("I9 epoch {} got its permits twice", grant.epoch.value));
  std::size_t holders = 0;
  for (const auto& task : run.tasks) {
    const model::Task& spec = run.workflow->task(task.row.task);
    if (spec.pool.empty() || !(model::IsLive(task.row.state) || task.row.zombie)) continue;
    ++holders;
    const auto permit = permits_.find({no, task.row.epoch});
    if (permit == permits_.end() || permit->second.task != task.row.task ||
        permit->second.pool != spec.pool || permit->second.weight != spec.weight)
      Fail(no, fmt::format("I9 {} has an attempt without its permits", spec.id));
  }
  const auto held = std::distance(permits_.lower_bound({no, Epoch(0)}),
                                  permits_.lower_bound({RunNo(no.value + 1), Epoch(0)}));
  if (static_cast<std::size_t>(held) != holders)
    Fail(no, fmt::format("I9 {} attempts hold permits, {} may", held, holders));
}

void Oracle::CheckRate(const RunPicture& run, const store::RunWrite& write) {
  const auto& concurrency = run.workflow->definition().concurrency;
  if (!write.start || !concurrency) return;
  auto& starts = starts_[{run.header.name, *run.header.concurrency_key}];
  starts.push_back({*write.start, concurrency->rate});
  const Instant now = write.start->at;
  // Of those of one round, the ones whose version allows fewer may have come first.
  const auto within = std::ranges::count_if(starts, [&](const RatedStart& other) {
    return other.start.at > now - concurrency->rate_per && other.start.until > now &&
           (other.start.at < now || other.rate <= concurrency->rate);
  });
  if (within > concurrency->rate && !clock_jumped_)
    Fail(run.header.run_no, fmt::format("start number {} within {}, rate {}", within,
                                        FormatDuration(concurrency->rate_per), concurrency->rate));
}

void Oracle::CheckLimits(const store::Round& round) {
  std::map<std::string, int> used;
  for (const auto& [holder, grant] : permits_) used[grant.pool] += grant.weight;
  for (const auto& write : round.runs)
    for (const auto& grant : write.grants)
      if (used[grant.pool] > limits_[grant.pool])
        Fail(write.header.run_no, fmt::format("{} permits of {} are held, its limit is {}",
                                              used[grant.pool], grant.pool, limits_[grant.pool]));
}

void Oracle::CheckOutcome(const RunPicture& run) {
  const model::RunHeader& header = run.header;
  bool failed = false;
  for (const auto& task : run.tasks) {
    const TaskState state = task.row.state;
    // A pending run that is cancelled gets no rows at all.
    if (!model::IsTerminal(state) && IsSet(header.started_at))
      return Fail(header.run_no,
                  fmt::format("the run ended, but {} is {}", Name(run, task.row.task),
                              model::TaskStateName(state)));
    failed |= (state == TaskState::kFailed || state == TaskState::kCancelled) &&
              !run.workflow->task(task.row.task).allow_failure;
  }
  RunState expected = failed ? RunState::kFailed : RunState::kSucceeded;
  if (IsSet(header.cancel_requested_at))
    expected = header.reason == Reason::kCancelRequested ? RunState::kCancelled : RunState::kFailed;
  if (header.state != expected)
    Fail(header.run_no,
         fmt::format("the run is called {}, its tasks say {}", model::RunStateName(header.state),
                     model::RunStateName(expected)));
  if (!IsSet(header.cancel_requested_at) && !run.marked_in_cancel) CheckTriggerRules(run);
}

void Oracle::CheckTriggerRules(const RunPicture& run) {
  for (const auto& task : run.tasks) {
    const TaskNo no = task.row.task;
    // Marked, or stopped: alone, or by the cancel of an earlier generation.
    if (task.row.reason == Reason::kMarked || task.row.reason == Reason::kNotCancelled ||
        task.row.state == TaskState::kCancelled)
      continue;
    Ends ends{.n = static_cast<std::uint32_t>(run.workflow->upstreams(no).size())};
    for (const TaskNo up : run.workflow->upstreams(no)) {
      const model::StoredTask& row = run.tasks[up.value].row;
      switch (row.state) {
        case TaskState::kFailed:
          ++(run.workflow->task(up).allow_failure ? ends.s : ends.f);
          break;
        case TaskState::kCancelled:
          ++ends.f;
          break;
        case TaskState::kUpstreamFailed:
          ++ends.uf;
          break;
        case TaskState::kSkipped:
          ++ends.k;
          break;
        default:
          ++ends.s;
      }
    }
    const auto rule = run.workflow->task(no).trigger_rule;
    const bool by_rule = task.row.reason == Reason::kTriggerRule;
    // What ran stays when something above it is marked later; what a rule settled is decided again.
    if (!by_rule && run.marked) continue;
    const TaskState expected = MayRun(rule, ends)                 ? TaskState::kSucceeded
                               : MustBeUpstreamFailed(rule, ends) ? TaskState::kUpstreamFailed
                                                                  : TaskState::kSkipped;
    const bool right = by_rule ? task.row.state == expected : expected == TaskState::kSucceeded;
    if (!right)
      Fail(run.header.run_no,
           fmt::format("{} is {} ({}), but its rule {} says otherwise", Name(run, no),
                       model::TaskStateName(task.row.state), model::ReasonName(task.row.reason),
                       model::TriggerRuleName(rule)));
  }
}

void Oracle::CheckEnded(const store::RunImage& image) {
  const RunNo no = image.header.run_no;
  const auto run = runs_.find(no);
  if (run == runs_.end()) return Fail(no, "a run is stored that no round wrote");
  if (!model::IsTerminal(image.header.state)) return Fail(no, "the run does not end");
  for (const auto& row : image.tasks)
    if (model::IsLive(row.state) || row.zombie)
      Fail(no, fmt::format("an attempt is left: {}", Name(run->second, row.task)));
}

}  // namespace headworks::sim
