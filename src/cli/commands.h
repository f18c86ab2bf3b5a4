#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exit_code.h"
#include "session.h"

/// What each subcommand does, given its parsed arguments.  Errors are printed by the caller.
namespace headworks::cli {

struct RunArgs {
  std::string file;
  std::vector<std::string> params;  // "key=value"
  std::string input;                // JSON, or "@file"
  std::string name;                 // instead of the file's
  std::string start_key;
  int priority = 0;
  bool detach = false;
  bool dry_run = false;
  bool resume = false;
  std::optional<std::string> to_queue{};
};
Result<Exit> RunFile(const Context& context, const RunArgs& args);

struct ListRunsArgs {
  std::vector<std::string> states;
  std::string workflow;
  std::size_t limit = 50;
};
Result<Exit> ListRuns(const Context& context, const ListRunsArgs& args);
Result<Exit> ShowRun(const Context& context, const std::string& reference);

struct LogsArgs {
  std::string run;
  std::string task;  // empty = all
  bool follow = false;
  int attempt = 0;       // n-th of the task; 0 = all
  std::size_t tail = 0;  // 0 = all
};
Result<Exit> ShowLogs(const Context& context, const LogsArgs& args);

struct ArtifactsArgs {
  std::string run;
  std::string task;  // empty = all
  std::string name;  // empty = list them
  std::string to;    // a file, a folder, or "-"
};
Result<Exit> ShowArtifacts(const Context& context, const ArtifactsArgs& args);
Result<Exit> Why(const Context& context, const std::string& run, const std::string& task);

struct RunCommandArgs {
  std::string run;
  control::CommandKind kind = control::CommandKind::kCancel;
  model::ResetCursor::Kind rerun = model::ResetCursor::Kind::kFailed;
  std::string task;
  model::TaskState mark = model::TaskState::kSucceeded;
};
/// Applies the command, engine or not.
Result<Exit> CommandRun(const Context& context, const RunCommandArgs& args);
/// Applies a rerun and follows the run to its end, as the engine if there is none.
Result<Exit> RerunAndFollow(const Context& context, const RunCommandArgs& args);

struct PruneArgs {
  Duration older_than{};
  bool dry_run = false;
};
Result<Exit> PruneRuns(const Context& context, const PruneArgs& args);

Result<Exit> RegisterWorkflows(const Context& context, const std::vector<std::string>& files);
Result<Exit> ValidateWorkflows(const Context& context, const std::vector<std::string>& files);
Result<Exit> ListWorkflows(const Context& context);
struct ShowWorkflowArgs {
  std::string workflow;  // a file, "-", or a registered name
  std::string graph;     // text, mermaid, dot, svg; empty = none
  bool effective = false;
};
Result<Exit> ShowWorkflow(const Context& context, const ShowWorkflowArgs& args);
struct FormatArgs {
  std::vector<std::string> files;
  bool check = false;
  bool write = false;
};
Result<Exit> FormatWorkflows(const Context& context, const FormatArgs& args);
Result<Exit> PrintSchema();
/// `with`: JSON or "@file", whose members are the variables.
Result<Exit> EvaluateExpression(const Context& context, const std::string& text,
                                const std::string& with);
Result<Exit> NewWorkflow(const Context& context, const std::string& name, const std::string& file);
Result<Exit> RemoveWorkflow(const Context& context, const std::string& name);
Result<Exit> EnableWorkflow(const Context& context, const std::string& name, bool enabled);

Result<Exit> SetPool(const Context& context, const std::string& name, int limit);
Result<Exit> DeletePool(const Context& context, const std::string& name);
Result<Exit> ListPools(const Context& context);
/// With those who hold its permits.
Result<Exit> ShowPool(const Context& context, const std::string& name);

/// The newest `limit`.
Result<Exit> ListAlerts(const Context& context, std::size_t limit);
/// Sends one, and says what came of it.
Result<Exit> TestAlert(const Context& context);

/// `folder` may be empty.
Result<Exit> Up(const Context& context, const std::string& folder);

Result<Exit> ListTasks(const Context& context);

Result<Exit> CheckStore(const Context& context);
Result<Exit> BackUpStore(const Context& context, const std::string& target);
Result<Exit> VacuumStore(const Context& context);
Result<Exit> MigrateStore(const Context& context, bool dry_run);

/// `environment`: "NAME=value".
Result<Exit> CheckConfiguration(const Context& context,
                                const std::vector<std::string>& environment);
Result<Exit> ShowConfiguration(const Context& context);
Result<Exit> Doctor(const Context& context);
Result<Exit> ExplainCode(const Context& context, const std::string& code);

}  // namespace headworks::cli
