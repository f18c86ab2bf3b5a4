#pragma once

#include <memory>

#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/store/run_store.h"
#include "headworks/store/worker_store.h"
#include "headworks/task_queue/queues.h"

/// The reference store: what it answers, every other store must answer, call by call.  Also the
/// simulator's: deterministic, no I/O, no thread of its own.
namespace headworks::store_memory {

/// What a disk is to other stores: survives the databases that are opened on it.
class Storage;
/// Shared, because it lives as long as the last database on it and the test that reopens it.
std::shared_ptr<Storage> NewStorage();

class Database : public store::Database {
 public:
  virtual task_queue::Queues& queues() = 0;
  virtual store::WorkerStore& workers() = 0;
};

/// Opens a database on `storage`.  Dropping it without Release is a crash: nothing committed is
/// lost, and leases run on until they end.  `clock.Monotonic()` is the store's clock for leases;
/// queues use its wall time, too.  `logger` is told of items that were dropped; null = silent.
///
/// Threads.  Databases on one storage may be used concurrently; one mutex guards the storage.
std::unique_ptr<Database> Open(std::shared_ptr<Storage> storage, Clock& clock,
                               Logger* logger = nullptr);

}  // namespace headworks::store_memory
