#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/time.h"
#include "headworks/model/run.h"
#include "headworks/model/workflow.h"

namespace headworks::engine {

/// Runs that share a limit: all of a workflow (`max_active_runs`), or those with one concurrency
/// key.
struct RunGroup {
  model::Namespace name;
  std::optional<std::string> key{};
  auto operator<=>(const RunGroup&) const = default;
};

/// Those that a run belongs to.
inline std::vector<RunGroup> GroupsOf(const model::RunHeader& run) {
  std::vector<RunGroup> groups{{run.name}};
  if (run.concurrency_key) groups.push_back({run.name, run.concurrency_key});
  return groups;
}

/// How many runs of a group are under way, when they started, and which wait for a place, where
/// a workflow limits that.
///
/// The count follows the commits; what the round under way adds to it is forgotten when the next
/// one begins, whatever became of it.
/// Time.  All of it is of the monotonic clock: a wall clock that jumps opens no window of a rate.
/// Threads.  Control thread only.
/// Bounds.  As many waiting runs as the store has pending ones.  Of keys, those that
///   were used since the last Tidy; of each with a rate, the starts within its window.
class ActiveRuns {
 public:
  /// `count` of them under way at a time, and `rate` starts within `per`; 0 = no limit.
  struct Limit {
    std::size_t count = 0;
    std::size_t rate = 0;
    Duration per{0};
  };

  /// Nothing is counted: no workflow that limits its runs was used.
  bool empty() const { return groups_.empty() && waiting_.empty(); }
  /// False: it is to be learnt.
  bool Knows(const RunGroup& group, const Limit& limit) const;
  /// From now on the group is counted; `active` are under way in the store, and the round under
  /// way has started `starting`.  `starts`: when they began that did so within `limit.per`,
  /// ascending.
  void Learn(const RunGroup& group, const Limit& limit, std::size_t active, std::size_t starting,
             std::vector<Duration> starts);
  void BeginRound();
  /// Whether there may be a place for yet another one, once the one that asked last has started.
  bool MayHaveMore(const RunGroup& group) const;
  /// Whether there is a place for this one, which is not in the group's line.  Of a group that is
  /// known.  Nobody goes past one that is before it there, whatever limit each of them knows.
  bool HasPlace(const RunGroup& group, const Limit& limit, const model::RunHeader& run,
                Duration now);
  /// Whether the rate of the group, which is known, lets one more start now.
  bool WithinRate(const RunGroup& group, const Limit& limit, Duration now);
  /// From now on the run waits for a place in the group, and in no other.
  void Wait(const model::RunHeader& run, const RunGroup& group);
  /// It waits, but stands in no line: it is paused.
  void StandAside(const model::RunHeader& run, const RunGroup& group);
  bool StandsAside(RunNo run) const;
  /// The round under way made a run active: started or rerun, with or without a place.
  void Started(const RunGroup& group);
  /// A commit made a run of the group active, or no longer active.
  void Changed(const RunGroup& group, bool active);
  /// A commit started a run of the group: for the first time, so no rerun.
  void Begun(const RunGroup& group, Duration now);
  /// The run that is to try next, highest priority first; it no longer waits.
  std::optional<RunNo> Next(const RunGroup& group);
  bool IsWaiting(RunNo run) const { return waiting_.contains(run); }
  /// Runs that stand in a line, by what lets them start.
  struct Waiting {
    std::size_t for_workflow = 0;  // `max_active_runs`
    std::size_t for_key = 0;       // a place of their concurrency key
    std::size_t for_rate = 0;      // its rate
  };
  Waiting waiting() const;
  /// The run does not start any more.
  void Forget(RunNo run);
  /// One waiting run of each group.
  std::vector<std::pair<TenantId, RunNo>> Heads() const;
  /// Groups that a rate held up, and in which one may start by now.
  std::vector<RunGroup> TakeDue(Duration now);
  /// When there is one; max = nobody waits for a rate.
  Duration due() const { return due_.empty() ? Duration::max() : due_.begin()->first; }
  /// When a group's rate lets one more start; nothing = at once.
  std::optional<Duration> NextStart(const RunGroup& group) const;
  /// Forgets keys that nobody uses.
  void Tidy(Duration now);

 private:
  /// Higher priority first, then in order of age.
  using Place = std::pair<int, RunNo>;
  struct Counts {
    std::size_t active = 0;
    std::size_t starting = 0;  // in the round under way
    std::size_t widest = 0;    // the highest limit that somebody asked with; 0 = none
    Duration per{0};           // starts are known so far back
    std::deque<Duration> starts{};
    std::optional<Duration> due{};
    std::set<Place> waiting{};
  };
  using Groups = std::map<RunGroup, Counts>;

  Groups groups_;
  std::vector<RunGroup> started_;                // in the round under way
  std::set<std::pair<Duration, RunGroup>> due_;  // of groups with `due`
  static Place PlaceOf(const model::RunHeader& run) { return {-run.priority, run.run_no}; }

  std::unordered_map<RunNo, std::pair<RunGroup, Place>> waiting_;  // in a line, or aside
  std::size_t in_lines_of_workflows_ = 0, in_lines_of_keys_ = 0;
  std::size_t& InLinesOf(const RunGroup& group) {
    return group.key ? in_lines_of_keys_ : in_lines_of_workflows_;
  }

  void SetDue(Groups::iterator group, std::optional<Duration> due);
};

}  // namespace headworks::engine
