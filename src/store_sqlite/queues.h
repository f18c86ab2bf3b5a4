#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>

#include "core.h"
#include "group_writer.h"
#include "headworks/store/run_store.h"
#include "headworks/task_queue/queues.h"
#include "queue_transaction.h"

namespace headworks::store_sqlite {

/// The clock of a database, as queues look at it.
class QueueClock {
 public:
  explicit QueueClock(Core& core);
  task_queue::QueueTime Read() const { return {core_.Now(), core_.Monotonic(), boot_}; }

 private:
  Core& core_;
  const std::int64_t boot_;
};

/// Rings a database's bell for what other processes (and transactions of other connections) made
/// available: while somebody waits, a thread looks every 20 ms whether anything was committed.
class QueueWatch {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(20);

  QueueWatch(Core& core, task_queue::Bell& bell, const QueueClock& clock);

 private:
  void Loop(const std::stop_token& stop);
  /// Rings where what is next is another than at the last look.
  void Look();

  Core& core_;
  task_queue::Bell& bell_;
  const QueueClock& clock_;
  /// When something is next in those that are waited for; kNever = nothing is known to come.
  std::map<task_queue::Bell::Queue, Instant> next_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last: stops first
};

/// Enqueues the items of a round within its transaction, as far as there is room and they can be
/// written (the log names those that cannot); returns how many were left out.
Result<std::size_t> EnqueueRoundItems(Connection& connection, const QueueClock& clock,
                                      std::span<const store::QueuedItem> items, Logger& log);

class SqliteQueues final : public task_queue::Queues,
                           public task_queue::TaskQueue,
                           public task_queue::QueueAdmin,
                           public task_queue::QueueSurvey {
 public:
  explicit SqliteQueues(Core& core);

  task_queue::TaskQueue& tasks() override { return *this; }
  task_queue::QueueAdmin& admin() override { return *this; }
  task_queue::QueueSurvey& survey() override { return *this; }
  task_queue::Bell& bell() override;

  Result<std::vector<task_queue::Enqueued>> Enqueue(
      const TenantId& tenant, std::string_view queue,
      std::span<const task_queue::NewItem> items) override;
  Result<task_queue::Polled> Poll(const task_queue::PollRequest& request) override;
  Result<std::vector<Result<task_queue::ItemState>>> Settle(
      const TenantId& tenant, std::string_view queue,
      std::span<const task_queue::Settlement> settlements) override;
  Result<std::vector<Status>> Extend(const TenantId& tenant, std::string_view queue,
                                     std::span<const task_queue::Claim> claims,
                                     Duration visibility) override;
  Result<task_queue::ItemState> Cancel(const TenantId& tenant, std::string_view queue,
                                       std::string_view id) override;

  Result<task_queue::QueueSettings> Configure(const TenantId& tenant, std::string_view queue,
                                              const task_queue::SettingsChange& change) override;
  Status SetPaused(const TenantId& tenant, std::string_view queue, bool paused) override;
  Result<task_queue::QueueRecord> GetQueue(const TenantId& tenant, std::string_view queue) override;
  Result<std::vector<task_queue::QueueRecord>> ListQueues(const TenantId& tenant) override;
  Result<std::vector<task_queue::ItemRecord>> ListItems(
      const TenantId& tenant, std::string_view queue,
      const task_queue::ItemFilter& filter) override;
  Result<ItemWithPayload> GetItem(const TenantId& tenant, std::string_view queue,
                                  std::string_view id) override;
  Result<task_queue::Moved> Redrive(const TenantId& tenant, std::string_view queue,
                                    const task_queue::ItemFilter& filter) override;
  Result<task_queue::Moved> Purge(const TenantId& tenant, std::string_view queue,
                                  const task_queue::ItemFilter& filter) override;
  Result<task_queue::Moved> Delete(const TenantId& tenant, std::string_view queue) override;
  Result<task_queue::Swept> Sweep(std::size_t limit) override;

  Result<std::vector<task_queue::TenantQueue>> ListAll() override;
  Result<std::vector<task_queue::ItemRecord>> ListDead(const TenantId& tenant,
                                                       std::string_view queue,
                                                       const DeadAfter& after,
                                                       std::size_t limit) override;

 private:
  /// Runs `body(QueueTransaction&)` in a transaction.
  template <typename Body>
  std::invoke_result_t<Body, QueueTransaction&> Write(const TenantId& tenant,
                                                      std::string_view queue, Body body) {
    return writer_.Write([&](Connection& c) -> std::invoke_result_t<Body, QueueTransaction&> {
      HEADWORKS_ASSIGN(const auto now, ReadQueueTime(c, clock_.Read(), true));
      QueueTransaction transaction(c, tenant, queue, now);
      return body(transaction);
    });
  }
  template <typename Body>
  std::invoke_result_t<Body, QueueTransaction&> Read(const TenantId& tenant, std::string_view queue,
                                                     Body body) {
    return core_.Read([&](Connection& c) -> std::invoke_result_t<Body, QueueTransaction&> {
      HEADWORKS_ASSIGN(const auto now, ReadQueueTime(c, clock_.Read(), false));
      QueueTransaction transaction(c, tenant, queue, now);
      return body(transaction);
    });
  }

  Core& core_;
  const QueueClock clock_;
  GroupWriter writer_;
  task_queue::Bell bell_;
  std::once_flag watch_once_;
  std::optional<QueueWatch> watch_;  // last: uses all of the above
};

}  // namespace headworks::store_sqlite
