#include "run_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/json.h"
#include "headworks/base/time.h"
#include "headworks/model/artifact.h"
#include "headworks/model/declared_type.h"
#include "headworks/spec/params.h"

namespace headworks {
namespace json = boost::json;
namespace {

constexpr std::size_t kDateBytes = 10;  // 2026-01-31

/// Stored text was validated when it came in; empty is {}.
Result<json::value> ReadStored(std::string_view text) {
  if (text.empty()) return json::object();
  json::error_code bad;
  json::value value = json::parse(text, bad, {}, json::parse_options{.max_depth = 1'000});
  if (bad) return Error{Code::kCorrupt, "stored JSON is damaged: " + bad.message()};
  return value;
}

json::value Combination(const model::Task& task) {
  return task.matrix.empty() ? json::value(nullptr) : json::parse(task.matrix);
}

/// Adds an instance of a matrix beside those that stand there already; one that is needed `alone`
/// is there by itself, too.
void AddInstance(json::object& needs, const model::Task& task, json::object need, bool alone) {
  json::object& group = needs.emplace(task.group, json::object()).first->value().as_object();
  const auto add = [&](std::string_view key, const json::value& value) {
    group.emplace(key, json::array()).first->value().as_array().push_back(value);
  };
  need["matrix"] = Combination(task);
  add("states", need.at("state"));
  add("outputs", need.at("output"));
  add("matrices", need.at("matrix"));
  if (const json::value* artifacts = need.if_contains("artifacts")) {
    add("all_artifacts", *artifacts);
    if (!alone) add("artifacts", *artifacts);
  }
  if (alone) group.insert(need.begin(), need.end());
}

/// What `task` has left, by the paths that it will have.
json::object Artifacts(ArtifactsOf& of, const model::Task& task, TaskNo no,
                       const model::Artifacts& left) {
  // An id may hold anything that a matrix does; no other one has a dot in it.
  const std::string folder =
      task.group.empty() ? task.id : fmt::format("{}.{}", task.group, no.value);
  json::object paths;
  for (const auto& [name, artifact] : left) {
    std::string path = fmt::format("{}/{}/{}/{}", of.folder, folder, name, artifact.file);
    paths[name] = path;
    of.needed.push_back({artifact, fmt::format("{}.{}", task.id, name), std::move(path)});
  }
  return paths;
}

Result<json::object> Needs(store::RunQuery& query, const ContextOf& of) {
  const auto upstreams = of.workflow.upstreams(of.task);
  HEADWORKS_ASSIGN(const auto ends, query.ReadEnds(of.tenant, of.run, upstreams));
  const auto is_alone = [&](const std::string& group) {
    return std::ranges::count(upstreams, group, [&](TaskNo no) -> const std::string& {
             return of.workflow.task(no).group;
           }) == 1;
  };
  json::object needs;
  for (std::size_t i = 0; i < upstreams.size(); ++i) {
    const model::Task& task = of.workflow.task(upstreams[i]);
    json::value state = json::string(model::TaskStateName(ends[i].state));
    HEADWORKS_ASSIGN(const model::TaskResult result, model::ReadResult(ends[i].output));
    HEADWORKS_ASSIGN(json::value output, ReadStored(result.output));
    json::object need{{"state", std::move(state)}, {"output", std::move(output)}};
    if (of.artifacts != nullptr && !task.artifacts.empty())
      need["artifacts"] = Artifacts(*of.artifacts, task, upstreams[i], result.artifacts);
    if (task.group.empty())
      needs[task.id] = std::move(need);
    else
      AddInstance(needs, task, std::move(need), is_alone(task.group));
  }
  return needs;
}

/// What `finally` tasks know of the rest.
Status AddOutcome(store::RunQuery& query, const ContextOf& of, const model::RunHeader& header,
                  json::object& run) {
  const bool cancelled = header.cancel_requested_at != Instant{};
  json::array failed;
  bool decided = false;
  for (std::optional<TaskNo> after;;) {
    HEADWORKS_ASSIGN(const auto rows, query.ListTasks(of.tenant, of.run, after, 1'000));
    for (const store::TaskRecord& row : rows) {
      after = row.row.task;
      const model::Task& task = of.workflow.task(row.row.task);
      if (task.role == model::TaskRole::kFinally || task.allow_failure) continue;
      // Where all was cancelled, that is no task's fault.
      if (row.row.state != model::TaskState::kFailed &&
          (cancelled || row.row.state != model::TaskState::kCancelled))
        continue;
      decided = true;
      if (failed.size() < kMostFailedTasks) failed.emplace_back(task.id);
    }
    if (rows.size() < 1'000) break;
  }
  std::string_view outcome = decided ? "failed" : "succeeded";
  if (cancelled)
    outcome = header.reason == model::Reason::kCancelRequested ? "cancelled" : "failed";
  run["outcome"] = json::string(outcome);
  run["reason"] =
      json::string(header.reason == model::Reason::kNone ? "" : model::ReasonName(header.reason));
  run["failed_tasks"] = std::move(failed);
  return {};
}

Result<json::object> RunOf(store::RunQuery& query, const ContextOf& of) {
  HEADWORKS_ASSIGN(const auto record, query.GetRun(of.tenant, std::to_string(of.run.value)));
  json::object run{{"id", of.run_id.value},
                   {"workflow", of.workflow.name().workflow},
                   {"created_at", FormatInstant(record.header.created_at)},
                   {"date", FormatInstant(record.header.created_at).substr(0, kDateBytes)}};
  if (of.workflow.task(of.task).role == model::TaskRole::kFinally)
    HEADWORKS_TRY(AddOutcome(query, of, record.header, run));
  return run;
}

void ToDouble(json::value& value) {
  if (value.is_int64() || value.is_uint64()) value = value.to_number<double>();
}

/// `declared`: the name of a type, [type], or a map of fields.
void TypeNumbersOf(const json::value& declared, json::value& value) {
  if (declared.is_string()) {
    if (declared.get_string() == "number") ToDouble(value);
    // As the check of the output takes it: 2.0 for 2.  What it did not take stays what it is.
    if (declared.get_string() == "integer" && value.is_double() && model::IsInt(value))
      value = static_cast<std::int64_t>(value.get_double());
  } else if (declared.is_array() && value.is_array()) {
    if (declared.get_array().empty()) return;
    for (json::value& element : value.get_array())
      TypeNumbersOf(declared.get_array().front(), element);
  } else if (declared.is_object() && value.is_object()) {
    for (const auto& field : declared.get_object())
      if (json::value* member = value.get_object().if_contains(field.key()))
        TypeNumbersOf(field.value(), *member);
  }
}

}  // namespace

Result<json::object> ReadRunContext(store::RunQuery& query, const ContextOf& of) {
  HEADWORKS_ASSIGN(const std::string text, query.ReadInput(of.tenant, of.run));
  HEADWORKS_ASSIGN(const json::value given, ReadStored(text));
  const auto part = [&](std::string_view name) -> json::value {
    const json::value* found = given.is_object() ? given.get_object().if_contains(name) : nullptr;
    return found ? *found : json::object();
  };
  json::object context;
  context["input"] = part("input");
  context["params"] = part("params");
  HEADWORKS_ASSIGN(context["needs"], Needs(query, of));
  HEADWORKS_ASSIGN(context["run"], RunOf(query, of));
  context["slot"] = nullptr;
  HEADWORKS_TRY(spec::RenderDefaults(of.workflow.definition(), context));
  context["matrix"] = Combination(of.workflow.task(of.task));
  return context;
}

void TypeNumbers(json::object& context, const ContextOf& of) {
  json::object& params = context.at("params").as_object();
  for (const auto& [name, param] : of.workflow.definition().params)
    if (json::value* value = params.if_contains(name);
        value != nullptr && param.type == model::ParamType::kNumber)
      ToDouble(*value);
  json::object& needs = context.at("needs").as_object();
  for (const TaskNo no : of.workflow.upstreams(of.task)) {
    const model::Task& task = of.workflow.task(no);
    if (task.output.type_json.empty()) continue;
    const json::value declared = json::parse(task.output.type_json);
    json::object& need = needs.at(task.group.empty() ? task.id : task.group).as_object();
    if (json::value* output = need.if_contains("output")) TypeNumbersOf(declared, *output);
    if (json::value* outputs = need.if_contains("outputs"))
      for (json::value& output : outputs->as_array()) TypeNumbersOf(declared, output);
  }
}

json::value MergedContext(const json::object& context, const ContextOf& of) {
  json::value merged = context.at("input");
  MergeJson(merged, context.at("params"));
  const json::object& needs = context.at("needs").as_object();
  std::vector<std::string_view> seen;
  for (const TaskNo no : of.workflow.upstreams(of.task)) {
    const model::Task& task = of.workflow.task(no);
    const json::object& need = needs.at(task.group.empty() ? task.id : task.group).as_object();
    if (const json::value* output = need.if_contains("output")) {
      MergeJson(merged, *output);
    } else if (std::ranges::find(seen, task.group) == seen.end()) {
      seen.push_back(task.group);
      for (const json::value& one : need.at("outputs").as_array()) MergeJson(merged, one);
    }
  }
  return merged;
}

}  // namespace headworks
