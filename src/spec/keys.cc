#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "headworks/model/workflow.h"
#include "language.h"
#include "reader.h"

/// The table of keys: the one place where the language is written down.
namespace headworks::spec {
namespace {

using model::Concurrency;
using model::Param;
using model::RetryCondition;
using model::RetryPolicy;
using model::Task;
using model::WorkflowDefinition;
using NodeNo = YamlTree::NodeNo;
using Type = ValueType;

constexpr std::string_view kSince = "0.1";

constexpr auto kTypeNames = std::to_array<std::string_view>(
    {"string", "integer", "number", "boolean", "array", "object", "date", "datetime"});
constexpr auto kOnFailure = std::to_array<std::string_view>({"finish", "cancel_rest"});
constexpr auto kOnConflict = std::to_array<std::string_view>({"queue", "skip", "cancel_previous"});
constexpr auto kBackoff = std::to_array<std::string_view>({"fixed", "linear", "exponential"});
constexpr auto kOutputModes =
    std::to_array<std::string_view>({"file", "stdout-json", "stdout-lines", "stdout"});
constexpr auto kTriggerRules = std::to_array<std::string_view>(
    {"all_success", "all_failed", "all_done", "all_skipped", "one_success", "one_failed",
     "one_done", "none_failed", "none_failed_min_one_success", "none_skipped", "always"});

void Read(Reader& r, NodeNo v, std::string& into) { r.Text(v, into); }
void Read(Reader& r, NodeNo v, bool& into) { r.Bool(v, into); }
void Read(Reader& r, NodeNo v, int& into) { r.Integer(v, into); }
void Read(Reader& r, NodeNo v, double& into) { r.Fraction(v, into); }
void Read(Reader& r, NodeNo v, Duration& into) { r.Time(v, into); }

/// Reads the value of a key that is one member of what its map describes.
template <auto Member, typename T>
void Set(Reader& r, NodeNo v, T& into) {
  Read(r, v, into.*Member);
}

template <auto Member, const auto& Names, typename T>
void Pick(Reader& r, NodeNo v, T& into) {
  using Enum = std::remove_reference_t<decltype(into.*Member)>;
  if (const auto position = r.Choice(v, Names)) into.*Member = static_cast<Enum>(*position);
}

template <std::optional<double> Param::* Member>
void SetBound(Reader& r, NodeNo v, Param& into) {
  double value = 0;
  r.Fraction(v, value);
  into.*Member = value;
}

template <auto Role>
void SetTasks(Reader& r, NodeNo v, WorkflowDefinition& into) {
  r.Tasks(v, Role, into.tasks);
}

/// For keys that make sense only before all others, or after them; the reader knows them by name.
template <typename T>
void LeaveForLater(Reader&, NodeNo, T&) {}

constexpr auto kWorkflowKeys = std::to_array<Entry<WorkflowDefinition>>({
    {{.name = "version",
      .type = Type::kVersion,
      .usual = "",
      .example = "1",
      .since = kSince,
      .text = "The version of this language: 1.",
      .required = true},
     [](Reader& r, NodeNo v, WorkflowDefinition&) { r.Version(v); }},
    {{.name = "name",
      .type = Type::kText,
      .usual = "",
      .example = "nightly-report",
      .since = kSince,
      .text = "The workflow's name: 1 to 100 letters, digits, `_`, `.` and `-`; the file's name "
              "without extension unless given."},
     [](Reader& r, NodeNo v, WorkflowDefinition& d) { r.Text(v, d.name.workflow); }},
    {{.name = "description",
      .type = Type::kText,
      .usual = "",
      .example = "Report over the day's sales.",
      .since = kSince,
      .text = "What the workflow is for, for people."},
     Set<&WorkflowDefinition::description>},
    {{.name = "tags",
      .type = Type::kTexts,
      .usual = "[]",
      .example = "[nightly, finance]",
      .since = kSince,
      .text = "Words to find workflows by."},
     [](Reader& r, NodeNo v, WorkflowDefinition& d) {
       r.Texts(v, "tags takes a list of words", d.tags);
     }},
    {{.name = "params",
      .type = Type::kParams,
      .usual = "{}",
      .example = "{day: {type: date, required: true}, limit: 100}",
      .since = kSince,
      .text = "Parameters of a run by name: a default value, or a map that declares more."},
     [](Reader& r, NodeNo v, WorkflowDefinition& d) { r.Params(v, d.params); }},
    {{.name = "env",
      .type = Type::kTemplateMap,
      .usual = "{}",
      .example = "{CC: clang, DAY: '${{ params.day }}'}",
      .since = kSince,
      .text = "Environment variables of every task; values are taken as they are written."},
     [](Reader& r, NodeNo v, WorkflowDefinition& d) {
       r.TextMap(v, "env takes a map from names to values", d.env);
     }},
    {{.name = "defaults",
      .type = Type::kDefaults,
      .usual = "{}",
      .example = "{timeout: 10m, retry: {max_attempts: 3}}",
      .since = kSince,
      .text = "What every task has unless it says otherwise, field by field."},
     LeaveForLater<WorkflowDefinition>},
    {{.name = "max_parallel",
      .type = Type::kInteger,
      .usual = "0",
      .example = "4",
      .since = kSince,
      .text = "Tasks of one run that are under way at a time; 0 = no limit of its own.",
      .least = 0,
      .most = 1'000'000},
     Set<&WorkflowDefinition::max_parallel>},
    {{.name = "max_active_runs",
      .type = Type::kInteger,
      .usual = "0",
      .example = "1",
      .since = kSince,
      .text = "Runs of this workflow that are under way at a time; 0 = no limit of its own.",
      .least = 0,
      .most = 1'000'000},
     Set<&WorkflowDefinition::max_active_runs>},
    {{.name = "concurrency",
      .type = Type::kConcurrency,
      .usual = "",
      .example = "{key: params.customer, limit: 1}",
      .since = kSince,
      .text = "Which runs of this workflow may be under way together, and how many may start."},
     [](Reader& r, NodeNo v, WorkflowDefinition& d) { r.Concurrency(v, d.concurrency); }},
    {{.name = "timeout",
      .type = Type::kDuration,
      .usual = "0s",
      .example = "2h",
      .since = kSince,
      .text = "For the run; then it is cancelled, and failed. 0s = no limit."},
     Set<&WorkflowDefinition::timeout>},
    {{.name = "on_failure",
      .type = Type::kChoice,
      .usual = "finish",
      .example = "cancel_rest",
      .since = kSince,
      .text = "When a task has failed: finish what does not need it, or cancel the rest.",
      .names = kOnFailure},
     Pick<&WorkflowDefinition::on_failure, kOnFailure>},
    {{.name = "tasks",
      .type = Type::kTasks,
      .usual = "",
      .example = "{hello: {run: echo hello}}",
      .since = kSince,
      .text = "The tasks by id.",
      .required = true},
     SetTasks<model::TaskRole::kMain>},
    {{.name = "on_cancel",
      .type = Type::kTasks,
      .usual = "{}",
      .example = "{undo: {run: ./undo}}",
      .since = kSince,
      .text = "Tasks that run only after a cancel, by id; they may only need each other."},
     SetTasks<model::TaskRole::kOnCancel>},
    {{.name = "finally",
      .type = Type::kTasks,
      .usual = "{}",
      .example = "{clean: {run: ./clean}}",
      .since = kSince,
      .text = "Tasks that run last, whatever happened, by id; they may only need each other."},
     SetTasks<model::TaskRole::kFinally>},
    {{.name = "finally_timeout",
      .type = Type::kDuration,
      .usual = "5m",
      .example = "1m",
      .since = kSince,
      .text = "For all tasks under finally together."},
     Set<&WorkflowDefinition::finally_timeout>},
});

constexpr auto kParamKeys = std::to_array<Entry<Param>>({
    {{.name = "type",
      .type = Type::kParamType,
      .usual = "",
      .example = "integer",
      .since = kSince,
      .text = "The type of the value; that of the default unless given, or else string.",
      .names = kTypeNames},
     [](Reader& r, NodeNo v, Param& p) { r.ParamType(v, p); }},
    {{.name = "default",
      .type = Type::kAny,
      .usual = "",
      .example = "100",
      .since = kSince,
      .text =
          "The value when none is given; texts in it may hold templates over `run` and `slot`."},
     LeaveForLater<Param>},
    {{.name = "required",
      .type = Type::kBoolean,
      .usual = "false",
      .example = "true",
      .since = kSince,
      .text = "Every run must give a value; there is no default then."},
     Set<&Param::required>},
    {{.name = "enum",
      .type = Type::kAnyList,
      .usual = "",
      .example = "[dev, prod]",
      .since = kSince,
      .text = "The only values that are taken."},
     LeaveForLater<Param>},
    {{.name = "min",
      .type = Type::kNumber,
      .usual = "",
      .example = "1",
      .since = kSince,
      .text = "The least integer or number that is taken."},
     SetBound<&Param::min>},
    {{.name = "max",
      .type = Type::kNumber,
      .usual = "",
      .example = "10000",
      .since = kSince,
      .text = "The largest integer or number that is taken."},
     SetBound<&Param::max>},
    {{.name = "pattern",
      .type = Type::kPattern,
      .usual = "",
      .example = "'[a-z]+-[0-9]+'",
      .since = kSince,
      .text = "A regular expression (RE2) that the whole of a string must match."},
     [](Reader& r, NodeNo v, Param& p) { r.Pattern(v, p.pattern); }},
    {{.name = "description",
      .type = Type::kText,
      .usual = "",
      .example = "The day to report on.",
      .since = kSince,
      .text = "What the parameter is for, for people."},
     Set<&Param::description>},
});

constexpr auto kTaskKeys = std::to_array<Entry<TaskDraft>>({
    {{.name = "description",
      .type = Type::kText,
      .usual = "",
      .example = "Compiles everything.",
      .since = kSince,
      .text = "What the task does, for people."},
     Set<&Task::description>},
    {{.name = "needs",
      .type = Type::kTexts,
      .usual = "[]",
      .example = "[build, lint]",
      .since = kSince,
      .text = "Ids of the tasks that come before it: one, or a list."},
     [](Reader& r, NodeNo v, TaskDraft& t) {
       r.Texts(v, "needs takes a task id or a list of them", t.needs);
     }},
    {{.name = "run",
      .type = Type::kTemplate,
      .usual = "",
      .example = "make -j4",
      .since = kSince,
      .text = "A script for a shell (see shell)."},
     [](Reader& r, NodeNo v, TaskDraft& t) {
       r.Command(v, t.action.emplace<model::ShellAction>().script);
     }},
    {{.name = "exec",
      .type = Type::kExec,
      .usual = "",
      .example = "[ls, -l, '${{ params.folder }}']",
      .since = kSince,
      .text = "A program and its arguments; no shell in between."},
     [](Reader& r, NodeNo v, TaskDraft& t) { r.Exec(v, t); }},
    {{.name = "function",
      .type = Type::kText,
      .usual = "",
      .example = "report",
      .since = kSince,
      .text = "A function that the embedding program registered."},
     [](Reader& r, NodeNo v, TaskDraft& t) {
       r.Command(v, t.action.emplace<model::FunctionAction>().function);
     }},
    {{.name = "shell",
      .type = Type::kShell,
      .usual = "sh",
      .example = "bash",
      .since = kSince,
      .text = "What runs the script of run: sh (`/bin/sh -e`), bash (`bash -e -o pipefail`), or a "
              "list with a program and its arguments.",
      .in_defaults = true},
     [](Reader& r, NodeNo v, TaskDraft& t) { r.Shell(v, t.shell); }},
    {{.name = "when",
      .type = Type::kWhen,
      .usual = "",
      .example = "params.env == 'prod'",
      .since = kSince,
      .text = "An expression, or a list of which all must be true; if not, the task is skipped."},
     [](Reader& r, NodeNo v, TaskDraft& t) { r.When(v, t.when); }},
    {{.name = "trigger_rule",
      .type = Type::kChoice,
      .usual = "all_success",
      .example = "all_done",
      .since = kSince,
      .text = "When the task runs, given how those that it needs ended.",
      .names = kTriggerRules},
     Pick<&Task::trigger_rule, kTriggerRules>},
    {{.name = "allow_failure",
      .type = Type::kBoolean,
      .usual = "false",
      .example = "true",
      .since = kSince,
      .text = "The task may fail without failing the run; to its successors it succeeded.",
      .in_defaults = true},
     Set<&Task::allow_failure>},
    {{.name = "matrix",
      .type = Type::kMatrix,
      .usual = "",
      .example = "{os: [linux, mac], python: ['3.11', '3.12']}",
      .since = kSince,
      .text = "Lists of values by name: the task becomes one for each combination, at most 1000."},
     [](Reader&, NodeNo v, TaskDraft& t) { t.matrix = v; }},
    {{.name = "env",
      .type = Type::kTemplateMap,
      .usual = "{}",
      .example = "{DAY: '${{ params.day }}'}",
      .since = kSince,
      .text = "Environment variables, over the workflow's.",
      .in_defaults = true},
     [](Reader& r, NodeNo v, TaskDraft& t) {
       r.TextMap(v, "env takes a map from names to values", t.env);
     }},
    {{.name = "env_file",
      .type = Type::kTemplates,
      .usual = "[]",
      .example = "[common.env, '${{ params.env }}.env']",
      .since = kSince,
      .text = "Files of NAME=value lines, relative to the file's folder, read at each try; a later "
              "one wins, and env over all.",
      .in_defaults = true},
     [](Reader& r, NodeNo v, TaskDraft& t) { r.EnvFiles(v, t.env_file); }},
    {{.name = "inherit_env",
      .type = Type::kTexts,
      .usual = "[]",
      .example = "[SSH_AUTH_SOCK]",
      .since = kSince,
      .text = "Names of variables to take from Headworks' own environment.",
      .in_defaults = true},
     [](Reader& r, NodeNo v, TaskDraft& t) {
       r.Texts(v, "inherit_env takes a list of names of environment variables", t.inherit_env);
     }},
    {{.name = "cwd",
      .type = Type::kTemplate,
      .usual = "",
      .example = "reports",
      .since = kSince,
      .text = "Working folder, relative to the file's folder, which it is unless given.",
      .in_defaults = true},
     [](Reader& r, NodeNo v, TaskDraft& t) { r.Cwd(v, t.cwd); }},
    {{.name = "retry",
      .type = Type::kRetry,
      .usual = "{}",
      .example = "{max_attempts: 3, initial: 10s}",
      .since = kSince,
      .text = "How often and when the task is tried again.",
      .in_defaults = true},
     [](Reader& r, NodeNo v, TaskDraft& t) { r.Retry(v, t); }},
    {{.name = "timeout",
      .type = Type::kDuration,
      .usual = "0s",
      .example = "10m",
      .since = kSince,
      .text = "For one try. 0s = no limit.",
      .in_defaults = true},
     [](Reader& r, NodeNo v, TaskDraft& t) {
       r.Time(v, t.timeout);
       t.Say(model::Gap::kTimeout);
     }},
    {{.name = "start_timeout",
      .type = Type::kDuration,
      .usual = "10m",
      .example = "2m",
      .since = kSince,
      .text = "For an attempt to start once its executor has it; then the executor is asked what "
              "became of it.",
      .in_defaults = true},
     [](Reader& r, NodeNo v, TaskDraft& t) { r.StartTimeout(v, t.start_timeout); }},
    {{.name = "deadline",
      .type = Type::kDuration,
      .usual = "0s",
      .example = "1h",
      .since = kSince,
      .text = "From the start of the first try until the task is over, waiting and all tries "
              "included. 0s = no limit.",
      .in_defaults = true},
     Set<&Task::deadline>},
    {{.name = "grace",
      .type = Type::kDuration,
      .usual = "10s",
      .example = "30s",
      .since = kSince,
      .text = "Between TERM and KILL, when the task is stopped.",
      .in_defaults = true},
     Set<&Task::grace>},
    {{.name = "priority",
      .type = Type::kInteger,
      .usual = "0",
      .example = "10",
      .since = kSince,
      .text = "Higher first, among tasks that are ready.",
      .in_defaults = true,
      .least = -1'000,
      .most = 1'000},
     Set<&Task::priority>},
    {{.name = "pool",
      .type = Type::kText,
      .usual = "",
      .example = "gpu",
      .since = kSince,
      .text =
          "A pool of permits that the configuration or `headworks pool set` declares. Each "
          "attempt holds some until it is over; a task that finds too few waits. `''` takes away "
          "the pool of `defaults`.",
      .in_defaults = true},
     Set<&Task::pool>},
    {{.name = "weight",
      .type = Type::kInteger,
      .usual = "1",
      .example = "2",
      .since = kSince,
      .text = "Permits of the pool that an attempt holds; at most as many as the pool has.",
      .in_defaults = true,
      .least = 1,
      .most = 1'000'000},
     Set<&Task::weight>},
    {{.name = "queue",
      .type = Type::kText,
      .usual = "default",
      .example = "gpu",
      .since = kSince,
      .text = "Where workers run the tasks: the queue that its worker comes to.",
      .in_defaults = true},
     [](Reader& r, NodeNo v, TaskDraft& t) {
       r.Text(v, t.queue);
       if (t.queue == model::kDefaultQueue) t.queue.clear();
     }},
    {{.name = "requires",
      .type = Type::kTexts,
      .usual = "[]",
      .example = "[gpu, region=eu]",
      .since = kSince,
      .text = "Labels that its worker must have.",
      .in_defaults = true},
     [](Reader& r, NodeNo v, TaskDraft& t) {
       r.Texts(v, "requires takes a label of workers, or a list of them", t.required);
     }},
    {{.name = "idempotency_key",
      .type = Type::kTemplate,
      .usual = "",
      .example = "invoice-${{ params.day }}",
      .since = kSince,
      .text = "What HEADWORKS_IDEMPOTENCY_KEY holds, in place of one made of run and task."},
     Set<&Task::idempotency_key>},
    {{.name = "output",
      .type = Type::kOutput,
      .usual = "file",
      .example = "{from: stdout-json, type: {rows: integer}}",
      .since = kSince,
      .text = "Where the result of a command is taken from, and which fields it has.",
      .in_defaults = true},
     [](Reader& r, NodeNo v, TaskDraft& t) { r.Output(v, t.output); }},
    {{.name = "artifacts",
      .type = Type::kTemplateMap,
      .usual = "{}",
      .example = "{report: out/report.pdf}",
      .since = kSince,
      .text = "Files that the command leaves for other tasks, by name: paths below its working "
              "folder, or below `$HEADWORKS_SCRATCH/`. Tasks that need it read "
              "`needs.ID.artifacts.NAME`."},
     [](Reader& r, NodeNo v, TaskDraft& t) { r.Artifacts(v, t.artifacts); }},
    {{.name = "resources",
      .type = Type::kResources,
      .usual = "{}",
      .example = "{cpu: 2, memory: 4GiB}",
      .since = kSince,
      .text = "What the task asks of the place where it runs; more than the operator allows is "
              "refused.",
      .in_defaults = true},
     [](Reader& r, NodeNo v, TaskDraft& t) { r.Resources(v, t.resources); }},
    {{.name = "labels",
      .type = Type::kTextMap,
      .usual = "{}",
      .example = "{team: data}",
      .since = kSince,
      .text = "Names and values, for people and tools.",
      .in_defaults = true},
     [](Reader& r, NodeNo v, TaskDraft& t) {
       r.TextMap(v, "labels takes a map from names to values", t.labels);
     }},
});

constexpr auto kRetryKeys = std::to_array<Entry<RetryPolicy>>({
    {{.name = "max_attempts",
      .type = Type::kInteger,
      .usual = "1",
      .example = "3",
      .since = kSince,
      .text = "Tries in total.",
      .least = 1,
      .most = 1'000},
     Set<&RetryPolicy::max_attempts>},
    {{.name = "backoff",
      .type = Type::kChoice,
      .usual = "exponential",
      .example = "fixed",
      .since = kSince,
      .text = "How the delay between two tries grows.",
      .names = kBackoff},
     Pick<&RetryPolicy::backoff, kBackoff>},
    {{.name = "initial",
      .type = Type::kDuration,
      .usual = "1s",
      .example = "10s",
      .since = kSince,
      .text = "The first delay."},
     Set<&RetryPolicy::initial>},
    {{.name = "max",
      .type = Type::kDuration,
      .usual = "5m",
      .example = "1h",
      .since = kSince,
      .text = "The longest delay."},
     Set<&RetryPolicy::max>},
    {{.name = "jitter",
      .type = Type::kNumber,
      .usual = "0.2",
      .example = "0",
      .since = kSince,
      .text = "Share of the delay that varies, 0 to 1."},
     Set<&RetryPolicy::jitter>},
    {{.name = "when",
      .type = Type::kRetryCondition,
      .usual = "",
      .example = "{exit_codes: [75]}",
      .since = kSince,
      .text = "Only such failures are tried again; all unless given."},
     [](Reader& r, NodeNo v, RetryPolicy& p) { r.Condition(v, p.when); }},
    {{.name = "unless",
      .type = Type::kRetryCondition,
      .usual = "",
      .example = "{output_matches: 'no such table'}",
      .since = kSince,
      .text = "Such failures are never tried again, whatever when says."},
     [](Reader& r, NodeNo v, RetryPolicy& p) { r.Condition(v, p.unless); }},
    {{.name = "max_losses",
      .type = Type::kInteger,
      .usual = "6",
      .example = "2",
      .since = kSince,
      .text = "The loss (a crash of the machine, not of the task) with this number ends the task.",
      .least = 1,
      .most = 1'000},
     Set<&RetryPolicy::max_losses>},
});

constexpr auto kConditionKeys = std::to_array<Entry<RetryCondition>>({
    {{.name = "exit_codes",
      .type = Type::kExitCodes,
      .usual = "[]",
      .example = "[69, 75]",
      .since = kSince,
      .text = "The command ended with one of these, 1 to 255."},
     [](Reader& r, NodeNo v, RetryCondition& c) { r.ExitCodes(v, c.exit_codes); }},
    {{.name = "output_matches",
      .type = Type::kPattern,
      .usual = "",
      .example = "'connection (refused|reset)'",
      .since = kSince,
      .text = "A line of the output contains a match of this regular expression (RE2)."},
     [](Reader& r, NodeNo v, RetryCondition& c) { r.Pattern(v, c.output_matches); }},
});

constexpr auto kConcurrencyKeys = std::to_array<Entry<Concurrency>>({
    {{.name = "key",
      .type = Type::kKeyExpression,
      .usual = "",
      .example = "params.customer",
      .since = kSince,
      .text = "An expression over `params` and `input`: the limits are for the runs with the same "
              "value; without it, for all runs of the workflow."},
     [](Reader& r, NodeNo v, Concurrency& c) { r.Text(v, c.key); }},
    {{.name = "limit",
      .type = Type::kInteger,
      .usual = "",
      .example = "1",
      .since = kSince,
      .text = "Runs under way at a time; without it, any number.",
      .least = 1,
      .most = 1'000'000},
     [](Reader& r, NodeNo v, Concurrency& c) { r.RunLimit(v, c.limit); }},
    {{.name = "on_conflict",
      .type = Type::kChoice,
      .usual = "queue",
      .example = "cancel_previous",
      .since = kSince,
      .text = "A run for which there is no place waits; or it is not made, and whoever starts it "
              "is told; or the oldest that are in its way are cancelled.",
      .names = kOnConflict},
     Pick<&Concurrency::on_conflict, kOnConflict>},
    {{.name = "rate",
      .type = Type::kRate,
      .usual = "",
      .example = "{limit: 10, per: 1m}",
      .since = kSince,
      .text = "How many may start in any time span of a length."},
     [](Reader& r, NodeNo v, Concurrency& c) { r.Rate(v, c); }},
});

constexpr auto kRateKeys = std::to_array<Entry<RateDraft>>({
    {{.name = "limit",
      .type = Type::kInteger,
      .usual = "",
      .example = "10",
      .since = kSince,
      .text = "Starts within the time span.",
      .required = true,
      .least = 1,
      .most = 10'000},
     Set<&RateDraft::limit>},
    {{.name = "per",
      .type = Type::kDuration,
      .usual = "",
      .example = "1m",
      .since = kSince,
      .text = "The length of the time span.",
      .required = true},
     Set<&RateDraft::per>},
});

constexpr auto kOutputKeys = std::to_array<Entry<model::OutputSpec>>({
    {{.name = "from",
      .type = Type::kChoice,
      .usual = "file",
      .example = "stdout-json",
      .since = kSince,
      .text = "The file named by HEADWORKS_OUTPUT, or all of stdout: as JSON, as lines, or as "
              "text.",
      .names = kOutputModes},
     Pick<&model::OutputSpec::mode, kOutputModes>},
    {{.name = "type",
      .type = Type::kOutputType,
      .usual = "",
      .example = "{rows: integer, files: [string]}",
      .since = kSince,
      .text = "The fields of the result and their types: expressions over it are checked, and the "
              "result is."},
     [](Reader& r, NodeNo v, model::OutputSpec& o) { r.OutputType(v, o.type_json); }},
});

constexpr auto kResourceKeys = std::to_array<Entry<model::Resources>>({
    {{.name = "cpu",
      .type = Type::kNumber,
      .usual = "",
      .example = "0.5",
      .since = kSince,
      .text = "Processors, 0.001 to 1024."},
     [](Reader& r, NodeNo v, model::Resources& m) { r.Cpu(v, m.cpu); }},
    {{.name = "memory",
      .type = Type::kSize,
      .usual = "",
      .example = "512MiB",
      .since = kSince,
      .text = "Memory, 1 byte to 1024 TiB."},
     [](Reader& r, NodeNo v, model::Resources& m) { r.Size(v, m.memory); }},
});

constexpr auto kReserved = std::to_array<ReservedKey>({
    {"schedule", "comes with the scheduler", "let cron call `headworks run`"},
    {"triggers", "comes with the scheduler", "start runs with `headworks run`"},
    {"image", "comes with containers", "call docker or podman in the command"},
    {"container", "comes with containers", "call docker or podman in the command"},
    {"secrets", "comes with the secret store", "name the variable under inherit_env"},
    {"notify", "comes with notifications",
     "add a task under finally that tells, or set alert_command"},
    {"foreach", "comes with mapped tasks", "use a matrix, whose values stand in the file"},
    {"workflow", "comes with workflows in workflows", "call `headworks run` in a task"},
    {"wait", "comes with waiting tasks", "let a task fail until it is time, and retry it"},
    {"http", "comes with HTTP tasks", "call curl in the command"},
    {"cancel_timeout", "comes with a later version", "remove it, it is 10m"},
});

template <typename T, std::size_t N>
KeyMap MakeMap(std::string_view name, std::string_view place, std::string_view text,
               const std::array<Entry<T>, N>& entries) {
  KeyMap map{name, place, text, {}};
  map.keys.reserve(N);
  for (const Entry<T>& entry : entries) map.keys.push_back(&entry.key);
  return map;
}

}  // namespace

template <>
std::span<const Entry<WorkflowDefinition>> EntriesOf() {
  return kWorkflowKeys;
}
template <>
std::span<const Entry<Param>> EntriesOf() {
  return kParamKeys;
}
template <>
std::span<const Entry<TaskDraft>> EntriesOf() {
  return kTaskKeys;
}
template <>
std::span<const Entry<RetryPolicy>> EntriesOf() {
  return kRetryKeys;
}
template <>
std::span<const Entry<RetryCondition>> EntriesOf() {
  return kConditionKeys;
}
template <>
std::span<const Entry<Concurrency>> EntriesOf() {
  return kConcurrencyKeys;
}
template <>
std::span<const Entry<RateDraft>> EntriesOf() {
  return kRateKeys;
}
template <>
std::span<const Entry<model::OutputSpec>> EntriesOf() {
  return kOutputKeys;
}
template <>
std::span<const Entry<model::Resources>> EntriesOf() {
  return kResourceKeys;
}

std::span<const KeyMap> Language() {
  static const std::array<KeyMap, 9> kMaps = {
      MakeMap("workflow", "to the workflow, at the left margin", "The file as a whole.",
              kWorkflowKeys),
      MakeMap("concurrency", "to the concurrency of a workflow",
              "Which runs may be under way together; a limit, a rate, or both.", kConcurrencyKeys),
      MakeMap("rate", "to the rate of a concurrency", "How many runs may start.", kRateKeys),
      MakeMap("param", "to a parameter", "A parameter that is declared by a map.", kParamKeys),
      MakeMap("task", "to a task", "Exactly one of run, exec and function says what it does.",
              kTaskKeys),
      MakeMap("retry", "to the retry of a task", "How often and when a task is tried again.",
              kRetryKeys),
      MakeMap("condition", "to when or unless of a retry",
              "Failed tries that match one of the two.", kConditionKeys),
      MakeMap("output", "to the output of a task",
              "Where a result is taken from. A word alone is that of `from`.", kOutputKeys),
      MakeMap("resources", "to the resources of a task",
              "What a task asks of the place where it runs.", kResourceKeys),
  };
  return kMaps;
}

std::span<const ReservedKey> ReservedKeys() { return kReserved; }

std::string WhyReserved(const ReservedKey& key) {
  return fmt::format("the key \"{}\" is reserved: it {}; until then {}", key.name, key.comes,
                     key.until_then);
}

std::span<const std::string_view> TypeNames() { return kTypeNames; }

}  // namespace headworks::spec
