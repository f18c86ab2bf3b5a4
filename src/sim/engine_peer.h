#pragma once

#include <optional>
#include <string>
#include <vector>

#include "headworks/engine/engine.h"

namespace headworks::engine {

/// What the simulator may see of an engine's memory.
class EnginePeer {
 public:
  /// A run in memory, if it is there and no round is under way.
  static const model::Run* Find(const Engine& engine, RunNo run) {
    if (!IsSettled(engine)) return nullptr;
    const auto slot = engine.slots_.find(run);
    return slot == engine.slots_.end() ? nullptr : &slot->second->run;
  }
  /// Memory equals the store: no delta is kept.
  static bool IsSettled(const Engine& engine) {
    return !engine.lost_ && !engine.pending_ && engine.isolated_.empty();
  }
  /// Attempts that the lanes count, minus those that the runs in memory have: 0.
  static std::int64_t LiveMismatch(const Engine& engine);
  /// A round that it made may yet be committed.
  static bool MayWriteYet(const Engine& engine);
  /// Who holds permits in memory, and who in the store.
  static bool HoldsAsStored(const Engine& engine, std::vector<store::Permit> stored);
  /// A task of this queue of workers that requires no label and that nobody has begun, though
  /// nothing else holds it up.
  static std::string WaitsForWorkers(const Engine& engine, std::string_view queue);
  /// Empty = nothing is left in memory; else what is.
  static std::string Leftovers(const Engine& engine);
};

}  // namespace headworks::engine
