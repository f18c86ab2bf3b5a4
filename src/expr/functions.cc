#include "functions.h"

#include <algorithm>

namespace headworks::expr::internal {
namespace {

using enum Type::Kind;

constexpr Overload Global(Type::Kind result, Type::Kind parameter) {
  return {false, 1, {parameter}, result};
}
constexpr Overload Member(Type::Kind result, Type::Kind target) {
  return {true, 1, {target}, result};
}
constexpr Overload Member(Type::Kind result, Type::Kind target, Type::Kind a) {
  return {true, 2, {target, a}, result};
}
constexpr Overload Member(Type::Kind result, Type::Kind target, Type::Kind a, Type::Kind b) {
  return {true, 3, {target, a, b}, result};
}

constexpr std::array kBoolForms = {Global(kBool, kBool), Global(kBool, kString)};
constexpr std::array kBytesForms = {Global(kBytes, kBytes), Global(kBytes, kString)};
constexpr std::array kDoubleForms = {Global(kDouble, kDouble), Global(kDouble, kInt),
                                     Global(kDouble, kUint), Global(kDouble, kString)};
constexpr std::array kAnyForms = {Global(kDyn, kDyn)};
constexpr std::array kExtremeForms = {Global(kDyn, kList), Overload{false, 2, {kDyn, kDyn}, kDyn}};
constexpr std::array kTypeForms = {Global(kType, kDyn)};
constexpr std::array kIntForms = {Global(kInt, kInt), Global(kInt, kUint), Global(kInt, kDouble),
                                  Global(kInt, kString), Global(kInt, kTimestamp)};
constexpr std::array kUintForms = {Global(kUint, kUint), Global(kUint, kInt),
                                   Global(kUint, kDouble), Global(kUint, kString)};
constexpr std::array kStringForms = {
    Global(kString, kString), Global(kString, kInt),       Global(kString, kUint),
    Global(kString, kDouble), Global(kString, kBool),      Global(kString, kBytes),
    Global(kString, kNull),   Global(kString, kTimestamp), Global(kString, kDuration),
    Global(kString, kList),   Global(kString, kMap)};
constexpr std::array kDurationForms = {Global(kDuration, kDuration), Global(kDuration, kString)};
constexpr std::array kTimestampForms = {Global(kTimestamp, kTimestamp), Global(kTimestamp, kString),
                                        Global(kTimestamp, kInt)};
constexpr std::array kSizeForms = {
    Global(kInt, kString), Global(kInt, kBytes), Global(kInt, kList), Global(kInt, kMap),
    Member(kInt, kString), Member(kInt, kBytes), Member(kInt, kList), Member(kInt, kMap)};
constexpr std::array kFieldForms = {Member(kInt, kTimestamp), Member(kInt, kTimestamp, kString)};
constexpr std::array kClockForms = {Member(kInt, kTimestamp), Member(kInt, kTimestamp, kString),
                                    Member(kInt, kDuration)};
constexpr std::array kTestForms = {Member(kBool, kString, kString)};
constexpr std::array kMatchesForms = {Member(kBool, kString, kString),
                                      Overload{false, 2, {kString, kString}, kBool}};
constexpr std::array kChangeForms = {Member(kString, kString)};
constexpr std::array kCharAtForms = {Member(kString, kString, kInt)};
constexpr std::array kIndexForms = {Member(kInt, kString, kString),
                                    Member(kInt, kString, kString, kInt)};
constexpr std::array kJoinForms = {Member(kString, kList), Member(kString, kList, kString)};
constexpr std::array kSplitForms = {Member(kList, kString, kString),
                                    Member(kList, kString, kString, kInt)};
constexpr std::array kSubstringForms = {Member(kString, kString, kInt),
                                        Member(kString, kString, kInt, kInt)};
constexpr std::array kReplaceForms = {
    Member(kString, kString, kString, kString),
    Overload{true, 4, {kString, kString, kString, kInt}, kString}};
constexpr std::array kFormatForms = {Member(kString, kString, kList)};
constexpr std::array kQuoteForms = {Global(kString, kString)};

// By name, for the search.
constexpr std::array kFunctions = {
    Function{"bool", CallBool, kBoolForms},
    Function{"bytes", CallBytes, kBytesForms},
    Function{"charAt", CallCharAt, kCharAtForms},
    Function{"contains", CallContains, kTestForms},
    Function{"double", CallDouble, kDoubleForms},
    Function{"duration", CallDuration, kDurationForms},
    Function{"dyn", CallDyn, kAnyForms},
    Function{"endsWith", CallEndsWith, kTestForms},
    Function{"format", CallFormat, kFormatForms},
    Function{"getDate", CallTimeField, kFieldForms},
    Function{"getDayOfMonth", CallTimeField, kFieldForms},
    Function{"getDayOfWeek", CallTimeField, kFieldForms},
    Function{"getDayOfYear", CallTimeField, kFieldForms},
    Function{"getFullYear", CallTimeField, kFieldForms},
    Function{"getHours", CallTimeField, kClockForms},
    Function{"getMilliseconds", CallTimeField, kClockForms},
    Function{"getMinutes", CallTimeField, kClockForms},
    Function{"getMonth", CallTimeField, kFieldForms},
    Function{"getSeconds", CallTimeField, kClockForms},
    Function{"indexOf", CallIndexOf, kIndexForms},
    Function{"int", CallInt, kIntForms},
    Function{"join", CallJoin, kJoinForms},
    Function{"lastIndexOf", CallLastIndexOf, kIndexForms},
    Function{"lowerAscii", CallLowerAscii, kChangeForms},
    Function{"matches", CallMatches, kMatchesForms},
    Function{"math.greatest", CallExtreme, kExtremeForms},
    Function{"math.least", CallExtreme, kExtremeForms},
    Function{"replace", CallReplace, kReplaceForms},
    Function{"reverse", CallReverse, kChangeForms},
    Function{"size", CallSize, kSizeForms},
    Function{"split", CallSplit, kSplitForms},
    Function{"startsWith", CallStartsWith, kTestForms},
    Function{"string", CallString, kStringForms},
    Function{"strings.quote", CallQuote, kQuoteForms},
    Function{"substring", CallSubstring, kSubstringForms},
    Function{"timestamp", CallTimestamp, kTimestampForms},
    Function{"trim", CallTrim, kChangeForms},
    Function{"type", CallType, kTypeForms},
    Function{"uint", CallUint, kUintForms},
    Function{"upperAscii", CallUpperAscii, kChangeForms},
};
static_assert(std::ranges::is_sorted(kFunctions, {}, &Function::name));

}  // namespace

const Function* FindFunction(std::string_view name) {
  const auto* found = std::ranges::lower_bound(kFunctions, name, {}, &Function::name);
  return found != kFunctions.end() && found->name == name ? found : nullptr;
}

std::span<const Function> Functions() { return kFunctions; }

bool Fits(const Type& given, Type::Kind wanted) {
  if (wanted == kDyn || given.is_dyn() || given.kind() == wanted) return true;
  if (given.nullable() && wanted == kNull) return true;
  return given.kind() == kObject && wanted == kMap;
}

const Overload* FindOverload(const Function& function, bool member,
                             std::span<const Value> arguments) {
  for (const Overload& overload : function.overloads) {
    if (overload.member != member || overload.count != arguments.size()) continue;
    bool fits = true;
    for (std::size_t i = 0; i < arguments.size() && fits; ++i) {
      fits = overload.parameters[i] == kDyn || overload.parameters[i] == arguments[i].TypeKind();
    }
    if (fits) return &overload;
  }
  return nullptr;
}

std::string Usage(const Function& function) {
  std::string usage;
  for (const Overload& overload : function.overloads) {
    if (!usage.empty()) usage += ", ";
    std::size_t i = 0;
    if (overload.member) usage += std::string(KindName(overload.parameters[i++])) + '.';
    usage += std::string(function.name) + '(';
    for (const std::size_t first = i; i < overload.count; ++i) {
      usage += (i > first ? ", " : "") + std::string(KindName(overload.parameters[i]));
    }
    usage += ')';
  }
  return usage;
}

}  // namespace headworks::expr::internal
