#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headworks/base/result.h"
#include "sqlite.h"

/// The tables, and how a file of any level comes to this program's.
namespace headworks::store_sqlite {

/// "HWST": marks a file as ours.
inline constexpr std::int64_t kApplicationId = 0x48575354;

/// One step from `level - 1` to `level`.  Steps only expand (add tables, columns with a default,
/// indexes), so that programs from `min_program_level` on go on working beside this one.
struct Migration {
  int level;
  int min_program_level;
  const char* what;
  const char* sql;
};
/// In order of level, from 1.
std::span<const Migration> Migrations();

struct Levels {
  int schema = 0;  // 0 = an empty file
  int min_program = 0;
};

/// kInvalidArgument if the file holds something else; kConflict if it needs a newer program than
/// one of `program_level`.
Result<Levels> CheckLevels(Connection& connection, int program_level);

/// Applies what is missing of `to`, in one transaction, and returns it.  Other processes may do so
/// at the same time: one of them does it.
Result<std::vector<Migration>> ApplyMigrations(Connection& connection,
                                               std::span<const Migration> to);

}  // namespace headworks::store_sqlite
