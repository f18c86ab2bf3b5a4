// Places: which runs may be under way together, where their workflow limits that.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "headworks/base/text.h"
#include "headworks/engine/engine.h"

namespace headworks::engine {
namespace {

/// Of one group; more cannot be counted, and then more than allowed may start.
constexpr std::size_t kMostActiveRuns = 1'000'000;
/// Runs that an error names.
constexpr std::size_t kNamed = 5;

ActiveRuns::Limit LimitOf(const model::Concurrency& concurrency) {
  return {.count = static_cast<std::size_t>(concurrency.limit),
          .rate = static_cast<std::size_t>(concurrency.rate),
          .per = concurrency.rate_per};
}

bool BelongsTo(const model::RunHeader& run, const RunGroup& group) {
  return run.name == group.name && (!group.key || run.concurrency_key == group.key);
}

std::string Describe(const RunGroup& group) {
  return !group.key || group.key->empty()
             ? "the same workflow"
             : fmt::format("concurrency key '{}'", OneLine(*group.key));
}

/// "run 3 (running), run 4 (pending) have".
std::string NamesOf(const std::vector<model::RunHeader>& holders) {
  std::string names;
  for (std::size_t i = 0; i < std::min(holders.size(), kNamed); ++i)
    names +=
        fmt::format("{}run {} ({})", names.empty() ? "" : ", ", holders[i].run_no.value,
                    model::IsTerminal(holders[i].state) ? "an attempt of it is not known to be over"
                                                        : model::RunStateName(holders[i].state));
  return fmt::format("{}{} {}", names, holders.size() > kNamed ? " and more" : "",
                     holders.size() == 1 ? "has" : "have");
}

}  // namespace

Result<std::size_t> Engine::ActiveIn(const RunGroup& group) {
  const TenantId tenant(group.name.tenant);
  const store::RunQuery::ActiveFilter filter{
      .name = group.name, .key = group.key, .limit = kMostActiveRuns};
  if (options_.recover) return database_.query().CountActive(tenant, filter);
  // Whoever starts a run will wait for it, so an engine that recovers nothing goes on with those
  // that hold its place.
  HEADWORKS_ASSIGN(const auto active, database_.query().ListActive(tenant, filter));
  for (const store::RunRecord& run : active) {
    if (slots_.contains(run.header.run_no)) continue;
    logger_.Warning(
        "an older run goes on, too: others of its workflow wait for its place",
        {{"tenant", run.header.tenant.value}, {"run", std::to_string(run.header.run_no.value)}});
    AddTimer(Timer{.due = clock_.Monotonic(),
                   .kind = Timer::Kind::kWake,
                   .when = clock_.Now(),
                   .tenant = run.header.tenant,
                   .ref = {run.header.run_no, TaskNo(0), Epoch(0)}});
  }
  return active.size();
}

Status Engine::CountRuns(const RunGroup& group, const ActiveRuns::Limit& limit) {
  HEADWORKS_ASSIGN(const std::size_t active, ActiveIn(group));
  const auto starting = std::ranges::count_if(visited_, [&](RunNo run) {
    const auto slot = slots_.find(run);
    return slot != slots_.end() && !slot->second->active && TakesPlace(slot->second->run) &&
           BelongsTo(slot->second->run.header, group);
  });
  std::vector<Duration> starts;
  if (limit.rate > 0) {
    const Instant now = clock_.Now();
    HEADWORKS_ASSIGN(const auto begun, database_.query().ListStarts(
                                           group.name, group.key.value_or(""), now - limit.per));
    for (const Instant at : begun)
      starts.push_back(clock_.Monotonic() - std::max(now - at, Duration(0)));
  }
  active_runs_.Learn(group, limit, active, static_cast<std::size_t>(starting), std::move(starts));
  return {};
}

Result<bool> Engine::HasPlace(const RunGroup& group, const ActiveRuns::Limit& limit,
                              const model::RunHeader& run) {
  if (!active_runs_.Knows(group, limit)) HEADWORKS_TRY(CountRuns(group, limit));
  return active_runs_.HasPlace(group, limit, run, clock_.Monotonic());
}

Result<bool> Engine::TakePlace(const Slot& slot) {
  const model::RunHeader& header = slot.run.header;
  const model::WorkflowDefinition& definition = slot.run.workflow->definition();
  if (header.state != model::RunState::kPending) {
    OfferPlaces(header);  // it was cancelled on the way to its start
    return true;
  }
  const RunGroup all{header.name}, keyed{header.name, header.concurrency_key};
  const auto& concurrency = definition.concurrency;
  const ActiveRuns::Limit most{.count = static_cast<std::size_t>(definition.max_active_runs)};
  const ActiveRuns::Limit limit = concurrency ? LimitOf(*concurrency) : ActiveRuns::Limit{};
  if (header.paused_at != Instant{} && (most.count > 0 || header.concurrency_key)) {
    active_runs_.StandAside(header, all);
    OfferPlaces(header);
    return false;
  }
  bool among_all = true, with_key = true;
  if (most.count > 0) {
    HEADWORKS_ASSIGN(among_all, HasPlace(all, most, header));
  }
  if (among_all && concurrency && header.concurrency_key) {
    HEADWORKS_ASSIGN(with_key, HasPlace(keyed, limit, header));
  }
  if (among_all && with_key) {
    active_runs_.Forget(header.run_no);
    // Others may have waited behind it, though their own version allows more.
    for (const RunGroup& group : GroupsOf(header))
      if (active_runs_.MayHaveMore(group)) OfferPlace(group);
    return true;
  }
  if (concurrency && header.concurrency_key &&
      concurrency->on_conflict == model::OnConflict::kCancelPrevious && limit.count > 0)
    HEADWORKS_TRY(CancelPrevious(header, keyed, limit));
  active_runs_.Wait(header, among_all ? keyed : all);
  if (among_all && most.count > 0) OfferPlace(all);  // the one that was there is not taken
  return false;
}

Result<std::vector<model::RunHeader>> Engine::HoldersOf(const RunGroup& group, std::size_t limit) {
  HEADWORKS_ASSIGN(const auto stored,
                   database_.query().ListActive(TenantId(group.name.tenant),
                                                {.name = group.name,
                                                 .key = group.key,
                                                 .pending = true,
                                                 .limit = limit + visited_.size()}));
  std::vector<model::RunHeader> holders;
  for (const store::RunRecord& run : stored) {
    const auto slot = slots_.find(run.header.run_no);
    const model::RunHeader& header = slot == slots_.end() ? run.header : slot->second->run.header;
    if (slot != slots_.end() && model::IsTerminal(header.state) && slot->second->run.live == 0)
      continue;  // over in the round under way
    holders.push_back(header);
  }
  for (const RunNo run : visited_) {
    const auto slot = slots_.find(run);
    if (slot == slots_.end() || !slot->second->insert_input) continue;
    const model::RunHeader& header = slot->second->run.header;
    if (BelongsTo(header, group) && !model::IsTerminal(header.state)) holders.push_back(header);
  }
  return holders;
}

Status Engine::CheckRerun(const model::Run& run) {
  const model::RunHeader& header = run.header;
  if (!model::IsTerminal(header.state) || TakesPlace(run)) return {};
  model::RunHeader last;  // whoever waits is before it
  last.run_no = RunNo(std::numeric_limits<std::int64_t>::max());
  const model::WorkflowDefinition& definition = run.workflow->definition();
  const auto check = [&](const RunGroup& group, int most, std::string_view setting) -> Status {
    if (most <= 0) return {};
    const auto count = static_cast<std::size_t>(most);
    HEADWORKS_ASSIGN(const bool place, HasPlace(group, {.count = count}, last));
    if (place) return {};
    HEADWORKS_ASSIGN(const auto holders, HoldersOf(group, kNamed + 1));
    return Error{
        Code::kConflict,
        fmt::format("run {} cannot go on now: {} the place of {} ({} {}); wait for the end, "
                    "or cancel what you do not need",
                    header.run_no.value, NamesOf(holders), Describe(group), setting, most)};
  };
  HEADWORKS_TRY(check({header.name}, definition.max_active_runs, "max_active_runs"));
  if (!definition.concurrency || !header.concurrency_key) return {};
  return check({header.name, header.concurrency_key}, definition.concurrency->limit,
               "concurrency.limit");
}

Status Engine::CheckSkip(const model::Workflow& workflow, const RunGroup& group) {
  const model::Concurrency& concurrency = *workflow.definition().concurrency;
  if (concurrency.on_conflict != model::OnConflict::kSkip) return {};
  const ActiveRuns::Limit limit = LimitOf(concurrency);
  if (limit.count > 0) {
    HEADWORKS_ASSIGN(const auto holders, HoldersOf(group, limit.count));
    if (holders.size() >= limit.count) {
      return Error{
          Code::kConflict,
          fmt::format("no run of workflow {} was made: {} the place of {} "
                      "(concurrency.limit {}, on_conflict skip)",
                      group.name.workflow, NamesOf(holders), Describe(group), limit.count)};
    }
  }
  if (limit.rate == 0) return {};
  model::RunHeader last;  // whoever waits is before it
  last.run_no = RunNo(std::numeric_limits<std::int64_t>::max());
  HEADWORKS_ASSIGN(const bool place, HasPlace(group, {.rate = limit.rate, .per = limit.per}, last));
  if (place) return {};
  const Duration next = active_runs_.NextStart(group).value_or(clock_.Monotonic());
  return Error{Code::kConflict,
               fmt::format("no run of workflow {} was made: {} runs of {} have started within {}; "
                           "the next may in {} (concurrency.rate, on_conflict skip)",
                           group.name.workflow, limit.rate, Describe(group),
                           FormatDuration(limit.per), FormatDuration(next - clock_.Monotonic()))};
}

Status Engine::CancelPrevious(const model::RunHeader& header, const RunGroup& group,
                              const ActiveRuns::Limit& limit) {
  if (!active_runs_.Knows(group, limit)) HEADWORKS_TRY(CountRuns(group, limit));
  // Until a rate lets the new one start, those at work go on: otherwise nobody would be.
  const bool may_start = active_runs_.WithinRate(group, limit, clock_.Monotonic());
  HEADWORKS_ASSIGN(auto holders, HoldersOf(group, kMostActiveRuns));
  std::erase_if(holders, [&](const model::RunHeader& holder) {
    return holder.run_no >= header.run_no || model::IsTerminal(holder.state) ||
           holder.cancel_requested_at != Instant{};
  });
  if (holders.size() < limit.count) return {};
  std::ranges::sort(holders, {}, &model::RunHeader::run_no);
  holders.resize(holders.size() - limit.count + 1);
  for (const model::RunHeader& holder : holders) {
    if (!may_start && holder.state != model::RunState::kPending) continue;
    after_commit_.push_back({.tenant = holder.tenant,
                             .run = holder.run_no,
                             .what = model::Event(model::CancelRun{
                                 fmt::format("engine, for run {}", header.run_no.value)})});
  }
  return {};
}

void Engine::OfferPlace(const RunGroup& group) {
  if (const auto next = active_runs_.Next(group))
    backlog_.push_back({.tenant = TenantId(group.name.tenant),
                        .run = *next,
                        .what = model::Event(model::StartRun{})});
}

void Engine::OfferPlaces(const model::RunHeader& header) {
  for (const RunGroup& group : GroupsOf(header)) OfferPlace(group);
}

void Engine::OfferDuePlaces() {
  for (const RunGroup& group : active_runs_.TakeDue(clock_.Monotonic())) OfferPlace(group);
}

void Engine::PassPlaceOn(RunNo run) {
  active_runs_.Forget(run);  // its first row was never written, or it cannot be read
  for (auto& [tenant, next] : active_runs_.Heads())
    backlog_.push_back(
        {.tenant = std::move(tenant), .run = next, .what = model::Event(model::StartRun{})});
}

}  // namespace headworks::engine
