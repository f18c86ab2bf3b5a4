#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "headworks/base/ids.h"
#include "headworks/base/time.h"
#include "headworks/model/run.h"
#include "headworks/store/run_store.h"

namespace headworks::engine {

/// Tenants that have runs in the store which may be admitted, and how far the list of each was
/// read.
///
/// Tenants take turns, each for as many runs as its weight has part in the room (deficit
/// round-robin; every run costs one).  Of a tenant, runs whose time has come are first: they have
/// begun before.  Then those that wait for nothing, in the store's order.
///
/// What is before the cursor of a list is in memory, or was added since: so a run that is left to
/// the store costs a look at those behind it alone.
/// Threads.  Control thread only.
/// Bounds.  As many tenants as have such runs; of each, two cursors.
class DueTenants {
 public:
  using Place = store::RunStore::DueAfter;
  using Weights = std::map<std::string, std::uint32_t, std::less<>>;

  /// `weights` are borrowed; 1 for tenants that are not named.
  explicit DueTenants(const Weights& weights) : weights_(&weights) {}

  /// Where a run stands in its tenant's list.
  static Place PlaceOf(const model::RunHeader& run);

  bool empty() const { return turns_.empty(); }

  /// The tenant may have any, due until then.
  void AddAll(const TenantId& tenant, Instant until);
  /// One that waits for nothing was left to the store.
  void AddPending(const model::RunHeader& run);
  /// Some whose time has come, by `until`, were.
  void AddWoken(const TenantId& tenant, Instant until);

  /// What comes now has so much in common: `rows` to read, and `room` for runs.
  void ShareOut(std::size_t rows, std::size_t room);
  /// What is to be read next.
  struct Page {
    const TenantId& tenant;
    Instant until;
    Place after;
    std::size_t limit;
  };
  /// At most `rows` (> 0), where there is room for `room` (> 0) runs more.  Not while it is empty.
  Page Next(std::size_t rows, std::size_t room);
  /// The next one of the page is done with: it takes room, or was passed over.  False: the turn is
  /// over, and what is left of the page is for the tenant's next one.
  bool Passed(const Place& place, bool admitted);
  /// `complete`: nothing follows in the store.  Whoever does not call it goes on with this turn.
  void PageOver(bool complete);

 private:
  struct List {
    bool open = false;
    Place after{};
    Instant until{};
    std::optional<Place> again{};  // something was added behind `after`
    /// From there on it is to be read, if not now then again.
    void ReadFrom(const Place& place);
  };
  struct Tenant {
    std::uint32_t weight = 1;
    std::size_t left = 0;     // of its turn
    std::size_t skipped = 0;  // rows in a row
    bool progress = false;    // one of the page was admitted
    List woken{}, pending{};
    List& list() { return woken.open ? woken : pending; }
  };
  using Tenants = std::map<TenantId, Tenant>;
  Tenant& TenantOf(const TenantId& tenant);

  const Weights* weights_;
  Tenants tenants_;
  std::deque<Tenants::iterator> turns_;
  std::size_t weight_ = 0;  // of all
  std::size_t share_ = 1;   // runs in a turn, for each unit of weight
};

}  // namespace headworks::engine
