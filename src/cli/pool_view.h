#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "session.h"

namespace headworks::cli {

/// An attempt that holds permits.
struct PermitHolder {
  RunNo run;
  std::string task;  // its id; empty = it cannot be told
  int permits = 1;
  Instant since{};
};

/// A pool as people see it.
struct PoolView {
  std::string name;
  /// None: it is not declared (any more), but permits of it are held.
  std::optional<int> limit;
  bool by_configuration = false;
  std::int64_t held = 0;
  /// In the order in which they were granted.
  std::vector<PermitHolder> holders;
};

/// Whether the tasks of holders are named, for which a version is loaded for each workflow.
enum class HolderNames : bool { kNo, kYes };

/// All pools, by name.
Result<std::vector<PoolView>> ReadPools(const Context& context, Runner& runner, HolderNames names);

}  // namespace headworks::cli
