#include <boost/json/array.hpp>
#include <cmath>
#include <string>
#include <utility>

#include "evaluator.h"
#include "messages.h"
#include "scalar_text.h"

/// From values of the language to JSON and text.
namespace headworks::expr::internal {
namespace {

namespace json = boost::json;
using Kind = Value::Kind;

// Far above what any parser of input allows.
constexpr int kDeepest = 1000;

Error NoJson(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

}  // namespace

bool Evaluator::ChargeResult(std::size_t bytes) {
  bytes_ += bytes + sizeof(json::value);
  if (bytes_ > limits_.max_bytes) Exceed("bytes");
  return Charge(1) && !exhausted();
}

Result<json::value> Evaluator::ToJson(const Value& value) {
  if (value.is_error()) return ErrorOf(value);
  json::value result;
  if (auto error = AppendJson(value, &result, 0)) {
    if (exhausted()) return ErrorOf(value);
    error->message = "'" + Excerpt(ast_.text) + "': " + error->message;
    return *std::move(error);
  }
  return result;
}

std::optional<Error> Evaluator::AppendJson(const Value& value, json::value* to, int depth) {
  if (!ChargeResult(value.is_text() ? value.size : 0) || depth > kDeepest) {
    Exceed("bytes");
    return NoJson("");
  }
  switch (value.kind) {
    case Kind::kNull:
      return std::nullopt;
    case Kind::kBool:
      *to = value.boolean;
      return std::nullopt;
    case Kind::kInt:
      *to = value.integer;
      return std::nullopt;
    case Kind::kUint:
      if (value.uint > INT64_MAX) {
        return NoJson("the uint " + std::to_string(value.uint) +
                      " is too large for JSON; write string(...)");
      }
      *to = static_cast<std::int64_t>(value.uint);
      return std::nullopt;
    case Kind::kDouble:
      if (!std::isfinite(value.number)) {
        return NoJson("the result is " + ScalarText(value) + ", which JSON does not have");
      }
      *to = value.number;
      return std::nullopt;
    case Kind::kString:
      *to = json::string(value.view());
      return std::nullopt;
    case Kind::kBytes:
      *to = json::string(Base64(value.view()));
      return std::nullopt;
    case Kind::kTimestamp:
    case Kind::kDuration:
      *to = json::string(ScalarText(value));
      return std::nullopt;
    case Kind::kType:
      return NoJson("the result is " + std::string(NoText(Type::Kind::kType)));
    case Kind::kList: {
      auto& array = to->emplace_array();
      for (std::size_t i = 0; i < value.size; ++i) {
        array.emplace_back(nullptr);
        if (auto error = AppendJson(value.list[i], &array.back(), depth + 1)) return error;
      }
      return std::nullopt;
    }
    case Kind::kMap:
      return AppendMap(value, to, depth);
    case Kind::kJsonList: {
      auto& array = to->emplace_array();
      for (const json::value& element : *value.json_list) {
        array.emplace_back(nullptr);
        if (auto error = AppendCopy(element, &array.back(), depth + 1)) return error;
      }
      return std::nullopt;
    }
    case Kind::kJsonMap: {
      auto& object = to->emplace_object();
      for (const auto& [key, element] : *value.json_map) {
        if (!ChargeResult(key.size())) return NoJson("");
        if (auto error = AppendCopy(element, &object[key], depth + 1)) return error;
      }
      return std::nullopt;
    }
    case Kind::kError:
      break;
  }
  return NoJson("");
}

/// Part of the variables: unchanged, so that numbers keep what the language would round.
std::optional<Error> Evaluator::AppendCopy(const json::value& from, json::value* to, int depth) {
  if (from.is_structured()) return AppendJson(Value::FromJson(from), to, depth);
  if (!ChargeResult(from.is_string() ? from.get_string().size() : 0)) return NoJson("");
  *to = from;
  return std::nullopt;
}

std::optional<Error> Evaluator::AppendMap(const Value& value, json::value* to, int depth) {
  auto& object = to->emplace_object();
  for (std::size_t i = 0; i < value.size; ++i) {
    const Value& key = value.map[i].key;
    const std::string name = ScalarText(key);
    if (!ChargeResult(name.size())) return NoJson("");
    if (object.contains(name)) {
      return NoJson("two keys are both '" + Excerpt(name) + "' as text, and JSON has no others");
    }
    if (auto error = AppendJson(value.map[i].value, &object[name], depth + 1)) return error;
  }
  return std::nullopt;
}

Result<std::string> Evaluator::ToText(const Value& value) {
  if (value.is_error()) return ErrorOf(value);
  if (const std::string_view fault = NoText(value.TypeKind()); !fault.empty()) {
    return Error{Code::kInvalidArgument, "'" + Excerpt(ast_.text) + "' is " + std::string(fault)};
  }
  if (!ChargeResult(value.is_text() ? value.size : 0)) return ErrorOf(value);
  return ScalarText(value);
}

}  // namespace headworks::expr::internal
