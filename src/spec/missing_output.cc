#include "missing_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "headworks/expr/environment.h"

namespace headworks::spec {
namespace {

using expr::Reference;
using model::TriggerRule;

bool IsOf(const Reference& reference, std::string_view need) {
  return reference.variable == "needs" && !reference.path.empty() && reference.path[0] == need;
}

/// `needs.ID.output.FIELD`.
bool ReadsField(const Reference& reference) {
  return !reference.tested && reference.path.size() > 2 && reference.path[1] == "output";
}

std::string Spelled(const Reference& reference, std::size_t fields) {
  std::string text = reference.variable;
  for (std::size_t i = 0; i < fields; ++i)
    text += expr::IsFieldName(reference.path[i]) ? "." + reference.path[i]
                                                 : fmt::format("[\"{}\"]", reference.path[i]);
  return text;
}

bool Mentions(std::string_view when, std::string_view need) {
  for (const auto& spelled : {fmt::format("needs.{}", need), fmt::format("needs[\"{}\"]", need),
                              fmt::format("needs['{}']", need)})
    if (when.find(spelled) != when.npos) return true;
  return false;
}

/// A skipped need skips what has such a rule.
bool PassesSkipsOn(TriggerRule rule) {
  using enum TriggerRule;
  return rule == kAllSuccess || rule == kNoneSkipped || rule == kAllFailed;
}

}  // namespace

void MissingOutputs::FindSkippable() {
  const auto& tasks = draft_.definition.tasks;
  for (std::size_t i = 0; i < tasks.size(); ++i) by_id_.emplace(tasks[i].id, i);
  skippable_.resize(tasks.size());
  std::vector<std::vector<std::size_t>> downstreams(tasks.size());
  std::vector<std::size_t> todo;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const std::string& need : tasks[i].needs)
      if (const auto found = by_id_.find(need); found != by_id_.end())
        downstreams[found->second].push_back(i);
    if (tasks[i].when.empty()) continue;
    skippable_[i] = true;
    todo.push_back(i);
  }
  while (!todo.empty()) {
    const std::size_t task = todo.back();
    todo.pop_back();
    for (const std::size_t next : downstreams[task]) {
      if (skippable_[next] || !PassesSkipsOn(tasks[next].trigger_rule)) continue;
      skippable_[next] = true;
      todo.push_back(next);
    }
  }
}

const MissingOutputs::Lacked& MissingOutputs::LackedBy(std::size_t task) {
  if (task == task_) return lacked_;
  if (skippable_.empty()) FindSkippable();
  task_ = task;
  lacked_.clear();
  const auto& tasks = draft_.definition.tasks;
  const TriggerRule rule = tasks[task].trigger_rule;
  for (const std::string& need : tasks[task].needs) {
    const auto found = by_id_.find(need);
    if (found == by_id_.end()) continue;
    const bool waits_for_success = rule == TriggerRule::kAllSuccess;
    const bool waits_for_no_failure =
        rule == TriggerRule::kNoneFailed || rule == TriggerRule::kNoneFailedMinOneSuccess;
    const std::string by_rule =
        fmt::format("which the trigger_rule {} permits", model::TriggerRuleName(rule));
    if (!waits_for_success && !waits_for_no_failure)
      lacked_.emplace(need, fmt::format("where {} did not succeed, {}", need, by_rule));
    else if (tasks[found->second].allow_failure)
      lacked_.emplace(need, fmt::format("where {} failed, which its allow_failure permits", need));
    else if (waits_for_no_failure && skippable_[found->second])
      lacked_.emplace(need, fmt::format("where {} was skipped, {}", need, by_rule));
  }
  return lacked_;
}

MissingOutputs::Found MissingOutputs::Find(std::size_t task,
                                           const std::vector<Reference>& references,
                                           std::optional<std::string_view> when) {
  Found found;
  const std::vector<std::string>& conditions = draft_.definition.tasks[task].when;
  for (const auto& [need, where] : LackedBy(task)) {
    const auto asks = [&](const Reference& reference) {
      return IsOf(reference, need) && !ReadsField(reference);
    };
    const auto asks_before = [&](const std::string& condition) {
      return condition != when && Mentions(condition, need);
    };
    const auto read = std::ranges::find_if(references, [&](const Reference& reference) {
      return IsOf(reference, need) && ReadsField(reference);
    });
    if (read == references.end() || std::ranges::any_of(references, asks) ||
        std::ranges::any_of(conditions, asks_before))
      continue;
    const std::string spelled = Spelled(*read, 3);
    found.emplace_back(
        read->offset,
        fmt::format("{} is {{}} {}: ask first, has({}) ? {} : ..., or for {}", Spelled(*read, 2),
                    where, spelled, spelled, Spelled({"needs", {std::string(need), "state"}}, 2)));
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace headworks::spec
