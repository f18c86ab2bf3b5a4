#include "headworks/spec/workflow_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "headworks/model/workflow.h"
#include "parse.h"

namespace headworks::spec {
namespace {

using model::Task;
using model::TaskRole;
using model::WorkflowDefinition;

TEST(WorkflowFile, SmallestFileHasAllDefaults) {
  WorkflowDefinition expected;
  expected.name.workflow = "w";
  expected.base_dir = "/srv";
  Task task;
  task.id = "a";
  task.action = model::ShellAction{.script = "true"};
  expected.tasks = {task};
  EXPECT_EQ(Good("version: 1\ntasks:\n  a: {run: 'true'}\n"), expected);
  EXPECT_EQ(Good("version: 1\ntasks:\n  a: {run: true}"), expected) << "a command, not a boolean";
  EXPECT_EQ(Good(R"({"version": 1, "tasks": {"a": {"run": "true"}}})"), expected) << "JSON";
  EXPECT_EQ(Good("\xEF\xBB\xBFversion: 1\r\ntasks:\r\n  a:\r\n    run: true\r\n"), expected);
}

TEST(WorkflowFile, EveryKeyArrivesInTheModel) {
  using std::chrono::minutes;
  using std::chrono::seconds;
  WorkflowDefinition d;
  d.name.workflow = "all";
  d.description = "what it does";
  d.params = {{"day", model::Param::Plain("null")},
              {"n", model::Param::Plain("3")},
              {"list", model::Param::Plain(R"(["a",1.5,true,{"k":null}])")}};
  d.params["n"].type = model::ParamType::kInteger;
  d.params["list"].type = model::ParamType::kArray;
  d.params["rows"] = {.type = model::ParamType::kInteger,
                      .default_json = "5",
                      .required = false,
                      .description = "how many",
                      .allowed = {"5", "7"},
                      .min = 1,
                      .max = 9.5,
                      .pattern = ""};
  d.params["code"] = {.type = model::ParamType::kString,
                      .default_json = "null",
                      .required = true,
                      .description = "",
                      .allowed = {},
                      .min = {},
                      .max = {},
                      .pattern = "[a-z]+"};
  d.tags = {"nightly", "finance"};
  d.max_active_runs = 2;
  d.concurrency = {.key = "params.day",
                   .limit = 3,
                   .on_conflict = model::OnConflict::kSkip,
                   .rate = 10,
                   .rate_per = minutes(1)};
  d.env = {{"A", "1.10"}, {"B", "yes"}, {"C", ""}};
  d.base_dir = "/srv";
  d.timeout = std::chrono::hours(1);
  d.finally_timeout = minutes(2);
  d.on_failure = model::OnFailure::kCancelRest;
  d.max_parallel = 4;
  d.tasks.resize(5);
  d.tasks[0].id = "a";
  d.tasks[0].action = model::ShellAction{.script = "echo one\necho two\n"};
  d.tasks[0].env = {{"X", "0x10"}};
  d.tasks[0].inherit_env = {"SSH_AUTH_SOCK"};
  d.tasks[0].cwd = "sub";
  d.tasks[0].retry = {.max_attempts = 3,
                      .backoff = model::Backoff::kLinear,
                      .initial = std::chrono::milliseconds(250),
                      .max = minutes(1),
                      .jitter = 0.5,
                      .max_losses = 2,
                      .when = model::RetryCondition{.exit_codes = {69, 75}, .output_matches = ""},
                      .unless = model::RetryCondition{.exit_codes = {}, .output_matches = "gone"}};
  d.tasks[0].description = "for readers";
  std::get<model::ShellAction>(d.tasks[0].action).shell = {"bash", "-e", "-o", "pipefail"};
  d.tasks[0].env_file = {"a.env", "b.env"};
  d.tasks[0].when = {"params.n > 1"};
  d.tasks[0].deadline = minutes(10);
  d.tasks[0].idempotency_key = "key";
  d.tasks[0].output = {.mode = model::OutputMode::kStdoutJson,
                       .type_json = R"({"n":"integer","l":["string"],"o":{"x":"any"}})"};
  d.tasks[0].artifacts = {{"r", "out/r.txt"}, {"s", "$HEADWORKS_SCRATCH/s"}};
  d.tasks[0].labels = {{"team", "data"}};
  d.tasks[0].timeout = seconds(90);
  d.tasks[0].grace = seconds(0);
  d.tasks[0].priority = -5;
  d.tasks[0].pool = "gpu";
  d.tasks[0].weight = 4;
  d.tasks[0].queue = "big";
  d.tasks[0].required = {"gpu", "region=eu"};
  d.tasks[0].allow_failure = true;
  d.tasks[1].id = "b";
  d.tasks[1].needs = {"a"};
  d.tasks[1].action = model::ExecAction{{"ls", "-l", "5"}};
  d.tasks[1].output.mode = model::OutputMode::kStdout;
  d.tasks[1].when = {"true", "1 < 2"};
  d.tasks[1].trigger_rule = model::TriggerRule::kAllDone;
  d.tasks[2].id = "c";
  d.tasks[2].needs = {"a", "b"};
  d.tasks[2].action = model::FunctionAction{"report"};
  d.tasks[3].id = "undo";
  d.tasks[3].role = TaskRole::kOnCancel;
  d.tasks[3].action = model::ShellAction{.script = "true"};
  d.tasks[4].id = "clean";
  d.tasks[4].role = TaskRole::kFinally;
  d.tasks[4].action = model::ShellAction{.script = "true"};
  auto read = Good(R"(version: 1
name: all
description: what it does
params:
  day:
  n: 3
  list: [a, 1.5, true, {k: ~}]
  rows: {type: integer, default: 5, enum: [5, 7], min: 1, max: 9.5, description: how many}
  code: {type: string, required: true, pattern: "[a-z]+"}
tags: [nightly, finance]
x-mine: {anything: [1, 2]}
env: {A: 1.10, B: yes, C: ""}
max_parallel: 4
max_active_runs: 2
concurrency: {key: params.day, limit: 3, on_conflict: skip, rate: {limit: 10, per: 1m}}
timeout: 1h
on_failure: cancel_rest
finally_timeout: 2m
tasks:
  a:
    description: for readers
    run: |
      echo one
      echo two
    env: {X: 0x10}
    inherit_env: [SSH_AUTH_SOCK]
    cwd: sub
    shell: bash
    env_file: [a.env, b.env]
    when: params.n > 1
    deadline: 10m
    idempotency_key: key
    output: {from: stdout-json, type: {n: integer, l: [string], o: {x: any}}}
    artifacts: {r: out/r.txt, s: $HEADWORKS_SCRATCH/s}
    labels: {team: data}
    retry:
      max_attempts: 3
      backoff: linear
      initial: 250ms
      max: 1m
      jitter: 0.5
      max_losses: 2
      when: {exit_codes: [75, 69, 75]}
      unless: {output_matches: gone}
    timeout: 1m30s
    grace: 0s
    priority: -5
    pool: gpu
    weight: 4
    queue: big
    requires: [gpu, region=eu]
    allow_failure: true
  b: {needs: a, exec: [ls, -l, 5], trigger_rule: all_done, output: stdout, when: [true, 1 < 2]}
  c: {needs: [a, b], function: report}
on_cancel:
  undo: {run: "true"}
finally:
  clean: {run: "true"}
)");
  for (model::Task& task : read.tasks) task.said = 0;  // the model knows no file
  EXPECT_EQ(read, d);
}

struct Bad {
  std::string_view what;
  std::string_view text;
  std::vector<std::string> faults;
};

class BadFile : public testing::TestWithParam<Bad> {};

TEST_P(BadFile, IsToldWhereAndWhat) {
  EXPECT_EQ(FaultsOf(GetParam().text), GetParam().faults) << MessageOf(GetParam().text);
}

const std::vector<Bad>& BadFiles() {
  static const std::vector<Bad> kFiles = {
      {"Empty", "", {"0:0 HW1009"}},
      {"OnlyComment", "# nothing\n", {"0:0 HW1009"}},
      {"RootList", "- version: 1\n", {"1:1 HW1009"}},
      {"RootText", "hello\n", {"1:1 HW1009"}},
      {"NoVersion", "tasks:\n  a: {run: x}\n", {"1:1 HW1008"}},
      {"NoTasks", "version: 1\n", {"1:1 HW1008"}},
      {"NullTasks", "version: 1\ntasks:\n", {"2:1 HW1102"}},
      {"EmptyTasks", "version: 1\ntasks: {}\n", {"2:1 HW1102"}},
      {"TaskList", "version: 1\ntasks:\n  - {run: x}\n", {"3:3 HW1009"}},
      {"Version2", "version: 2\ntasks: {a: {run: x}}\n", {"1:10 HW1011"}},
      {"VersionMap", "version: {}\ntasks: {a: {run: x}}\n", {"1:10 HW1011"}},
      {"Syntax", "version: 1\ntasks:\n  a: {run: x\n", {"3:6 HW1002"}},
      {"ColonInText", "version: 1\ntasks:\n  a:\n    run: echo a: b\n", {"4:16 HW1002"}},
      {"Tab", "version: 1\ntasks:\n\ta: {run: x}\n", {"3:1 HW1002"}},
      {"UnknownAlias", "version: 1\ntasks: *gone\n", {"2:8 HW1002"}},
      {"SecondDocument", "version: 1\ntasks: {a: {run: x}}\n---\nversion: 1\n", {"3:1 HW1005"}},
      {"Tag", "version: !!str 1\ntasks: !x {a: {run: x}}\n", {"1:10 HW1005", "2:8 HW1005"}},
      {"NotUtf8", "version: 1\ntasks: \xFF\n", {"2:8 HW1001"}},
      {"Utf16", std::string_view("\xFF\xFEv\0", 4), {"1:1 HW1001"}},
      {"Nul", std::string_view("version: 1\0", 11), {"1:11 HW1001"}},
      {"EmptyName", "version: 1\nname: ''\ntasks: {a: {run: x}}\n", {"2:7 HW1010"}},
      {"DuplicateKey",
       "version: 1\ntasks:\n  a: {run: x}\n  b: {run: x, run: y}\n  a: {run: y}\n",
       {"4:15 HW1004", "5:3 HW1004"}},
      {"KeyIsAList", "version: 1\n[a]: 1\ntasks: {a: {run: x}}\n", {"2:1 HW1005"}},
      {"IdIsNull", "version: 1\ntasks:\n  null: {run: x}\n", {"3:3 HW1005"}},
      {"IdIsATilde", "version: 1\ntasks:\n  ~: {run: x}\n", {"3:3 HW1005"}},
      {"IdIsAList",
       "version: 1\ntasks:\n  [a]: {run: x, priority: 5000}\n",
       {"3:3 HW1005", "3:27 HW1111"}},
      {"IdsAreNull",
       "version: 1\ntasks: {~: {run: x}, null: {run: x}}\n",
       {"2:9 HW1005", "2:22 HW1005"}},
      {"IdIsANumber", "version: 1\ntasks:\n  1: {run: x}\n", {"3:3 HW1103"}},
      {"NullIsNeeded",
       "version: 1\ntasks:\n  null: {run: x}\n  b: {run: x, needs: [null]}\n",
       {"3:3 HW1005", "4:23 HW1009"}},
      {"MergeOfAnAliasOfText",
       "version: 1\nx-a: &a x\ntasks:\n  a: {run: x, <<: *a}\n",
       {"4:15 HW1005"}},
      {"MergeOfText", "version: 1\n<<: x\ntasks: {a: {run: x}}\n", {"2:5 HW1005"}},
      {"UnknownKeys",
       "version: 1\nparms: {}\ntasks:\n  a:\n    need: b\n    run: x\n    retry: {attempts: 3}\n",
       {"2:1 HW1006", "5:5 HW1006", "7:13 HW1006"}},
      {"KeysInTheWrongPlace",
       "version: 1\nneeds: a\ntasks:\n  a: {run: x, max_attempts: 3, on_failure: finish}\n",
       {"2:1 HW1006", "4:15 HW1006", "4:32 HW1006"}},
      {"ReservedKeys",
       "version: 1\nschedule: daily\ntasks:\n  a: {run: x, foreach: [1], image: i}\n",
       {"2:1 HW1007", "4:15 HW1007", "4:29 HW1007"}},
      {"NoAction",
       "version: 1\ntasks:\n  a: {}\n  b:\n  c: {needs: a}\n",
       {"3:3 HW1008", "4:3 HW1008", "5:3 HW1008"}},
      {"TwoActions",
       "version: 1\ntasks:\n  a: {run: x, exec: [y], function: z}\n",
       {"3:15 HW1012", "3:26 HW1012"}},
      {"TaskIsText", "version: 1\ntasks:\n  a: echo hello\n", {"3:6 HW1009"}},
      {"EmptyActions",
       "version: 1\ntasks:\n  a: {run: ''}\n  b: {run: }\n  c: {exec: []}\n  d: {exec: ['']}\n"
       "  e: {function: ''}\n",
       {"3:12 HW1110", "4:7 HW1110", "5:7 HW1110", "6:7 HW1110", "7:17 HW1110"}},
      {"ExecIsText", "version: 1\ntasks:\n  a: {exec: ls -l}\n", {"3:13 HW1009"}},
      {"ExecOfMaps",
       "version: 1\ntasks:\n  a: {exec: [{}, [], ~]}\n",
       {"3:14 HW1009", "3:18 HW1009", "3:22 HW1009"}},
      {"Booleans",
       "version: 1\ntasks:\n  a: {run: x, allow_failure: yes}\n"
       "  b: {run: x, allow_failure: 'true'}\n  c: {run: x, allow_failure: 1}\n"
       "  d: {run: x, allow_failure: tRUE}\n",
       {"3:30 HW1009", "4:30 HW1009", "5:30 HW1009", "6:30 HW1009"}},
      {"Environment",
       "version: 1\nenv: [A=1]\ntasks:\n  a:\n    run: x\n    env:\n      A: {b: 1}\n      B:\n"
       "      C: [1]\n      1D: x\n",
       {"2:6 HW1009", "7:10 HW1009", "8:7 HW1009", "9:10 HW1009", "10:7 HW1112"}},
      {"Durations",
       "version: 1\ntimeout: 30\ntasks:\n  a: {run: x, timeout: 5 min, grace: -1s}\n"
       "  b: {run: x, timeout: []}\n",
       {"2:10 HW1010", "4:24 HW1010", "4:38 HW1010", "5:24 HW1009"}},
      {"Numbers",
       "version: 1\nmax_parallel: -1\ntasks:\n"
       "  a: {run: x, priority: high}\n  b: {run: x, priority: 1.5}\n"
       "  c: {run: x, priority: 99999999999}\n  d: {run: x, priority: 1001}\n"
       "  e: {run: x, priority: '1'}\n  f: {run: x, retry: {jitter: 2, max_attempts: 0}}\n",
       {"2:15 HW1111", "4:25 HW1009", "5:25 HW1009", "6:25 HW1111", "7:25 HW1111", "8:25 HW1009",
        "9:31 HW1111", "9:48 HW1111"}},
      {"Choices",
       "version: 1\non_failure: stop\ntasks:\n  a: {run: x, trigger_rule: all_sucess}\n"
       "  b: {run: x, retry: {backoff: []}}\n",
       {"2:13 HW1010", "4:29 HW1010", "5:32 HW1009"}},
      {"RetryIsANumber", "version: 1\ntasks:\n  a: {run: x, retry: 3}\n", {"3:22 HW1009"}},
      {"RetryInitialAboveDefaultMax",
       "version: 1\ntasks:\n  a: {run: x, retry: {max_attempts: 2, initial: 10m}}\n",
       {"3:49 HW1111"}},
      {"Needs",
       "version: 1\ntasks:\n  a: {run: x, needs: [b, c, c, a, {}]}\n  c: {run: x, needs: gone}\n"
       "  d: {run: x, needs: }\n",
       {"3:23 HW1105", "3:29 HW1107", "3:32 HW1106", "3:35 HW1009", "4:22 HW1105", "5:15 HW1009"}},
      {"Cycle",
       "version: 1\ntasks:\n  a: {run: x, needs: [b]}\n  b:\n    run: x\n    needs: a\n",
       {"3:15 HW1109"}},
      {"Sections",
       "version: 1\ntasks:\n  a: {run: x, needs: f}\nfinally:\n  f: {run: x, needs: a}\n"
       "on_cancel:\n  a: {run: x}\n",
       {"3:22 HW1108", "5:22 HW1108", "7:3 HW1104"}},
      {"Ids",
       "version: 1\ntasks:\n  1a: {run: x}\n  a.b: {run: x, priority: 2000}\n  '': {run: x}\n",
       {"3:3 HW1103", "4:3 HW1103", "4:27 HW1111", "5:3 HW1103"}},
      {"Name", "version: 1\nname: my flow\ntasks: {a: {run: x}}\n", {"2:7 HW1101"}},
      {"Params",
       "version: 1\nparams:\n  a-b: 1\n  c: .inf\n  d: 99999999999999999999\n"
       "tasks: {a: {run: x}}\n",
       {"3:3 HW1113", "4:6 HW1010", "5:6 HW1010"}},
      {"NulInText", "version: 1\ntasks:\n  a: {run: \"x\\0\"}\n", {"3:12 HW1114"}},
      {"ColumnsCountCharacters",
       "version: 1\ntasks:\n  a: {run: 'äöü€', nope: 1}\n",
       {"3:20 HW1006"}},
      {"CarriageReturns", "version: 1\r\ntasks:\r\n  a: {run: x, nope: 1}\r\n", {"3:15 HW1006"}},
  };
  return kFiles;
}

INSTANTIATE_TEST_SUITE_P(All, BadFile, testing::ValuesIn(BadFiles()),
                         [](const auto& info) { return std::string(info.param.what); });

TEST(WorkflowFile, FaultShowsTheLineAndSaysWhatToDo) {
  EXPECT_EQ(MessageOf("version: 1\ntasks:\n  a:\n    need: b\n    run: x\n"),
            "w.yaml:4:5: HW1006 unknown key \"need\", did you mean 'needs'?\n"
            "        need: b\n"
            "        ^");
  EXPECT_EQ(MessageOf("version: 1\ntasks:\n  b: {run: \xC3\xA4, needs: aa}\n  ab: {run: x}\n"),
            "w.yaml:3:22: HW1105 there is no task \"aa\", did you mean 'ab'?\n"
            "      b: {run: \xC3\xA4, needs: aa}\n"
            "                         ^");
  const std::string longest(300, 'x');
  EXPECT_EQ(
      MessageOf("version: 1\ntasks: {a: {run: " + longest + ", nope: 1}}\n").find('\n') + 1 + 4 +
          3 + 50 + 1,
      MessageOf("version: 1\ntasks: {a: {run: " + longest + ", nope: 1}}\n").find("nope: 1}") + 1);
}

TEST(WorkflowFile, MessagesSayWhatToWrite) {
  const auto says = [](std::string_view text, std::string_view message) {
    EXPECT_NE(MessageOf(text).find(message), std::string::npos) << MessageOf(text);
  };
  says("version: 1\ntasks: {a: {exec: ls -l}}", "goes under `run`");
  says("version: 1\ntasks: {a: {run: x, allow_failure: yes}}", "write true or false, not \"yes\"");
  says("version: 1\ntasks: {a: {run: x, retry: 3}}", "{max_attempts: 3}");
  says("version: 1\nneeds: a\ntasks: {a: {run: x}}", "it belongs to a task");
  says("version: 1\nsecrets: a\ntasks: {a: {run: x}}",
       "it comes with the secret store; until then name");
  says("version: 1\ntasks: {a: {run: x, retry: {backoff: exponental}}}", "'exponential'?");
  says("version: 1\ntasks:\n  a: {run: x}\n  a: {run: y}\n", "first in line 3, column 3");
  says("version: 1\ntasks:\n  a: {run: x, needs: b}\n  b: {run: x, needs: a}\n", "a -> b -> a");
  says("version: 1\ntasks:\n  a:\n    run: echo a: b\n", "needs quotes");
  says("version: 1\ntasks:\n\ta: {run: x}\n", "a tab cannot indent");
  says("version: 1\ntasks:\n  a: {run: x\n", "a { is not closed");
  says("version: 1\ntasks:\n  a: {exec: [x}\n", "another bracket was opened last");
  says("version: 1\ntasks:\n  a: {exec: [x\n", "a [ is not closed");
  says("version: 1\ntasks:\n  a: {run: x}\n b: {run: x}\n", "check the indentation");
  says("version: 1\n tasks:\n  a: {run: x}\n", "text with ': ' in it needs quotes");
  says("version: 1\ntasks: {a: {exec: [x,\n", "a [ is not closed");
  says("version: 1\ntasks:\n  a:\n    run: x\n    needs\n  b: {run: x}\n", "a key needs ': '");
  says("version: 1\ntasks: {a: {run: *.sh}}\n", "that begins with this character needs quotes");
  says("version: 1\ntasks: {a: {run: @x}}\n", "that begins with this character needs quotes");
  says("version: 1\ntasks:\n  a: {run: x, when: !\"x\"}\n", "begins with ! is meant");
  says("version: 1\ntasks:\n  a:\n    run: | echo\n", "begins on the next line");
  says("version: 1\ntasks:\n  a: {run: x, needs: *b}\n", "no anchor &b stands before this");
}

TEST(WorkflowFile, ANeedAcrossSectionsSaysWhatToDoInstead) {
  const auto message = MessageOf(
      "version: 1\ntasks:\n  a: {run: x, needs: f}\nfinally:\n  f: {run: x, needs: a}\n"
      "on_cancel:\n  c: {run: x, needs: a}\n");
  for (const char* says :
       {"3:22: HW1108 'f' stands under finally, and a task of tasks may only need tasks of tasks; "
        "what stands there runs after these, so move one of the two\n",
        "5:22: HW1108 'a' stands under tasks, and a task of finally may only need tasks of "
        "finally; "
        "it comes after all of them and sees run.outcome and run.failed_tasks. To use what one put "
        "out, let that one write a file into $HEADWORKS_SCRATCH (run.dir), or move this one to "
        "tasks, with trigger_rule: all_done\n",
        "7:22: HW1108 'a' stands under tasks, and a task of on_cancel may only need tasks of "
        "on_cancel; to use what one put out, let that one write a file into $HEADWORKS_SCRATCH "
        "(run.dir)\n"})
    EXPECT_NE(message.find(says), std::string::npos) << message;
}

TEST(WorkflowFile, WhatIsWrittenElsewhereIsUnderstood) {
  const auto says = [](std::string_view text, std::string_view what) {
    const std::string message = MessageOf(fmt::format("version: 1\n{}", text));
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  const std::string a = "tasks:\n  a: {run: x, matrix: {os: [linux]}}\n  b: {run: x, ";
  says(a + "needs: 'a, c'}\n", "no task \"a, c\"; several are written as a list, e.g. [a, b]");
  says(a + "needs: a c}\n", "no task \"a c\"; several are written as a list");
  says(a + "needs: ['a[linux]']}\n", "a need names a task without brackets");
  says(a + "needs: a, env: {X: '${{ matrix.os }}'}}\n",
       "the task has no matrix; give it one, or read the one of a task that it needs");
  says(a + "downstream: a}\n", "\"downstream\"; write needs in the task that comes later");
  says("params: {p: {options: [a]}}\ntasks: {a: {run: x}}\n", "did you mean 'enum'?");
  says("tasks: {a: {run: x}}\nfinally: {run: echo done}\n",
       "3:11: HW1009 \"run\" stands where the id of a task belongs");
  says("tasks:\n  a:\n  run: x\n", "4:3: HW1009 \"run\" stands where the id of a task belongs");
}

TEST(WorkflowFile, NameOfTheFileMustDoOrANameBeGiven) {
  const std::string_view text = "version: 1\ntasks: {a: {run: x}}\n";
  EXPECT_EQ(ParseWorkflow(text, "/x/daily.report.yaml", "")->name.workflow, "daily.report");
  const auto bad = ParseWorkflow(text, "my flow.yaml", "");
  ASSERT_FALSE(bad.has_value());
  EXPECT_NE(bad.error().message.find("rename the file or add `name:`"), std::string::npos);
}

TEST(WorkflowFile, FaultsAreBounded) {
  std::string text = "version: 1\ntasks:\n";
  for (int i = 0; i < 1'500; ++i) text += fmt::format("  t{}: {{nope: 1}}\n", i);
  std::vector<Fault> faults;
  const auto result = ParseWorkflow(text, "w.yaml", "", &faults);
  ASSERT_EQ(faults.size(), 1'001U);
  EXPECT_EQ(faults.back().message, "and 2000 more faults; mend these first");
  EXPECT_LT(result.error().message.size(), 20'000U);
}

/// A folder of its own that is gone afterwards.
class WorkflowFileOnDisk : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "headworks-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, std::string_view text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }

  std::filesystem::path folder_;
};

TEST_F(WorkflowFileOnDisk, PathsStartAtTheFilesFolder) {
  const std::string path = Write("w.yaml", "version: 1\ntasks: {a: {run: x}}\n");
  const auto result = ParseWorkflowFile((folder_ / "gone/../w.yaml").string());
  EXPECT_FALSE(result.has_value());
  const auto good = ParseWorkflowFile(path);
  ASSERT_TRUE(good.has_value()) << good.error().message;
  EXPECT_EQ(good->base_dir, folder_.string());
  const auto relative = ParseWorkflowFile(std::filesystem::relative(path).string());
  ASSERT_TRUE(relative.has_value()) << relative.error().message;
  EXPECT_EQ(relative->base_dir, folder_.string());
}

TEST_F(WorkflowFileOnDisk, WhatCannotBeReadSaysWhy) {
  const auto none = ParseWorkflowFile((folder_ / "none.yaml").string());
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, Code::kNotFound);
  EXPECT_NE(none.error().message.find("none.yaml"), std::string::npos);
  const auto directory = ParseWorkflowFile(folder_.string());
  ASSERT_FALSE(directory.has_value());
  EXPECT_EQ(directory.error().code, Code::kInvalidArgument);
}

TEST(WorkflowFile, WhatIsNoTextIsNotShown) {
  const std::string latin = MessageOf("version: 1\nname: caf\xE9\n");
  EXPECT_NE(latin.find("save it as UTF-8"), std::string::npos);
  EXPECT_NE(latin.find("name: caf?\n"), std::string::npos);
  EXPECT_EQ(latin.find('\xE9'), std::string::npos);
  const std::string control = MessageOf("version: 1\nname: a\x01\n");
  EXPECT_NE(control.find("remove it, or write it as \\x and two digits"), std::string::npos);
}

TEST_F(WorkflowFileOnDisk, SizeIsRefusedAtTheBound) {
  std::string text = "version: 1\ntasks: {a: {run: x}}\n#";
  text.resize(kMaxFileBytes, '#');
  EXPECT_TRUE(ParseWorkflowFile(Write("w.yaml", text)).has_value());
  text += '#';
  std::vector<Fault> faults;
  EXPECT_FALSE(ParseWorkflowFile(Write("w.yaml", text), &faults).has_value());
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].code, "HW1001");
  EXPECT_TRUE(ParseWorkflowFile(Write("w.yaml", text), nullptr, text.size()).has_value());
  const auto refused = ParseWorkflowFile(Write("w.yaml", text), nullptr, text.size() - 2);
  EXPECT_NE(refused.error().message.find("larger than 16777215 bytes"), std::string::npos);
}

TEST(WorkflowFile, HundredThousandTasks) {
  std::string text = "version: 1\ntasks:\n";
  for (int i = 0; i < 100'000; ++i)
    text += fmt::format("  task_{}:\n    needs: [task_{}]\n    run: echo {}\n", i,
                        i == 0 ? 100'000 : i / 2, i);
  text += "  task_100000: {run: x}\n";
  text.replace(text.find("[task_0]"), 8, "[]");  // task_1 needs task_0: fine; keep one root more
  const auto start = std::chrono::steady_clock::now();
  const auto result = ParseWorkflow(text, "w.yaml", "");
  const auto took = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->tasks.size(), 100'001U);
  RecordProperty(
      "parse_ms",
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
}

}  // namespace
}  // namespace headworks::spec
