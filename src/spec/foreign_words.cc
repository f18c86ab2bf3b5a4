#include "foreign_words.h"

#include <algorithm>
#include <array>

namespace headworks::spec {
namespace {

constexpr std::string_view kNoScheduler =
    "what starts runs, triggers and schedule, comes with the scheduler; until then let cron call "
    "`headworks run`";
constexpr std::string_view kTries = "write retry: {max_attempts: 4}, which counts the first try";
constexpr std::string_view kHandler =
    "write a task under finally, with when: run.outcome == 'failed' where that is meant, or one "
    "under on_cancel";
constexpr std::string_view kExitCodes = "write retry: {when: {exit_codes: [75]}}";
constexpr std::string_view kSteps =
    "a task has no steps; write their commands below `run: |`, or make each a task of its own";
constexpr std::string_view kActions =
    "there are no actions to use; write commands under run, and give them values by env";
constexpr std::string_view kWorkers =
    "queue and requires say which workers run a task; remove it if the engine runs it itself";
constexpr std::string_view kArgv = "write the program and its arguments as a list, exec: [ls, -l]";
constexpr std::string_view kName =
    "a task is called by its key, as in `build: {run: make}`; what it is goes under description";

/// The first that fits where the word stands counts.
constexpr auto kWords = std::to_array<ForeignWord>({
    // Of the whole.
    {"jobs", "tasks"},
    {"steps", "tasks"},
    {"nodes", "tasks"},
    {"stages", "tasks"},
    {"dag", "tasks"},
    {"templates", "tasks"},
    {"dag_id", "name"},
    {"metadata", "name", "name, description and tags stand at the left margin"},
    {"spec", "tasks", "what stands below it belongs at the left margin"},
    {"kind", "tasks", "a file is always a workflow; remove it"},
    {"parameters", "params"},
    {"mode", "from"},
    {"inputs", "params"},
    {"default_args", "defaults"},
    {"on", "", kNoScheduler},
    {"cron", "tasks", kNoScheduler},
    {"schedule_interval", "tasks", kNoScheduler},
    {"trigger", "tasks", kNoScheduler},
    {"start_date", "tasks", kNoScheduler},
    {"catchup", "tasks", kNoScheduler},
    {"max_active_tasks", "max_parallel"},
    {"max_active_tasks", "", "write max_parallel at the left margin, or give the tasks a pool"},
    {"max_active_steps", "max_parallel"},
    {"parallelism", "max_parallel"},
    {"handler_on", "", kHandler},
    {"handlers", "", kHandler},
    {"on_exit", "", kHandler},
    {"on_success", "", kHandler},
    {"on_failure_callback", "", kHandler},
    {"on_success_callback", "", kHandler},
    {"group", "key"},
    {"cancel_in_progress", "on_conflict", "write on_conflict: cancel_previous"},
    // Of a task.
    {"name", "run", kName},
    {"id", "run", kName},
    {"task_id", "run", kName},
    {"jobs", "run", kSteps},
    {"steps", "run", kSteps},
    {"tasks", "run", kSteps},
    {"command", "run"},
    {"commands", "run"},
    {"cmd", "run"},
    {"script", "run"},
    {"bash", "run"},
    {"bash_command", "run"},
    {"args", "run", kArgv},
    {"entrypoint", "run", kArgv},
    {"uses", "run", kActions},
    {"with", "run", kActions},
    {"depends", "needs"},
    {"depends_on", "needs"},
    {"dependencies", "needs"},
    {"upstream", "needs"},
    {"after", "needs"},
    {"downstream", "needs", "write needs in the task that comes later"},
    {"options", "enum"},
    {"choices", "enum"},
    {"if", "when"},
    {"condition", "when"},
    {"preconditions", "when"},
    {"environment", "env"},
    {"variables", "env"},
    {"vars", "env"},
    {"dotenv", "env_file"},
    {"workdir", "cwd"},
    {"dir", "cwd"},
    {"working_dir", "cwd"},
    {"working_directory", "cwd"},
    {"runs_on", "run", kWorkers},
    {"strategy", "",
     "write matrix: {os: [linux, mac]}; fail-fast is on_failure: cancel_rest, at "
     "the left margin"},
    {"parallel", "matrix"},
    {"with_items", "matrix"},
    {"loop", "matrix"},
    {"always", "", "write trigger_rule: all_done, or put the task under finally"},
    {"timeout_minutes", "timeout"},
    {"timeout_seconds", "timeout"},
    {"timeout_sec", "timeout"},
    {"execution_timeout", "timeout"},
    {"dagrun_timeout", "timeout"},
    {"continue_on", "allow_failure"},
    {"continue_on_error", "allow_failure"},
    {"ignore_errors", "allow_failure"},
    {"priority_weight", "priority"},
    {"pool_slots", "weight"},
    // Of retry, at a task or within it.
    {"attempts", "max_attempts"},
    {"limit", "max_attempts", "write max_attempts, which counts the first try, too"},
    {"count", "max_attempts", "write max_attempts, which counts the first try, too"},
    {"delay", "initial"},
    {"interval", "initial"},
    {"interval_sec", "initial"},
    {"max_delay", "max"},
    {"max_interval", "max"},
    {"strategy", "backoff"},
    {"factor", "backoff"},
    {"multiplier", "backoff"},
    {"attempts", "", kTries},
    {"retries", "", kTries},
    {"max_retries", "", kTries},
    {"retry_policy", "", "write retry: {max_attempts: 4, backoff: fixed, initial: 5s}"},
    {"retry_strategy", "", "write retry: {max_attempts: 4, backoff: fixed, initial: 5s}"},
    {"delay", "", "write retry: {initial: 10s}"},
    {"retry_delay", "", "write retry: {initial: 10s}"},
    {"retry_delay_seconds", "", "write retry: {initial: 10s}"},
    {"max_retry_delay", "", "write retry: {max: 10m}"},
    {"retry_exponential_backoff", "", "write retry: {backoff: exponential}"},
    {"on_exit_codes", "", kExitCodes},
    {"exit_codes", "max_attempts", kExitCodes},
    {"exit_code", "", kExitCodes},
    {"retry_on", "", kExitCodes},
    // Values.
    {"json", "stdout-json"},
    {"lines", "stdout-lines"},
    {"text", "stdout"},
    {"constant", "fixed"},
    {"continue", "finish"},
    {"cancel", "cancel_rest"},
    {"stop", "cancel_rest"},
    {"fail_fast", "cancel_rest"},
    {"wait", "queue"},
    {"cancel", "cancel_previous"},
    {"replace", "cancel_previous"},
    {"reject", "skip"},
    {"none_failed_or_skipped", "none_failed_min_one_success"},
});

struct ForeignName {
  std::string_view spelled, instead;
};

constexpr std::string_view kOutputs =
    "what a task puts out is needs.ID.output.NAME, in a task that needs it";
constexpr std::string_view kDate = "the day the run was made is run.date, in UTC";
constexpr std::string_view kOutcome =
    "how the run went is run.outcome, which tasks under finally know";

constexpr auto kNames = std::to_array<ForeignName>({
    {"always(",
     "what runs however others ended has trigger_rule: all_done, or stands under finally"},
    {"failure(",
     "what runs after a failure has trigger_rule: one_failed, or stands under finally "
     "with when: run.outcome == 'failed'"},
    {"success(",
     "a task runs only if all that it needs succeeded, unless its trigger_rule says "
     "otherwise; leave it out"},
    {"cancelled(",
     "what runs after a cancel stands under on_cancel, or under finally with when: "
     "run.outcome == 'cancelled'"},
    {"max(", "the largest of a list of numbers is math.greatest(list)"},
    {"min(", "the smallest of a list of numbers is math.least(list)"},
    {"sum(", "a script adds up what it gets by env, as list.join(\" \")"},
    {"fromJSON(", "output that is JSON is read already, with output: stdout-json"},
    {"toJSON(", "JSON of a list or a map is string(x)"},
    {"inputs", "what a run is given is params.NAME"},
    {"dag_run", "what a run is given is params.NAME, or with --input, input.NAME"},
    {"vars", "values that a run is given are params.NAME, variables are env.NAME"},
    {"secrets",
     "a secret comes as a variable, by inherit_env or env_file, and the command reads it"},
    {"github",
     "a run knows run.id, run.workflow, run.created_at and run.date; anything else is a "
     "parameter"},
    {"workflow", "the name of the workflow is run.workflow"},
    {"strategy", "what a matrix gives is matrix.NAME"},
    {"item", "what a matrix gives is matrix.NAME"},
    {"steps", kOutputs},
    {"jobs", kOutputs},
    {"tasks", kOutputs},
    {"outputs", kOutputs},
    {"ti", kOutputs},
    {"ds", kDate},
    {"execution_date", kDate},
    {"logical_date", kDate},
    {"run_id", "the id of the run is run.id"},
    {"run.status", kOutcome},
    {"run.state", kOutcome},
    {"run.result", kOutcome},
});

/// Whether they are the same but for case, - and _.
bool IsSpelling(std::string_view a, std::string_view b) {
  const auto skip = [](std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of("-_"), text.size()));
  };
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  for (skip(a), skip(b); !a.empty() && !b.empty(); skip(a), skip(b)) {
    if (lower(a.front()) != lower(b.front())) return false;
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.empty() && b.empty();
}

}  // namespace

const ForeignWord* FindForeignWord(std::string_view word, std::span<const std::string_view> here) {
  const auto found = std::ranges::find_if(kWords, [&](const ForeignWord& one) {
    return IsSpelling(one.word, word) &&
           (one.meant.empty() || std::ranges::find(here, one.meant) != here.end());
  });
  return found == kWords.end() ? nullptr : &*found;
}

std::string_view InsteadInExpression(std::string_view spelled) {
  const auto found = std::ranges::find(kNames, spelled, &ForeignName::spelled);
  return found == kNames.end() ? std::string_view() : found->instead;
}

}  // namespace headworks::spec
