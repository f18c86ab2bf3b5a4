#include "headworks/engine/active_runs.h"

#include <algorithm>

namespace headworks::engine {

bool ActiveRuns::Knows(const RunGroup& group, const Limit& limit) const {
  const auto found = groups_.find(group);
  return found != groups_.end() && found->second.per >= limit.per;
}

void ActiveRuns::Learn(const RunGroup& group, const Limit& limit, std::size_t active,
                       std::size_t starting, std::vector<Duration> starts) {
  Counts& counts = groups_[group];
  counts.active = active;
  counts.starting = starting;
  counts.per = limit.per;
  counts.starts.assign(starts.begin(), starts.end());
  if (starting > 0) started_.push_back(group);
}

void ActiveRuns::BeginRound() {
  for (const RunGroup& group : started_)
    if (const auto found = groups_.find(group); found != groups_.end()) found->second.starting = 0;
  started_.clear();
}

void ActiveRuns::SetDue(Groups::iterator group, std::optional<Duration> due) {
  if (group->second.due) due_.erase({*group->second.due, group->first});
  group->second.due = due;
  if (due) due_.emplace(*due, group->first);
}

bool ActiveRuns::HasPlace(const RunGroup& group, const Limit& limit, const model::RunHeader& run,
                          Duration now) {
  const auto found = groups_.find(group);
  Counts& counts = found->second;
  counts.widest = std::max(counts.widest, limit.count);
  if (!counts.waiting.empty() && *counts.waiting.begin() < PlaceOf(run)) return false;
  if (limit.count > 0 && counts.active + counts.starting >= limit.count) return false;
  return WithinRate(group, limit, now);
}

bool ActiveRuns::WithinRate(const RunGroup& group, const Limit& limit, Duration now) {
  if (limit.rate == 0) return true;
  const auto found = groups_.find(group);
  Counts& counts = found->second;
  std::deque<Duration>& starts = counts.starts;
  while (!starts.empty() && starts.front() + counts.per <= now) starts.pop_front();
  const auto window = std::ranges::upper_bound(starts, now - limit.per);
  const auto within = static_cast<std::size_t>(starts.end() - window);
  if (within + counts.starting < limit.rate) return true;
  // Those of the round under way begin with its commit, so with `now` at the earliest.
  const std::size_t over = within + counts.starting - limit.rate;
  SetDue(found, (over < within ? window[static_cast<std::ptrdiff_t>(over)] : now) + limit.per);
  return false;
}

bool ActiveRuns::MayHaveMore(const RunGroup& group) const {
  const auto found = groups_.find(group);
  if (found == groups_.end() || found->second.waiting.empty()) return false;
  const Counts& counts = found->second;
  return counts.widest == 0 || counts.active + counts.starting + 1 < counts.widest;
}

void ActiveRuns::Wait(const model::RunHeader& run, const RunGroup& group) {
  const auto line = groups_.find(group);
  const std::optional<Duration> due = line->second.due;
  Forget(run.run_no);  // where it stood alone, nobody is due any more
  const Place place = PlaceOf(run);
  line->second.waiting.insert(place);
  SetDue(line, due);
  ++InLinesOf(group);
  waiting_.insert_or_assign(run.run_no, std::pair(group, place));
}

void ActiveRuns::StandAside(const model::RunHeader& run, const RunGroup& group) {
  Forget(run.run_no);
  waiting_.insert_or_assign(run.run_no, std::pair(group, PlaceOf(run)));
}

bool ActiveRuns::StandsAside(RunNo run) const {
  const auto found = waiting_.find(run);
  if (found == waiting_.end()) return false;
  const auto group = groups_.find(found->second.first);
  return group == groups_.end() || !group->second.waiting.contains(found->second.second);
}

void ActiveRuns::Started(const RunGroup& group) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  ++found->second.starting;
  started_.push_back(group);
}

void ActiveRuns::Changed(const RunGroup& group, bool active) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  if (active)
    ++found->second.active;
  else if (found->second.active > 0)
    --found->second.active;
}

void ActiveRuns::Begun(const RunGroup& group, Duration now) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || found->second.per == Duration(0)) return;
  Counts& counts = found->second;
  counts.starts.push_back(now);
  while (counts.starts.front() + counts.per <= now) counts.starts.pop_front();
}

std::optional<RunNo> ActiveRuns::Next(const RunGroup& group) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || found->second.waiting.empty()) return std::nullopt;
  const RunNo run = found->second.waiting.begin()->second;
  Forget(run);
  return run;
}

void ActiveRuns::Forget(RunNo run) {
  const auto found = waiting_.find(run);
  if (found == waiting_.end()) return;
  if (const auto group = groups_.find(found->second.first); group != groups_.end()) {
    InLinesOf(group->first) -= group->second.waiting.erase(found->second.second);
    if (group->second.waiting.empty()) SetDue(group, std::nullopt);
  }
  waiting_.erase(found);
}

ActiveRuns::Waiting ActiveRuns::waiting() const {
  Waiting waiting{.for_workflow = in_lines_of_workflows_};
  for (const auto& [due, group] : due_) waiting.for_rate += groups_.at(group).waiting.size();
  waiting.for_key = in_lines_of_keys_ - waiting.for_rate;
  return waiting;
}

std::vector<std::pair<TenantId, RunNo>> ActiveRuns::Heads() const {
  std::vector<std::pair<TenantId, RunNo>> heads;
  for (const auto& [group, counts] : groups_)
    if (!counts.waiting.empty())
      heads.emplace_back(TenantId(group.name.tenant), counts.waiting.begin()->second);
  return heads;
}

std::vector<RunGroup> ActiveRuns::TakeDue(Duration now) {
  std::vector<RunGroup> groups;
  while (!due_.empty() && due_.begin()->first <= now) {
    groups.push_back(due_.begin()->second);
    SetDue(groups_.find(groups.back()), std::nullopt);
  }
  return groups;
}

std::optional<Duration> ActiveRuns::NextStart(const RunGroup& group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? std::nullopt : found->second.due;
}

void ActiveRuns::Tidy(Duration now) {
  std::erase_if(groups_, [now](const auto& entry) {
    const Counts& counts = entry.second;
    return entry.first.key && counts.active == 0 && counts.starting == 0 &&
           counts.waiting.empty() && !counts.due &&
           (counts.starts.empty() || counts.starts.back() + counts.per <= now);
  });
}

}  // namespace headworks::engine
