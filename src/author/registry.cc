#include "headworks/author/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <ranges>

#include "headworks/author/register.h"
#include "headworks/base/text.h"

namespace headworks {
namespace {

/// Newest first.  Constant-initialised, so it is there before any static registration runs; grows
/// by those alone, which is why this one global is mutable.
constinit std::atomic<const internal::Linked*> newest_linked{nullptr};

/// As the model wants it: `[A-Za-z0-9_.-]{1,100}`.
bool IsNamePart(std::string_view part) {
  constexpr std::size_t kMaxPart = 100;
  return !part.empty() && part.size() <= kMaxPart && std::ranges::all_of(part, [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

/// The parts of "a::b::c"; an error names the one that is no name.
Result<std::vector<std::string>> SplitName(std::string_view text, std::size_t max_parts,
                                           std::string_view form) {
  std::vector<std::string> parts;
  for (std::string_view rest = text;;) {
    const std::size_t end = rest.find("::");
    parts.emplace_back(rest.substr(0, end));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 2);
  }
  if (parts.size() > max_parts)
    return Error{Code::kInvalidArgument,
                 fmt::format("name \"{}\" has {} parts; the form is {}", text, parts.size(), form)};
  const auto bad = std::ranges::find_if(parts, [&](const std::string& part) {
    const bool any_workflow = part == "*" && parts.size() > 1 && &part == &parts[parts.size() - 2];
    return !IsNamePart(part) && !(any_workflow && max_parts == 4);
  });
  if (bad != parts.end())
    return Error{Code::kInvalidArgument,
                 fmt::format("\"{}\" in name \"{}\": a part is 1 to 100 letters, digits, _, - "
                             "or .; the form is {}",
                             *bad, text, form)};
  return parts;
}

Error Twice(std::string_view kind, std::string_view name, std::string_view first,
            std::string_view second) {
  return {Code::kConflict, fmt::format("{} {} is registered twice: at {} and at {}; rename one",
                                       kind, name, first, second)};
}

}  // namespace

std::string FunctionName::ToString() const {
  return fmt::format("{}::{}::{}::{}", tenant, package, workflow.empty() ? "*" : workflow, task);
}

Result<FunctionName> FunctionName::Parse(std::string_view text) {
  HEADWORKS_ASSIGN(auto parts, SplitName(text, 4, "[[[tenant::]package::]workflow::]task"));
  FunctionName name;
  name.task = std::move(parts.back());
  if (parts.size() > 1 && parts[parts.size() - 2] != "*")
    name.workflow = std::move(parts[parts.size() - 2]);
  if (parts.size() > 2) name.package = std::move(parts[parts.size() - 3]);
  if (parts.size() > 3) name.tenant = std::move(parts[0]);
  return name;
}

Result<model::Namespace> ParseWorkflowName(std::string_view text) {
  HEADWORKS_ASSIGN(auto parts, SplitName(text, 3, "[[tenant::]package::]workflow"));
  model::Namespace name;
  name.workflow = std::move(parts.back());
  if (parts.size() > 1) name.package = std::move(parts[parts.size() - 2]);
  if (parts.size() > 2) name.tenant = std::move(parts[0]);
  return name;
}

Status TaskRegistry::Register(FunctionName name, TaskFunction function, std::string place) {
  auto entry =
      std::make_unique<const Function>(std::move(name), std::move(function), std::move(place));
  const FunctionName& n = entry->name;
  if (n.tenant.empty() || n.package.empty() || n.task.empty() || !entry->call)
    return Error{Code::kInvalidArgument,
                 fmt::format("task {} at {}: tenant, package, task and function must be given",
                             n.ToString(), entry->place)};
  const std::scoped_lock lock(mutex_);
  const Key key{n.tenant, n.package, n.workflow, n.task};
  if (const auto known = functions_.find(key); known != functions_.end())
    return Twice("task", n.ToString(), known->second->place, entry->place);
  functions_.emplace(key, std::move(entry));
  return {};
}

Status TaskRegistry::RegisterWorkflow(std::shared_ptr<const model::Workflow> workflow,
                                      std::string place) {
  const std::scoped_lock lock(mutex_);
  const model::Namespace& name = workflow->name();
  if (const auto known = workflows_.find(name); known != workflows_.end())
    return Twice("workflow", name.ToString(), known->second.place, place);
  workflows_.emplace(name, KnownWorkflow{std::move(workflow), std::move(place)});
  return {};
}

Status TaskRegistry::RegisterLinked() {
  std::vector<const internal::Linked*> fresh;
  {
    const std::scoped_lock lock(mutex_);
    const internal::Linked* newest = newest_linked.load(std::memory_order_acquire);
    for (const auto* at = newest; at != nullptr && at != linked_until_; at = at->next)
      fresh.push_back(at);
    linked_until_ = newest;
  }
  std::vector<std::string> faults;
  for (const internal::Linked* linked : std::ranges::reverse_view(fresh)) {
    const std::string place = fmt::format("{}:{}", linked->file, linked->line);
    const auto register_one = [&]() -> Status {
      if (linked->build == nullptr) {
        HEADWORKS_ASSIGN(auto name, FunctionName::Parse(linked->name));
        return Register(std::move(name), linked->task, place);
      }
      WorkflowBuilder builder(linked->name);
      linked->build(builder);
      HEADWORKS_ASSIGN(auto workflow, builder.Build());
      return RegisterWorkflow(std::move(workflow), place);
    };
    if (Status status = register_one(); !status)
      faults.push_back(status.error().code == Code::kConflict
                           ? status.error().message
                           : fmt::format("{}: {}", place, status.error().message));
  }
  if (faults.empty()) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(faults, "\n"))};
}

Result<const TaskFunction*> TaskRegistry::Find(const model::Namespace& workflow,
                                               std::string_view function) const {
  const std::shared_lock lock(mutex_);
  auto found = functions_.find({workflow.tenant, workflow.package, workflow.workflow, function});
  if (found == functions_.end())
    found = functions_.find({workflow.tenant, workflow.package, "", function});
  if (found != functions_.end()) return &found->second->call;
  return Error{Code::kNotFound, WhyNotFound(workflow, function)};
}

std::string TaskRegistry::WhyNotFound(const model::Namespace& workflow,
                                      std::string_view function) const {
  constexpr std::size_t kListed = 20;
  std::vector<std::string_view> there;
  bool tenant_known = false;
  for (const auto& [key, entry] : functions_) {
    const FunctionName& name = entry->name;
    if (name.tenant != workflow.tenant) continue;
    tenant_known = true;
    if (name.package == workflow.package &&
        (name.workflow.empty() || name.workflow == workflow.workflow) && there.size() < kListed)
      there.push_back(name.task);
  }
  if (!tenant_known)
    return fmt::format("tenant \"{}\" is unknown here: no function is registered for it",
                       workflow.tenant);
  return fmt::format(
      "no function \"{}\" for {} in this program{} (there is: {}); register it with "
      "HEADWORKS_TASK, and link its library whole",
      function, workflow.ToString(), DidYouMean(function, there),
      there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", ")));
}

std::shared_ptr<const model::Workflow> TaskRegistry::FindWorkflow(
    const model::Namespace& name) const {
  const std::shared_lock lock(mutex_);
  const auto found = workflows_.find(name);
  return found == workflows_.end() ? nullptr : found->second.workflow;
}

std::vector<FunctionName> TaskRegistry::Functions() const {
  const std::shared_lock lock(mutex_);
  std::vector<FunctionName> names;
  names.reserve(functions_.size());
  for (const auto& [key, entry] : functions_) names.push_back(entry->name);
  return names;
}

std::vector<std::shared_ptr<const model::Workflow>> TaskRegistry::Workflows() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::shared_ptr<const model::Workflow>> all;
  all.reserve(workflows_.size());
  for (const auto& [name, known] : workflows_) all.push_back(known.workflow);
  return all;
}

namespace internal {

Linked::Linked(const char* n, const char* f, int l, TaskFunction t)
    : name(n), file(f), line(l), task(std::move(t)), next(newest_linked.load()) {
  while (!newest_linked.compare_exchange_weak(next, this)) {
  }
}

Linked::Linked(const char* n, const char* f, int l, void (*b)(WorkflowBuilder&))
    : name(n), file(f), line(l), build(b), next(newest_linked.load()) {
  while (!newest_linked.compare_exchange_weak(next, this)) {
  }
}

}  // namespace internal
}  // namespace headworks
