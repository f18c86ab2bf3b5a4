#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headworks/task_queue/rules.h"
#include "sqlite.h"

namespace headworks::store_sqlite {

/// The time of the file's queues, given what the clock says.  With `may_write` they begin to count
/// from now if they have not yet done so in this boot.
Result<task_queue::QueueTime> ReadQueueTime(Connection& connection,
                                            const task_queue::QueueTime& clock, bool may_write);

/// What the queue ports do, within a transaction of `connection` that the caller began and ends.
/// Arguments were checked.  Errors are those of the ports; then the caller rolls back.
class QueueTransaction {
 public:
  QueueTransaction(Connection& connection, const TenantId& tenant, std::string_view queue,
                   const task_queue::QueueTime& now)
      : c_(connection), tenant_(tenant), queue_(queue), now_(now) {}

  /// `digests`: of their payloads.
  Result<std::vector<task_queue::Enqueued>> Enqueue(std::span<const task_queue::NewItem> items,
                                                    std::span<const std::int64_t> digests);
  /// As many as there is room for; returns how many were left out.
  Result<std::size_t> EnqueueWhatFits(std::span<const task_queue::NewItem> items,
                                      std::span<const std::int64_t> digests);
  /// An item that is damaged is dead from now on: see `damaged`.
  Result<task_queue::Polled> Poll(const task_queue::PollRequest& request);
  /// What is wrong with items that were set aside.
  const std::vector<std::string>& damaged() const { return damaged_; }
  Result<std::vector<Result<task_queue::ItemState>>> Settle(
      std::span<const task_queue::Settlement> settlements);
  Result<std::vector<Status>> Extend(std::span<const task_queue::Claim> claims,
                                     Duration visibility);
  Result<task_queue::ItemState> Cancel(std::string_view id);

  Result<task_queue::QueueSettings> Configure(const task_queue::SettingsChange& change);
  Status SetPaused(bool paused);
  Result<task_queue::QueueRecord> GetQueue();
  Result<std::vector<task_queue::ItemRecord>> ListItems(const task_queue::ItemFilter& filter);
  Result<task_queue::QueueAdmin::ItemWithPayload> GetItem(std::string_view id);
  Result<task_queue::Moved> Redrive(const task_queue::ItemFilter& filter);
  Result<task_queue::Moved> Purge(const task_queue::ItemFilter& filter);
  Result<task_queue::Moved> Delete();
  Result<task_queue::Swept> Sweep(std::size_t limit);

  /// The queues, of all tenants, in which Sweep would find something.  Reads only, one statement
  /// for most.
  using Name = std::pair<TenantId, std::string>;
  static Result<std::vector<Name>> NeedSweep(Connection& connection,
                                             const task_queue::QueueTime& now);
  /// As `Polled::next`.  Reads only.
  Result<std::optional<Duration>> UntilNext();

  static Result<std::vector<task_queue::TenantQueue>> ListAll(Connection& connection);
  Result<std::vector<task_queue::ItemRecord>> ListDead(
      const task_queue::QueueSurvey::DeadAfter& after, std::size_t limit);

  static Result<std::vector<task_queue::QueueRecord>> ListQueues(Connection& connection,
                                                                 const TenantId& tenant,
                                                                 const task_queue::QueueTime& now);

 private:
  using Items = std::vector<task_queue::ItemRecord>;
  struct Forgotten {
    std::size_t count = 0;
    bool more = false;
  };

  /// Reads the queue's row; false if there is none.
  Result<bool> Load();
  Status MustLoad();
  Status LoadOrMake();
  Status Store();
  Result<std::int64_t> NextNo();
  Status SetNextNo(std::int64_t next);

  Result<task_queue::Enqueued> EnqueueOne(const task_queue::NewItem& item, std::int64_t digest,
                                          std::int64_t& next_no);
  Result<Items> Available(std::size_t limit, std::size_t max_bytes);
  /// Calls `each(priority, first available)` for each priority, from the highest on, while it says
  /// true.
  template <typename Each>
  Status ForEachLevel(Each each);
  Result<std::optional<Instant>> FirstAvailable();
  Result<task_queue::QueueRecord> Described();

  /// For one whose row is known.
  Result<bool> NeedsSweep();
  Result<std::size_t> EndLeases(std::size_t limit);
  /// Of the lease that ends first; none = there is none.  Reads only.
  Result<std::optional<Duration>> UntilLeaseEnds();
  Result<Forgotten> ForgetOld(std::size_t limit);
  Status Remove(const task_queue::ItemRecord& item);
  /// Stores what changed of an item, and takes its payload away once it is not kept any more.
  Status Update(const task_queue::ItemRecord& item);
  Result<std::optional<task_queue::ItemRecord>> Find(task_queue::ItemNo no);
  Result<std::optional<task_queue::ItemRecord>> FindId(std::string_view id);
  Result<std::string> Payload(task_queue::ItemNo no);
  /// One that was claimed becomes dead.
  Status SetAside(task_queue::ItemRecord& item, const std::string& why);
  Result<Items> Fitting(const task_queue::ItemFilter& filter,
                        std::span<const task_queue::ItemState> usual, std::size_t limit);
  template <typename Change>
  Result<task_queue::Moved> MoveItems(const task_queue::ItemFilter& filter,
                                      std::span<const task_queue::ItemState> usual, Change change);

  Connection& c_;
  const TenantId tenant_;
  const std::string queue_;
  const task_queue::QueueTime now_;
  task_queue::QueueRow row_;
  std::vector<std::string> damaged_;
};

}  // namespace headworks::store_sqlite
