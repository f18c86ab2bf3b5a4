#include <algorithm>
#include <array>
#include <string>

#include "headworks/spec/fault.h"

namespace headworks::spec {
namespace {

/// Ascending by code.  Codes are public: append, never reuse.
constexpr auto kExplanations = std::to_array<Explanation>({
    {"HW1001", "the file is no text",
     "A workflow file is UTF-8 text of at most 16 MiB. The file is larger, is in another encoding "
     "(UTF-16, Latin-1), or holds control characters. Save it as UTF-8 in your editor, or convert "
     "it: iconv -f LATIN1 -t UTF-8 old.yaml > new.yaml. A very large workflow is better split into "
     "several; max_workflow_bytes raises the limit."},
    {"HW1002", "the file is not YAML",
     "The parser cannot make sense of the text at the marked place. The entry around it was left "
     "out and the rest read, but how tasks fit together was not looked at. Usual causes: a tab in "
     "the indentation (YAML takes spaces only), lines of one map "
     "that are indented differently, a quote or bracket that is never closed, and text with ': ' "
     "or ' #' in it that has no quotes. Commands of several lines go best into a block:\n"
     "  run: |\n    echo one\n    echo two"},
    {"HW1003", "the file is too deep, or its aliases multiply",
     "Lists and maps may be nested 64 deep, and with all aliases (*name), merge keys (<<), "
     "matrices "
     "and defaults written out a file may come to 512 MiB. These bounds keep a small file from "
     "filling the "
     "memory of the machine. An alias that stands within the thing it names has no end and is "
     "refused too. Flatten the value, or write it once and refer to it less often."},
    {"HW1004", "a key stands twice in one map",
     "YAML allows a key only once in a map, and most programs silently keep one of the two values. "
     "Headworks does not guess which one you meant. Rename one of them (two tasks need two ids), "
     "or merge the two values into one."},
    {"HW1005", "a part of YAML that is not taken",
     "A workflow file is one YAML document without tags. Not taken are: tags (!!str, !custom), "
     "because they make the same text mean different things; a second document after ---, because "
     "a file holds one workflow; keys that are no text; << with something that is no map; and the "
     "characters U+0085, U+2028 and U+2029 as such, which end a line in older YAML. "
     "Quotes make text of a number, so !!str 1 is written \"1\"."},
    {"HW1006", "an unknown key",
     "Keys are checked, because a misspelt one would otherwise be a setting that silently does "
     "nothing. The message names the nearest known key, or where the key belongs. All keys, with "
     "type, default and an example, are in docs/workflow-reference.md; `headworks workflow schema` "
     "prints them for editors. Keys that begin with x- are yours: they are not looked at, and good "
     "places for anchors."},
    {"HW1007", "a reserved key",
     "The key has a meaning in a later version of the language. This program cannot do what it "
     "asks for, so it refuses the file instead of running it differently from what it says. The "
     "message says what the key comes with and what does the job until then."},
    {"HW1008", "something required is missing",
     "Every file has `version: 1` and at least one task under `tasks`, and every task says what it "
     "does with one of run (a shell script), exec (a program and its arguments) or function (a "
     "registered function). The smallest file:\n"
     "  version: 1\n  tasks:\n    hello: {run: echo hello}"},
    {"HW1009", "a value of the wrong type",
     "The value is, say, a list where text belongs, or text where a list belongs. Note that "
     "booleans are true and false only: yes, no, on and off are text, as YAML 1.2 has it. "
     "`exec` takes a list ([ls, -l]); a command line for a shell goes under `run`. Values of "
     "environment variables may be numbers, which are taken as they are written; an empty one is "
     "written \"\"."},
    {"HW1010", "a value that is not taken",
     "The type is right, the value is not: a name that is none of those listed, a duration without "
     "unit (write 30s, 10m, 1h30m), a number that JSON cannot hold (.inf, .nan, more than 64 "
     "bits), "
     "or a path that begins with ~ or a variable, where no shell is there to expand it."},
    {"HW1011", "an unknown version of the language",
     "`version` says which language the file is written in, so that a file keeps its meaning for "
     "ever. This program reads version 1."},
    {"HW1012", "a task that does two things",
     "A task has exactly one of run, exec and function. Keep one, or make two tasks, the second of "
     "which needs the first."},
    {"HW1013", "a value that YAML reads in two ways",
     "YAML 1.1, which many programs still read, and YAML 1.2, which this is, see these values "
     "differently when they have no quotes: yes, no, on, off (booleans or text), 010 (8 or 10), "
     "1_000 and 1:30 (numbers or text), 2026-01-31 (a date or text), and 3.10 in a matrix is the "
     "number 3.1. Where the type is taken from the value, such a value is refused: put it in "
     "quotes to mean the text, or write what you mean (true, 8, 1000, 1m30s). A parameter that is "
     "a date says so: {type: date, default: 2026-01-31}."},
    {"HW1014", "keys that contradict each other",
     "Both keys are known and neither is wrong alone, but together they have no meaning: a default "
     "that is never used because the parameter is required, bounds for something that is no "
     "number, a pattern for something that is no string, a shell, an environment or a folder for "
     "a task that runs no command, conditions or delays of further tries for a task that is tried "
     "once (a `max_attempts` of the platform does not count, because a file means the same "
     "wherever it is read). Remove one of the two. Under defaults such keys stand for the tasks "
     "that they are for."},
    {"HW1015", "a matrix that is too large",
     "One matrix makes at most 1,000 tasks (the product of the lengths of its lists, less what "
     "exclude takes away, more what include adds), and the instances of all matrices together have "
     "at most 2,000,000 needs. Two large matrices that need each other without sharing an axis "
     "multiply: put one task without a matrix in between, which needs the one and is needed by the "
     "other."},
    {"HW1016", "a matrix that does not fit together",
     "Each combination has an id made of its values, task[linux,3.11], and is there once. Refused "
     "are: two values of a list, or two combinations, that read the same; an exclude that names no "
     "list, or none of its values; an include that adds nothing, or that makes a further "
     "combination without a value for each list; a matrix of which nothing is left; and a value "
     "that reads as one that it is compared with, by exclude, include or a need, but has another "
     "type, as 3.1 and \"3.1\". exclude is applied first. An include "
     "whose values agree with existing combinations adds its other values to them; otherwise it is "
     "a further combination."},
    {"HW1017", "a matrix that may be meant otherwise",
     "A warning: the file is taken. An include whose values agree with no combination is a further "
     "one, a name in it that is no list is a further value of each combination that it fits, and a "
     "task whose values agree with no combination of what it needs waits for all of them. That is "
     "how further combinations are written, and what a misspelt value looks like. Correct the "
     "value; to need all of a task, a task without a matrix in between says so."},
    {"HW1018", "text that looks as if something were to fill it in",
     "A warning: the file is taken, and the text stays as it is written. Variables like $HOME and "
     "commands like $(date) are read by shells, and a shell sees the script under `run` alone: an "
     "environment variable, an argument of `exec` or a folder is given as it stands. Where a value "
     "belongs, write an expression, ${{ params.day }}, which has a dollar before its braces; the "
     "scratch folder of the run is ${{ run.dir }}. A variable of the surroundings comes by "
     "`inherit_env`."},
    {"HW1101", "a name that is not taken",
     "Names of workflows, packages and tenants are 1 to 100 letters, digits, _ . and - (of ASCII), "
     "because they stand in keys, addresses and file names. Without `name:` a workflow is called "
     "like its file without the extension."},
    {"HW1102", "no task, or too many",
     "A workflow has 1 to 1,000,000 tasks. Those under on_cancel and finally do not make one "
     "alone: they accompany the others."},
    {"HW1103", "a task id that is not taken",
     "Task ids are 1 to 100 letters, digits, _ and -, not beginning with a digit or -. Dots are "
     "not taken, because tasks.a.output would be ambiguous."},
    {"HW1104", "two tasks with one id",
     "Ids are unique in the whole workflow: a task under finally or on_cancel may not be called "
     "like one under tasks."},
    {"HW1105", "a need that does not exist",
     "`needs` names tasks of the same workflow by their ids. The message names the nearest id, if "
     "one is near."},
    {"HW1106", "a task that needs itself",
     "It would wait for its own end. Remove the entry; to repeat a task until it works, use "
     "`retry`."},
    {"HW1107", "a need named twice",
     "Each upstream counts once, so the second entry has no meaning and is likely a slip for "
     "another id."},
    {"HW1108", "a need across sections",
     "Tasks under on_cancel run only after a cancel, and those under finally when everything else "
     "has ended. So a need may only name a task of the same section. A finally task does not have "
     "to need the main tasks: it always comes after all of them. How they ended it knows by "
     "run.outcome and run.failed_tasks. What they put out comes to it by a file that they write "
     "into "
     "the run's scratch folder, $HEADWORKS_SCRATCH, or run.dir in a template. A task that needs "
     "outputs or artifacts of others, however they ended, stands under tasks and has trigger_rule: "
     "all_done."},
    {"HW1109", "a cycle",
     "The tasks named wait for each other, so that none could ever start. A workflow is a directed "
     "graph without cycles: remove one of the needs that close the ring."},
    {"HW1110", "an empty action",
     "`run` needs a script, `exec` a list with a program, `function` a name. A task that only "
     "joins others can say `run: \"true\"`."},
    {"HW1111", "a number or time out of its range",
     "The message says what the range is. Durations end at 10 years; retry.max_attempts and "
     "retry.max_losses are 1 to 1,000, retry.jitter is 0 to 1, priority is -1,000 to 1,000, and "
     "retry.initial is at most retry.max (5m unless it is set)."},
    {"HW1112", "a variable name that is not taken",
     "Names of environment variables are letters, digits and _, not beginning with a digit, at "
     "most 100 characters, as in POSIX: others do not survive a shell."},
    {"HW1113", "a parameter that is not taken",
     "Parameter names are letters, digits and _, not beginning with a digit, at most 100 "
     "characters, so that expressions can name them. A default value is at most 1 MiB of JSON."},
    {"HW1114", "text that a process cannot take",
     "Command lines and environment variables are C strings in UTF-8: they cannot hold a NUL "
     "character (\"\\0\" in YAML). Put binary data into a file and pass its path."},
    {"HW1115", "a relative base folder",
     "Relative paths of tasks start at the base folder, which is stored with the workflow and must "
     "mean the same wherever the engine runs. Give an absolute path."},
    {"HW1116", "more faults than are shown",
     "Only the first 1,000 faults are kept. Usually a few of them cause the rest: mend those and "
     "look again."},
    {"HW1117", "a pool or weight that is not taken",
     "`pool` names a pool of permits: letters, digits, _ and -, at most 64. `weight` is how many "
     "of "
     "them an attempt holds, so it goes with a pool."},
    {"HW1118", "an unknown pool",
     "A pool has to be declared before a task can name it: otherwise nothing would say how many "
     "permits there are, and the task would wait for ever. Declare it with `headworks pool set "
     "NAME LIMIT`, or in the configuration (`pools: gpu=2,licence=5`). `headworks pool list` shows "
     "those there are."},
    {"HW1119", "a weight above the limit of its pool",
     "The task would wait for ever: the pool never has that many permits. Lower the weight, or "
     "raise the limit where the pool is declared (`headworks pool list` says where)."},
    {"HW1120", "a concurrency that does nothing",
     "`concurrency` bounds how many runs of a workflow are under way together (limit), or how many "
     "may start in a time (rate), for each value of its key. With neither it would do nothing: "
     "write, say, {key: params.customer, limit: 1}. `on_conflict: cancel_previous` makes room "
     "under a limit; a rate alone has none to make, since a run that was cancelled has started all "
     "the same."},
    {"HW1121", "more resources than a task may ask for",
     "The operator bounds what one task may ask for (`max_task_resources`, docs/configuration.md): "
     "the task would be refused when it is to start. Ask for less, or have the bound raised; "
     "`headworks config show` says what it is and where it is set."},
    {"HW1122", "a queue or label that is not taken",
     "`queue` names a queue of workers: letters, digits, _ and -, at most 64. `requires` lists "
     "labels that a worker must have, such as `gpu` or `region=eu`: at most 64 of 1 to 128 bytes."},
    {"HW1123", "a name of an artifact that is not taken",
     "Tasks that need it read the path of an artifact by its name: needs.build.artifacts.report. "
     "The name has letters, digits, _ and -, no digit or - first, and at most 100 characters; one "
     "with a - is written needs.build.artifacts[\"test-report\"]."},
    {"HW1124", "an artifact that is not taken",
     "An artifact is one file that a command leaves, named by its path below the working folder of "
     "the task, or below the folder that the tasks of a run share:\n"
     "  artifacts: {report: out/report.pdf, model: $HEADWORKS_SCRATCH/model.bin}\n"
     "A path that is absolute, or leads out by '..', would take files that are not the task's; "
     "copy "
     "them first. Of a folder, pack one file (tar -czf out.tgz out). No shell expands ~, * or a "
     "variable in it; "
     "only $HEADWORKS_SCRATCH/ at its start stands for that folder. A task has at most 100."},
    {"HW1201", "an unknown parameter",
     "-p name=value sets a parameter that the workflow declares under `params`. The message names "
     "the nearest one."},
    {"HW1202", "a missing parameter",
     "The workflow declares the parameter without a default (`name:` or `name: null`), so every "
     "run must give it: -p name=value."},
    {"HW1203", "a parameter of the wrong type",
     "A value is read as the type of the parameter's default: `count: 3` takes numbers, `on: true` "
     "takes true and false, lists and objects are JSON. Put single quotes around JSON for the "
     "shell: -p 'files=[\"a\", \"b\"]'."},
    {"HW1204", "an assignment that cannot be read",
     "Parameters are given as -p name=value, each once. The value begins behind the first = and "
     "may hold others."},
    {"HW1205", "an input that is no JSON object",
     "The input of a run is a JSON object of at most 1 MiB, nested at most 64 deep: --input "
     "'{\"day\": \"2026-01-31\"}', or --input @file.json."},
    {"HW1301", "an expression that cannot be read",
     "The text of `when`, or what stands between ${{ and }}, is not an expression of CEL: a "
     "bracket "
     "or quote is not closed, an operator is missing, or a ${{ never ends with }}. Text goes in "
     "quotes: params.env == 'prod'. `when` is an expression as a whole and takes no ${{ }}. A "
     "literal ${{ in a text is written $${{."},
    {"HW1302", "a name that does not exist here",
     "Expressions know params, input, needs, run, slot, in the texts of a task also env, and in a "
     "task with a matrix also matrix. needs has the tasks that this task needs, no others, each "
     "with state and output, and, in the texts of a command, artifacts where it declares some; one "
     "with a matrix always has the lists states, outputs, matrices and all_artifacts, and state, "
     "output and matrix only where a combination needs one of its instances. "
     "run.dir, the scratch folder, is known in the texts of a command, run.outcome, run.reason and "
     "run.failed_tasks under finally. What stands at the workflow, or "
     "under defaults, knows no needs and no matrix; a parameter's default knows run and slot. A "
     "task whose id has a - is needs[\"a-b\"]."},
    {"HW1303", "an expression of the wrong type",
     "The operands never fit together, or the result is not what belongs here: `when` is true or "
     "false, and in a text an expression gives text, a number or a boolean. A list becomes text by "
     "list.join(\" \"), and anything becomes JSON by string(x). Types are taken from declared "
     "parameters, matrices and outputs; what is not declared is checked when it is evaluated."},
    {"HW1304", "an expression that is too large",
     "An expression has at most 64 KiB and is nested at most 200 deep, a text at most 1,000 "
     "expressions, and all texts with expressions in one file, each counted for every task that "
     "uses it, at most 32 MiB. Move the work into the command."},
    {"HW1305", "an expression where a shell would misread it",
     "In a script each ${{ }} becomes a variable that the shell expands as one word, so that no "
     "value can be run as code. That cannot hold within single quotes, quoted here-documents and "
     "scripts for other programs than sh and bash. Nor may a value name a program (also behind "
     "timeout, xargs and the like), be read by an interpreter as its program or an option (sh -c, "
     "awk, psql, ... | sh), or be evaluated by the shell (arithmetic, eval, PATH=). Values of "
     "matrix "
     "stand in the file and count as text of the script. Pass the value as an argument behind the "
     "program, or put the expression into env and use the variable:\n  env: {DAY: \"${{ params.day "
     "}}\"}\n  run: python3 -c 'import os; print(os.environ[\"DAY\"])'"},
    {"HW1306", "a default that its parameter does not take",
     "The default of a parameter may be a template over run and slot. It is tried when the file is "
     "read, because each task would fail with it: here it has no value, or one that is not of the "
     "parameter's type, enum, range or pattern. run.created_at is text such as "
     "2026-01-31T08:30:00Z; for a date write:\n  day: {type: date, default: \"${{ run.date }}\"}"},
    {"HW1307", "an output that may not be there",
     "A warning: the file is taken. A task that did not succeed has the output {}. This one may "
     "run "
     "all the same, because the other is allowed to fail (`allow_failure`), or because of its own "
     "`trigger_rule`; then reading a field of that output fails this task. Ask first, "
     "has(needs.a.output.n) ? needs.a.output.n : 0, or let a condition decide, "
     "when: needs.a.state == 'succeeded'. An expression that asks anything else about the same "
     "task "
     "is not warned of."},
});

}  // namespace

const Explanation* Explain(std::string_view code) {
  std::string upper(code);
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  const auto found = std::ranges::find(kExplanations, upper, &Explanation::code);
  return found == kExplanations.end() ? nullptr : &*found;
}

std::vector<const Explanation*> Explanations() {
  std::vector<const Explanation*> all;
  all.reserve(kExplanations.size());
  for (const Explanation& explanation : kExplanations) all.push_back(&explanation);
  return all;
}

}  // namespace headworks::spec
