#include "headworks/model/workflow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "headworks/base/random.h"

namespace headworks::model {
namespace {

Task Shell(std::string id, std::vector<std::string> needs = {}, TaskRole role = TaskRole::kMain) {
  Task task;
  task.id = std::move(id);
  task.needs = std::move(needs);
  task.role = role;
  task.action = ShellAction{.script = "true"};
  return task;
}

WorkflowDefinition Of(std::vector<Task> tasks) {
  WorkflowDefinition d;
  d.name.workflow = "w";
  d.tasks = std::move(tasks);
  return d;
}

std::string Ids(const Workflow& workflow) {
  std::string text;
  for (const Task& task : workflow.definition().tasks) text += (text.empty() ? "" : " ") + task.id;
  return text;
}

using Faults = std::vector<std::string>;

/// "CODE field" of each fault.
Faults FaultsOf(WorkflowDefinition definition) {
  std::vector<Fault> faults;
  const auto result = Workflow::Create(std::move(definition), &faults);
  EXPECT_EQ(result.has_value(), faults.empty());
  Faults text;
  for (const Fault& fault : faults) {
    text.push_back(std::string(fault.code) + " " + fault.field);
    EXPECT_FALSE(fault.message.empty());
    EXPECT_NE(result.error().message.find(fault.message), std::string::npos);
  }
  return text;
}

TEST(Workflow, NumbersByRankThenAsWritten) {
  const auto w = Workflow::Create(Of({Shell("z", {"m"}), Shell("m"), Shell("b", {"a"}), Shell("a"),
                                      Shell("end", {"z", "b"})}))
                     .value();
  EXPECT_EQ(Ids(*w), "m a z b end");
  for (std::uint32_t i = 0; i < w->size(); ++i) {
    EXPECT_EQ(w->Find(w->task(TaskNo(i)).id), TaskNo(i));
    for (const TaskNo up : w->upstreams(TaskNo(i))) EXPECT_LT(up.value, i);
    for (const TaskNo down : w->downstreams(TaskNo(i))) EXPECT_GT(down.value, i);
  }
  EXPECT_EQ(w->Find("none"), std::nullopt);
  const auto up = w->upstreams(*w->Find("end"));
  EXPECT_EQ(std::vector(up.begin(), up.end()), (std::vector{TaskNo(2), TaskNo(3)}));
  const auto down = w->downstreams(*w->Find("m"));
  EXPECT_EQ(std::vector(down.begin(), down.end()), (std::vector{TaskNo(2)}));
}

TEST(Workflow, AMatrixNamesAllItsInstances) {
  WorkflowDefinition d = Of({Shell("m[2]", {"a"}), Shell("a"), Shell("m[1]")});
  for (Task& task : d.tasks) {
    if (task.id == "a") continue;
    task.group = "m";
    task.matrix = R"({"n":)" + task.id.substr(2, 1) + "}";
  }
  const auto w = Workflow::Create(d).value();
  EXPECT_EQ(w->Select("a").value(), std::vector{*w->Find("a")});
  EXPECT_EQ(w->Select("m[2]").value(), std::vector{*w->Find("m[2]")});
  EXPECT_EQ(w->Select("m").value(), (std::vector{*w->Find("m[1]"), *w->Find("m[2]")}));
  EXPECT_EQ(w->Select("M").error().code, Code::kNotFound);
  EXPECT_EQ(w->Select("M").error().message, "workflow w has no task 'M', did you mean 'm'?");
  EXPECT_EQ(w->Select("").error().code, Code::kNotFound);
}

TEST(Workflow, NamesInAnIdHaveValues) {
  Task instance = Shell("m[1]");
  instance.group = "m";
  instance.matrix = R"({"n":1})";
  instance.axes = {"n"};
  EXPECT_EQ(FaultsOf(Of({instance})), Faults{});
  const auto w = Workflow::Create(Of({instance})).value();
  EXPECT_EQ(Workflow::FromCanonicalJson(w->canonical_json()).value()->task(TaskNo(0)).axes,
            std::vector<std::string>{"n"});
  instance.axes = {"n", "os"};
  EXPECT_EQ(FaultsOf(Of({instance})), Faults{"HW1113 tasks.m[1].matrix"});
}

TEST(Workflow, RolesAreRangesInTheOrderOfARunsLife) {
  const auto w = Workflow::Create(Of({Shell("f2", {"f1"}, TaskRole::kFinally),
                                      Shell("c", {}, TaskRole::kOnCancel), Shell("m2", {"m1"}),
                                      Shell("f1", {}, TaskRole::kFinally), Shell("m1")}))
                     .value();
  EXPECT_EQ(Ids(*w), "m1 m2 c f1 f2");
  EXPECT_EQ(w->range(TaskRole::kMain), std::pair(TaskNo(0), TaskNo(2)));
  EXPECT_EQ(w->range(TaskRole::kOnCancel), std::pair(TaskNo(2), TaskNo(3)));
  EXPECT_EQ(w->range(TaskRole::kFinally), std::pair(TaskNo(3), TaskNo(5)));
}

TEST(Workflow, AllFaultsComeAtOnce) {
  Task wrong = Shell("1st");
  wrong.action = ShellAction{.script = " \n"};
  wrong.priority = 1'001;
  auto d = Of({Shell("a"), Shell("missing"), Shell("self", {"self", "a", "a", "mising"}),
               Shell("a"), std::move(wrong), Shell("f", {"a"}, TaskRole::kFinally)});
  d.name.workflow = "no spaces";
  d.env["A B"] = "";
  EXPECT_EQ(FaultsOf(d),
            (Faults{"HW1101 name", "HW1112 env.A B", "HW1103 tasks.1st", "HW1110 tasks.1st.run",
                    "HW1111 tasks.1st.priority", "HW1104 tasks.a", "HW1106 tasks.self.needs[0]",
                    "HW1107 tasks.self.needs[2]", "HW1105 tasks.self.needs[3]",
                    "HW1108 finally.f.needs[0]"}));
  EXPECT_NE(Workflow::Create(d).error().message.find("did you mean 'missing'?"), std::string::npos);
}

TEST(Workflow, CyclesAreNamedWhole) {
  std::vector<Fault> faults;
  const auto result = Workflow::Create(
      Of({Shell("ok"), Shell("a", {"ok", "c"}), Shell("b", {"a"}), Shell("c", {"b"}),
          Shell("below", {"c", "y"}), Shell("x", {"y"}), Shell("y", {"x"})}),
      &faults);
  ASSERT_FALSE(result.has_value());
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_EQ(faults[0].field, "tasks.a.needs");
  EXPECT_NE(faults[0].message.find(" a -> c -> b -> a "), std::string::npos) << faults[0].message;
  EXPECT_NE(faults[1].message.find(" x -> y -> x "), std::string::npos) << faults[1].message;
}

TEST(Workflow, NamesHoldAtTheirBounds) {
  const std::string longest(100, 'a');
  auto d = Of({Shell(longest)});
  d.name.workflow = longest;
  EXPECT_EQ(FaultsOf(d), Faults{});
  EXPECT_EQ(FaultsOf(Of({Shell(longest + "a")})), (Faults{"HW1103 tasks." + longest + "a"}));
  for (const char* id : {"", "-a", "1a", "a.b", "a b", "\xC3\xA9"})
    EXPECT_EQ(FaultsOf(Of({Shell(id)})), (Faults{std::string("HW1103 tasks.") + id})) << id;
  d.name.workflow += "a";
  EXPECT_EQ(FaultsOf(d), (Faults{"HW1101 name"}));
  d.name = {.tenant = "", .package = "p/q", .workflow = "w.1-x_Y"};
  EXPECT_EQ(FaultsOf(d), (Faults{"HW1101 tenant", "HW1101 package"}));
}

TEST(Workflow, RangesHoldAtTheirBounds) {
  constexpr Duration kTenYears = std::chrono::hours(24 * 3653);
  auto d = Of({Shell("a"), Shell("b")});
  Task& a = d.tasks[0];
  Task& b = d.tasks[1];
  a.priority = -1'000;
  a.retry = {.initial = Duration(0), .max = Duration(0), .jitter = 0, .max_losses = 1};
  a.grace = Duration(0);
  b.priority = 1'000;
  b.retry = {.max_attempts = 1'000,
             .initial = kTenYears,
             .max = kTenYears,
             .jitter = 1,
             .max_losses = 1'000};
  b.timeout = b.grace = kTenYears;
  d.finally_timeout = d.cancel_timeout = Duration(1);
  d.max_parallel = 1'000'000;
  EXPECT_EQ(FaultsOf(d), Faults{});

  d.timeout = Duration(-1);
  d.finally_timeout = d.cancel_timeout = Duration(0);
  d.max_parallel = -1;
  a.priority = -1'001;
  a.retry = {.max_attempts = 0,
             .initial = Duration(2),
             .max = Duration(1),
             .jitter = std::nan(""),
             .max_losses = 0};
  a.grace = Duration(-1);
  b.retry = {.max_attempts = 1'001,
             .initial = Duration(-1),
             .max = kTenYears + Duration(1),
             .jitter = 1.01,
             .max_losses = 1'001};
  b.timeout = kTenYears + Duration(1);
  EXPECT_EQ(
      FaultsOf(d),
      (Faults{"HW1111 timeout", "HW1111 finally_timeout", "HW1111 cancel_timeout",
              "HW1111 max_parallel", "HW1111 tasks.a.retry.max_attempts",
              "HW1111 tasks.a.retry.max_losses", "HW1111 tasks.a.retry.initial",
              "HW1111 tasks.a.retry.jitter", "HW1111 tasks.a.grace", "HW1111 tasks.a.priority",
              "HW1111 tasks.b.retry.max_attempts", "HW1111 tasks.b.retry.max_losses",
              "HW1111 tasks.b.retry.initial", "HW1111 tasks.b.retry.max",
              "HW1111 tasks.b.retry.jitter", "HW1111 tasks.b.timeout"}));
}

TEST(Workflow, TextsAreCheckedWhereAProcessWouldChoke) {
  Task exec = Shell("e");
  exec.action = ExecAction{{"/bin/echo", std::string("a\0b", 3)}};
  exec.env["X"] = "\xFF";
  exec.inherit_env = {"OK_1", "1X"};
  Task none = Shell("n");
  none.action = ExecAction{};
  Task function = Shell("f");
  function.action = FunctionAction{};
  auto d = Of({exec, none, function});
  d.base_dir = "relative";
  d.params = {{"good", Param::Plain(" [1.0, 2] ")},
              {"bad", Param::Plain("{")},
              {"no-dash", Param::Plain("1")}};
  EXPECT_EQ(FaultsOf(d), (Faults{"HW1115 base_dir", "HW1113 params.bad", "HW1113 params.no-dash",
                                 "HW1114 tasks.e.exec[1]", "HW1114 tasks.e.env.X",
                                 "HW1112 tasks.e.inherit_env[1]", "HW1110 tasks.n.exec",
                                 "HW1110 tasks.f.function"}));
}

TEST(Workflow, AtLeastOneMainTaskAndAtMostKMaxTasks) {
  EXPECT_EQ(FaultsOf(Of({})), (Faults{"HW1102 tasks"}));
  EXPECT_EQ(FaultsOf(Of({Shell("f", {}, TaskRole::kFinally)})), (Faults{"HW1102 tasks"}));
  auto d = Of({});
  d.tasks.resize(Workflow::kMaxTasks + 1);
  EXPECT_EQ(FaultsOf(std::move(d)), (Faults{"HW1102 tasks"}));
}

TEST(Workflow, HopelessDefinitionsGetABoundedAnswer) {
  auto d = Of({});
  for (int i = 0; i < 2'000; ++i) d.tasks.push_back(Shell("t" + std::to_string(i), {"gone"}));
  std::vector<Fault> faults;
  const auto result = Workflow::Create(std::move(d), &faults);
  ASSERT_EQ(faults.size(), 1'001U);
  EXPECT_EQ(faults.back().message, "and 1000 more faults; mend these first");
  EXPECT_LT(result.error().message.size(), 10'000U);
}

WorkflowDefinition Everything() {
  Task shell = Shell("shell");
  shell.action = ShellAction{.script = "echo \"\\ \x01\x1f\t\xC3\xA9\x7f\"\n"};
  shell.env = {{"A", "b"}, {"C", ""}};
  shell.inherit_env = {"HOME", "PATH"};
  shell.cwd = "sub";
  shell.retry = {.max_attempts = 3,
                 .backoff = Backoff::kLinear,
                 .initial = Duration(5),
                 .max = Duration(7),
                 .jitter = 0.1,
                 .max_losses = 2,
                 .when = RetryCondition{.exit_codes = {1, 75}, .output_matches = "time.?out"},
                 .unless = RetryCondition{.exit_codes = {}, .output_matches = "x"}};
  shell.env_file = {"a.env", "b.env"};
  shell.when = {"params.n > 1", "true"};
  shell.deadline = Duration(13);
  shell.idempotency_key = "k-${{ params.n }}";
  shell.output = {.mode = OutputMode::kStdoutJson, .type_json = R"({"n": "integer"})"};
  shell.description = "does it";
  shell.labels = {{"team", "data"}};
  shell.timeout = Duration(11);
  shell.grace = Duration(12);
  shell.priority = -3;
  shell.trigger_rule = TriggerRule::kNoneFailedMinOneSuccess;
  shell.allow_failure = true;
  Task exec = Shell("exec", {"shell"});
  exec.action = ExecAction{{"/bin/true", ""}};
  Task function = Shell("function", {"exec", "shell"});
  function.action = FunctionAction{"a::b"};
  Task instance = Shell("m[1]");
  instance.action = ShellAction{.script = "true", .shell = {"bash", "-e"}};
  instance.group = "m";
  instance.matrix = R"({ "v": 1})";
  auto d = Of({function, exec, shell, instance, Shell("c", {}, TaskRole::kOnCancel),
               Shell("f", {}, TaskRole::kFinally)});
  d.name = {.tenant = "t", .package = "p", .workflow = "w"};
  d.description = "what";
  d.params = {{"n", Param::Plain(" 1.0")},
              {"o", Param::Plain(R"({"b": 1, "a": 18446744073709551615})")},
              {"r", Param::Plain("null")},
              {"s",
               {.type = ParamType::kInteger,
                .default_json = "2",
                .required = false,
                .description = "how many",
                .allowed = {"1", "2 "},
                .min = 0.5,
                .max = 4,
                .pattern = "[0-9]"}},
              {"z",
               {.type = ParamType::kDate,
                .default_json = "null",
                .required = true,
                .description = "",
                .allowed = {},
                .min = {},
                .max = {},
                .pattern = ""}}};
  d.tags = {"nightly"};
  d.max_active_runs = 5;
  d.env = {{"E", "1"}};
  d.base_dir = "/srv";
  d.timeout = Duration(1);
  d.finally_timeout = Duration(2);
  d.cancel_timeout = Duration(3);
  d.on_failure = OnFailure::kCancelRest;
  d.max_parallel = 4;
  return d;
}

TEST(WorkflowJson, EveryFieldGoesRoundAndCountsForTheVersion) {
  const auto w = Workflow::Create(Everything()).value();
  EXPECT_EQ(
      w->canonical_json(),
      R"({"format":1,"tenant":"t","package":"p","name":"w","description":"what",)"
      R"("tags":["nightly"],)"
      R"("params":{"n":1,"o":{"a":18446744073709551615,"b":1},"r":null,"s":2,"z":null},)"
      R"("declared":{"s":{"type":"integer","description":"how many","enum":[1,2],"min":0.5,)"
      R"("max":4,"pattern":"[0-9]"},"z":{"type":"date","required":true}},"env":{"E":"1"},)"
      R"("base_dir":"/srv","timeout_us":1,"finally_timeout_us":2,"cancel_timeout_us":3,)"
      R"("on_failure":"cancel_rest","max_parallel":4,"max_active_runs":5,"tasks":[)"
      R"({"id":"shell","run":"echo \"\\ \u0001\u001f\u0009)"
      "\xC3\xA9\x7f"
      R"(\"\n","env":{"A":"b","C":""},"inherit_env":["HOME","PATH"],)"
      R"("env_file":["a.env","b.env"],"cwd":"sub",)"
      R"("retry":{"max_attempts":3,"backoff":"linear","initial_us":5,"max_us":7,"jitter":0.1,)"
      R"("max_losses":2,"when":{"exit_codes":[1,75],"output_matches":"time.?out"},)"
      R"("unless":{"output_matches":"x"}},"when":["params.n > 1","true"],"timeout_us":11,)"
      R"("deadline_us":13,"grace_us":12,"priority":-3,)"
      R"("trigger_rule":"none_failed_min_one_success","allow_failure":true,)"
      R"("idempotency_key":"k-${{ params.n }}","output":"stdout-json",)"
      R"("output_type":{"n":"integer"},"description":"does it","labels":{"team":"data"}},)"
      R"({"id":"m[1]","group":"m","matrix":{"v":1},"run":"true","shell":["bash","-e"]},)"
      R"({"id":"exec","needs":["shell"],"exec":["/bin/true",""]},)"
      R"({"id":"function","needs":["exec","shell"],"function":"a::b"},)"
      R"({"id":"c","role":"on_cancel","run":"true"},{"id":"f","role":"finally","run":"true"}]})");
  const auto again = Workflow::FromCanonicalJson(w->canonical_json());
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ((*again)->version(), w->version());
  EXPECT_EQ((*again)->definition(), w->definition());
}

TEST(WorkflowJson, DefaultsOfFormatOneAreFrozen) {
  // These are what a missing field means in every stored workflow.
  const auto w =
      Workflow::FromCanonicalJson(R"({"format":1,"name":"w","tasks":[{"id":"a","run":"true"}]})");
  ASSERT_TRUE(w.has_value()) << w.error().message;
  const WorkflowDefinition& d = (*w)->definition();
  EXPECT_EQ(d.name.ToString(), "public::embedded::w");
  EXPECT_EQ(d.timeout, Duration(0));
  EXPECT_EQ(d.finally_timeout, Duration(300'000'000));
  EXPECT_EQ(d.cancel_timeout, Duration(600'000'000));
  EXPECT_EQ(d.on_failure, OnFailure::kFinish);
  EXPECT_EQ(d.max_parallel, 0);
  const Task& task = d.tasks[0];
  EXPECT_EQ(task.role, TaskRole::kMain);
  EXPECT_EQ(task.retry, (RetryPolicy{.max_attempts = 1,
                                     .backoff = Backoff::kExponential,
                                     .initial = Duration(1'000'000),
                                     .max = Duration(300'000'000),
                                     .jitter = 0.2,
                                     .max_losses = 6}));
  EXPECT_EQ(task.timeout, Duration(0));
  EXPECT_EQ(task.grace, Duration(10'000'000));
  EXPECT_EQ(task.priority, 0);
  EXPECT_EQ(task.trigger_rule, TriggerRule::kAllSuccess);
  EXPECT_FALSE(task.allow_failure);
  // printf '%s' TEXT | sha256sum
  EXPECT_EQ((*w)->version(), "d1ce52c1d320545f7b51a10f561945a511ba0f6f8d81a80f0fdcab7fdd329663");
}

TEST(WorkflowJson, WhatCreateDidNotWriteIsCorrupt) {
  const std::string good = R"({"format":1,"name":"w","tasks":[{"id":"a","run":"true"}]})";
  ASSERT_TRUE(Workflow::FromCanonicalJson(good).has_value());
  for (const std::string text :
       {R"()", R"([])", R"({})", R"({"format":2,"name":"w","tasks":[{"id":"a","run":"true"}]})",
        R"({"format":1,"name":"w","tasks":[{"id":"a","run":"true"}]} )",
        R"({"format":1,"name":"w","new":1,"tasks":[{"id":"a","run":"true"}]})",
        R"({"format":1,"name":"w","tasks":[{"id":"a","run":true}]})",
        R"({"format":1,"name":"w","tasks":[{"id":"a","run":"true","priority":"high"}]})",
        R"({"format":1,"name":"w","tasks":[{"id":"a","run":"true","priority":0}]})",
        R"({"format":1,"name":"w","tasks":[{"id":"a","run":"true","allow_failure":false}]})",
        R"({"format":1,"name":"w","tasks":[7]})", R"({"format":1,"name":"w","tasks":[]})",
        R"({"format":1,"name":"w","tasks":[{"id":"a","needs":["a"],"run":"true"}]})"}) {
    const auto result = Workflow::FromCanonicalJson(text);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_EQ(result.error().code, Code::kCorrupt) << text;
  }
}

TEST(Workflow, ShardsAreFixedForever) {
  EXPECT_EQ(ShardOf({.workflow = "report"}), Shard(22));
  EXPECT_EQ(ShardOf({.workflow = "Report"}), Shard(9));
  EXPECT_EQ(ShardOf({.tenant = "acme", .package = "etl", .workflow = "load"}), Shard(31));
  EXPECT_EQ(ShardOf({.tenant = "a", .package = "bc", .workflow = "d"}), Shard(27));
  EXPECT_EQ(ShardOf({.tenant = "ab", .package = "c", .workflow = "d"}), Shard(21));
  std::array<int, kShardCount> used{};
  for (int i = 0; i < 6'400; ++i)
    ++used[static_cast<std::size_t>(ShardOf({.workflow = "w" + std::to_string(i)}).value)];
  EXPECT_GT(*std::ranges::min_element(used), 50);
  EXPECT_LT(*std::ranges::max_element(used), 150);
}

TEST(Workflow, HundredThousandTasksAndAMillionEdges) {
  constexpr std::uint64_t kTasks = 100'000;
  SeededRandom random(1);
  auto d = Of({});
  for (std::uint64_t i = 0; i < kTasks; ++i) {
    std::vector<std::string> needs;
    for (int e = 0; i > 0 && e < 10; ++e)
      needs.push_back("task_" + std::to_string(random.Next() % i));
    std::ranges::sort(needs);
    needs.erase(std::ranges::unique(needs).begin(), needs.end());
    d.tasks.push_back(Shell("task_" + std::to_string(i), std::move(needs)));
  }
  const auto start = std::chrono::steady_clock::now();
  const auto w = Workflow::Create(std::move(d));
  const auto created = std::chrono::steady_clock::now();
  ASSERT_TRUE(w.has_value()) << w.error().message;
  EXPECT_EQ((*w)->size(), kTasks);
  const auto again = Workflow::FromCanonicalJson((*w)->canonical_json());
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ((*again)->version(), (*w)->version());
  const auto ms = [](auto span) {
    return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(span).count());
  };
  RecordProperty("create_ms", ms(created - start));
  RecordProperty("read_ms", ms(std::chrono::steady_clock::now() - created));
}

TEST(Workflow, ACycleThroughEverythingDoesNotExhaustTheStack) {
  auto d = Of({});
  for (int i = 0; i < 100'000; ++i)
    d.tasks.push_back(Shell("t" + std::to_string(i), {"t" + std::to_string((i + 1) % 100'000)}));
  std::vector<Fault> faults;
  ASSERT_FALSE(Workflow::Create(std::move(d), &faults).has_value());
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_NE(faults[0].message.find("t98 -> t99 -> (99900 more) -> t0"), std::string::npos)
      << faults[0].message;
}

TEST(PlatformDefaults, FillGapsOnlyFieldByField) {
  WorkflowDefinition definition;
  definition.name.workflow = "w";
  Task task{.id = "a", .action = FunctionAction{"f"}};
  task.retry.initial = std::chrono::seconds(3);
  task.Say(Gap::kMaxAttempts);
  definition.tasks = {task};
  const auto plain = *Workflow::Create(definition);
  PlatformDefaults defaults;
  defaults.timeout = std::chrono::minutes(2);
  defaults.retry.max_attempts = 5;
  defaults.retry.initial = std::chrono::seconds(9);
  defaults.retry.max_losses = 2;
  defaults.resources.memory = 1'000;
  const auto filled = *Workflow::FromCanonicalJson(plain->canonical_json(), defaults);
  const Task& a = filled->task(TaskNo(0));
  EXPECT_EQ(a.timeout, std::chrono::minutes(2));
  EXPECT_EQ(a.start_timeout, std::chrono::minutes(10));
  EXPECT_EQ(a.retry.max_attempts, 1) << "said, though it is as without a word";
  EXPECT_EQ(a.retry.initial, std::chrono::seconds(3));
  EXPECT_EQ(a.retry.max_losses, 2);
  EXPECT_EQ(a.resources.memory, 1'000U);
  EXPECT_EQ(a.resources.cpu, 0);
  EXPECT_EQ(filled->version(), plain->version());
  EXPECT_EQ(filled->canonical_json(), plain->canonical_json());
  // Without a word the version is another one, and stays what it was before there were defaults.
  definition.tasks[0].said = 0;
  definition.tasks[0].retry = {};
  EXPECT_EQ((*Workflow::Create(definition))->canonical_json(),
            R"({"format":1,"name":"w","tasks":[{"id":"a","function":"f"}]})");
  EXPECT_NE((*Workflow::Create(definition))->version(), plain->version());
}

TEST(PlatformDefaults, DelayThatIsFilledGivesWayToTheOneThatIsSaid) {
  using std::chrono::seconds;
  const auto filled = [](seconds initial, seconds max, const RetryPolicy& said, Gap gap) {
    Task task{.id = "a", .action = FunctionAction{"f"}, .retry = said};
    task.Say(gap);
    WorkflowDefinition definition;
    definition.name.workflow = "w";
    definition.tasks = {task};
    PlatformDefaults defaults;
    defaults.retry.initial = initial;
    defaults.retry.max = max;
    const auto plain = *Workflow::Create(definition);
    const auto loaded = *Workflow::FromCanonicalJson(plain->canonical_json(), defaults);
    const RetryPolicy& retry = loaded->task(TaskNo(0)).retry;
    return std::pair(retry.initial, retry.max);
  };
  const auto at = [](seconds initial, seconds max) {
    return std::pair<Duration, Duration>(initial, max);
  };
  const RetryPolicy slow{.max_attempts = 3, .initial = seconds(240)};
  EXPECT_EQ(filled(seconds(1), seconds(60), slow, Gap::kInitial), at(seconds(240), seconds(240)));
  EXPECT_EQ(filled(seconds(1), seconds(241), slow, Gap::kInitial), at(seconds(240), seconds(241)));
  const RetryPolicy quick{.max_attempts = 3, .max = seconds(5)};
  EXPECT_EQ(filled(seconds(10), seconds(60), quick, Gap::kMax), at(seconds(5), seconds(5)));
  EXPECT_EQ(filled(seconds(4), seconds(60), quick, Gap::kMax), at(seconds(4), seconds(5)));
}

TEST(PlatformDefaults, AreCheckedAtTheirBounds) {
  const auto fault = [](const auto& edit) {
    PlatformDefaults defaults;
    edit(defaults);
    const Status checked = defaults.Check();
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(fault([](auto&) {}), "");
  EXPECT_EQ(fault([](auto& d) { d.start_timeout = Duration(1); }), "");
  EXPECT_EQ(fault([](auto& d) { d.retry.max_attempts = 1'000; }), "");
  EXPECT_EQ(fault([](auto& d) { d.resources = {1'024, std::uint64_t{1} << 50}; }), "");
  EXPECT_EQ(fault([](auto& d) { d.resources.cpu = 0.001; }), "");
  EXPECT_THAT(fault([](auto& d) { d.start_timeout = Duration(0); }), testing::HasSubstr("above 0"));
  EXPECT_THAT(fault([](auto& d) { d.timeout = Duration(-1); }), testing::HasSubstr("timeout: "));
  EXPECT_THAT(fault([](auto& d) { d.retry.max_attempts = 1'001; }),
              testing::HasSubstr("retry.max_attempts: 1001 is out of range"));
  EXPECT_THAT(fault([](auto& d) { d.retry.max = std::chrono::milliseconds(999); }),
              testing::HasSubstr("retry.initial"));
  EXPECT_THAT(fault([](auto& d) { d.retry.when.emplace(); }), testing::HasSubstr("leave them out"));
  EXPECT_THAT(fault([](auto& d) { d.resources.cpu = 1'024.1; }),
              testing::HasSubstr("resources.cpu"));
  EXPECT_THAT(fault([](auto& d) { d.resources.cpu = 0.0009; }),
              testing::HasSubstr("resources.cpu"));
  EXPECT_THAT(fault([](auto& d) { d.resources.memory = (std::uint64_t{1} << 50) + 1; }),
              testing::HasSubstr("resources.memory"));
}

}  // namespace
}  // namespace headworks::model
