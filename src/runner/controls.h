#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headworks/base/random.h"
#include "headworks/base/time.h"
#include "headworks/control/control.h"
#include "headworks/engine/engine.h"
#include "headworks/store/run_store.h"
#include "headworks/store/worker_store.h"
#include "headworks/task_queue/queues.h"

namespace headworks {

/// What every control works with; all borrowed.
struct ControlPorts {
  store::WorkerStore& workers;
  task_queue::Queues& queues;
  Clock& clock;
  Random& random;
  /// That alerts go to.
  std::vector<std::string> alert_queues;
};

/// Commands of workers and test alerts go by the store, wherever the engine is.
class StoredControl : public control::Control {
 public:
  Result<control::WorkersCommanded> CommandWorkers(const control::WorkerCommand& command,
                                                   Duration timeout) final;
  Result<std::vector<control::AlertTested>> TestAlert(const TenantId& tenant,
                                                      std::string_view actor,
                                                      Duration timeout) final;

 protected:
  explicit StoredControl(ControlPorts ports) : ports_(std::move(ports)) {}

  const ControlPorts ports_;
};

/// Control over the engine of this process: by its mailbox.
class EngineControl final : public StoredControl {
 public:
  EngineControl(engine::Engine& engine, ControlPorts ports)
      : StoredControl(std::move(ports)), engine_(engine) {}
  Result<control::Started> Start(const control::StartRequest& request, Duration timeout) override;
  Status Execute(const control::Command& command, Duration timeout) override;

 private:
  engine::Engine& engine_;
};

/// Control over an engine somewhere else: by the store's inbox, and by asking for the answer.
class InboxControl final : public StoredControl {
 public:
  InboxControl(store::Database& database, ControlPorts ports)
      : StoredControl(std::move(ports)), database_(database) {}
  Result<control::Started> Start(const control::StartRequest& request, Duration timeout) override;
  Status Execute(const control::Command& command, Duration timeout) override;

 private:
  Result<store::Answer> Ask(store::InboxRow row, Duration timeout);

  store::Database& database_;
};

}  // namespace headworks
