#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The workflow language as data.  The reader's dispatch, "did you mean", the JSON Schema and the
/// reference page are all made from it, so that none can fall behind.
namespace headworks::spec {

/// What may stand behind a key.
enum class ValueType : std::uint8_t {
  kVersion,
  kText,
  kTemplate,  // text that may hold ${{ }}
  kBoolean,
  kInteger,
  kNumber,
  kDuration,
  kSize,    // bytes
  kChoice,  // one of Key::names
  kPattern,
  kTexts,      // one text, or a list of them
  kTemplates,  // one template, or a list of them
  kExec,
  kShell,
  kWhen,
  kTextMap,
  kTemplateMap,
  kExitCodes,
  kParams,
  kAny,
  kAnyList,
  kParamType,
  kTasks,
  kDefaults,
  kRetry,
  kRetryCondition,
  kOutput,
  kOutputType,
  kMatrix,
  kConcurrency,
  kRate,
  kKeyExpression,
  kResources,
};

/// One key of one map.
struct Key {
  std::string_view name;
  ValueType type;
  /// As it would be written; empty = the key must be given, or has no default.
  std::string_view usual;
  /// A value, as YAML on one line.
  std::string_view example;
  /// The first version of Headworks that takes it.
  std::string_view since;
  /// One line, for people.
  std::string_view text;
  /// Of a kChoice, in the order of the enumerators.
  std::span<const std::string_view> names = {};
  bool required = false;
  /// Of a task: may also stand under `defaults`.
  bool in_defaults = false;
  /// Of integers.
  std::int64_t least = 0, most = 0;
};

/// A map of the language.
struct KeyMap {
  /// "task": as it is called in the schema.
  std::string_view name;
  /// "to a task": where its keys belong, for faults.
  std::string_view place;
  std::string_view text;
  std::vector<const Key*> keys;
};

/// All maps, the workflow itself first.
std::span<const KeyMap> Language();

/// A key that means something in a later version, so that a file which uses it is not misspelt but
/// ahead of this program.
struct ReservedKey {
  std::string_view name;
  /// "comes with the scheduler"
  std::string_view comes;
  /// What does the job today.
  std::string_view until_then;
};

std::span<const ReservedKey> ReservedKeys();
/// "the key "schedule" is reserved: it comes with the scheduler; until then let cron ...": what a
/// file with it is told, and an editor shows.
std::string WhyReserved(const ReservedKey& key);

/// Names of the types of parameters and of declared outputs.
std::span<const std::string_view> TypeNames();

}  // namespace headworks::spec
