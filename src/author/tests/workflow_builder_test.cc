#include "headworks/author/workflow_builder.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headworks {
namespace {

using namespace std::chrono_literals;

TEST(WorkflowBuilder, SetsEverythingThatAModelHas) {
  WorkflowBuilder w("acme::shop::nightly");
  w.Description("all of it")
      .Param("day")
      .Param("limit", 10)
      .Param("city", "Oslo")
      .Param("tags", std::vector<std::string>{"a"})
      .Env("LANG", "C")
      .BaseDir("/srv")
      .Timeout(1h)
      .FinallyTimeout(2min)
      .CancelTimeout(3min)
      .OnFailure(OnFailure::kCancelRest)
      .MaxParallel(4)
      .Concurrency({.key = "params.city", .limit = 2});
  w.Task("load")
      .Exec({"load", "--all"})
      .Needs({"fetch"})
      .Retry({.max_attempts = 5, .backoff = Backoff::kFixed, .initial = 2s});
  w.Task("fetch")
      .Run("fetch it")
      .Retry(3)
      .Timeout(30s)
      .StartTimeout(2min)
      .Resources({.cpu = 0.5, .memory = 1'000})
      .Grace(1s)
      .Priority(7)
      .Pool("gpu", 3)
      .Queue("big")
      .Requires({"gpu", "region=eu"})
      .AllowFailure()
      .Env("A", "1")
      .InheritEnv({"PATH"})
      .Cwd("sub");
  w.Task("report").Function("report").Needs({"load"}).Rule(TriggerRule::kAllDone);
  w.OnCancel("undo").Run("undo");
  w.Finally("clean").Run("clean");
  const auto built = w.Build();
  ASSERT_TRUE(built) << built.error().message;
  const model::Workflow& workflow = **built;
  const model::WorkflowDefinition& d = workflow.definition();
  EXPECT_EQ(workflow.name().ToString(), "acme::shop::nightly");
  EXPECT_EQ(d.description, "all of it");
  EXPECT_EQ(d.params,
            (std::map<std::string, model::Param>{{"day", model::Param::Plain("null")},
                                                 {"limit", model::Param::Plain("10")},
                                                 {"city", model::Param::Plain("\"Oslo\"")},
                                                 {"tags", model::Param::Plain("[\"a\"]")}}));
  EXPECT_EQ(d.env.at("LANG"), "C");
  EXPECT_EQ(d.base_dir, "/srv");
  EXPECT_EQ(d.timeout, 1h);
  EXPECT_EQ(d.finally_timeout, 2min);
  EXPECT_EQ(d.cancel_timeout, 3min);
  EXPECT_EQ(d.on_failure, OnFailure::kCancelRest);
  EXPECT_EQ(d.max_parallel, 4);
  EXPECT_EQ(d.concurrency, (model::Concurrency{.key = "params.city", .limit = 2}));
  EXPECT_EQ(workflow.task(*workflow.Find("fetch")).pool, "gpu");
  EXPECT_EQ(workflow.task(*workflow.Find("fetch")).weight, 3);
  EXPECT_EQ(workflow.task(*workflow.Find("fetch")).queue, "big");
  EXPECT_EQ(workflow.task(*workflow.Find("fetch")).required,
            (std::vector<std::string>{"gpu", "region=eu"}));
  ASSERT_EQ(workflow.size(), 5U);
  const model::Task& fetch = d.tasks[0];
  EXPECT_EQ(fetch.id, "fetch");
  EXPECT_EQ(std::get<model::ShellAction>(fetch.action).script, "fetch it");
  EXPECT_EQ(fetch.retry.max_attempts, 3);
  EXPECT_EQ(fetch.timeout, 30s);
  EXPECT_EQ(fetch.start_timeout, 2min);
  EXPECT_EQ(fetch.resources, (model::Resources{.cpu = 0.5, .memory = 1'000}));
  EXPECT_EQ(fetch.grace, 1s);
  EXPECT_EQ(fetch.priority, 7);
  EXPECT_TRUE(fetch.allow_failure);
  EXPECT_EQ(fetch.env.at("A"), "1");
  EXPECT_EQ(fetch.inherit_env, std::vector<std::string>{"PATH"});
  EXPECT_EQ(fetch.cwd, "sub");
  const model::Task& load = d.tasks[1];
  EXPECT_EQ(std::get<model::ExecAction>(load.action).argv,
            (std::vector<std::string>{"load", "--all"}));
  EXPECT_EQ(load.needs, std::vector<std::string>{"fetch"});
  EXPECT_EQ(load.retry.max_attempts, 5);
  EXPECT_EQ(load.retry.backoff, Backoff::kFixed);
  EXPECT_EQ(load.retry.initial, 2s);
  EXPECT_EQ(std::get<model::FunctionAction>(d.tasks[2].action).function, "report");
  EXPECT_EQ(d.tasks[2].trigger_rule, TriggerRule::kAllDone);
  EXPECT_EQ(d.tasks[3].role, model::TaskRole::kOnCancel);
  EXPECT_EQ(d.tasks[4].role, model::TaskRole::kFinally);
}

TEST(WorkflowBuilder, WhatIsSaidGoesBeforeThePlatformsDefaults) {
  WorkflowBuilder w("w");
  w.Task("once").Run("true").Retry(1).Timeout(0s).StartTimeout(2min);
  w.Task("policy").Run("true").Retry({.max_attempts = 1}).Resources({.cpu = 2});
  w.Task("silent").Run("true");
  model::PlatformDefaults defaults;
  defaults.timeout = 1h;
  defaults.start_timeout = 5min;
  defaults.retry.max_attempts = 4;
  defaults.retry.max_losses = 2;
  defaults.resources = {.cpu = 1, .memory = 1'000};
  const auto built = w.Build();
  ASSERT_TRUE(built) << built.error().message;
  const auto loaded = model::Workflow::FromCanonicalJson((*built)->canonical_json(), defaults);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto task = [&](std::string_view id) { return (*loaded)->task(*(*loaded)->Find(id)); };
  EXPECT_EQ(task("once").retry.max_attempts, 1);
  EXPECT_EQ(task("once").timeout, 0s);
  EXPECT_EQ(task("once").start_timeout, 2min);
  EXPECT_EQ(task("policy").retry.max_attempts, 1);
  EXPECT_EQ(task("policy").retry.max_losses, 2);
  EXPECT_EQ(task("policy").timeout, 1h);
  EXPECT_EQ(task("policy").resources, (model::Resources{.cpu = 2, .memory = 1'000}));
  EXPECT_EQ(task("silent").retry.max_attempts, 4);
  EXPECT_EQ(task("silent").start_timeout, 5min);
}

TEST(WorkflowBuilder, NamesEveryFault) {
  WorkflowBuilder w("no good");
  w.Param("x", 1).Param("x", 2).Param("y", Json("{"));
  w.Task("a");
  w.Task("b").Run("true").Exec({"true"}).Needs({"absent"});
  w.Finally("c").Function("f").Retry(0);
  std::vector<model::Fault> faults;
  const auto built = w.Build(&faults);
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, Code::kInvalidArgument);
  std::vector<std::string> fields;
  for (const model::Fault& fault : faults) {
    fields.push_back(fault.field);
    EXPECT_NE(built.error().message.find(fault.field + ": " + fault.message), std::string::npos);
  }
  std::ranges::sort(fields);
  EXPECT_EQ(fields,
            (std::vector<std::string>{"finally.c.retry.max_attempts", "name", "params.x",
                                      "params.y", "tasks.a", "tasks.b", "tasks.b.needs[0]"}));
}

TEST(WorkflowBuilder, BuildsTheSameVersionTwice) {
  WorkflowBuilder w("w");
  TaskBuilder& first = w.Task("first").Run("true");
  for (int i = 0; i < 100; ++i) w.Task("t" + std::to_string(i)).Run("true").Needs({"first"});
  const auto one = w.Build();
  const auto two = w.Build();
  ASSERT_TRUE(one && two);
  EXPECT_EQ((*one)->version(), (*two)->version());
  first.Priority(1);  // references stay good while tasks are added
  EXPECT_NE((*w.Build())->version(), (*one)->version());
}

}  // namespace
}  // namespace headworks
