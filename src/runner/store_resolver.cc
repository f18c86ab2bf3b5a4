#include "store_resolver.h"

#include <boost/json.hpp>

#include "headworks/base/json.h"

namespace headworks {
namespace json = boost::json;
namespace {

/// Stored text was validated when it came in; empty is {}.
Result<json::value> ReadStored(std::string_view text) {
  if (text.empty()) return json::object();
  json::error_code bad;
  json::value value = json::parse(text, bad, {}, json::parse_options{.max_depth = 1'000});
  if (bad) return Error{Code::kCorrupt, "stored JSON is damaged: " + bad.message()};
  return value;
}

}  // namespace

Result<executor::Resolved> StoreResolver::Resolve(const executor::Attempt& attempt) {
  const auto& key = attempt.key;
  HEADWORKS_ASSIGN(const std::string text, query_.ReadInput(key.tenant, key.run));
  HEADWORKS_ASSIGN(const json::value given, ReadStored(text));
  const auto part = [&](std::string_view name) -> json::value {
    const json::value* found = given.is_object() ? given.get_object().if_contains(name) : nullptr;
    return found ? *found : json::object();
  };
  json::object context;
  context["input"] = part("input");
  context["params"] = part("params");
  json::value merged = context["input"];
  MergeJson(merged, context["params"]);

  const auto needs = attempt.workflow->upstreams(key.task);
  HEADWORKS_ASSIGN(const auto ends, query_.ReadEnds(key.tenant, key.run, needs));
  json::object upstream;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    HEADWORKS_ASSIGN(json::value output, ReadStored(ends[i].output));
    MergeJson(merged, output);
    upstream[attempt.workflow->task(needs[i]).id] =
        json::object{{"state", model::TaskStateName(ends[i].state)}, {"output", std::move(output)}};
  }
  context["needs"] = std::move(upstream);
  context["run"] = json::object{{"id", attempt.run_id.value}};
  return executor::Resolved{json::serialize(context), json::serialize(merged)};
}

}  // namespace headworks
