#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/executor_queue/queue_executor.h"
#include "headworks/store/run_store.h"
#include "headworks/store/worker_store.h"

namespace headworks {

/// Writes down who works for this engine, so that other processes can tell, also after its end; and
/// takes from the store what operators want of workers.
///
/// Rates.  One look a second, which writes what it found in transactions of at most kBatch workers.
///   Of one worker a row at a time: who came, went, fell silent or changed within kChanged of the
///   last one; who has other attempts than before within kLoad; who was merely heard within kHeard.
/// Orders.  Each kOrders it looks whether anybody has committed anything, and if so reads the new
///   ones; all of them at Open and each kForget.
/// Restarts.  Orders stand from Open on.  Who is in the store from before is silent until it
///   registers, and gone if it does not within a lease.
/// Life.  Open, then Start or Tick; the destructor stops.  All that it is given must outlive it.
/// Threads.  trouble() may be called concurrently; of the others one at a time.
/// Errors of the store are logged once, shown by trouble(), and tried again.
class WorkerRoster {
 public:
  static constexpr Duration kLook = std::chrono::seconds(1);
  static constexpr Duration kOrders = std::chrono::milliseconds(100);
  static constexpr Duration kChanged = std::chrono::seconds(1);
  static constexpr Duration kLoad = std::chrono::seconds(10);
  static constexpr Duration kHeard = store::WorkerStore::kRewritten;
  static constexpr std::size_t kBatch = 500;
  /// How often those who have been gone for too long are forgotten, and orders with them.
  static constexpr Duration kForget = std::chrono::minutes(10);

  struct Options {
    /// As of the queue executor.
    Duration lease{}, heartbeat_every{};
  };

  WorkerRoster(const Options& options, executor_queue::QueueExecutor& queue,
               store::WorkerStore& store, store::Inbox& inbox, Clock& clock, Logger& log)
      : options_(options), queue_(queue), store_(store), inbox_(inbox), clock_(clock), log_(log) {}
  ~WorkerRoster() { Stop(); }
  WorkerRoster(const WorkerRoster&) = delete;
  WorkerRoster& operator=(const WorkerRoster&) = delete;

  /// Takes over what an earlier engine left.
  Status Open();
  /// On a thread of its own from now on.
  void Start();
  /// Looks and writes, as far as it is time to; returns how long until the next time.
  Duration Tick();
  /// Writes down what was not yet.  Idempotent.
  void Close();
  /// Why the last look could not be written, or orders not be taken; empty = they were.
  std::string trouble() const;

 private:
  using Identity = worker_api::Identity;
  enum class Hurry : bool { kNo, kAll };
  struct Known {
    store::WorkerRecord row;     // as of the last look
    store::WorkerRecord stored;  // as it was written
    /// Has registered here; else an earlier engine knew it.
    bool ours = false;
    /// As the executor says of one that it does not have any more; nothing = it does not know.
    std::optional<executor_queue::Departure> departure{};
    std::optional<Duration> written;
    bool seen = false;  // at this look
  };

  Status Look(Hurry hurry);
  Status TakeOrders();
  /// Those that stand.
  executor_queue::WorkerOrders Standing() const;
  void See(const executor_queue::WorkerStatus& status);
  /// False: nothing is known of it any more, nor was it written down.
  bool Miss(Known& known, Duration now) const;
  static bool IsDue(const Known& known, Duration now);
  Status Write(std::span<Known* const> due, Duration now);
  /// `trouble` is that of what was done.
  void Note(const Status& done, std::string& trouble);
  void Stop();

  const Options options_;
  executor_queue::QueueExecutor& queue_;
  store::WorkerStore& store_;
  store::Inbox& inbox_;  // of the same database
  Clock& clock_;
  Logger& log_;

  std::map<Identity, Known> known_;
  Duration opened_{0}, forget_at_{0}, next_look_{0};
  std::map<Identity, store::WorkerOrder> orders_;  // of a cordon, without incarnation
  Duration all_orders_at_{0};                      // when all of them are read again
  std::int64_t version_ = -1;                      // of the store, when they were read last
  bool closed_ = false;

  mutable std::mutex mutex_;
  std::condition_variable_any stopped_;
  // Under mutex_.
  std::string look_trouble_, orders_trouble_;
  std::jthread thread_;  // last: stops first
};

}  // namespace headworks
