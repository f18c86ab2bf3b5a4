#include "command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <climits>
#include <memory>
#include <sstream>

#include "headworks/base/text.h"
#include "number_option.h"
#include "option_text.h"
#include "output.h"
#include "queue_command_line.h"
#include "runner_commands.h"
#include "templates.h"
#include "worker_command_line.h"
#include "workflow_file.h"

namespace headworks::cli {
namespace {

using Reset = model::ResetCursor::Kind;
using control::CommandKind;

/// The whole tree of commands; each leaf says what to do through `command_`.
class CommandTree {
 public:
  CommandTree(ParsedCommand& command, const std::vector<std::string>& environment)
      : command_(command), environment_(environment) {
    app_.fallthrough();
    app_.require_subcommand(1);
    app_.set_version_flag("--version", "headworks " HEADWORKS_VERSION);
    app_.footer(kExitCodeHelp);
    AddSettings();
    AddRun();
    AddRuns();
    AddWorkflow();
    AddPool();
    AddQueue();
    AddAlerts();
    AddUp();
    AddWorker();
    AddRunner();
    AddWorkers();
    AddTasks();
    AddStore();
    AddConfig();
    AddOthers();
  }

  CLI::App& app() { return app_; }

  static CommandNode Describe(const CLI::App& app) {
    CommandNode node{.name = app.get_name(), .description = app.get_description()};
    for (const CLI::Option* option : app.get_options()) {
      OptionNode known{.name = {},
                       .description = option->get_description(),
                       .takes_value = option->get_type_size() > 0,
                       .values = Choices(option->get_type_name())};
      if (option->get_positional())
        node.values.insert(node.values.end(), known.values.begin(), known.values.end());
      const auto add = [&](const char* dashes, const std::vector<std::string>& names) {
        for (const std::string& name : names) {
          known.name = dashes + name;
          node.options.push_back(known);
        }
      };
      add("--", option->get_lnames());
      add("-", option->get_snames());
    }
    for (const CLI::App* child : app.get_subcommands(nullptr))
      node.commands.push_back(Describe(*child));
    return node;
  }

 private:
  /// The words of a type that is a choice: "table|json|yaml", or "TEXT:{success,failed}" as the
  /// library describes its own check.
  static std::vector<std::string> Choices(std::string type) {
    if (const auto brace = type.find(":{"); brace != std::string::npos && type.ends_with('}'))
      type = type.substr(brace + 2, type.size() - brace - 3);
    std::ranges::replace(type, ',', '|');
    std::vector<std::string> words;
    if (type.find('|') == std::string::npos ||
        type.find_first_not_of("abcdefghijklmnopqrstuvwxyz|") != std::string::npos)
      return words;
    std::istringstream stream(type);
    for (std::string word; std::getline(stream, word, '|');) words.push_back(word);
    return words;
  }

  using Action = std::function<Result<Exit>(const Context&)>;

  CLI::App& Group(const char* name, const char* description) {
    CLI::App& group = *app_.add_subcommand(name, description);
    group.require_subcommand(1);
    return group;
  }

  CLI::App& Leaf(CLI::App& parent, const char* name, const char* description, Action action) {
    return ValueOrTextLeaf(parent, name, description, std::move(action), [] { return false; });
  }

  /// It prints a text as it is, and no value.
  CLI::App& TextLeaf(CLI::App& parent, const char* name, const char* description, Action action) {
    return ValueOrTextLeaf(parent, name, description, std::move(action), [] { return true; });
  }

  CLI::App& ValueOrTextLeaf(CLI::App& parent, const char* name, const char* description,
                            Action action, std::function<bool()> is_text) {
    CLI::App& leaf = *parent.add_subcommand(name, description);
    leaf.callback([this, &leaf, action = std::move(action), is_text = std::move(is_text)] {
      if (!leaf.get_subcommands().empty()) return;  // it is called after what was below it
      command_.action = action;
      if (is_text()) RefuseFormat();
    });
    return leaf;
  }

  /// It needs no settings, and prints a text as it is.
  CLI::App& PlainLeaf(CLI::App& parent, const char* name, const char* description,
                      std::function<Result<Exit>()> action) {
    CLI::App& leaf = *parent.add_subcommand(name, description);
    leaf.callback([this, action = std::move(action)] {
      command_.plain = action;
      RefuseFormat();
    });
    return leaf;
  }

  /// Of a command that has nothing for -o to choose; in the environment it is for the others.
  void RefuseFormat() const {
    if (command_.flags.contains("format"))
      throw CLI::ValidationError("-o",
                                 "this command prints a text as it is, and no value; leave "
                                 "-o out");
  }

  void AddSettings() {
    app_.add_option("--config", command_.config_file, "Configuration file")
        ->type_name("FILE")
        ->group("Settings");
    for (const Setting& setting : AllSettings()) {
      const std::string names =
          (setting.key == "format" ? "-o," : std::string()) + setting.FlagName();
      app_.add_option_function<std::string>(
              names,
              [this, key = setting.key](const std::string& value) {
                command_.flags[std::string(key)] = value;
              },
              std::string(setting.help))
          ->type_name(std::string(setting.type))
          ->group("Settings");
    }
  }

  void AddRun() {
    CLI::App& run = Leaf(app_, "run", "Run a workflow file and follow it to its end",
                         [this](const Context& context) { return RunFile(context, run_); });
    run.add_option("file", run_.file, "The workflow file")->required()->type_name("FILE");
    run.add_option("-p,--param", run_.params, "A parameter; may be repeated")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    run.add_option("--input", run_.input, "Input for the tasks")->type_name("JSON|@FILE");
    run.add_option("--name", run_.name, "Another name than the file's for the workflow");
    run.add_option("--start-key", run_.start_key, "The same key starts one run only");
    run.add_option("--priority", run_.priority, "Higher goes first")
        ->check(NumberFrom(-1000, 1000));
    auto* detach =
        run.add_flag("--detach", run_.detach, "Hand the run to the engine that is up, and return");
    auto* dry_run = run.add_flag("--dry-run", run_.dry_run, "Show what would run, start nothing");
    run.add_flag("--resume", run_.resume,
                 "Continue the workflow's unfinished runs, start no new one")
        ->excludes(detach)
        ->excludes(dry_run);
    run.add_option("--to-queue", run_.to_queue,
                   "Push the run as an item for whoever takes runs from it (`headworks runner`)")
        ->type_name("NAME")
        ->excludes(detach)
        ->excludes("--resume");
  }

  void AddRuns() {
    CLI::App& runs = Group("runs", "List, inspect and command runs");
    CLI::App& list = Leaf(runs, "list", "Runs, newest first",
                          [this](const Context& context) { return ListRuns(context, list_); });
    list.add_option("--state", list_.states,
                    "Only these: pending, running, succeeded, failed, cancelled, stuck")
        ->delimiter(',')
        ->allow_extra_args(false);
    list.add_option("--workflow", list_.workflow, "Only this workflow's");
    list.add_option("--limit", list_.limit, "At most so many")
        ->check(NumberFrom(1, 100'000))
        ->capture_default_str();

    AddReference(Leaf(runs, "show", "One run with its tasks",
                      [this](const Context& context) { return ShowRun(context, on_run_.run); }));

    CLI::App& logs = Leaf(runs, "logs", "What tasks printed", [this](const Context& context) {
      logs_.run = on_run_.run;
      return ShowLogs(context, logs_);
    });
    AddReference(logs);
    logs.add_option("task", logs_.task, "Only this task's, or all of this matrix");
    logs.add_flag("-f,--follow", logs_.follow, "Until the run ends");
    logs.add_option("--attempt", logs_.attempt, "Only the N-th attempt of the task")
        ->check(NumberFrom(1, INT_MAX));
    logs.add_option("--tail", logs_.tail, "Only the last N lines")->check(NumberFrom(1, 100'000));

    CLI::App& artifacts =
        Leaf(runs, "artifacts", "Files that tasks have left", [this](const Context& context) {
          artifacts_.run = on_run_.run;
          return ShowArtifacts(context, artifacts_);
        });
    AddReference(artifacts);
    artifacts.add_option("task", artifacts_.task, "Only this task's, or all of this matrix");
    artifacts.add_option("name", artifacts_.name, "This one; needs --to");
    artifacts.add_option("--to", artifacts_.to, "Where it goes; - = standard output")
        ->type_name("FILE");

    AddCommand(runs, "cancel", "Stop a run; its finally tasks still run", CommandKind::kCancel);
    AddCommand(runs, "pause", "Start nothing new of a run", CommandKind::kPause);
    AddCommand(runs, "resume", "Let a paused run go on", CommandKind::kResume);
    AddRerun(runs);
    AddMark(runs);
    CLI::App& why = Leaf(runs, "why", "Why a task is not running", [this](const Context& context) {
      return Why(context, on_run_.run, on_run_.task);
    });
    AddReference(why);
    why.add_option("task", on_run_.task,
                   "The task, or a matrix for all its instances; without: all that failed");
    AddCommand(runs, "unstick", "Let a stuck run try again", CommandKind::kUnstick);
    AddCommand(runs, "delete", "Forget a finished run", CommandKind::kDelete);
    CLI::App& prune = Leaf(
        runs, "prune", "Forget old finished runs", [this](const Context& context) -> Result<Exit> {
          HEADWORKS_ASSIGN(const Duration age, DurationOf("--older-than", older_than_));
          return PruneRuns(context, {.older_than = age, .dry_run = prune_dry_run_});
        });
    prune.add_option("--older-than", older_than_, "By the time they ended, e.g. 30d")
        ->required()
        ->type_name("DURATION");
    prune.add_flag("--dry-run", prune_dry_run_, "Only count them");
  }

  CLI::App& AddReference(CLI::App& leaf) {
    leaf.add_option("run", on_run_.run, "Number, id, start of an id, or @last")
        ->required()
        ->type_name("RUN");
    return leaf;
  }

  void AddCommand(CLI::App& runs, const char* name, const char* description, CommandKind kind) {
    AddReference(Leaf(runs, name, description, [this, kind](const Context& context) {
      on_run_.kind = kind;
      return CommandRun(context, on_run_);
    }));
  }

  void AddRerun(CLI::App& runs) {
    CLI::App& rerun = Leaf(
        runs, "rerun", "Run tasks of a run again, with the same input, and follow it",
        [this](const Context& context) {
          on_run_.kind = CommandKind::kRerun;
          if (rerun_all_) on_run_.rerun = Reset::kAll;
          if (!on_run_.task.empty()) on_run_.rerun = Reset::kFrom;
          return rerun_detach_ ? CommandRun(context, on_run_) : RerunAndFollow(context, on_run_);
        });
    AddReference(rerun);
    auto* from = rerun
                     .add_option("--from", on_run_.task,
                                 "This task, or all of this matrix, and all that need it")
                     ->type_name("TASK");
    auto* failed = rerun.add_flag("--failed", rerun_failed_,
                                  "What failed or never ran, and all that need it (default)");
    auto* all = rerun.add_flag("--all", rerun_all_, "Every task");
    from->excludes(failed)->excludes(all);
    failed->excludes(all);
    rerun.add_flag("--detach", rerun_detach_, "Do not follow; without an engine nothing starts");
  }

  void AddMark(CLI::App& runs) {
    CLI::App& mark = Leaf(runs, "mark", "Set how a task ended", [this](const Context& context) {
      on_run_.kind = CommandKind::kMark;
      on_run_.mark = mark_ == "success"  ? model::TaskState::kSucceeded
                     : mark_ == "failed" ? model::TaskState::kFailed
                                         : model::TaskState::kSkipped;
      return CommandRun(context, on_run_);
    });
    AddReference(mark);
    mark.add_option("task", on_run_.task, "The task, or a matrix for all its instances")
        ->required();
    mark.add_option("state", mark_, "success, failed or skipped")
        ->required()
        ->check(CLI::IsMember({"success", "failed", "skipped"}));
  }

  void AddWorkflow() {
    CLI::App& workflow = Group("workflow", "Workflow files, and registered workflows");
    const auto add_files = [this](CLI::App& leaf,
                                  const char* description = "Files, or folders of them") {
      leaf.add_option("files", files_, description)->required()->type_name("FILE");
    };
    add_files(Leaf(workflow, "register", "Make workflow files known by name",
                   [this](const Context& context) { return RegisterWorkflows(context, files_); }));
    Leaf(workflow, "list", "All of them", ListWorkflows);
    const auto add_name = [this](CLI::App& leaf) {
      leaf.add_option("name", name_, "WORKFLOW or PACKAGE::WORKFLOW")->required();
    };
    AddShowWorkflow(workflow);
    add_name(Leaf(workflow, "delete", "Forget the name; runs keep their version",
                  [this](const Context& context) { return RemoveWorkflow(context, name_); }));
    add_name(Leaf(workflow, "enable", "Let new runs start",
                  [this](const Context& context) { return EnableWorkflow(context, name_, true); }));
    add_name(Leaf(workflow, "disable", "Let no new runs start", [this](const Context& context) {
      return EnableWorkflow(context, name_, false);
    }));
    add_files(Leaf(workflow, "validate", "Check files; all faults at once",
                   [this](const Context& context) { return ValidateWorkflows(context, files_); }),
              "Files, folders of them, or - for standard input");
    AddFormat(workflow);
    PlainLeaf(workflow, "schema", "The JSON Schema of workflow files, for editors", PrintSchema);
    CLI::App& create =
        Leaf(workflow, "new", "A file to start from, with comments",
             [this](const Context& context) { return NewWorkflow(context, template_, file_); });
    create.add_option("file", file_, "The new file")->required()->type_name("FILE");
    create.add_option("--template", template_, "What to start from")
        ->capture_default_str()
        ->type_name(TemplateNames());
  }

  static std::string TemplateNames() {
    std::string names;
    for (const Template& known : Templates())
      names += (names.empty() ? "" : "|") + std::string(known.name);
    return names;
  }

  void AddShowWorkflow(CLI::App& workflow) {
    CLI::App& show = ValueOrTextLeaf(
        workflow, "show", "What a workflow comes to, defaults filled in",
        [this](const Context& context) { return ShowWorkflow(context, show_); },
        [this] { return !show_.graph.empty(); });
    show.add_option("workflow", show_.workflow, "A file, - or the name of a registered workflow")
        ->required()
        ->type_name("FILE|NAME");
    show.add_option("--graph", show_.graph, "Draw the tasks instead")
        ->check(CLI::IsMember({"text", "mermaid", "dot", "svg"}));
    show.add_flag("--effective", show_.effective,
                  "With the defaults of this platform's configuration (task_timeout, ...)");
  }

  void AddFormat(CLI::App& workflow) {
    CLI::App& format = ValueOrTextLeaf(
        workflow, "fmt", "Indentation, blank lines and order of keys as usual",
        [this](const Context& context) { return FormatWorkflows(context, format_); },
        [this] { return !format_.check && !format_.write; });
    format.add_option("files", format_.files, "Files, folders of them, or - for standard input")
        ->required()
        ->type_name("FILE");
    auto* check = format.add_flag("--check", format_.check, "Only say which would change (exit 1)");
    format.add_flag("--write", format_.write, "Replace the files")->excludes(check);
  }

  void AddPool() {
    CLI::App& pool = Group("pool", "Pools of permits that limit tasks across runs");
    const auto add_name = [this](CLI::App& leaf) {
      leaf.add_option("name", name_, "The pool")->required();
    };
    CLI::App& set =
        Leaf(pool, "set", "Declare a pool, or change its limit",
             [this](const Context& context) { return SetPool(context, name_, limit_); });
    add_name(set);
    set.add_option("limit", limit_, "Permits in all; 0 = nothing that names it starts")
        ->required()
        ->check(NumberFrom(0, store::LimitStore::kMaxLimit));
    Leaf(pool, "list", "All of them", ListPools);
    add_name(Leaf(pool, "show", "One, and who holds its permits",
                  [this](const Context& context) { return ShowPool(context, name_); }));
    add_name(Leaf(pool, "delete", "Forget one of which no permits are held",
                  [this](const Context& context) { return DeletePool(context, name_); }));
  }

  void AddQueue() {
    CLI::App& queue = Group("queue", "Durable queues, for work of any kind");
    AddQueueCommands(queue_,
                     [&](const char* name, const char* description, Action action) -> CLI::App& {
                       return Leaf(queue, name, description, std::move(action));
                     });
  }

  void AddAlerts() {
    CLI::App& alerts = Group("alerts", "What people are told without asking");
    Leaf(alerts, "list", "The newest, and what became of them",
         [this](const Context& context) { return ListAlerts(context, alerts_limit_); })
        .add_option("--limit", alerts_limit_, "At most so many")
        ->check(NumberFrom(1, 100'000))
        ->capture_default_str();
    Leaf(alerts, "test", "Send one, and say what came of it", TestAlert);
  }

  void AddUp() {
    CLI::App& up = TextLeaf(app_, "up", "Be the engine until SIGTERM or Ctrl-C",
                            [this](const Context& context) { return Up(context, folder_); });
    up.add_option("folder", folder_, "Keep the workflow files in it registered")->type_name("DIR");
  }

  void AddWorker() {
    AddWorkerCommands(app_, worker_,
                      [this](CLI::App& parent, const char* name, const char* description,
                             Action action) -> CLI::App& {
                        return TextLeaf(parent, name, description, std::move(action));
                      });
  }

  void AddRunner() {
    CLI::App& runner =
        TextLeaf(app_, "runner", "Run whole workflows out of a queue, until SIGTERM",
                 [this](const Context& context) { return TakeRuns(context, runner_); });
    runner.add_option("--queue", runner_.queue, "Of this store, and so many runs of it at a time")
        ->type_name("NAME[=RUNS]")
        ->capture_default_str();
    runner.add_option("--name", runner_.name, "Of this runner (default: the host's)");
    runner.add_option("--state-dir", runner_.state_dir, "Its own folder (default: by its name)")
        ->type_name("DIR");
    const auto add = [&](const char* flag, std::string& value, const char* description) {
      runner.add_option(flag, value, description)->type_name("DURATION")->capture_default_str();
    };
    add("--lease", runner_.lease, "How long it may be out of touch before another takes its runs");
    add("--drain-timeout", runner_.drain_timeout,
        "How long leaving waits for what runs; then it is stopped, and handed back");
    add("--keep", runner_.keep, "How long the stores of runs are kept");
  }

  void AddWorkers() {
    AddWorkersCommands(Group("workers", "Those who run tasks for the engine of this store"),
                       workers_,
                       [this](CLI::App& parent, const char* name, const char* description,
                              Action action) -> CLI::App& {
                         return Leaf(parent, name, description, std::move(action));
                       });
  }

  void AddTasks() {
    CLI::App& tasks = Group("tasks", "C++ functions that workflows can call");
    Leaf(tasks, "list", "All that this program brings along", ListTasks);
  }

  void AddStore() {
    CLI::App& db = Group("db", "Look after the database");
    Leaf(db, "check", "Read all of it and say what is wrong", CheckStore);
    CLI::App& backup =
        Leaf(db, "backup", "Copy it, with logs and artifacts, while it is in use",
             [this](const Context& context) { return BackUpStore(context, target_); });
    backup.add_option("target", target_, "The new file")->required()->type_name("FILE");
    Leaf(db, "vacuum", "Give free space back to the disk", VacuumStore);
    Leaf(db, "migrate", "Bring it to this program's format", [this](const Context& context) {
      return MigrateStore(context, migrate_dry_run_);
    }).add_flag("--dry-run", migrate_dry_run_, "Only say what that would do");
  }

  void AddConfig() {
    CLI::App& config = Group("config", "Settings");
    Leaf(config, "check", "Whether file and environment are valid",
         [this](const Context& context) { return CheckConfiguration(context, environment_); });
    Leaf(config, "show", "Each setting and where it comes from", ShowConfiguration);
    PlainLeaf(config, "docs", "The reference page as Markdown", []() -> Result<Exit> {
      Print(SettingsMarkdown());
      return Exit::kOk;
    });
  }

  void AddOthers() {
    CLI::App& expression = Leaf(app_, "expr", "Try an expression", [this](const Context& context) {
      return EvaluateExpression(context, expression_, with_);
    });
    expression.add_option("expression", expression_, "As after when: or in ${{ }}")->required();
    expression.add_option("--with", with_, "The variables, by name")->type_name("JSON|@FILE");
    Leaf(app_, "doctor", "Whether everything is there that runs need", Doctor);
    CLI::App& completion = PlainLeaf(
        app_, "completion", "A script that completes headworks commands", [this]() -> Result<Exit> {
          const CommandNode root = Describe(app_);
          Print(shell_ == "bash"  ? BashCompletion(root)
                : shell_ == "zsh" ? ZshCompletion(root)
                                  : FishCompletion(root));
          return Exit::kOk;
        });
    completion.add_option("shell", shell_, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    CLI::App& explain =
        Leaf(app_, "explain", "What a code in an error message, a reason or a state means",
             [this](const Context& context) { return ExplainCode(context, code_); });
    explain.add_option("code", code_, "As printed, e.g. HW1001 or lost")->required();
  }

  ParsedCommand& command_;
  const std::vector<std::string>& environment_;
  CLI::App app_{"Headworks runs workflows durably: what has started is finished, crash or not.",
                "headworks"};
  RunArgs run_;
  ListRunsArgs list_;
  LogsArgs logs_;
  ArtifactsArgs artifacts_;
  RunCommandArgs on_run_;
  bool rerun_failed_ = false;
  bool rerun_all_ = false;
  bool rerun_detach_ = false;
  std::string mark_, older_than_, name_, folder_, target_, shell_, code_, file_, expression_, with_;
  std::string template_ = "minimal";
  ShowWorkflowArgs show_;
  FormatArgs format_;
  QueueArgs queue_;
  WorkerArgs worker_;
  RunnerArgs runner_;
  WorkersArgs workers_;
  int limit_ = 0;
  std::size_t alerts_limit_ = 50;
  bool prune_dry_run_ = false;
  bool migrate_dry_run_ = false;
  std::vector<std::string> files_;
};

/// The commands `word` of groups of commands, as they are written; empty = none has it.
std::string GroupsWith(const CommandNode& tree, std::string_view word) {
  std::string all;
  for (const CommandNode& group : tree.commands)
    if (std::ranges::find(group.commands, word, &CommandNode::name) != group.commands.end())
      all += fmt::format("{}`headworks {} {}`", all.empty() ? "" : " or ", group.name, word);
  return all;
}

std::string NamesOf(const CommandNode& node) {
  std::string names;
  for (const CommandNode& command : node.commands)
    names += (names.empty() ? "" : ", ") + command.name;
  return names;
}

/// What is likely meant by a word that is no command of `path`.
std::string NoSuchCommand(const CommandNode& tree, const CommandNode& node, const std::string& path,
                          const std::string& word) {
  std::string meant;
  if (word == "help") meant = fmt::format("`{} --help`", path);
  if (&node == &tree) {
    if (word == "version") meant = "`headworks --version`";
    if (IsWorkflowFileName(word)) meant = fmt::format("`headworks run {}`", word);
    if (meant.empty()) meant = GroupsWith(tree, word);
  }
  if (!meant.empty())
    return fmt::format("{} has no command '{}', did you mean {}?", path, word, meant);
  std::vector<std::string_view> known;
  known.reserve(node.commands.size());
  for (const CommandNode& command : node.commands) known.push_back(command.name);
  const std::string near = DidYouMean(word, known);
  return fmt::format("{} has no command '{}'{}", path, word,
                     near.empty() ? "; it has " + NamesOf(node) : near);
}

/// What the parser says, with the command that it is about.
std::string Name(const CommandNode& node, const std::string& path, const std::string& message) {
  if (message.starts_with("A subcommand is required"))
    return fmt::format("{} needs a command: {}", path, NamesOf(node));
  if (message.ends_with(" is required")) return fmt::format("{}: {}", path, message);
  if (!message.contains("not expected: ")) return message;
  const std::string extra = message.substr(message.find(": ") + 2);
  return fmt::format("{} does not take '{}'{}", path, extra,
                     path == "headworks run" && extra.contains('=')
                         ? "; a parameter is given as -p " + extra
                         : "");
}

/// What is likely meant where the parser only says that something does not fit; `path` becomes the
/// command that it is about.
std::string Diagnose(const CLI::App& root, int argc, const char* const* argv,
                     const std::string& message, std::string& path) {
  const CommandNode tree = CommandTree::Describe(root);
  const CommandNode* node = &tree;
  path = "headworks";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool is_value = i > 1 && argv[i - 1][0] == '-';  // it may be that of the option before it
    const bool is_short =
        word.size() > 1 && word[0] == '-' && std::isalpha(static_cast<unsigned char>(word[1])) != 0;
    if ((word.starts_with("--") && word.size() > 2) || (is_short && !is_value)) {
      const std::string name = is_short ? word.substr(0, 2) : word.substr(0, word.find('='));
      std::vector<std::string_view> known;
      for (const CommandNode* place : {&tree, node})
        for (const OptionNode& option : place->options) known.push_back(option.name);
      if (std::ranges::find(known, name) == known.end())
        return fmt::format("{} has no option {}{}", path, name, DidYouMean(name, known));
    }
    if (word.starts_with("-") || node->commands.empty()) continue;
    const auto child = std::ranges::find(node->commands, word, &CommandNode::name);
    if (child == node->commands.end()) {
      if (is_value) continue;
      return NoSuchCommand(tree, *node, path, word);
    }
    path += " " + word;
    node = &*child;
  }
  return Name(*node, path, message);
}

// CLI11 takes "[a,b]" for two values where an option may have several.  Here it is a text like any
// other: a mark that it does not know stands behind it until the option has it.
constexpr char kBracketMark = '\x01';

std::vector<std::string> MarkBrackets(int argc, const char* const* argv) {
  std::vector<std::string> words(argv, argv + argc);
  for (std::string& word : words)
    if (word.starts_with('[') && word.ends_with(']')) word += kBracketMark;
  return words;
}

void KeepBrackets(CLI::App& app) {
  const CLI::Validator unmark(
      [](std::string& word) {
        if (word.starts_with('[') && word.ends_with(kBracketMark)) word.pop_back();
        return std::string();
      },
      "");
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0) option->transform(unmark);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    KeepBrackets(*command);
}

}  // namespace

ParseResult ParseCommandLine(int argc, const char* const* argv,
                             const std::vector<std::string>& environment) {
  ParseResult result;
  // The action of the command reads its arguments from the tree: they live equally long.
  const auto tree = std::make_shared<CommandTree>(result.command, environment);
  CLI::App& app = tree->app();
  try {
    KeepBrackets(app);
    const std::vector<std::string> marked = MarkBrackets(argc, argv);
    std::vector<const char*> words;
    words.reserve(marked.size());
    for (const std::string& word : marked) words.push_back(word.c_str());
    app.parse(argc, words.data());
  } catch (const CLI::Success& help) {
    std::ostringstream text;
    result.exit = app.exit(help, text, text) == 0 ? Exit::kOk : Exit::kUsage;
    Print(text.str());
    return result;
  } catch (const CLI::ParseError& error) {
    std::string path;
    const std::string what = Diagnose(app, argc, argv, error.what(), path);
    result.exit =
        Fail({Code::kInvalidArgument, fmt::format("{}{} `{} --help` shows what there is", what,
                                                  what.ends_with('?') ? "" : ";", path)});
    return result;
  }
  if (result.command.plain)
    result.command.plain = [tree, plain = result.command.plain] { return plain(); };
  if (result.command.action)
    result.command.action = [tree, action = result.command.action](const Context& context) {
      return action(context);
    };
  return result;
}

}  // namespace headworks::cli
