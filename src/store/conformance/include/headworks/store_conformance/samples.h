#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "headworks/store/run_store.h"

/// Rows to write and texts to compare them by.
namespace headworks::store::conformance {

inline const TenantId kTenant{"acme"};
inline const TenantId kOtherTenant{"zeta"};
inline constexpr Shard kShard{7};
inline constexpr Shard kOtherShard{8};
inline constexpr Duration kTtl = std::chrono::seconds(10);
inline constexpr Instant kT0{Duration(1'700'000'000'000'000)};

/// A header in which every field differs from its default and depends on `run`.
model::RunHeader FullHeader(RunNo run, const TenantId& tenant = kTenant);
/// A running one without anything special.
model::RunHeader PlainHeader(RunNo run, const TenantId& tenant = kTenant);
/// With an end if it is one, and nothing to wait for if it is pending.
void SetState(model::RunHeader& header, model::RunState state);
RunWrite NewRun(model::RunHeader header, std::string input = R"({"n":1})");
RunWrite UpdateRun(model::RunHeader header);
RunWrite::TaskWrite TaskAt(std::uint32_t task, model::TaskState state,
                           std::optional<std::string> output = std::nullopt);
model::AttemptRecord AttemptAt(std::uint32_t task, std::int64_t epoch);
InboxRow Message(std::string kind, std::string dedupe_key, RunNo run = {},
                 const TenantId& tenant = kTenant);

// Every field, in one line, so that a difference shows itself.
std::string Text(const Guard& guard);
std::string Text(const model::RunHeader& header);
std::string Text(const model::StoredTask& task);
std::string Text(const model::AttemptRecord& attempt);
std::string Text(const model::RunEventRecord& event);
std::string Text(const RunImage& image);
std::string Text(const TaskEnd& end);
std::string Text(const RunRecord& run);
std::string Text(const TaskRecord& task);
std::string Text(const InboxRow& row);
std::string Text(const Answer& answer);
std::string Text(const WorkflowRecord& record);
std::string Text(const PoolRecord& p);
std::string Text(const Permit& p);
std::string Text(const Instant& instant);
std::string Text(const TenantId& tenant);
std::string Text(const RunNo& run);
std::string Text(std::size_t count);
std::string Text(const std::string& text);

template <typename T>
std::string Text(const std::vector<T>& items) {
  std::string text = "[";
  for (const T& item : items) text += Text(item) + "\n ";
  return text + "]";
}
template <typename T>
std::string Text(const std::optional<T>& item) {
  return item ? Text(*item) : "none";
}
template <typename T>
std::string Text(const Result<T>& result) {
  if (!result) return "error " + std::string(CodeName(result.error().code));
  if constexpr (std::is_void_v<T>) {
    return "ok";
  } else {
    return Text(*result);
  }
}

/// "ok", or the code's name: what tests compare.
template <typename T>
std::string CodeOf(const Result<T>& result) {
  return result ? "ok" : std::string(CodeName(result.error().code));
}

}  // namespace headworks::store::conformance

/// Expects success and shows the error's message otherwise.
#define EXPECT_OK(expression)                                                     \
  do {                                                                            \
    const auto& expect_ok_result = (expression);                                  \
    EXPECT_TRUE(expect_ok_result.has_value())                                     \
        << #expression << ": "                                                    \
        << (expect_ok_result ? std::string() : expect_ok_result.error().message); \
  } while (false)
#define EXPECT_CODE(expression, expected)                                                         \
  EXPECT_EQ(::headworks::store::conformance::CodeOf(expression), ::headworks::CodeName(expected)) \
      << #expression
