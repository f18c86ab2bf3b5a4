#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/time.h"

namespace headworks::engine {

/// How ready tasks are ordered.
struct ReadyOrder {
  /// Tasks that a tenant may queue in its turn; 1 for tenants that are not named.
  std::map<std::string, std::uint32_t, std::less<>> tenant_weights;
  /// Waiting so long counts as much as one step of priority.  Zero: it counts for nothing.
  Duration ageing = std::chrono::minutes(1);
};

struct ReadyTask {
  std::int64_t rank = 0;    // smaller = earlier
  std::uint64_t order = 0;  // among equals
  RunNo run;
  TaskNo task;
  bool operator<(const ReadyTask& other) const {
    return rank != other.rank ? rank > other.rank : order > other.order;
  }
};

/// Ready tasks of a lane that wait for credit.  Tenants take turns, each for as many tasks as it
/// weighs (deficit round-robin; every task costs one).  Within a tenant the highest priority comes
/// first, to which waiting adds, then the oldest.
///
/// Where the lane has lines, those of a tenant that have no credit are passed over: a step looks at
/// one line, whatever the number of lines.
class ReadyQueue {
 public:
  enum class Credit : std::uint8_t {
    kSome,
    kNotThisLine,
    kNotThisTenant,  // none of its lines
  };
  using GetCredit = std::function<Credit(const std::string& tenant, const std::string& line)>;
  /// Lines of a tenant that may be found without credit from one Reopen to the next.
  static constexpr std::size_t kMostClosed = 1'000;

  /// `order` is borrowed.
  explicit ReadyQueue(const ReadyOrder& order) : order_(&order) {}

  /// Of a task that became ready at `since` of the monotonic clock.  Priority grows with time at
  /// the same rate for all, so their order among themselves is known at once.
  std::int64_t Rank(int priority, Duration since) const;

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  void Push(const TenantId& tenant, const ReadyTask& task);
  ReadyTask Pop();

  /// For lanes with lines, in place of the above.  May be called between two PopFromLines.
  void PushToLine(const TenantId& tenant, const std::string& line, const ReadyTask& task);
  /// The next one whose line has credit; nullopt: there is none, or too many had none.  A line that
  /// has none is not asked about again until Reopen.
  std::optional<ReadyTask> PopFromLines(const GetCredit& get_credit);
  /// Where too many had none, those of the tenant that were not asked about yet are next; it is
  /// begun anew when fewer had none.
  void Reopen();
  /// Since Reopen, a tenant had too many without credit: some lines were not asked about.
  bool is_cut() const { return cut_; }

 private:
  using Tasks = std::priority_queue<ReadyTask>;
  struct Line {
    Tasks ready;
    bool closed = false;  // it had no credit
  };
  using Lines = std::map<std::string, Line>;
  struct Head {
    ReadyTask first;
    Lines::iterator line;
    bool operator<(const Head& other) const { return other.first < first; }
  };
  struct Tenant {
    std::uint32_t weight = 1;
    std::uint32_t left = 1;  // of its turn
    Tasks ready;
    Lines lines = {};          // those with ready tasks; then `ready` is empty
    std::set<Head> open = {};  // of those that are not closed
    std::vector<Lines::iterator> closed = {};
    std::size_t asked = 0;  // found without credit since Reopen
    bool passed_over = false;
    bool idle = false;     // it was passed over because none of its lines was open
    bool resumed = false;  // ... and one was since; passed_over_ still has it
  };
  using Tenants = std::map<std::string, Tenant, std::less<>>;
  Tenants::iterator TenantOf(const TenantId& tenant);
  ReadyTask Take(Tasks& ready);
  /// One of its tasks was taken: the next has its turn if this one's is over.
  void TookTurn(Tenants::iterator tenant);

  const ReadyOrder* order_;
  Tenants tenants_;  // those with ready tasks
  std::deque<Tenants::iterator> turns_;
  std::vector<Tenants::iterator> closed_;       // those with closed lines
  std::vector<Tenants::iterator> passed_over_;  // not in turns_ until Reopen
  bool cut_ = false;
  std::size_t size_ = 0;
};

}  // namespace headworks::engine
