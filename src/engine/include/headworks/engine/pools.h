#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/time.h"
#include "headworks/engine/ready_queue.h"
#include "headworks/engine/stats.h"
#include "headworks/store/run_store.h"

namespace headworks::engine {

/// A ready task and the permits that it needs.
struct PermitAsk {
  TenantId tenant;
  std::string pool;
  int weight = 1;
  ReadyTask ready;
};

/// Who holds permits of pools, and who waits for them.
///
/// The idea.  Tasks that wait stand in the line of their pool, in the order of the ready queue:
///   priority, to which waiting adds, then age.  What is freed is saved up until the first one has
///   enough, so that a heavy ask among light ones gets its turn.  One that could have its permits
///   goes back to the ready queue and competes for credit; meanwhile they are reserved for it, at
///   most for kReserved: an executor without credit holds up no other.  An ask above the limit
///   stands aside until the limit is raised.
/// Rounds.  What is held follows the commits.  What the round under way takes and frees counts at
///   once, and is forgotten when the next one begins without its commit.
/// Threads.  Control thread only.
/// Bounds.  As many waiting asks as there are ready tasks in memory.
class Pools {
 public:
  static constexpr Duration kReserved = std::chrono::seconds(5);
  /// A limit that was read longer ago is read again before permits are granted.
  static constexpr Duration kFresh = std::chrono::seconds(1);

  /// What is held according to the store.
  void Load(std::span<const store::Permit> held);
  /// Pools that are not among them have no permits.
  void SetLimits(const TenantId& tenant, std::span<const store::PoolRecord> pools, Duration now);
  bool IsFresh(const TenantId& tenant, Duration now) const;
  /// Tenants with waiting tasks whose limits are to be read again.
  std::vector<TenantId> Stale(Duration now) const;

  /// Whether a task for which there is credit gets its permits.
  bool MayTake(const PermitAsk& ask, Duration now) const;
  /// From now on it stands in the line of its pool.
  void Wait(const PermitAsk& ask);
  /// Takes the permits in the round under way; the task no longer waits.
  void Take(const TenantId& tenant, const std::string& pool, int weight, RunNo run, TaskNo task,
            Epoch epoch);
  /// Frees them in the round under way.
  void Free(RunNo run, Epoch epoch);
  void BeginRound();
  void Committed();

  /// The task, or all of the run, waits no more.
  void Forget(RunNo run, TaskNo task);
  void Forget(RunNo run);
  /// Whether a task of the run waits.
  bool IsWaiting(RunNo run) const;
  /// Those that could have their permits now, each once per reservation: they compete for credit.
  std::vector<PermitAsk> Reserve(Duration now);
  /// When to call Reserve again though nothing has changed, by the monotonic clock.
  Duration due() const { return due_.empty() ? Duration::max() : due_.begin()->first; }
  /// Pools at which Reserve has looked: those alone that changed, or were due.
  std::uint64_t looks() const { return looks_; }

  std::size_t waiting() const { return asks_.size(); }
  /// Of these, what waits until a limit is raised.
  std::size_t above_limit() const { return aside_; }
  /// Those that the pool could serve one day: as many are looked at, at most, to grant one.
  std::size_t in_line(const TenantId& tenant, const std::string& pool) const {
    return pools_.at({tenant.value, pool}).line.size();
  }
  /// Those that tasks have asked for, in order of tenant and name.
  std::vector<PoolStats> Figures() const;
  /// Permits of all pools that are held, as committed.
  std::int64_t used() const { return used_; }
  /// As committed; when they were granted is not known here.
  std::vector<store::Permit> Held() const;

 private:
  using Place = std::pair<std::int64_t, std::uint64_t>;  // rank, order
  struct Ask {
    int weight;
    ReadyTask ready;
    std::optional<Duration> reserved_at;  // competes for credit since then
  };
  struct Pool {
    int limit = 0;
    std::int64_t used = 0;   // committed
    std::int64_t delta = 0;  // of the round under way
    std::map<Place, Ask> line;
    std::map<Place, Ask> aside;     // above the limit
    std::map<Place, Ask> passed;    // gave up what was reserved for them
    bool changed = false;           // then it is in changed_
    std::optional<Duration> due{};  // then it is in due_
    std::map<Place, Ask>& LineOf(int weight) { return weight > limit ? aside : line; }
    std::int64_t free() const { return limit - used - delta; }
    bool waits() const { return !(line.empty() && aside.empty() && passed.empty()); }
    bool idle() const { return !waits() && used == 0 && delta == 0 && !changed && !due; }
  };
  using Key = std::pair<std::string, std::string>;  // tenant, pool
  using Pooled = std::map<Key, Pool>;
  struct Holding {
    Pooled::iterator pool;
    TaskNo task;
    int weight;
  };
  using Holder = std::pair<RunNo, Epoch>;
  struct Standing {
    Pooled::iterator pool;
    Place place;
  };

  static Place PlaceOf(const ReadyTask& ready) { return {ready.rank, ready.order}; }
  static bool GaveUp(const Ask& ask, Duration now);
  void SetLimit(Pooled::iterator at, int limit);
  /// Reserve is to look at it.
  void Changed(Pooled::iterator pool);
  void SetDue(Pooled::iterator pool, std::optional<Duration> due);
  void Reserve(Pooled::iterator at, Duration now, std::vector<PermitAsk>& reserved);
  void Erase(std::map<std::pair<RunNo, TaskNo>, Standing>::iterator ask);

  Pooled pools_;
  std::map<std::string, Duration> read_at_;  // by tenant
  std::map<Holder, Holding> held_;
  std::vector<std::pair<Holder, Holding>> taken_;  // in the round under way
  std::vector<Holder> freed_;
  std::map<std::pair<RunNo, TaskNo>, Standing> asks_;
  std::map<std::string, std::size_t> waiting_;  // by tenant; none is 0
  std::int64_t used_ = 0;
  std::size_t aside_ = 0;
  std::vector<Pooled::iterator> changed_;
  std::set<std::pair<Duration, Key>> due_;
  std::uint64_t looks_ = 0;
};

}  // namespace headworks::engine
