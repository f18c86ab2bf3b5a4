#pragma once

#include "headworks/base/random.h"
#include "headworks/base/time.h"
#include "headworks/control/control.h"
#include "headworks/engine/engine.h"
#include "headworks/store/run_store.h"
#include "headworks/store/worker_store.h"

namespace headworks {

/// Commands of workers go by the store, wherever the engine is.
class StoredControl : public control::Control {
 public:
  Result<control::WorkersCommanded> CommandWorkers(const control::WorkerCommand& command,
                                                   Duration timeout) final;

 protected:
  StoredControl(store::WorkerStore& workers, Clock& clock) : workers_(workers), clock_(clock) {}

 private:
  store::WorkerStore& workers_;
  Clock& clock_;
};

/// Control over the engine of this process: by its mailbox.
class EngineControl final : public StoredControl {
 public:
  EngineControl(engine::Engine& engine, store::WorkerStore& workers, Clock& clock)
      : StoredControl(workers, clock), engine_(engine) {}
  Result<control::Started> Start(const control::StartRequest& request, Duration timeout) override;
  Status Execute(const control::Command& command, Duration timeout) override;

 private:
  engine::Engine& engine_;
};

/// Control over an engine somewhere else: by the store's inbox, and by asking for the answer.
class InboxControl final : public StoredControl {
 public:
  InboxControl(store::Database& database, store::WorkerStore& workers, Clock& clock, Random& random)
      : StoredControl(workers, clock), database_(database), clock_(clock), random_(random) {}
  Result<control::Started> Start(const control::StartRequest& request, Duration timeout) override;
  Status Execute(const control::Command& command, Duration timeout) override;

 private:
  Result<store::Answer> Ask(store::InboxRow row, Duration timeout);

  store::Database& database_;
  Clock& clock_;
  Random& random_;
};

}  // namespace headworks
