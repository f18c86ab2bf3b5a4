#include <boost/json.hpp>

#include "headworks/spec/schema.h"
#include "language.h"

namespace headworks::spec {
namespace json = boost::json;
namespace {

json::array Names(std::span<const std::string_view> names) {
  json::array all;
  for (const std::string_view name : names) all.emplace_back(name);
  return all;
}

/// Text belongs there, and any scalar is taken as it is written.
json::object Scalar() { return {{"type", {"string", "number", "boolean"}}}; }

json::object ListOf(json::object element, bool may_be_empty = true) {
  json::object list{{"type", "array"}, {"items", std::move(element)}};
  if (!may_be_empty) list["minItems"] = 1;
  return list;
}

json::object MapOf(json::object value) {
  return {{"type", "object"}, {"additionalProperties", std::move(value)}};
}

json::object Either(json::object a, json::object b) {
  return {{"anyOf", json::array{std::move(a), std::move(b)}}};
}

/// In an allOf, because draft-07 does not look at what stands beside a $ref.
json::object Reference(std::string_view map) {
  return {{"allOf", json::array{{{"$ref", "#/definitions/" + std::string(map)}}}}};
}

/// A map whose keys are names: `what` they may be.
json::object Named(json::object value, std::string_view pattern) {
  json::object map = MapOf(std::move(value));
  map["type"] = {"object", "null"};
  map["propertyNames"] = {{"pattern", pattern}};
  return map;
}

json::object MatrixSchema() {
  const json::object value = Scalar();
  json::object entries = ListOf(MapOf(value));
  json::object map = MapOf(ListOf(value, false));
  entries["description"] = "Further combinations, or further values for existing ones.";
  json::object excluded = entries;
  excluded["description"] = "Combinations to leave out: all that have these values.";
  map["properties"] = {{"include", std::move(entries)}, {"exclude", std::move(excluded)}};
  return map;
}

json::object NumberSchema(const Key& key) {
  json::object schema{{"type", key.type == ValueType::kInteger ? "integer" : "number"}};
  if (key.least == key.most) return schema;
  schema["minimum"] = key.least;
  schema["maximum"] = key.most;
  return schema;
}

json::object ValueSchema(const Key& key) {
  switch (key.type) {
    case ValueType::kVersion:
      return {{"const", 1}};
    case ValueType::kText:
    case ValueType::kTemplate:
      return Scalar();
    case ValueType::kBoolean:
      return {{"type", "boolean"}};
    case ValueType::kInteger:
    case ValueType::kNumber:
      return NumberSchema(key);
    case ValueType::kDuration:
      return {{"type", "string"}, {"pattern", "^([0-9]+(us|ms|s|m|h|d))+$"}};
    case ValueType::kSize:
      return {{"type", {"string", "integer"}}, {"pattern", "^[1-9][0-9]*(KiB|MiB|GiB|TiB)?$"}};
    case ValueType::kChoice:
    case ValueType::kParamType:
      return {{"enum", Names(key.names)}};
    case ValueType::kPattern:
      return Scalar();
    case ValueType::kTexts:
    case ValueType::kTemplates:
    case ValueType::kWhen:
      return Either(Scalar(), ListOf(Scalar()));
    case ValueType::kExec:
      return ListOf(Scalar(), false);
    case ValueType::kShell:
      return Either({{"enum", {"sh", "bash"}}}, ListOf(Scalar(), false));
    case ValueType::kTextMap:
    case ValueType::kTemplateMap:
      return MapOf(Scalar());
    case ValueType::kExitCodes: {
      const json::object code{{"type", "integer"}, {"minimum", 1}, {"maximum", 255}};
      return Either(code, ListOf(code));
    }
    case ValueType::kParams:
      return Named(
          {{"anyOf",
            {{{"type", {"string", "number", "boolean", "array", "null"}}}, Reference("param")}}},
          "^[A-Za-z_][A-Za-z0-9_]*$");
    case ValueType::kAny:
      return {};
    case ValueType::kAnyList:
      return {{"type", "array"}};
    case ValueType::kTasks:
      return Named(Reference("task"), "^[A-Za-z_][A-Za-z0-9_-]{0,99}$");
    case ValueType::kDefaults:
      return Reference("defaults");
    case ValueType::kRetry:
      return Reference("retry");
    case ValueType::kRetryCondition:
      return Reference("condition");
    case ValueType::kOutput:
      return Either({{"enum", {"file", "stdout-json", "stdout-lines", "stdout"}}},
                    Reference("output"));
    case ValueType::kOutputType:
      return MapOf(Reference("type"));
    case ValueType::kMatrix:
      return MatrixSchema();
    case ValueType::kConcurrency:
      return Reference("concurrency");
    case ValueType::kRate:
      return Reference("rate");
    case ValueType::kKeyExpression:
      return Scalar();
    case ValueType::kResources:
      return Reference("resources");
  }
  return {};
}

json::object KeySchema(const Key& key) {
  json::object schema = ValueSchema(key);
  std::string text(key.text);
  if (!key.usual.empty()) text += " Default: " + std::string(key.usual) + ".";
  text += " Example: " + std::string(key.name) + ": " + std::string(key.example);
  schema["description"] = text;
  return schema;
}

/// No value will do; by `deprecationMessage` editors say why, and do not offer the key.
json::object ReservedSchema(const ReservedKey& key) {
  const std::string why = WhyReserved(key);
  return {{"not", json::object{}}, {"description", why}, {"deprecationMessage", why}};
}

json::object MapSchema(const KeyMap& map, bool only_defaults) {
  json::object properties;
  for (const ReservedKey& key : ReservedKeys())
    if (map.name == "workflow" || map.name == "task") properties[key.name] = ReservedSchema(key);
  json::array required;
  for (const Key* key : map.keys) {
    if (only_defaults && !key->in_defaults) continue;
    properties[key->name] = KeySchema(*key);
    if (key->required) required.emplace_back(key->name);
  }
  json::object schema{{"type", "object"},
                      {"description", map.text},
                      {"properties", std::move(properties)},
                      {"patternProperties", {{"^x-", json::object{}}}},
                      {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = std::move(required);
  if (map.name == "task" && !only_defaults)
    schema["oneOf"] = {
        {{"required", {"run"}}}, {{"required", {"exec"}}}, {{"required", {"function"}}}};
  return schema;
}

/// The type of a field of an output.
json::object TypeSchema() {
  json::array names = Names(TypeNames());
  names.emplace_back("any");
  return {{"anyOf",
           {json::object{{"enum", std::move(names)}},
            json::object{
                {"type", "array"}, {"items", Reference("type")}, {"minItems", 1}, {"maxItems", 1}},
            MapOf(Reference("type"))}},
          {"description", "A type, [type] for a list, or a map of fields."}};
}

}  // namespace

std::string JsonSchema() {
  json::object definitions;
  for (const KeyMap& map : Language().subspan(1)) definitions[map.name] = MapSchema(map, false);
  for (const KeyMap& map : Language())
    if (map.name == "task") {
      definitions["defaults"] = MapSchema(map, true);
      definitions["defaults"].as_object()["description"] = "What every task has.";
    }
  definitions["type"] = TypeSchema();
  json::object schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
                      {"title", "Headworks workflow"}};
  for (auto& member : MapSchema(Language().front(), false))
    schema[member.key()] = std::move(member.value());
  schema["definitions"] = std::move(definitions);
  return json::serialize(schema);
}

}  // namespace headworks::spec
