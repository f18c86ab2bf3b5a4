#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"

namespace headworks::store {

/// Whether a worker is there, as far as the engine knows.
enum class WorkerPresence : std::uint8_t {
  kHeard = 1,
  /// Nothing was heard for two heartbeats: its lease is running out.
  kSilent = 2,
  /// It left, or its lease has ended.  Terminal: who comes again is another incarnation, or
  /// registers anew.
  kGone = 3,
};

/// A worker as the engine last wrote it down.  Two processes of one name are two workers.
struct WorkerRecord {
  struct Queue {
    std::string name;
    std::uint32_t slots = 0;
    /// Of its slots those with an attempt, and of those the ones whose code was let in.
    std::uint32_t held = 0, running = 0;
    bool operator==(const Queue&) const = default;
  };
  TenantId tenant;
  std::string name;
  std::string incarnation;
  WorkerPresence presence = WorkerPresence::kHeard;
  std::vector<Queue> queues;  // by name
  std::vector<std::string> labels;
  /// Of its program, for people.
  std::string version, host;
  std::int32_t protocol = 0;
  /// When it registered with the engine that wrote this, or with the one before.
  Instant connected_at{};
  Instant heard_at{};
  Instant written_at{};
  /// kGone: since when, and why.
  Instant gone_at{};
  std::string gone_why;
  /// Of ListPresent: why its labels and queues are not there; empty = they are.  Not stored.
  std::string fault{};
  bool operator==(const WorkerRecord&) const = default;
};

/// What an operator wants of workers, and who said so when.
struct WorkerOrder {
  TenantId tenant;
  std::string name;
  /// Empty = cordon: whoever is called so gets nothing new.  Else this one is to drain and leave.
  std::string incarnation;
  /// False: it was taken back.
  bool stands = true;
  std::string actor;
  Instant at{};
  /// The engine goes by it.
  bool taken = false;
  bool operator==(const WorkerOrder&) const = default;
};

/// Who works for the engine of this store, as it last wrote them down, and what operators want of
/// them, by which it goes.
///
/// Threads.  All methods may be called concurrently.
class WorkerStore {
 public:
  /// A worker that is gone is remembered for so long, counted by the engine's `now` ...
  static constexpr Duration kGoneTtl = std::chrono::hours(24);
  /// ... if no more of its tenant have gone since.
  static constexpr std::size_t kMaxGone = 1'000;
  /// Orders that stand, of one tenant.
  static constexpr std::size_t kMaxOrders = 10'000;
  /// The engine writes whoever is there at least so often.
  static constexpr Duration kRewritten = std::chrono::seconds(30);

  virtual ~WorkerStore() = default;
  /// The engine's: all of them or none, each in place of what was known of that incarnation.
  /// Forgets who has been gone for too long by `now`; then, and where nobody is written, orders to
  /// those who are not known any more, and orders that were taken back kGoneTtl ago.
  /// kInvalidArgument: a worker without tenant, name
  /// or incarnation, or who is gone since no time.
  virtual Status WriteWorkers(std::span<const WorkerRecord> workers, Instant now) = 0;
  /// Ordered by name, then when they connected.
  virtual Result<std::vector<WorkerRecord>> ListWorkers(const TenantId& tenant) = 0;
  /// The engine's: those that are not gone, of all tenants, ordered by tenant, name, incarnation.
  /// Of one whose row is damaged, what can be read, and `fault`.
  virtual Result<std::vector<WorkerRecord>> ListPresent() = 0;
  /// All of them or none, each in place of the one before to that name and incarnation.
  /// Of those that were taken back and that the engine goes by, it keeps kMaxOrders, the latest.
  /// kInvalidArgument: without tenant, name or actor; kAtCapacity: see kMaxOrders.
  virtual Status Order(std::span<const WorkerOrder> orders) = 0;
  /// Ordered by name, incarnation.
  virtual Result<std::vector<WorkerOrder>> ListOrders(const TenantId& tenant) = 0;
  /// The engine's: of all tenants, ordered by tenant, name, incarnation.
  virtual Result<std::vector<WorkerOrder>> ListAllOrders() = 0;
  /// The engine's: those of ListAllOrders that it does not go by yet.
  virtual Result<std::vector<WorkerOrder>> ListNewOrders() = 0;
  /// The engine's: it goes by these.  One that was replaced since is passed over.
  virtual Status NoteTaken(std::span<const WorkerOrder> orders) = 0;
};

}  // namespace headworks::store
