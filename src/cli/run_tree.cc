#include "run_tree.h"

#include <algorithm>
#include <map>

#include "run_view.h"

namespace headworks::cli {
namespace {

using model::TaskState;

constexpr std::size_t kLevelWidth = 3;
constexpr std::size_t kLeastFolded = 3;

class TreePen {
 public:
  TreePen(const model::Workflow& workflow, std::span<const model::TaskRun> tasks, Fold fold,
          bool utf8, std::size_t branch_width)
      : workflow_(workflow),
        tasks_(tasks),
        fold_(fold),
        utf8_(utf8),
        most_levels_(std::max<std::size_t>(branch_width / kLevelWidth, 2)),
        parent_(workflow.size()),
        children_(workflow.size()) {
    const auto levels = Levels(workflow);
    for (std::uint32_t no = 0; no < workflow.size(); ++no) {
      const auto upstreams = workflow.upstreams(TaskNo(no));
      if (upstreams.empty()) {
        roots_.emplace_back(no);
        continue;
      }
      parent_[no] =
          *std::ranges::max_element(upstreams, {}, [&](TaskNo up) { return levels[up.value]; });
      children_[parent_[no].value].emplace_back(no);
    }
  }

  std::vector<TreeRow> Draw() && {
    rows_.reserve(workflow_.size());
    AddBelow(roots_);
    return std::move(rows_);
  }

 private:
  bool MayFold(TaskNo no) const {
    if (fold_ == Fold::kNothing || !children_[no.value].empty()) return false;
    if (fold_ == Fold::kEverything) return true;
    const TaskState state = tasks_[no.value].state;
    return state != TaskState::kRunning && state != TaskState::kFailed &&
           state != TaskState::kParked;
  }

  /// `siblings` with those that share a line together, in the order of each line's first.
  std::vector<std::vector<TaskNo>> Group(const std::vector<TaskNo>& siblings) const {
    std::map<TaskState, std::vector<TaskNo>> alike;
    for (const TaskNo no : siblings)
      if (MayFold(no)) alike[tasks_[no.value].state].push_back(no);
    std::vector<std::vector<TaskNo>> groups;
    for (const TaskNo no : siblings) {
      const auto found = MayFold(no) ? alike.find(tasks_[no.value].state) : alike.end();
      if (found == alike.end() || found->second.size() < kLeastFolded)
        groups.push_back({no});
      else if (found->second.front() == no)
        groups.push_back(found->second);
    }
    return groups;
  }

  void AddBelow(const std::vector<TaskNo>& siblings) {
    const auto groups = Group(siblings);
    for (const auto& group : groups) {
      const bool last = &group == &groups.back();
      TreeRow row{.branch = Branch(last), .tasks = group, .also_needs = {}};
      if (group.size() == 1)
        for (const TaskNo up : workflow_.upstreams(group.front()))
          if (up != parent_[group.front().value]) row.also_needs.push_back(up);
      rows_.push_back(std::move(row));
      goes_on_.push_back(!last);
      if (group.size() == 1) AddBelow(children_[group.front().value]);
      goes_on_.pop_back();
    }
  }

  std::string Branch(bool last) const {
    const std::size_t cut =
        goes_on_.size() + 1 > most_levels_ ? goes_on_.size() + 2 - most_levels_ : 0;
    std::string branch;
    if (cut > 0) branch += utf8_ ? "…  " : ".. ";
    for (std::size_t level = cut; level < goes_on_.size(); ++level)
      branch += !goes_on_[level] ? "   " : utf8_ ? "│  " : "|  ";
    return branch + (utf8_ ? (last ? "└─ " : "├─ ") : (last ? "`- " : "|- "));
  }

  const model::Workflow& workflow_;
  std::span<const model::TaskRun> tasks_;
  Fold fold_;
  bool utf8_;
  std::size_t most_levels_;
  std::vector<TaskNo> parent_, roots_;
  std::vector<std::vector<TaskNo>> children_;
  std::vector<bool> goes_on_;  // per level above: whether more siblings follow
  std::vector<TreeRow> rows_;
};

}  // namespace

std::vector<TreeRow> DrawTree(const model::Workflow& workflow,
                              std::span<const model::TaskRun> tasks, Fold fold, bool utf8,
                              std::size_t branch_width) {
  return TreePen(workflow, tasks, fold, utf8, branch_width).Draw();
}

}  // namespace headworks::cli
