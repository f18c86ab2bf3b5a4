#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "checker.h"
#include "evaluator.h"
#include "parser.h"
#include "scalar_text.h"
#include "tests/textproto.h"

namespace headworks::expr {
namespace {

using internal::Value;

// Cases that need protobuf messages, which this CEL does not have: "file/section/case", a section
// with `*`.
constexpr std::string_view kNeedMessages[] = {
    "comparisons/eq_literal/eq_dyn_json_null",
    "comparisons/eq_literal/not_eq_dyn_proto2_msg_null",
    "comparisons/eq_literal/not_eq_dyn_proto3_msg_null",
    "comparisons/eq_wrapper/*",
    "comparisons/ne_literal/ne_proto2",
    "comparisons/ne_literal/ne_proto2_any_unpack",
    "comparisons/ne_literal/ne_proto2_any_unpack_bytewise_fallback",
    "comparisons/ne_literal/ne_proto2_missing_fields_neq",
    "comparisons/ne_literal/ne_proto3",
    "comparisons/ne_literal/ne_proto3_any_unpack",
    "comparisons/ne_literal/ne_proto3_any_unpack_bytewise_fallback",
    "comparisons/ne_literal/ne_proto3_missing_fields_neq",
    "comparisons/ne_literal/ne_proto_different_types",
    "comparisons/ne_literal/ne_proto_nan_not_equal",
    "parse/comments/new_line_terminated",
    "parse/nest/message_literal",
    "parse/repeat/message_literal",
    "parse/repeat/select",
    "parse/struct_field_names/*",
    "parse/whitespace/carriage_returns",
    "parse/whitespace/new_lines",
    "parse/whitespace/new_pages",
    "parse/whitespace/spaces",
    "parse/whitespace/tabs",
    "timestamps/duration_converters/get_milliseconds"};

std::string TypeName(Type::Kind kind) {
  if (kind == Type::Kind::kNull) return "null_type";
  if (kind == Type::Kind::kTimestamp) return "google.protobuf.Timestamp";
  if (kind == Type::Kind::kDuration) return "google.protobuf.Duration";
  return std::string(KindName(kind));
}

/// A value as text that tells its type.
std::string Shown(const Value& value) {
  std::string text = TypeName(value.TypeKind()) + " ";
  if (value.is_list()) {
    for (std::size_t i = 0; i < value.count(); ++i) text += Shown(value.at(i)) + ", ";
  } else if (value.is_map()) {
    std::map<std::string, std::string> sorted;
    for (std::size_t i = 0; i < value.count(); ++i) {
      sorted[Shown(value.entry(i).key)] = Shown(value.entry(i).value);
    }
    for (const auto& [key, of] : sorted) text += key + ": " + of + ", ";
  } else if (value.is(Value::Kind::kBytes)) {
    text += value.view();
  } else if (value.is(Value::Kind::kType)) {
    text += TypeName(value.type);
  } else if (!value.is(Value::Kind::kNull)) {
    text += internal::ScalarText(value);
  }
  return text;
}

/// The same of an expected value; nullopt = it is a message.
std::optional<std::string> Shown(const TextMessage& value) {
  const auto& field = value.fields.at(0);
  if (field.name == "null_value") return "null_type ";
  if (field.name == "bool_value") return "bool " + field.scalar;
  if (field.name == "int64_value") return "int " + field.scalar;
  if (field.name == "uint64_value") return "uint " + field.scalar;
  if (field.name == "string_value") return "string " + field.scalar;
  if (field.name == "bytes_value") return "bytes " + field.scalar;
  if (field.name == "type_value") return "type " + field.scalar;
  if (field.name == "double_value") {
    return "double " + internal::DoubleText(std::strtod(field.scalar.c_str(), nullptr));
  }
  std::string text;
  if (field.name == "list_value") {
    for (const auto& element : field.message.fields) {
      const auto shown = Shown(element.message);
      if (!shown) return std::nullopt;
      text += *shown + ", ";
    }
    return "list " + text;
  }
  if (field.name != "map_value") return std::nullopt;
  std::map<std::string, std::string> sorted;
  for (const auto& entry : field.message.fields) {
    const auto key = Shown(entry.message.Find("key")->message);
    const auto of = Shown(entry.message.Find("value")->message);
    if (!key || !of) return std::nullopt;
    sorted[*key] = *of;
  }
  for (const auto& [key, of] : sorted) text += key + ": " + of + ", ";
  return "map " + text;
}

Type ReadType(const TextMessage& type) {
  const auto& field = type.fields.at(0);
  if (field.scalar == "BOOL") return Type::Kind::kBool;
  if (field.scalar == "INT64") return Type::Kind::kInt;
  if (field.scalar == "STRING") return Type::Kind::kString;
  if (field.name == "list_type") {
    return Type::List(ReadType(field.message.Find("elem_type")->message));
  }
  if (field.name == "map_type") {
    return Type::Map(ReadType(field.message.Find("key_type")->message),
                     ReadType(field.message.Find("value_type")->message));
  }
  return {};
}

boost::json::value ReadJson(const TextMessage& value) {
  const auto& field = value.fields.at(0);
  if (field.name == "int64_value") return std::strtoll(field.scalar.c_str(), nullptr, 10);
  if (field.name == "null_value") return nullptr;
  if (field.name == "bool_value") return field.scalar == "true";
  if (field.name == "double_value") return std::strtod(field.scalar.c_str(), nullptr);
  if (field.name == "string_value") return boost::json::value(field.scalar);
  if (field.name == "list_value") {
    boost::json::array array;
    for (const auto& element : field.message.fields) array.push_back(ReadJson(element.message));
    return array;
  }
  boost::json::object object;
  for (const auto& entry : field.message.fields) {
    object[entry.message.Find("key")->message.Text("string_value")] =
        ReadJson(entry.message.Find("value")->message);
  }
  return object;
}

/// What `test` evaluates to: Shown(), or "error: ...".
std::string Outcome(const TextMessage& test) {
  Environment environment;
  boost::json::object variables;
  std::string expression = test.Text("expr");
  for (const auto& field : test.fields) {
    if (field.name == "type_env" && field.message.Find("ident") != nullptr) {
      // Reserved words cannot be declared; that they stay themselves is what those cases ask.
      static_cast<void>(environment.Declare(
          field.message.Text("name"),
          ReadType(field.message.Find("ident")->message.Find("type")->message)));
    }
    if (field.name == "bindings") {
      const TextMessage& value = field.message.Find("value")->message.Find("value")->message;
      if (const auto* bytes = value.Find("bytes_value")) {  // JSON has none: bind them inside.
        expression = "cel.bind(" + field.message.Text("key") + ", b'''" + bytes->scalar + "''', " +
                     expression + ")";
        continue;
      }
      variables[field.message.Text("key")] = ReadJson(value);
    }
  }
  internal::Ast ast;
  ast.text = expression;
  std::vector<Fault> faults;
  if (!internal::ParseInto(&ast, &faults)) return "error: " + faults[0].message;
  internal::Check(&ast, environment, &faults);
  if (!faults.empty() && test.Text("disable_check") != "true") return "error: " + faults[0].message;
  const Limits limits;
  internal::Evaluator evaluator(ast, variables, limits);
  const Value value = evaluator.Run();
  return value.is_error() ? "error: " + evaluator.ErrorOf(value).message : Shown(value);
}

bool NeedsMessages(const std::string& name) {
  const std::string section = name.substr(0, name.rfind('/')) + "/*";
  return std::any_of(
      std::begin(kNeedMessages), std::end(kNeedMessages),
      [&](std::string_view skipped) { return skipped == name || skipped == section; });
}

/// Whether a case has a message anywhere, so that it may be skipped.
bool HasMessages(const TextMessage& test) {
  return std::any_of(test.fields.begin(), test.fields.end(), [](const TextMessage::Field& field) {
    return field.name == "object_value" || field.name == "message_type" ||
           field.scalar.find("TestAllTypes") != std::string::npos ||
           field.scalar.find("google.protobuf.") != std::string::npos || HasMessages(field.message);
  });
}

class Conformance : public testing::TestWithParam<const char*> {};

TEST_P(Conformance, CasesGiveWhatTheyExpect) {
  const char* folder = std::getenv("HEADWORKS_CEL_VECTORS");
  if (folder == nullptr) GTEST_SKIP() << "HEADWORKS_CEL_VECTORS does not name their folder";
  const std::filesystem::path path =
      std::filesystem::path(folder) / (std::string(GetParam()) + ".textproto");
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  const auto file = ReadTextMessage(text.str());
  ASSERT_TRUE(file) << path;
  int run = 0;
  for (const auto& section : file->fields) {
    if (section.name != "section") continue;
    for (const auto& field : section.message.fields) {
      if (field.name != "test") continue;
      const TextMessage& test = field.message;
      const std::string name =
          std::string(GetParam()) + "/" + section.message.Text("name") + "/" + test.Text("name");
      const auto* value = test.Find("value");
      std::string expected = "error: ";
      if (value != nullptr) expected = Shown(value->message).value_or("a message");
      if (test.Find("eval_error") == nullptr && value == nullptr) expected = "bool true";
      if (NeedsMessages(name)) {
        EXPECT_TRUE(HasMessages(test)) << name << " is skipped without need";
        continue;
      }
      ++run;
      const std::string outcome = Outcome(test);
      EXPECT_EQ(outcome.substr(0, expected == "error: " ? 7 : std::string::npos), expected)
          << name << ": " << test.Text("expr") << "\n"
          << outcome;
    }
  }
  EXPECT_GT(run, 0);
}

INSTANTIATE_TEST_SUITE_P(Files, Conformance,
                         testing::Values("basic", "comparisons", "conversions", "fp_math",
                                         "integer_math", "logic", "macros", "parse", "string",
                                         "timestamps"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace headworks::expr
