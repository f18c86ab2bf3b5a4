#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "headworks/base/time.h"
#include "headworks/runner/runner.h"
#include "settings.h"
#include "terminal.h"

namespace headworks::cli {

/// What every command is given.
struct Context {
  LoadedSettings loaded;
  std::function<const char*(const char*)> environment;
  Clock& clock;
  Logger& logger;
  /// Who asks, for the audit: "user@host".
  std::string actor;

  const Settings& settings() const { return loaded.settings; }
  TenantId tenant() const { return TenantId(settings().runner.tenant); }
  bool wants_table() const { return settings().output == OutputFormat::kTable; }
  RunnerOptions options() const;
};

/// How long a command waits for the owner of the store to answer.
inline constexpr Duration kAnswerTimeout = std::chrono::seconds(10);
/// Silence after which it is found out whether the engine is still there.
inline constexpr Duration kSilence = std::chrono::seconds(1);

/// What becomes of a command where there is no store yet: only what brings something makes one.
enum class NoStore : unsigned char { kRefuse, kCreate };

/// For reading, and for what needs no engine.  kNotFound: see NoStore.
Result<std::unique_ptr<Runner>> AttachRunner(const Context& context,
                                             NoStore no_store = NoStore::kRefuse);
/// Becomes the engine of the store, or attaches to the process that is it.
Result<std::unique_ptr<Runner>> OpenOrAttach(const Context& context, const RunnerOptions& options);
/// For commands (cancel, rerun, ...): they are applied even if no engine is running, but then
/// nothing is started.
Result<std::unique_ptr<Runner>> OpenForCommands(const Context& context);
/// `ask`s the engine of the store: `runner`, or the one that it is attached to.  If that one goes
/// away before it answers, `runner` is replaced by an engine with `options`, which answers.
Result<RunNo> AskEngine(const Context& context, std::unique_ptr<Runner>& runner,
                        const RunnerOptions& options,
                        const std::function<Result<RunNo>(Runner&)>& ask);
/// As the engine for commands: nothing is started, and no store made.
RunnerOptions OptionsForCommands(const Context& context);
/// The process that is the engine now, e.g. "process 4711 on host"; empty = none.  Changes nothing,
/// not even when there is no store yet.
Result<std::string> FindEngine(const Context& context);

/// `kind` for `run`, asked by whoever runs this command.
control::Command MakeCommand(const Context& context, control::CommandKind kind, RunNo run);
/// Runs that are not over, stuck ones included.
store::RunQuery::RunFilter UnfinishedRuns();

/// Tells when a service of a runner stops or starts working.
class HealthWatch {
 public:
  /// One line per change since the last look.
  std::vector<std::string> Look(const Runner& runner);

 private:
  std::map<std::string, bool> healthy_;
};

/// `error` with the store named, unless it names it already.
Error NameStore(const Context& context, Error error);

}  // namespace headworks::cli
