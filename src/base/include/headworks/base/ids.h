#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace headworks {

/// An integer that is one kind of id only.  Explicit conversion in, `.value` out.
template <typename Tag, typename Rep>
struct StrongId {
  Rep value{};

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : value(v) {}
  constexpr auto operator<=>(const StrongId&) const = default;
};

/// Rising number of a run in its store; primary key of everything that belongs to the run.
using RunNo = StrongId<struct RunNoTag, std::int64_t>;
/// Position of a task in its workflow version, 0-based, in topological order.  A run pins one
/// version, so the number means the same task for the whole life of the run.
using TaskNo = StrongId<struct TaskNoTag, std::uint32_t>;
/// Number of an attempt within its run: one counter per run, so epochs rise per task and never
/// repeat.  0 = no attempt yet.
using Epoch = StrongId<struct EpochTag, std::int64_t>;
/// Fixed slice of workflows; stored in the row, never recomputed.
using Shard = StrongId<struct ShardTag, std::int32_t>;
/// Number of an ownership of a shard: rises with every change of owner (I3).
using Term = StrongId<struct TermTag, std::int64_t>;
/// Number of a round of one shard; rises by one per committed round.
using RoundNo = StrongId<struct RoundNoTag, std::int64_t>;

inline constexpr int kShardCount = 64;

/// Which tenant a call speaks for.  Never empty; a missing tenant is an error (I13).
struct TenantId {
  std::string value;

  TenantId() = default;
  explicit TenantId(std::string v) : value(std::move(v)) {}
  auto operator<=>(const TenantId&) const = default;
};

/// Public name of a run (UUIDv7 text, 36 characters).
struct RunId {
  std::string value;

  RunId() = default;
  explicit RunId(std::string v) : value(std::move(v)) {}
  auto operator<=>(const RunId&) const = default;
};

}  // namespace headworks

template <typename Tag, typename Rep>
struct std::hash<headworks::StrongId<Tag, Rep>> {
  std::size_t operator()(headworks::StrongId<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
