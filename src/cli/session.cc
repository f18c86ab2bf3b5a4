#include "session.h"

#include <fmt/format.h>

namespace headworks::cli {

RunnerOptions Context::options() const {
  RunnerOptions options = settings().runner;
  options.logger = &logger;
  return options;
}

control::Command MakeCommand(const Context& context, control::CommandKind kind, RunNo run) {
  control::Command command;
  command.tenant = context.tenant();
  command.kind = kind;
  command.run = run;
  command.actor = context.actor;
  return command;
}

store::RunQuery::RunFilter UnfinishedRuns() {
  store::RunQuery::RunFilter filter;
  filter.states = {model::RunState::kPending, model::RunState::kRunning};
  filter.limit = 1'000;
  return filter;
}

std::vector<std::string> HealthWatch::Look(const Runner& runner) {
  std::vector<std::string> lines;
  for (const ServiceHealth& service : runner.Health()) {
    bool& healthy = healthy_.emplace(service.name, true).first->second;
    if (healthy == service.healthy) continue;
    healthy = service.healthy;
    lines.push_back(fmt::format("service {} {}: {}", service.name,
                                healthy ? "works again" : "has trouble", service.detail));
  }
  return lines;
}

Error NameStore(const Context& context, Error error) {
  const std::string store = StoreName(context.settings().runner);
  if (error.message.find(store) == std::string::npos)
    error.message += fmt::format(" (store: {})", store);
  return error;
}

Result<std::unique_ptr<Runner>> AttachRunner(const Context& context) {
  auto runner = Runner::Attach(context.options());
  if (!runner) return NameStore(context, std::move(runner).error());
  return runner;
}

Result<std::unique_ptr<Runner>> OpenOrAttach(const Context& context, const RunnerOptions& options) {
  auto runner = Runner::Open(options);
  if (runner) return runner;
  if (runner.error().code == Code::kConflict) return AttachRunner(context);
  return NameStore(context, std::move(runner).error());
}

Result<std::unique_ptr<Runner>> OpenForCommands(const Context& context) {
  RunnerOptions options = context.options();
  options.start_tasks = false;
  options.enable_recovery = false;
  return OpenOrAttach(context, options);
}

Result<bool> EngineIsLive(const Context& context) {
  RunnerOptions options = context.options();
  options.start_tasks = false;
  options.enable_recovery = false;
  auto runner = Runner::Open(options);
  if (!runner && runner.error().code == Code::kConflict) return true;
  if (!runner) return NameStore(context, std::move(runner).error());
  HEADWORKS_TRY((*runner)->Shutdown());
  return false;
}

}  // namespace headworks::cli
