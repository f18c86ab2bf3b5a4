// A round: step every entity touched, then commit all of it or nothing.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "headworks/engine/engine.h"
#include "headworks/executor/attempt_log.h"

namespace headworks::engine {
namespace {

/// Rows that one step may add even when the round is nearly full, so that it gets on.
constexpr std::size_t kMinBudget = 64;
/// An item of a queue is its row and its payload, which are so large at most, as a rule.
constexpr std::size_t kItemRows = 2;
constexpr std::size_t kItemBytes = 2 * alert::kMaxErrorBytes;
/// Task states that the row of a small run stands for when bytes are counted.
constexpr std::size_t kRowBytes = 200;

/// Of a round of at most so many bytes the room is used for the next one.
constexpr std::size_t kSpareBytes = std::size_t{1} << 20;

constexpr Duration kFirstRetry = std::chrono::milliseconds(50);
constexpr Duration kLongestRetry = std::chrono::seconds(1);

std::string StartKey(const control::StartRequest& request) {
  return request.tenant.value + "\n" + request.name.ToString() + "\n" + request.start_key;
}

/// An answer to whoever asked; any other error of a step is a fault in the run's state.
bool IsRefusal(Code code) {
  return code == Code::kConflict || code == Code::kNotFound || code == Code::kInvalidArgument;
}

bool HasEffects(const model::Changes& changes) {
  return !changes.offers.empty() || !changes.cancels.empty() || !changes.timers.empty() ||
         !changes.evaluate.empty() || changes.more;
}

}  // namespace

void Engine::RunRound(std::vector<Work> again, bool grant) {
  round_began_ = clock_.Now();
  round_rows_ = 0;
  round_bytes_ = 0;
  round_start_keys_.clear();
  faulted_.reset();
  owned_.clear();
  round_states_ = 0;
  active_runs_.BeginRound();
  pools_.BeginRound();
  grant_more_ = false;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    lanes_[l].carried = lanes_[l].ready.size();
    lanes_[l].max = dispatcher_.GetCapacity(l).max;
  }
  std::vector<Work> works;
  works.reserve(
      std::min(again.size() + cancels_.size() + backlog_.size(), options_.max_round_rows));
  const auto apply = [&](Work work) {
    const bool done = Apply(work);
    // Credit is granted anew; the run need only be there.
    if (!done && IsQueueTask(work)) work.what = model::Event(model::ContinueRun{});
    (done ? works : later_).push_back(std::move(work));
    if (!done) later_at_ = clock_.Monotonic() + kFirstRetry;
    return !faulted_;
  };
  if (again.empty()) {
    for (auto* queue : {&cancels_, &backlog_})
      for (std::size_t n = queue->size(); n > 0 && !faulted_; --n) {
        if (RoundIsFull()) break;
        Work next = std::move(queue->front());
        queue->pop_front();
        apply(std::move(next));
      }
  }
  // As in any round, credit comes last: nothing is queued after a cancel.
  for (const bool credit : {false, true})
    for (Work& work : again) {
      if (IsQueueTask(work) != credit) continue;
      if (faulted_)
        works.push_back(std::move(work));
      else
        apply(std::move(work));
    }
  if (pools_.waiting() > 0) ForgetAsks();
  if (grant && start_tasks_ && !faulted_) GrantCredit(works);
  if (faulted_) return SetAside(std::move(works));
  store::Round round = BuildRound(works);
  if (round.runs.empty() && round.deleted_runs.empty() && round.consumed.empty())
    return PerformEffects(works);
  pending_.emplace(Pending{.round = std::move(round), .works = std::move(works)});
  TryCommit();
}

bool Engine::TryCommit() {
  const Duration begin = clock_.Monotonic();
  Status committed = database_.runs().Commit(pending_->round);
  stats_.commit_duration.Observe(clock_.Monotonic() - begin);
  if (!committed) ++stats_.commits_failed;
  bool& unknown = pending_->maybe_committed;
  unknown = unknown || (!committed && committed.error().code == Code::kUnavailable);
  if (!committed && unknown) {
    // It may have happened, now or when it was sent before: only the guard row knows.
    const store::Guard& mine = pending_->round.guards.front();
    if (const auto stored = database_.runs().ReadGuard(mine.shard); !stored) {
      committed = Error(stored.error());
    } else if (stored->term != mine.term) {
      committed = Error{Code::kLeaseLost, fmt::format("shard {}: term {} is over", mine.shard.value,
                                                      mine.term.value)};
    } else {
      unknown = false;
      if (stored->round == mine.round) committed = {};
    }
  }
  if (committed) {
    Pending done = std::move(*pending_);
    pending_.reset();
    Perform(done.round, done.works);
    if (round_bytes_ <= kSpareBytes) spare_writes_ = std::move(done.round.runs);
    return true;
  }
  const Error& error = committed.error();
  if (error.code == Code::kLeaseLost || error.code == Code::kCorrupt) {
    Lose(error);
    return false;
  }
  if (error.code == Code::kUnavailable || error.code == Code::kAtCapacity) {
    // The same bytes again, later; meanwhile events pile up in the mailbox.
    const int failures = pending_->failures++;
    if (stats_.trouble != error.message)
      logger_.Error("the store refuses to commit; will try again", {{"error", error.message}});
    stats_.trouble = error.message;
    pending_->retry_at =
        clock_.Monotonic() +
        std::min<Duration>(kFirstRetry * (1 << std::min(failures, 10)), kLongestRetry);
    return false;
  }
  Pending failed = std::move(*pending_);
  pending_.reset();
  Rollback();
  Split(std::move(failed.works), error);
  return true;
}

bool Engine::IsQueueTask(const Work& work) {
  const auto* event = std::get_if<model::Event>(&work.what);
  return event != nullptr && std::holds_alternative<model::QueueTask>(*event);
}

void Engine::SetAside(std::vector<Work> works) {
  const auto [run, error] = *std::exchange(faulted_, std::nullopt);
  Rollback();
  std::vector<Work> its, others;
  for (Work& work : works) (work.run == run ? its : others).push_back(std::move(work));
  if (!others.empty()) isolated_.push_front(std::move(others));
  const TenantId tenant = its.front().tenant;
  Park(tenant, run, error.message, std::move(its));
}

void Engine::Lose(const Error& error) {
  lost_ = true;
  stats_.trouble = error.code == Code::kLeaseLost
                       ? fmt::format("another engine took over ({})", error.message)
                       : error.message;
  logger_.Error("this engine may not write any more; it stops", {{"error", error.message}});
  AnswerAll();
}

void Engine::Split(std::vector<Work> works, const Error& error) {
  // A start is a run of its own that has no number yet.
  std::set<std::pair<RunNo, std::size_t>> runs;
  const auto key = [&](std::size_t i) {
    return std::pair(works[i].run, works[i].run == RunNo(0) ? i : 0);
  };
  for (std::size_t i = 0; i < works.size(); ++i) runs.insert(key(i));
  if (works.empty())
    return logger_.Error("stuck run cannot be marked; it is held in memory only",
                         {{"error", error.message}});
  if (runs.size() <= 1) {
    if (const RunNo run = works.front().run; run != RunNo(0)) {
      const TenantId tenant = works.front().tenant;
      return Park(tenant, run, error.message, std::move(works));
    }
    std::get<StartWork>(works.front().what).result = error;
    if (works.front().inbox_id == 0) return Answer(works);
    return isolated_.push_front(std::move(works));  // its row is consumed with this answer
  }
  const auto middle = *std::next(runs.begin(), static_cast<std::ptrdiff_t>(runs.size() / 2));
  std::vector<Work> low, high;
  for (std::size_t i = 0; i < works.size(); ++i)
    (key(i) < middle ? low : high).push_back(std::move(works[i]));
  isolated_.push_front(std::move(high));
  isolated_.push_front(std::move(low));
}

void Engine::Rollback() {
  for (const RunNo run : std::exchange(visited_, {})) {
    // Made anew, it gets another number.
    if (const auto slot = slots_.find(run); slot != slots_.end() && slot->second->insert_input)
      active_runs_.Forget(run);
    Evict(run);
  }
  pools_.BeginRound();
  after_commit_.clear();
}

void Engine::Park(const TenantId& tenant, RunNo run, const std::string& why,
                  std::vector<Work> works) {
  logger_.Error("run is parked as stuck",
                {{"tenant", tenant.value}, {"run", std::to_string(run.value)}, {"reason", why}});
  Evict(run);
  if (!active_runs_.empty()) PassPlaceOn(run);
  for (auto& work : works) {
    if (auto* command = std::get_if<CommandWork>(&work.what))
      command->result = Error{Code::kInternal, "the run is parked as stuck: " + why};
    if (auto* spoken = std::get_if<WordWork>(&work.what))
      spoken->reply = executor::Reply::kAskAgain;
  }
  Answer(works);
  // Events wait for `unstick`; commands from the inbox are read again, and answered "stuck".
  auto& held = stuck_works_[run];
  for (auto& work : works) {
    if (work.inbox_id != 0) {
      inbox_held_.erase(work.inbox_id);
      data_version_ = -1;
      next_inbox_ = std::min(next_inbox_, clock_.Monotonic() + options_.inbox_poll);
    }
    if (const auto* event = std::get_if<model::Event>(&work.what))
      KeepForUnstick(held, work, *event);
  }
  to_mark_.push_back({tenant, run, why.empty() ? "unknown" : why.substr(0, 4'096)});
}

void Engine::MarkStuck() {
  const Stuck stuck = to_mark_.front();
  // Its row alone: what is wrong may be with its tasks.
  auto record = database_.query().GetRun(stuck.tenant, std::to_string(stuck.run.value));
  if (!record && record.error().code == Code::kUnavailable) {
    mark_at_ = clock_.Monotonic() + kLongestRetry;
    return;
  }
  to_mark_.pop_front();
  if (!record)
    return logger_.Error("stuck run cannot be read", {{"tenant", stuck.tenant.value},
                                                      {"run", std::to_string(stuck.run.value)},
                                                      {"error", record.error().message}});
  store::RunWrite write{.header = std::move(record->header)};
  write.header.stuck_reason = stuck.why;
  write.header.stuck_since = clock_.Now();
  write.events.push_back({clock_.Now(), "stuck", "engine", stuck.why});
  const store::Guard& guard = guards_[static_cast<std::size_t>(write.header.shard.value)];
  store::Round round{.guards = {{guard.shard, guard.term, RoundNo(guard.round.value + 1)}},
                     .lease_ttl = options_.lease_ttl,
                     .now = clock_.Now()};
  if (!options_.alert_queues.empty())
    alert::AddItems(std::array{alert::OfStuckRun(write.header)}, options_.alert_queues,
                    round.items);
  round.runs.push_back(std::move(write));
  pending_.emplace(Pending{.round = std::move(round), .works = {}});
  TryCommit();
}

bool Engine::Apply(Work& work) {
  if (auto* event = std::get_if<model::Event>(&work.what)) return ApplyEvent(work, *event);
  if (auto* start = std::get_if<StartWork>(&work.what)) return ApplyStart(work, *start);
  if (auto* spoken = std::get_if<WordWork>(&work.what)) return ApplyWord(work, *spoken);
  return ApplyCommand(work, std::get<CommandWork>(work.what));
}

void Engine::KeepForUnstick(std::vector<Work>& kept, const Work& work, const model::Event& event) {
  if (const auto* answered = std::get_if<model::OfferAnswered>(&event))
    soft_failures_[{work.run, answered->task, answered->epoch}] = {};  // it is offered once more
  // All else is derived when the run is loaded again; a verdict may be said many times.
  const auto* ended = std::get_if<model::AttemptEnded>(&event);
  if (ended == nullptr) return;
  // That nobody has it is asked again, too: it is offered once more, and may be had then.
  if (ended->unstarted && ended->outcome.verdict == model::Verdict::kLost) return;
  for (const Work& other : kept)
    if (std::get<model::AttemptEnded>(std::get<model::Event>(other.what)).epoch == ended->epoch)
      return;
  kept.push_back({.tenant = work.tenant, .run = work.run, .what = event});
}

bool Engine::ApplyEvent(Work& work, const model::Event& event) {
  const auto slot = Load(work.tenant, work.run, clock_.Now());
  if (!slot) {
    if (slot.error().code == Code::kUnavailable) return false;
    if (const auto stuck = stuck_works_.find(work.run); stuck != stuck_works_.end())
      KeepForUnstick(stuck->second, work, event);
    if (std::holds_alternative<model::StartRun>(event)) PassPlaceOn(work.run);
    return true;
  }
  if ((*slot)->deleted) return true;
  Visit(**slot);
  // Of a run that is in another's way: said again it would stop its finally tasks.
  if (const model::RunHeader& header = (*slot)->run.header;
      std::holds_alternative<model::CancelRun>(event) &&
      (model::IsTerminal(header.state) || header.cancel_requested_at != Instant{}))
    return true;
  if (const auto* queue = std::get_if<model::QueueTask>(&event)) {
    QueueAgain(**slot, queue->task);
    return true;
  }
  if (std::holds_alternative<model::StartRun>(event)) {
    const auto place = TakePlace(**slot);
    if (!place) return false;
    if (!*place) {
      (*slot)->continuing = false;
      return true;
    }
  }
  if (std::holds_alternative<model::ContinueRun>(event) ||
      std::holds_alternative<model::StartRun>(event)) {
    (*slot)->continuing = false;
    for (const auto& due : std::exchange((*slot)->due, {}))
      static_cast<void>(StepSlot(**slot, due));
  }
  if (const auto stepped = StepSlot(**slot, event); !stepped)
    logger_.Warning("event refused", {{"tenant", work.tenant.value},
                                      {"run", std::to_string(work.run.value)},
                                      {"error", stepped.error().message}});
  return true;
}

Status Engine::StepSlot(Slot& slot, const model::Event& event) {
  const std::size_t rows = slot.changes.rows();
  const std::size_t attempts = slot.changes.attempts.size();
  const std::size_t offers = slot.changes.offers.size();
  const std::size_t outputs = slot.changes.outputs.size();
  const std::size_t tasks = slot.changes.tasks.size();
  const bool ran = slot.run.header.state == model::RunState::kRunning;
  const std::size_t left = options_.max_round_rows - std::min(options_.max_round_rows, round_rows_);
  Status status =
      model::Step(slot.run, event, clock_.Now(), std::max(left, kMinBudget), slot.changes);
  if (!active_runs_.empty() && !ran && slot.run.header.state == model::RunState::kRunning)
    for (const RunGroup& group : GroupsOf(slot.run.header)) active_runs_.Started(group);
  for (std::size_t i = attempts; i < slot.changes.attempts.size(); ++i)
    --lanes_[LaneOf(slot, slot.changes.attempts[i].task)].live;
  for (std::size_t i = offers; i < slot.changes.offers.size(); ++i)
    ++lanes_[LaneOf(slot, slot.changes.offers[i].task)].live;
  if (slot.run.workflow->has_pools()) MovePermits(slot, attempts, offers);
  for (std::size_t i = outputs; i < slot.changes.outputs.size(); ++i)
    round_bytes_ += slot.changes.outputs[i].second.size();
  for (const TaskNo task : slot.changes.ready)
    PushReady(slot.run.header.tenant, *slot.run.workflow, MakeReady(slot, task));
  slot.changes.ready.clear();
  if (std::exchange(slot.changes.superseded, false)) {
    ++stats_.superseded;
    // One that was never given out here is a later owner's: not ours to acknowledge.
    const auto* ended = std::get_if<model::AttemptEnded>(&event);
    if (ended != nullptr && ended->epoch < slot.run.header.next_epoch)
      slot.superseded.push_back({ended->task, ended->epoch});
  }
  if (!options_.alert_queues.empty()) CountAlerts(slot, tasks, attempts);
  const std::size_t added = slot.changes.rows() - rows;
  round_rows_ += added;
  round_bytes_ += added * kRowBytes;
  if (added > 0 || HasEffects(slot.changes) || !slot.superseded.empty()) slot.touched = true;
  if (!status && !IsRefusal(status.error().code))
    faulted_.emplace(slot.run.header.run_no, status.error());
  return status;
}

void Engine::CountAlerts(const Slot& slot, std::size_t tasks, std::size_t attempts) {
  const auto failed = [&](TaskNo task) {
    return slot.run.tasks[task.value].state == model::TaskState::kFailed;
  };
  const auto ended = std::span(slot.changes.attempts).subspan(attempts);
  auto alerts = std::ranges::count_if(ended, failed, &model::AttemptRecord::task);
  // One that was changed earlier in the round is not among these again.
  alerts += std::ranges::count_if(std::span(slot.changes.tasks).subspan(tasks), [&](TaskNo task) {
    return failed(task) &&
           std::ranges::find(ended, task, &model::AttemptRecord::task) == ended.end();
  });
  const std::size_t items = static_cast<std::size_t>(alerts) * options_.alert_queues.size();
  round_rows_ += items * kItemRows;
  round_bytes_ += items * kItemBytes;
}

Result<std::optional<control::Started>> Engine::FindStarted(const control::StartRequest& request) {
  if (request.start_key.empty()) return std::nullopt;
  if (const auto known = round_start_keys_.find(StartKey(request));
      known != round_start_keys_.end()) {
    control::Started started = known->second;
    started.existed = true;
    return started;
  }
  HEADWORKS_ASSIGN(const auto known,
                   database_.runs().FindStartKey(request.tenant, request.name, request.start_key));
  if (!known) return std::nullopt;
  // Who asks for it again will wait for it, so an engine that recovers nothing goes on with it.
  if (!model::IsTerminal(known->state))
    AddTimer(Timer{.due = clock_.Monotonic(),
                   .kind = Timer::Kind::kWake,
                   .when = clock_.Now(),
                   .tenant = request.tenant,
                   .ref = {known->run_no, TaskNo(0), Epoch(0)}});
  return control::Started{known->run_no, known->run_id, true};
}

bool Engine::ApplyStart(Work& work, StartWork& start) {
  control::StartRequest& request = start.request;
  if (!start.result) return true;  // refused before: undecodable, or it cannot be stored
  const auto refuse = [&](const Error& error) {
    if (error.code == Code::kUnavailable) return false;
    start.result = error;
    return true;
  };
  const auto found = FindStarted(request);
  if (!found) return refuse(found.error());
  if (*found) {
    start.result = **found;
    return true;
  }
  const auto workflow = LoadWorkflow(request.tenant, request.version);
  if (!workflow) return refuse(workflow.error());
  std::optional<std::string> key;
  if ((*workflow)->definition().concurrency) key = request.concurrency_key.value_or("");
  if (key)
    if (const Status free = CheckSkip(**workflow, {request.name, key}); !free)
      return refuse(free.error());
  const auto no = NextRunNo();
  if (!no) return refuse(no.error());

  const Instant now = clock_.Now();
  model::RunHeader header;
  header.run_no = *no;
  header.run_id = RunId(NewUuidV7(now, random_));
  header.tenant = request.tenant;
  header.name = request.name;
  header.version = request.version;
  header.shard = model::ShardOf(request.name);
  header.priority = request.priority;
  header.created_at = now;
  header.wake_at = Instant{};
  header.start_key = request.start_key;
  header.concurrency_key = std::move(key);
  header.rerun_of = request.rerun_of;
  header.counts[0] = (*workflow)->size();
  // Nor past what waits in the store, or for a place in memory.
  const bool admit = start_tasks_ && !due_tenants_after_ && due_.empty() && !memory_full_ &&
                     HasRoom((*workflow)->size());

  model::Changes effects;
  auto run = model::Rebuild(std::move(header), *workflow, {}, now, effects);
  if (!run) return refuse(run.error());
  start.result = control::Started{*no, run->header.run_id, false};
  if (!request.start_key.empty()) round_start_keys_.emplace(StartKey(request), *start.result);
  work.run = RunNo(0);
  Slot& slot = Insert(std::move(*run));
  Visit(slot);
  slot.insert_input = request.input;
  slot.changes.header = true;
  slot.changes.events.push_back({now, "created", request.actor, ""});
  slot.touched = true;
  round_rows_ += 2;
  round_bytes_ += request.input.size() + 2 * kRowBytes;
  if (!admit) return true;
  const auto place = TakePlace(slot);
  if (!place || !*place) return true;  // it stays pending
  if (const auto stepped = StepSlot(slot, model::StartRun{}); !stepped)
    logger_.Error("a new run did not start", {{"error", stepped.error().message}});
  return true;
}

bool Engine::ApplyCommand(Work& work, CommandWork& command) {
  if (!command.result) return true;  // undecodable
  if (command.command.kind == control::CommandKind::kUnstick) return Unstick(work, command);
  const auto loaded = Load(work.tenant, work.run, clock_.Now());
  if (!loaded) {
    if (loaded.error().code == Code::kUnavailable) return false;
    command.result = Error(loaded.error());
    return true;
  }
  Slot& slot = **loaded;
  Visit(slot);
  if (command.command.kind == control::CommandKind::kRerun)
    if (Status place = CheckRerun(slot.run); !place) {
      if (place.error().code == Code::kUnavailable) return false;
      command.result = std::move(place);
      return true;
    }
  // The store deletes only what it knows as ended.
  if (command.command.kind == control::CommandKind::kDelete && slot.changes.rows() > 0)
    return false;
  if (slot.deleted || slot.run.header.tenant != work.tenant)
    command.result = Error{Code::kNotFound, fmt::format("there is no run {}", work.run.value)};
  else
    ApplyToSlot(slot, command);
  return true;
}

void Engine::ApplyToSlot(Slot& slot, CommandWork& command) {
  using control::CommandKind;
  const control::Command& asked = command.command;
  const model::RunHeader& header = slot.run.header;
  TaskNo task;
  bool group = false;
  if (!asked.task.empty()) {
    const auto named = slot.run.workflow->Select(asked.task);
    if (!named) {
      command.result = named.error();
      return;
    }
    task = named->front();
    group = slot.run.workflow->task(task).id != asked.task;
  }
  switch (asked.kind) {
    case CommandKind::kCancel:
      command.result = StepSlot(slot, model::CancelRun{asked.actor});
      return;
    case CommandKind::kPause:
      command.result = StepSlot(slot, model::PauseRun{asked.actor});
      return;
    case CommandKind::kResume:
      command.result = StepSlot(slot, model::ResumeRun{asked.actor});
      return;
    case CommandKind::kRerun: {
      using Kind = model::ResetCursor::Kind;
      const Kind kind = group && asked.rerun == Kind::kFrom ? Kind::kFromGroup : asked.rerun;
      command.result = StepSlot(slot, model::RerunTasks{kind, task, asked.actor});
      return;
    }
    case CommandKind::kMark:
      if (asked.task.empty())
        command.result = Error{Code::kInvalidArgument, "mark needs the task's name"};
      else
        command.result = StepSlot(slot, model::MarkTask{task, asked.mark, asked.actor, group});
      return;
    case CommandKind::kDelete:
      if (!model::IsTerminal(header.state) || slot.run.live > 0)
        command.result = Error{Code::kConflict, fmt::format("run {} is not over; cancel it first",
                                                            header.run_id.value)};
      else
        slot.deleted = true;
      return;
    case CommandKind::kUnstick:
      return;
  }
}

bool Engine::Unstick(Work& work, CommandWork& command) {
  const bool held = stuck_works_.contains(work.run) || unloadable_.contains(work.run);
  auto image = database_.runs().LoadRun(work.tenant, work.run);
  if (!image) {
    if (image.error().code == Code::kUnavailable) return false;
    command.result = Error(image.error());
    return true;
  }
  if (slots_.contains(work.run) || (!held && image->header.stuck_reason.empty())) {
    command.result = Error{Code::kConflict, "the run is not stuck"};
    return true;
  }
  image->header.stuck_reason.clear();
  image->header.stuck_since = Instant{};
  unloadable_.erase(work.run);
  std::erase_if(to_mark_, [&](const Stuck& stuck) { return stuck.run == work.run; });
  auto built = Build(std::move(*image), clock_.Now());
  if (!built) {
    if (built.error().code == Code::kUnavailable) return false;
    command.result = Error(built.error());
    return true;
  }
  Slot& slot = **built;
  slot.listed.reset();
  slot.changes.header = true;
  slot.changes.events.push_back({clock_.Now(), "unstuck", command.command.actor, ""});
  slot.touched = true;
  round_rows_ += 2;
  if (auto waiting = stuck_works_.extract(work.run))
    for (auto& event : waiting.mapped()) backlog_.push_back(std::move(event));
  return true;
}

bool Engine::AtMaxParallel(const Slot& slot) {
  const int limit = slot.run.workflow->definition().max_parallel;
  return limit > 0 && slot.run.live >= static_cast<std::uint32_t>(limit);
}

void Engine::QueueAgain(Slot& slot, TaskNo task) {
  // Loading the run made its tasks ready for credit already; but in a half round the same is to be
  // done, or the run that cannot be committed is never found.
  const std::size_t lane = LaneOf(slot, task);
  const bool room =
      lanes_[lane].has_lines
          ? TakesMore(lane, LineOf(lane, slot.run.header.tenant, *slot.run.workflow, task))
          : lanes_[lane].live < lanes_[lane].max;
  if (!room || AtMaxParallel(slot)) return;
  if (!slot.run.workflow->task(task).pool.empty() &&
      !MayTakePermits(AskOf(slot, MakeReady(slot, task))))
    return;
  static_cast<void>(StepSlot(slot, model::QueueTask{task}));
}

std::size_t Engine::RowsToQueue() const {
  if (!start_tasks_) return 0;
  std::size_t rows = 0;
  for (const Lane& lane : lanes_) {
    if (lane.has_lines) continue;  // what waits there may have no credit for long
    const std::size_t credit = lane.max - std::min(lane.live, lane.max);
    // Of a task that became ready in this round, its run is part of it already.
    const std::size_t tasks = std::min(lane.ready.size(), credit);
    rows += tasks + std::min(lane.carried, tasks);
  }
  const std::size_t most = options_.max_round_rows;
  return std::min(rows, most - std::min(kMinBudget, (most + 1) / 2));
}

bool Engine::RoundIsFull() const {
  return round_rows_ + RowsToQueue() >= options_.max_round_rows ||
         round_bytes_ >= options_.max_round_bytes || round_states_ >= kAdmitStates;
}

void Engine::GrantCredit(std::vector<Work>& works) {
  ReservePermits();
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    Lane& lane = lanes_[l];
    if (lane.has_lines) {
      GrantLines(l, works);
      continue;
    }
    // Deferred attempts hold their place: they were queued first.
    while (!lane.ready.empty() && lane.live < lane.max && round_rows_ < options_.max_round_rows)
      Grant(lane.ready.Pop(), works);
    grant_more_ |= !lane.ready.empty() && lane.live < lane.max;
  }
}

void Engine::GrantLines(std::size_t at, std::vector<Work>& works) {
  Lane& lane = lanes_[at];
  if (lane.ready.empty() && lane.letting_go.empty()) return;
  if (!to_inspect_.empty()) {  // what an earlier owner queued may yet be offered, and comes first
    grant_more_ |= OwnsShards();
    return;
  }
  lane.ready.Reopen();
  std::erase_if(lane.later,
                [mono = clock_.Monotonic()](const auto& line) { return line.second <= mono; });
  struct Line {
    executor::Credit credit;
    std::uint32_t* of_tenant;
    std::uint32_t granted = 0;
  };
  std::map<LineKey, Line> asked;
  std::map<std::string, std::uint32_t> of_tenants;
  std::uint32_t granted = 0;
  Line* last = nullptr;
  using Has = ReadyQueue::Credit;
  const auto get_credit = [&](const std::string& tenant, const std::string& name) {
    const LineKey key(tenant, name);
    // Deferred attempts hold their place: they were queued first.
    if (lane.deferred.contains(key) || lane.later.contains(key)) return Has::kNotThisLine;
    const auto [known, added] = asked.try_emplace(key);
    last = &known->second;
    if (added) *last = {dispatcher_.GetCredit(at, TenantId(tenant), name), &of_tenants[tenant]};
    const executor::Credit& credit = last->credit;
    const bool has = granted < credit.all && *last->of_tenant < credit.tenant;
    if (has && last->granted < credit.line) return Has::kSome;
    grant_more_ |= credit.least() > 0;  // by what this round used up, it cannot know of the rest
    return has || credit.others ? Has::kNotThisLine : Has::kNotThisTenant;
  };
  while (round_rows_ < options_.max_round_rows) {
    const auto next = lane.ready.PopFromLines(get_credit);
    if (!next && ReleaseOthers(at)) continue;
    if (!next) {
      grant_more_ |= lane.ready.is_cut();
      return;
    }
    const std::uint32_t before = lane.live;
    Grant(*next, works);
    const std::uint32_t more = lane.live - before;
    granted += more;
    *last->of_tenant += more;
    last->granted += more;
  }
  grant_more_ |= !lane.ready.empty();
}

void Engine::Grant(const ReadyTask& next, std::vector<Work>& works) {
  const auto found = slots_.find(next.run);
  if (found == slots_.end()) return;
  Slot& slot = *found->second;
  const bool ready = slot.run.tasks[next.task.value].state == model::TaskState::kReady;
  if (!slot.held.empty()) CompetesNoMore(slot, next.task);
  if (ready && AtMaxParallel(slot)) return Hold(slot, next);
  if (!ready || !GetPermits(slot, next, works)) {
    grant_more_ |= ReleaseHeld(slot);  // its place is another's, whose lane may have had its turn
    return;
  }
  Visit(slot);
  works.push_back(EventOf(slot, model::QueueTask{next.task}));
  if (const auto stepped = StepSlot(slot, model::QueueTask{next.task}); !stepped)
    executor::ForAttempt(logger_,
                         MakeAttempt(slot, next.task, slot.run.tasks[next.task.value].epoch))
        .Warning("ready task was not queued", {{"error", stepped.error().message}});
}

void Engine::CompetesNoMore(Slot& slot, TaskNo task) {
  const std::size_t lane = LaneOf(slot, task);
  const auto held = slot.held.find(lane);
  if (held == slot.held.end()) return;
  held->second.Over(LineOf(lane, slot.run.header.tenant, *slot.run.workflow, task).second);
  if (lanes_[lane].has_lines) lanes_[lane].letting_go.insert(slot.run.header.run_no);
}

void Engine::WriteInto(store::RunWrite& write, Slot& slot, Instant now) const {
  write.header = slot.run.header;
  write.insert_input = slot.insert_input;
  write.relist = slot.listed != Listing(slot.run.header);
  write.attempts = slot.changes.attempts;
  write.events = slot.changes.events;
  write.start.reset();
  if (const auto& concurrency = slot.run.workflow->definition().concurrency;
      slot.changes.started && concurrency && concurrency->rate > 0)
    write.start = {slot.run.header.started_at, slot.run.header.started_at + concurrency->rate_per};
  write.freed.clear();
  write.grants.clear();
  if (slot.run.workflow->has_pools()) WritePermits(slot, write, now);
  std::ranges::sort(slot.changes.tasks);
  write.tasks.resize(slot.changes.tasks.size());
  for (std::size_t i = 0; i < write.tasks.size(); ++i) {
    const TaskNo task = slot.changes.tasks[i];
    auto& row = write.tasks[i];
    row.row = model::ToStored(slot.run, task);
    row.known = slot.run.tasks[task.value].stored;
    row.executor.clear();
    row.holder.clear();
    row.output.reset();
    if (!model::IsLive(row.row.state) && !row.row.zombie) continue;
    row.executor = dispatcher_.LaneName(LaneOf(slot, task));
    const Claim* claim = ClaimOf(slot, task, row.row.epoch);
    row.holder = claim != nullptr ? claim->holder : options_.owner;
  }
  const auto row_of = [&](TaskNo task) {
    return std::ranges::lower_bound(write.tasks, task, {},
                                    [](const auto& t) { return t.row.task; });
  };
  for (const TaskNo task : slot.changes.outputs_cleared)
    if (auto row = row_of(task); row != write.tasks.end()) row->output.emplace();
  for (const auto& [task, output] : slot.changes.outputs)
    if (auto row = row_of(task); row != write.tasks.end()) row->output = output;
}

store::Answer Engine::AnswerOf(const Work& work) {
  store::Answer answer{.tenant = work.tenant, .dedupe_key = work.dedupe_key, .run = work.run};
  if (const auto* start = std::get_if<StartWork>(&work.what)) {
    if (start->result) {
      answer.run = start->result->run;
      answer.run_id = start->result->run_id;
    } else {
      answer.error = start->result.error();
    }
  } else if (const auto& command = std::get<CommandWork>(work.what); !command.result) {
    answer.error = command.result.error();
  }
  return answer;
}

store::Round Engine::BuildRound(const std::vector<Work>& works) {
  store::Round round{.lease_ttl = options_.lease_ttl, .now = clock_.Now()};
  std::vector<RunNo> touched = visited_;
  std::ranges::sort(touched);
  std::set<Shard> shards;
  std::vector<alert::Alert> alerts;
  round.runs = std::exchange(spare_writes_, {});
  round.runs.resize(touched.size());
  std::size_t writes = 0;
  for (const RunNo run : touched) {
    const auto found = slots_.find(run);
    if (found == slots_.end()) continue;
    Slot& slot = *found->second;
    if (slot.changes.rows() == 0 && !slot.deleted) continue;
    shards.insert(slot.run.header.shard);
    if (slot.deleted) {
      round.deleted_runs.push_back({slot.run.header.tenant, run});
      continue;
    }
    store::RunWrite& write = round.runs[writes++];
    WriteInto(write, slot, round.now);
    if (!options_.alert_queues.empty()) AddAlerts(*slot.run.workflow, write, alerts);
  }
  round.runs.resize(writes);
  for (const Work& work : works) {
    if (work.inbox_id == 0) continue;
    round.consumed.push_back(work.inbox_id);
    round.answers.push_back(AnswerOf(work));
  }
  if (shards.empty() && !round.consumed.empty()) shards.insert(Shard(0));
  for (const Shard shard : shards) {
    const store::Guard& guard = guards_[static_cast<std::size_t>(shard.value)];
    round.guards.push_back({shard, guard.term, RoundNo(guard.round.value + 1)});
  }
  alert::AddItems(alerts, options_.alert_queues, round.items);
  return round;
}

void Engine::AddAlerts(const model::Workflow& workflow, const store::RunWrite& write,
                       std::vector<alert::Alert>& alerts) const {
  for (const auto& task : write.tasks) {
    if (task.row.state != model::TaskState::kFailed) continue;
    const auto last =
        std::ranges::find(write.attempts, task.row.epoch, &model::AttemptRecord::epoch);
    // A zombie's: its task failed without a word of it, in an earlier round or in this one.
    const bool zombie = last != write.attempts.end() && last->queued_at == Instant{};
    if (zombie && task.row.since < round_began_) continue;
    auto alert = alert::OfTask(write.header, workflow.task(task.row.task), task.row,
                               zombie || last == write.attempts.end() ? nullptr : &*last);
    if (alert) alerts.push_back(*std::move(alert));
  }
}

void Engine::Answer(std::vector<Work>& works) {
  std::size_t starts = 0, words = 0, bytes = 0;
  for (Work& work : works) {
    if (auto* start = std::get_if<StartWork>(&work.what)) {
      if (work.inbox_id == 0) ++starts;
      if (auto done = std::exchange(start->done, nullptr)) done(start->result);
    } else if (auto* command = std::get_if<CommandWork>(&work.what)) {
      if (auto done = std::exchange(command->done, nullptr)) done(command->result);
    } else if (auto* spoken = std::get_if<WordWork>(&work.what)) {
      if (auto done = std::exchange(spoken->done, nullptr)) {
        ++words;
        bytes += BytesOf(spoken->word);
        done(spoken->reply);
      }
    }
  }
  if (starts + words == 0) return;
  const std::scoped_lock lock(mutex_);
  waiting_words_ -= std::min(waiting_words_, words);
  waiting_word_bytes_ -= std::min(waiting_word_bytes_, bytes);
  waiting_starts_ -= std::min(waiting_starts_, starts);
}

}  // namespace headworks::engine
