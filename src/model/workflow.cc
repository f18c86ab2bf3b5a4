#include "headworks/model/workflow.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <numeric>
#include <unordered_map>

#include "headworks/base/check.h"
#include "headworks/base/json.h"
#include "headworks/base/random.h"
#include "headworks/base/text.h"
#include "platform_defaults.h"
#include "validate.h"
#include "workflow_json.h"

namespace headworks::model {
namespace {

/// Faults that one error message spells out.
constexpr std::size_t kFaultsInMessage = 50;

constexpr std::array<std::string_view, 11> kTriggerRuleNames = {
    "all_success",  "all_failed",  "all_done",
    "all_skipped",  "one_success", "one_failed",
    "one_done",     "none_failed", "none_failed_min_one_success",
    "none_skipped", "always"};

/// Writes every JSON text in `definition` in its one form.
Status MakeCanonical(WorkflowDefinition& definition) {
  const auto rewrite = [](std::string& text) -> Status {
    if (text.empty()) return {};
    HEADWORKS_ASSIGN(const auto parsed, ParseJson(text, {}));
    text = CanonicalJson(parsed);
    return {};
  };
  for (auto& [name, param] : definition.params) {
    HEADWORKS_TRY(rewrite(param.default_json));
    for (std::string& allowed : param.allowed) HEADWORKS_TRY(rewrite(allowed));
  }
  for (Task& task : definition.tasks) {
    HEADWORKS_TRY(rewrite(task.matrix));
    HEADWORKS_TRY(rewrite(task.output.type_json));
  }
  return {};
}

/// What a need that is no id looks like.
std::string_view HintOfNeed(std::string_view need) {
  if (need.ends_with(']') && need.find('[') != std::string_view::npos)
    return "; a need names a task without brackets, and means the combinations of its matrix that "
           "agree with those of this task";
  if (need.find_first_of(", ") != std::string_view::npos)
    return "; several are written as a list, e.g. [a, b]";
  return "; name a task of this workflow";
}

/// What a task of `role` has instead of a need of another section.
std::string_view InsteadOfNeed(TaskRole role) {
  switch (role) {
    case TaskRole::kFinally:
      return "; it comes after all of them and sees run.outcome and run.failed_tasks. To use what "
             "one put out, let that one write a file into $HEADWORKS_SCRATCH (run.dir), or move "
             "this one to tasks, with trigger_rule: all_done";
    case TaskRole::kOnCancel:
      return "; to use what one put out, let that one write a file into $HEADWORKS_SCRATCH "
             "(run.dir)";
    case TaskRole::kMain:
      break;
  }
  return "; what stands there runs after these, so move one of the two";
}

/// Lists of numbers, one per node, in two arrays: list i is values[offset[i]] up to offset[i + 1].
struct Adjacency {
  std::vector<std::uint32_t> offset;
  std::vector<std::uint32_t> values;

  std::span<const std::uint32_t> operator[](std::uint32_t node) const {
    return std::span(values).subspan(offset[node], offset[node + 1] - offset[node]);
  }
};

/// Turns every edge round; each list of the result is ascending.
Adjacency Reverse(const Adjacency& edges) {
  const std::size_t nodes = edges.offset.size() - 1;
  Adjacency reversed{std::vector<std::uint32_t>(nodes + 1), {}};
  reversed.values.resize(edges.values.size());
  for (const std::uint32_t to : edges.values) ++reversed.offset[to + 1];
  std::partial_sum(reversed.offset.begin(), reversed.offset.end(), reversed.offset.begin());
  std::vector<std::uint32_t> next(reversed.offset.begin(), reversed.offset.end() - 1);
  for (std::uint32_t from = 0; from < nodes; ++from)
    for (const std::uint32_t to : edges[from]) reversed.values[next[to]++] = from;
  return reversed;
}

/// From names to a numbered DAG.  Numbers here are positions in the written order.
class GraphBuilder {
 public:
  GraphBuilder(const std::vector<Task>& tasks, FaultList& faults)
      : tasks_(tasks), faults_(faults) {}

  /// Task numbers in topological order; `upstreams()` is filled.  Meaningless if faults were found.
  std::vector<std::uint32_t> Order();
  const Adjacency& upstreams() const { return upstreams_; }

 private:
  void IndexIds();
  void ResolveNeeds(std::uint32_t no);
  void ReportUnknown(const Task& task, std::size_t need);
  void ReportCycles(const std::vector<std::uint32_t>& missing);
  std::string Name(const std::vector<std::uint32_t>& cycle) const;

  const std::vector<Task>& tasks_;
  FaultList& faults_;
  std::unordered_map<std::string_view, std::uint32_t> by_id_;
  std::vector<std::string_view> ids_;          // for suggestions; filled when first needed
  std::vector<std::uint32_t> last_needed_by_;  // 1 + the task that needs this one, to see repeats
  Adjacency upstreams_;
};

void GraphBuilder::IndexIds() {
  by_id_.reserve(tasks_.size());
  for (std::uint32_t i = 0; i < tasks_.size(); ++i)
    if (!by_id_.emplace(tasks_[i].id, i).second)
      faults_.Add("HW1104", TaskField(tasks_[i]),
                  fmt::format("another task has the id {} already; ids are unique in a workflow",
                              QuoteJson(tasks_[i].id)));
}

void GraphBuilder::ReportUnknown(const Task& task, std::size_t need) {
  std::string hint;
  if (faults_.wants_suggestion()) {
    if (ids_.empty())
      for (const Task& t : tasks_) ids_.push_back(t.id);
    hint = DidYouMean(task.needs[need], ids_);
  }
  faults_.Add("HW1105", fmt::format("{}.needs[{}]", TaskField(task), need),
              fmt::format("there is no task {}{}", QuoteJson(task.needs[need]),
                          hint.empty() ? HintOfNeed(task.needs[need]) : hint));
}

void GraphBuilder::ResolveNeeds(std::uint32_t no) {
  const Task& task = tasks_[no];
  for (std::size_t i = 0; i < task.needs.size(); ++i) {
    const auto fault = [&](std::string_view code, std::string message) {
      faults_.Add(code, fmt::format("{}.needs[{}]", TaskField(task), i), std::move(message));
    };
    const auto found = by_id_.find(task.needs[i]);
    if (found == by_id_.end()) {
      ReportUnknown(task, i);
    } else if (const std::uint32_t need = found->second; need == no) {
      fault("HW1106", "the task needs itself; remove this");
    } else if (last_needed_by_[need] == no + 1) {
      fault("HW1107", fmt::format("'{}' is named twice; once is enough", task.needs[i]));
    } else if (tasks_[need].role != task.role) {
      const auto section = [](const Task& t) {
        return TaskField(t).substr(0, TaskField(t).find('.'));
      };
      fault("HW1108",
            fmt::format("'{}' stands under {}, and a task of {} may only need tasks of {}{}",
                        task.needs[i], section(tasks_[need]), section(task), section(task),
                        InsteadOfNeed(task.role)));
    } else {
      last_needed_by_[need] = no + 1;
      upstreams_.values.push_back(need);
    }
  }
  upstreams_.offset.push_back(static_cast<std::uint32_t>(upstreams_.values.size()));
}

std::vector<std::uint32_t> GraphBuilder::Order() {
  const auto size = static_cast<std::uint32_t>(tasks_.size());
  IndexIds();
  last_needed_by_.assign(size, 0);
  upstreams_.offset = {0};
  for (std::uint32_t i = 0; i < size; ++i) ResolveNeeds(i);

  // Kahn's algorithm; the rank is the length of the longest way from a root.
  const Adjacency downstreams = Reverse(upstreams_);
  std::vector<std::uint32_t> missing(size), rank(size), order;
  order.reserve(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    missing[i] = static_cast<std::uint32_t>(upstreams_[i].size());
    if (missing[i] == 0) order.push_back(i);
  }
  for (std::size_t next = 0; next < order.size(); ++next)
    for (const std::uint32_t down : downstreams[order[next]]) {
      rank[down] = std::max(rank[down], rank[order[next]] + 1);
      if (--missing[down] == 0) order.push_back(down);
    }
  if (order.size() < size) ReportCycles(missing);
  std::ranges::sort(order, {},
                    [&](std::uint32_t i) { return std::tuple(tasks_[i].role, rank[i], i); });
  return order;
}

void GraphBuilder::ReportCycles(const std::vector<std::uint32_t>& missing) {
  // A task that is still missing an upstream has one that is missing one too, so walking up from it
  // ends in a cycle, or where an earlier walk has been.
  std::vector<std::uint32_t> walk_of(tasks_.size(), 0);
  for (std::uint32_t start = 0; start < tasks_.size(); ++start) {
    if (missing[start] == 0 || walk_of[start] != 0) continue;
    const std::uint32_t walk = start + 1;
    std::vector<std::uint32_t> path;
    std::uint32_t at = start;
    while (walk_of[at] == 0) {
      walk_of[at] = walk;
      path.push_back(at);
      at = *std::ranges::find_if(upstreams_[at], [&](std::uint32_t up) { return missing[up] > 0; });
    }
    if (walk_of[at] != walk) continue;
    std::vector<std::uint32_t> cycle(std::ranges::find(path, at), path.end());
    // It starts with the task that is written first, so that it reads the same however it is found.
    std::ranges::rotate(cycle, std::ranges::min_element(cycle));
    faults_.Add("HW1109", TaskField(tasks_[cycle.front()]) + ".needs",
                fmt::format("these tasks wait for each other, so none can start: {} (each needs "
                            "the next); remove one of these needs",
                            Name(cycle)));
  }
}

std::string GraphBuilder::Name(const std::vector<std::uint32_t>& cycle) const {
  constexpr std::size_t kNamed = 100;
  std::string text;
  for (std::size_t i = 0; i < std::min(cycle.size(), kNamed); ++i)
    text += tasks_[cycle[i]].id + " -> ";
  if (cycle.size() > kNamed) text += fmt::format("({} more) -> ", cycle.size() - kNamed);
  return text + tasks_[cycle.front()].id;
}

}  // namespace

std::string Namespace::ToString() const {
  return fmt::format("{}::{}::{}", tenant, package, workflow);
}

Param Param::Plain(std::string default_json) {
  Param param;
  param.required = default_json == "null";
  param.default_json = std::move(default_json);
  return param;
}

Shard ShardOf(const Namespace& name) {
  // FNV-1a over the three parts, each ended by a NUL; mixed, because its low bits are weak.
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3U; };
  for (const std::string* part : {&name.tenant, &name.package, &name.workflow}) {
    for (const char c : *part) add(static_cast<unsigned char>(c));
    add(0);
  }
  return Shard(static_cast<std::int32_t>(Mix64(hash) % kShardCount));
}

std::string_view TriggerRuleName(TriggerRule rule) {
  const auto index = static_cast<std::size_t>(rule);
  return index < kTriggerRuleNames.size() ? kTriggerRuleNames[index] : "unknown";
}

std::optional<TriggerRule> TriggerRuleFromName(std::string_view name) {
  const auto found = std::ranges::find(kTriggerRuleNames, name);
  if (found == kTriggerRuleNames.end()) return std::nullopt;
  return static_cast<TriggerRule>(found - kTriggerRuleNames.begin());
}

std::string_view OutputModeName(OutputMode mode) {
  return kOutputModeNames[static_cast<std::size_t>(mode)];
}

std::string_view ParamTypeName(ParamType type) {
  return kParamTypeNames[static_cast<std::size_t>(type)];
}

std::vector<Fault> Workflow::Check(const WorkflowDefinition& definition) {
  FaultList faults;
  if (CheckFields(definition, faults)) GraphBuilder(definition.tasks, faults).Order();
  return faults.Take();
}

Result<std::shared_ptr<const Workflow>> Workflow::Create(WorkflowDefinition definition,
                                                         std::vector<Fault>* faults) {
  return Make(std::move(definition), faults);
}

Result<std::shared_ptr<const Workflow>> Workflow::FromCanonicalJson(std::string_view text) {
  return Read(text);
}

Result<std::shared_ptr<const Workflow>> Workflow::FromCanonicalJson(
    std::string_view text, const PlatformDefaults& defaults) {
  HEADWORKS_ASSIGN(auto workflow, Read(text));
  for (Task& task : workflow->definition_.tasks) FillGaps(defaults, task);
  return std::shared_ptr<const Workflow>(std::move(workflow));
}

Result<std::shared_ptr<Workflow>> Workflow::Make(WorkflowDefinition definition,
                                                 std::vector<Fault>* faults) {
  FaultList found;
  GraphBuilder graph(definition.tasks, found);
  std::vector<std::uint32_t> order;
  if (CheckFields(definition, found)) order = graph.Order();
  if (!found.empty()) {
    std::vector<Fault> all = found.Take();
    Error error = ToError(all, kFaultsInMessage);
    if (faults != nullptr) *faults = std::move(all);
    return error;
  }

  HEADWORKS_TRY(MakeCanonical(definition));
  for (Task& task : definition.tasks) NoteSaid(task);
  std::shared_ptr<Workflow> workflow(new Workflow);
  workflow->Number(std::move(definition), order, graph.upstreams().offset,
                   graph.upstreams().values);
  workflow->canonical_json_ = ToCanonicalJson(workflow->definition_);
  workflow->version_ = Sha256Hex(workflow->canonical_json_);
  return workflow;
}

void Workflow::Number(WorkflowDefinition definition, std::span<const std::uint32_t> order,
                      std::span<const std::uint32_t> offset,
                      std::span<const std::uint32_t> upstreams) {
  const std::size_t size = order.size();
  std::vector<std::uint32_t> number_of(size);
  for (std::uint32_t no = 0; no < size; ++no) number_of[order[no]] = no;

  Adjacency up{{0}, {}};
  up.offset.reserve(size + 1);
  up.values.reserve(upstreams.size());
  for (const std::uint32_t written : order) {
    for (std::uint32_t e = offset[written]; e < offset[written + 1]; ++e)
      up.values.push_back(number_of[upstreams[e]]);
    std::sort(up.values.begin() + up.offset.back(), up.values.end());
    up.offset.push_back(static_cast<std::uint32_t>(up.values.size()));
  }
  const Adjacency down = Reverse(up);
  const auto to_numbers = [](const std::vector<std::uint32_t>& values) {
    std::vector<TaskNo> numbers;
    numbers.reserve(values.size());
    for (const std::uint32_t value : values) numbers.emplace_back(value);
    return numbers;
  };
  up_ = to_numbers(up.values);
  down_ = to_numbers(down.values);
  up_offset_ = up.offset;
  down_offset_ = down.offset;

  std::vector<Task> tasks;
  tasks.reserve(size);
  for (const std::uint32_t written : order) tasks.push_back(std::move(definition.tasks[written]));
  definition.tasks = std::move(tasks);
  definition_ = std::move(definition);
  has_pools_ =
      std::ranges::any_of(definition_.tasks, [](const Task& t) { return !t.pool.empty(); });
  const auto count = [&](TaskRole role) {
    return static_cast<std::uint32_t>(std::ranges::count(definition_.tasks, role, &Task::role));
  };
  main_end_ = count(TaskRole::kMain);
  on_cancel_end_ = main_end_ + count(TaskRole::kOnCancel);
  by_id_.resize(size);
  std::iota(by_id_.begin(), by_id_.end(), 0U);
  std::ranges::sort(
      by_id_, {}, [&](std::uint32_t no) -> const std::string& { return definition_.tasks[no].id; });
}

std::optional<TaskNo> Workflow::Find(std::string_view id) const {
  const auto id_of = [&](std::uint32_t no) { return std::string_view(definition_.tasks[no].id); };
  const auto found = std::ranges::lower_bound(by_id_, id, {}, id_of);
  if (found == by_id_.end() || id_of(*found) != id) return std::nullopt;
  return TaskNo(*found);
}

Result<std::vector<TaskNo>> Workflow::Select(std::string_view id) const {
  if (const auto task = Find(id)) return std::vector{*task};
  std::vector<TaskNo> instances;
  for (std::uint32_t no = 0; no < size(); ++no)
    if (!id.empty() && task(TaskNo(no)).group == id) instances.emplace_back(no);
  if (!instances.empty()) return instances;
  std::vector<std::string_view> known;
  for (const Task& task : definition_.tasks) {
    if (!task.group.empty()) known.push_back(task.group);
    known.push_back(task.id);
  }
  return Error{Code::kNotFound, fmt::format("workflow {} has no task '{}'{}", name().workflow, id,
                                            DidYouMean(id, known))};
}

std::span<const TaskNo> Workflow::upstreams(TaskNo no) const {
  HEADWORKS_CHECK(no.value < size());
  return std::span(up_).subspan(up_offset_[no.value],
                                up_offset_[no.value + 1] - up_offset_[no.value]);
}

std::span<const TaskNo> Workflow::downstreams(TaskNo no) const {
  HEADWORKS_CHECK(no.value < size());
  return std::span(down_).subspan(down_offset_[no.value],
                                  down_offset_[no.value + 1] - down_offset_[no.value]);
}

std::pair<TaskNo, TaskNo> Workflow::range(TaskRole role) const {
  switch (role) {
    case TaskRole::kMain:
      return {TaskNo(0), TaskNo(main_end_)};
    case TaskRole::kOnCancel:
      return {TaskNo(main_end_), TaskNo(on_cancel_end_)};
    case TaskRole::kFinally:
      return {TaskNo(on_cancel_end_), TaskNo(size())};
  }
  HEADWORKS_CHECK(false && "task role");
}

}  // namespace headworks::model
