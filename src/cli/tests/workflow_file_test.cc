#include "workflow_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace headworks::cli {
namespace {

std::shared_ptr<const model::Workflow> Calling(const std::vector<std::string>& functions) {
  model::WorkflowDefinition definition;
  definition.name.workflow = "w";
  for (const std::string& function : functions) {
    model::Task task;
    task.id = fmt::format("t{}", definition.tasks.size());
    task.action = model::FunctionAction{function};
    definition.tasks.push_back(std::move(task));
  }
  return model::Workflow::Create(std::move(definition)).value();
}

void Add(TaskRegistry& registry, const std::string& name) {
  ASSERT_TRUE(registry.Register(
      FunctionName::Parse(name).value(), [](TaskContext&) -> TaskResult<Json> { return Json(); },
      "here"));
}

TEST(MissingFunctions, NoneIsMissingIfAllAreRegistered) {
  TaskRegistry registry;
  Add(registry, "resize");
  Add(registry, "w::crop");
  EXPECT_EQ(MissingFunctions(*Calling({"resize", "crop"}), registry), "");
}

TEST(MissingFunctions, EachIsToldOnceWithItsTaskAndWhatThereIs) {
  TaskRegistry registry;
  Add(registry, "resize");
  const std::string text = MissingFunctions(*Calling({"resise", "x", "resise"}), registry);
  EXPECT_TRUE(text.starts_with(
      "task t0 calls the function resise, which this program does not have, did you mean "
      "'resize'?\ntask t1 calls the function x, which this program does not have\n"
      "it has resize; functions are C++ code"))
      << text;
}

TEST(MissingFunctions, OfManyThatThereAreSomeAreNamed) {
  TaskRegistry registry;
  for (int i = 0; i < 20; ++i) Add(registry, fmt::format("f{:02}", i));
  EXPECT_NE(MissingFunctions(*Calling({"x"}), registry).find("f18, f19; functions"),
            std::string::npos);
  Add(registry, "f20");
  EXPECT_NE(
      MissingFunctions(*Calling({"x"}), registry).find("f18, f19, ... (`headworks tasks list`)"),
      std::string::npos);
}

}  // namespace
}  // namespace headworks::cli
