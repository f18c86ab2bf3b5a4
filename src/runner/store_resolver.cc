#include "store_resolver.h"

#include <boost/json.hpp>

#include "headworks/base/json.h"

namespace headworks {
namespace json = boost::json;
namespace {

/// Stored text was validated when it came in, so that only its size is unknown here.
constexpr JsonLimits kStored{.max_bytes = std::size_t{64} << 20};

std::string_view StateOf(const std::vector<store::TaskRecord>& rows) {
  return rows.empty() ? "waiting" : model::TaskStateName(rows.front().row.state);
}

}  // namespace

Result<executor::Resolved> StoreResolver::Resolve(const executor::Attempt& attempt) {
  const auto& key = attempt.key;
  HEADWORKS_ASSIGN(const std::string text, query_.ReadInput(key.tenant, key.run));
  json::object given;
  if (!text.empty()) {
    HEADWORKS_ASSIGN(given, ParseJsonObject(text, "input of the run", kStored));
  }
  json::object context;
  context["input"] = given.contains("input") ? given["input"] : json::object();
  context["params"] = given.contains("params") ? given["params"] : json::object();
  json::value merged = context["input"];
  MergeJson(merged, context["params"]);

  const auto needs = attempt.workflow->upstreams(key.task);
  HEADWORKS_ASSIGN(const auto outputs, query_.ReadOutputs(key.tenant, key.run, needs));
  json::object upstream;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    // ListTasks is "above": one row from the number before.
    const std::optional<TaskNo> after =
        needs[i].value > 0 ? std::optional(TaskNo(needs[i].value - 1)) : std::nullopt;
    json::object entry;
    if (needs.size() <= 100) {
      HEADWORKS_ASSIGN(const auto rows, query_.ListTasks(key.tenant, key.run, after, 1));
      entry["state"] = StateOf(rows);
    }
    json::value output = json::object();
    if (!outputs[i].empty()) {
      HEADWORKS_ASSIGN(output, ParseJson(outputs[i], kStored));
      MergeJson(merged, output);
    }
    entry["output"] = std::move(output);
    upstream[attempt.workflow->task(needs[i]).id] = std::move(entry);
  }
  context["needs"] = std::move(upstream);
  context["run"] = json::object{{"id", attempt.run_id.value}};
  return executor::Resolved{json::serialize(context), json::serialize(merged)};
}

}  // namespace headworks
