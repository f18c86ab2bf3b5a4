#pragma once

#include "headworks/base/random.h"
#include "headworks/base/time.h"
#include "headworks/control/control.h"
#include "headworks/engine/engine.h"
#include "headworks/store/run_store.h"

namespace headworks {

/// Control over the engine of this process: by its mailbox.
class EngineControl final : public control::Control {
 public:
  explicit EngineControl(engine::Engine& engine) : engine_(engine) {}
  Result<control::Started> Start(const control::StartRequest& request, Duration timeout) override;
  Status Execute(const control::Command& command, Duration timeout) override;

 private:
  engine::Engine& engine_;
};

/// Control over an engine somewhere else: by the store's inbox, and by asking for the answer.
class InboxControl final : public control::Control {
 public:
  InboxControl(store::Database& database, Clock& clock, Random& random)
      : database_(database), clock_(clock), random_(random) {}
  Result<control::Started> Start(const control::StartRequest& request, Duration timeout) override;
  Status Execute(const control::Command& command, Duration timeout) override;

 private:
  Result<store::Answer> Ask(store::InboxRow row, Duration timeout);

  store::Database& database_;
  Clock& clock_;
  Random& random_;
};

}  // namespace headworks
