#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/model/run.h"
#include "headworks/model/workflow.h"

namespace headworks::engine {

/// How many runs of a workflow are under way, and which wait for a place, where the workflow says
/// `max_active_runs`.
///
/// The count follows the commits; what the round under way adds to it is forgotten when the next
/// one begins, whatever became of it. Threads.  Control thread only. Bounds.  As many waiting runs
/// as the store has pending ones; 50 bytes each.
class ActiveRuns {
 public:
  bool Knows(const model::Namespace& name) const { return workflows_.contains(name); }
  /// From now on the workflow is counted; `active` are under way in the store, and the round under
  /// way has started `starting`.
  void Learn(const model::Namespace& name, std::size_t active, std::size_t starting);
  void BeginRound();
  /// Whether there is a place for one more; if not, the run waits.  Of a workflow that is known.
  bool Take(const model::RunHeader& run, std::size_t limit);
  /// The round under way made a run active: started or rerun, with or without a place.
  void Started(const model::Namespace& name);
  /// A commit made a run of the workflow active, or no longer active.
  void Changed(const model::Namespace& name, bool active);
  /// The run that is to try next, highest priority first; it no longer waits.
  std::optional<RunNo> Next(const model::Namespace& name);
  bool IsWaiting(RunNo run) const { return waiting_.contains(run); }
  /// The run does not start any more.
  void Forget(RunNo run);
  /// One waiting run of each workflow.
  std::vector<std::pair<TenantId, RunNo>> Heads() const;

 private:
  /// Higher priority first, then in order of age.
  using Place = std::pair<int, RunNo>;
  struct Counts {
    std::size_t active = 0;
    std::size_t starting = 0;  // in the round under way
    std::set<Place> waiting;
  };

  std::map<model::Namespace, Counts> workflows_;
  std::unordered_map<RunNo, std::pair<model::Namespace, Place>> waiting_;
};

}  // namespace headworks::engine
