#include "session.h"

#include <fmt/format.h>

#include <future>

#include "headworks/runner/database_care.h"

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

namespace {

/// Why there is no runner.
Error NotOpened(const Context& context, const RunnerOptions& options, Error error) {
  if (options.create || error.code != Code::kNotFound) return NameStore(context, std::move(error));
  return {Code::kNotFound,
          fmt::format("there is no store at {}; `headworks run FILE`, `up`, `workflow register` "
                      "and `queue push` make one, and --store or HEADWORKS_STORE names another",
                      StoreName(context.settings().runner))};
}

}  // namespace

Result<std::unique_ptr<Runner>> AttachRunner(const Context& context, NoStore no_store) {
  RunnerOptions options = context.options();
  options.create = no_store == NoStore::kCreate;
  auto runner = Runner::Attach(options);
  if (!runner) return NotOpened(context, options, std::move(runner).error());
  return runner;
}

Result<std::unique_ptr<Runner>> OpenOrAttach(const Context& context, const RunnerOptions& options) {
  auto runner = Runner::Open(options);
  if (runner) return runner;
  if (runner.error().code == Code::kConflict) return AttachRunner(context);
  return NotOpened(context, options, std::move(runner).error());
}

RunnerOptions OptionsForCommands(const Context& context) {
  RunnerOptions options = context.options();
  options.create = false;
  options.start_tasks = false;
  options.enable_recovery = false;
  return options;
}

Result<std::unique_ptr<Runner>> OpenForCommands(const Context& context) {
  return OpenOrAttach(context, OptionsForCommands(context));
}

Result<RunNo> AskEngine(const Context& context, std::unique_ptr<Runner>& runner,
                        const RunnerOptions& options,
                        const std::function<Result<RunNo>(Runner&)>& ask) {
  if (runner->is_engine()) return ask(*runner);
  // What is asked lies in the inbox, so any engine answers it, and asking twice would do it twice.
  auto answer = std::async(std::launch::async, [&] { return ask(*runner); });
  std::unique_ptr<Runner> engine;
  while (answer.wait_for(kSilence) != std::future_status::ready) {
    if (engine != nullptr) continue;
    auto opened = Runner::Open(options);
    if (opened)
      engine = *std::move(opened);
    else if (opened.error().code != Code::kConflict)
      context.logger.Warning("cannot become the engine", {{"error", opened.error().message}});
  }
  auto result = answer.get();
  if (engine != nullptr) runner = std::move(engine);
  if (!result) return NameStore(context, std::move(result).error());
  return result;
}

Result<std::string> FindEngine(const Context& context) {
  const std::string& url = context.settings().runner.database_url;
  if (!url.starts_with("sqlite:")) return std::string();  // nobody else sees it
  auto engine = LiveEngine(url);
  // Where there is no store yet, there is no engine.
  if (!engine && engine.error().code == Code::kNotFound) return std::string();
  if (!engine) return NameStore(context, std::move(engine).error());
  return engine;
}

}  // namespace headworks::cli
