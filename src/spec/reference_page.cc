#include <fmt/format.h>

#include <algorithm>

#include "headworks/spec/schema.h"
#include "language.h"

namespace headworks::spec {
namespace {

/// As it may stand in a cell of a table.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

std::string Code(std::string_view text) {
  return text.empty() ? "" : fmt::format("`{}`", Cell(text));
}

std::string List(std::span<const std::string_view> names) {
  std::string list;
  for (const std::string_view name : names)
    list += fmt::format("{}`{}`", list.empty() ? "" : ", ", name);
  return list;
}

std::string TypeText(const Key& key) {
  switch (key.type) {
    case ValueType::kVersion:
      return "`1`";
    case ValueType::kText:
      return "text";
    case ValueType::kTemplate:
      return "text with templates";
    case ValueType::kBoolean:
      return "`true` or `false`";
    case ValueType::kInteger:
      return fmt::format("whole number, {} to {}", key.least, key.most);
    case ValueType::kNumber:
      return "number";
    case ValueType::kDuration:
      return "[duration](#values)";
    case ValueType::kSize:
      return "[size](#values)";
    case ValueType::kChoice:
      return "one of " + List(key.names);
    case ValueType::kPattern:
      return "regular expression";
    case ValueType::kTexts:
      return "text, or a list of texts";
    case ValueType::kTemplates:
      return "text with templates, or a list of them";
    case ValueType::kExec:
      return "list of texts with templates";
    case ValueType::kShell:
      return "`sh`, `bash`, or a list of texts";
    case ValueType::kWhen:
      return "expression, or a list of them";
    case ValueType::kTextMap:
      return "map from names to text";
    case ValueType::kTemplateMap:
      return "map from names to text with templates";
    case ValueType::kExitCodes:
      return "whole number, 1 to 255, or a list of them";
    case ValueType::kParams:
      return "map from names to a default or a [parameter](#keys-of-a-param)";
    case ValueType::kAny:
      return "any value of the type";
    case ValueType::kAnyList:
      return "list of values of the type";
    case ValueType::kParamType:
      return "[type](#values)";
    case ValueType::kTasks:
      return "map from ids to [tasks](#keys-of-a-task)";
    case ValueType::kDefaults:
      return "map with the [keys of a task](#keys-of-a-task) marked *d*";
    case ValueType::kRetry:
      return "map with [keys of a retry](#keys-of-a-retry)";
    case ValueType::kRetryCondition:
      return "map with [keys of a condition](#keys-of-a-condition)";
    case ValueType::kOutput:
      return "word, or a map with [keys of an output](#keys-of-an-output)";
    case ValueType::kOutputType:
      return "map from fields to [types](#values)";
    case ValueType::kMatrix:
      return "map from names to lists of values, and `include`, `exclude`";
    case ValueType::kConcurrency:
      return "map with [keys of a concurrency](#keys-of-a-concurrency)";
    case ValueType::kRate:
      return "map with [keys of a rate](#keys-of-a-rate)";
    case ValueType::kKeyExpression:
      return "expression";
    case ValueType::kResources:
      return "map with [keys of the resources](#keys-of-the-resources)";
  }
  return "";
}

void AppendMap(const KeyMap& map, std::string& page) {
  const std::string_view article = map.name == "output"      ? "an"
                                   : map.name == "workflow"  ? "the"
                                   : map.name == "resources" ? "the"
                                                             : "a";
  page += fmt::format("\n## Keys of {} {}\n\n{}\n\n", article, map.name, map.text);
  page += "| key | takes | default | since | meaning |\n|---|---|---|---|---|\n";
  for (const Key* key : map.keys)
    page += fmt::format("| `{}`{} | {} | {} | {} | {} |\n", key->name,
                        key->required      ? " (required)"
                        : key->in_defaults ? " *d*"
                                           : "",
                        TypeText(*key), Code(key->usual), key->since, Cell(key->text));
  page += "\nFor example:\n\n```yaml\n";
  for (const Key* key : map.keys) page += fmt::format("{}: {}\n", key->name, key->example);
  page += "```\n";
}

}  // namespace

std::string ReferencePage() {
  std::string page =
      "# Workflow reference\n\n"
      "Every key of a [workflow file](workflow-files.md). This page is made from the table that "
      "the\n"
      "program reads files by; a test fails when the two differ. `headworks workflow schema` "
      "prints\n"
      "the same as a JSON Schema, with which editors complete and check.\n\n"
      "A key that is not listed is a fault, but for those that begin with `x-`: they are yours, "
      "in\n"
      "every map, and good places for anchors.\n\n"
      "The examples are one line each, to be copied singly: not every key goes with every other.\n";
  for (const KeyMap& map : Language()) AppendMap(map, page);
  page += fmt::format(
      "\n## Values\n\n"
      "- **Text** may be any scalar and is taken as it is written: `A: 1.10` is the text 1.10.\n"
      "- A **duration** carries its units: `250ms`, `30s`, `10m`, `1h30m`, `2d`.\n"
      "- A **size** is a number of bytes, or of larger units: `1048576`, `512KiB`, `64MiB`, "
      "`4GiB`.\n"
      "- A **type** is one of {}. In the type of an output it may also be `any`, `[type]` for a\n"
      "  list, or a map of fields.\n"
      "- A **template** is text with `${{{{ expression }}}}` in it.\n"
      "- `true` and `false` are booleans. Where the type is taken from the value (a parameter's\n"
      "  default, a value of a matrix), what older YAML reads differently is refused without "
      "quotes:\n"
      "  `yes`, `no`, `on`, `off`, `010`, `0b11`, `1_000`, `1:30`, `2026-01-31`; so is a number "
      "whose\n"
      "  last 0 would be lost: `3.10`, which is 3.1, and in a matrix, where numbers become ids, "
      "`2.0`, "
      "too.\n"
      "  As a default `2.0` declares a number, and where a number is declared any spelling is "
      "taken.\n",
      List(TypeNames()));
  page +=
      "\n## Reserved keys\n\n"
      "They mean something in a later version; a file that uses one is refused, and told so.\n\n"
      "| key | comes with | until then |\n|---|---|---|\n";
  constexpr std::string_view kComesWith = "comes with ";
  for (const ReservedKey& key : ReservedKeys())
    page += fmt::format("| `{}` | {} | {} |\n", key.name, key.comes.substr(kComesWith.size()),
                        Cell(key.until_then));
  return page;
}

}  // namespace headworks::spec
