#include "headworks/author/registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "headworks/author/register.h"

namespace headworks {
namespace {

TaskFunction Saying(const std::string& word) {
  return [word](TaskContext&) { return TaskResult<Json>(Json(word)); };
}

class NoHost final : public TaskHost {
 public:
  void Log(std::string_view) override {}
  void Heartbeat() override {}
};

/// What the function that `workflow` finds under `name` says; the error if there is none.
std::string Found(const TaskRegistry& registry, const model::Namespace& workflow,
                  std::string_view name) {
  const auto function = registry.Find(workflow, name);
  if (!function) return function.error().message;
  const TaskInfo info{};
  NoHost host;
  TaskContext context(info, "", "", std::stop_token(), host);
  return (**function)(context).value()->text;
}

FunctionName Name(std::string_view text) { return *FunctionName::Parse(text); }

TEST(FunctionName, IsReadFromTheRight) {
  EXPECT_EQ(Name("t"), (FunctionName{.task = "t"}));
  EXPECT_EQ(Name("w::t"), (FunctionName{.workflow = "w", .task = "t"}));
  EXPECT_EQ(Name("p::w::t"), (FunctionName{.package = "p", .workflow = "w", .task = "t"}));
  EXPECT_EQ(Name("n::p::*::t"), (FunctionName{.tenant = "n", .package = "p", .task = "t"}));
  EXPECT_EQ(Name("n::p::w::t").ToString(), "n::p::w::t");
  EXPECT_EQ(Name("t").ToString(), "public::embedded::*::t");
}

TEST(FunctionName, RefusesWhatIsNoName) {
  for (const char* bad :
       {"", "::", "a::", "a b", "a:b", "a::b::c::d::e", "*", "*::p::w::t", "n::*::w::t", "ü"})
    EXPECT_FALSE(FunctionName::Parse(bad)) << bad;
  EXPECT_TRUE(FunctionName::Parse(std::string(100, 'a')));
  EXPECT_FALSE(FunctionName::Parse(std::string(101, 'a')));
}

TEST(WorkflowName, IsReadFromTheRight) {
  EXPECT_EQ(*ParseWorkflowName("w"), (model::Namespace{.workflow = "w"}));
  EXPECT_EQ(ParseWorkflowName("n::p::w")->ToString(), "n::p::w");
  EXPECT_FALSE(ParseWorkflowName("n::p::*"));
  EXPECT_FALSE(ParseWorkflowName("a::b::c::d"));
}

TEST(TaskRegistry, PrefersTheFunctionOfTheWorkflow) {
  TaskRegistry registry;
  ASSERT_TRUE(registry.Register(Name("f"), Saying("package"), "a"));
  ASSERT_TRUE(registry.Register(Name("w::f"), Saying("workflow"), "b"));
  EXPECT_EQ(Found(registry, {.workflow = "w"}, "f"), "workflow");
  EXPECT_EQ(Found(registry, {.workflow = "v"}, "f"), "package");
}

TEST(TaskRegistry, NeverLeavesItsTenantOrPackage) {
  TaskRegistry registry;
  ASSERT_TRUE(registry.Register(Name("f"), Saying("public"), "a"));
  ASSERT_TRUE(registry.Register(Name("acme::p::*::f"), Saying("acme"), "b"));
  EXPECT_EQ(Found(registry, {"acme", "p", "w"}, "f"), "acme");
  EXPECT_NE(Found(registry, {"acme", "embedded", "w"}, "f").find("no function \"f\""),
            std::string::npos);
  EXPECT_EQ(Found(registry, {"evil", "embedded", "w"}, "f"),
            "tenant \"evil\" is unknown here: no function is registered for it");
  EXPECT_EQ(Found(registry, {"", "embedded", "w"}, "f"),
            "tenant \"\" is unknown here: no function is registered for it");
}

TEST(TaskRegistry, SaysWhatThereIsAndWhatWasMeant) {
  TaskRegistry registry;
  ASSERT_TRUE(registry.Register(Name("resize"), Saying(""), "a"));
  ASSERT_TRUE(registry.Register(Name("other::crop"), Saying(""), "b"));
  EXPECT_EQ(Found(registry, {.workflow = "w"}, "resise"),
            "no function \"resise\" for public::embedded::w in this program, did you mean "
            "'resize'? (there is: resize); register it with HEADWORKS_TASK, and link its library "
            "whole");
}

TEST(TaskRegistry, RefusesTheSameNameTwiceAndNamesBothPlaces) {
  TaskRegistry registry;
  ASSERT_TRUE(registry.Register(Name("f"), Saying("first"), "a.cc:1"));
  const Status twice = registry.Register(Name("f"), Saying("second"), "b.cc:2");
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, Code::kConflict);
  EXPECT_EQ(twice.error().message,
            "task public::embedded::*::f is registered twice: at a.cc:1 and at b.cc:2; rename one");
  EXPECT_EQ(Found(registry, {.workflow = "w"}, "f"), "first");
}

TEST(TaskRegistry, RefusesAWorkflowTwice) {
  TaskRegistry registry;
  WorkflowBuilder builder("w");
  builder.Task("a").Run("true");
  ASSERT_TRUE(registry.RegisterWorkflow(*builder.Build(), "a.cc:1"));
  EXPECT_EQ(
      registry.RegisterWorkflow(*builder.Build(), "b.cc:2").error().message,
      "workflow public::embedded::w is registered twice: at a.cc:1 and at b.cc:2; rename one");
  EXPECT_EQ(registry.FindWorkflow({.workflow = "v"}), nullptr);
  EXPECT_EQ(registry.Workflows().size(), 1U);
}

TEST(TaskRegistry, RefusesAnIncompleteName) {
  TaskRegistry registry;
  EXPECT_FALSE(registry.Register({.tenant = "", .task = "f"}, Saying(""), "a"));
  EXPECT_FALSE(registry.Register({.task = ""}, Saying(""), "a"));
  EXPECT_FALSE(registry.Register({.task = "f"}, TaskFunction(), "a"));
}

TEST(TaskRegistry, ServesThreadsWhileItGrows) {
  TaskRegistry registry;
  ASSERT_TRUE(registry.Register(Name("f0"), Saying("0"), "a"));
  std::atomic<bool> done{false};
  std::vector<std::jthread> readers;
  readers.reserve(2);
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&] {
      while (!done) EXPECT_TRUE(registry.Find({.workflow = "w"}, "f0"));
    });
  for (int i = 1; i <= 500; ++i)
    EXPECT_TRUE(registry.Register(Name("f" + std::to_string(i)), Saying(""), "a"));
  done = true;
  readers.clear();
  EXPECT_EQ(registry.Functions().size(), 501U);
}

}  // namespace
}  // namespace headworks
