#include "headworks/dag_gen/dag_gen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "headworks/spec/workflow_file.h"

namespace headworks::dag_gen {
namespace {

std::shared_ptr<const model::Workflow> Make(Shape shape, std::uint32_t size,
                                            std::uint64_t seed = 1) {
  auto definition = Generate({.shape = shape, .size = size, .seed = seed});
  EXPECT_TRUE(definition) << definition.error().message;
  auto workflow = model::Workflow::Create(*std::move(definition));
  EXPECT_TRUE(workflow) << workflow.error().message;
  return *workflow;
}

std::size_t Edges(const model::Workflow& workflow) {
  std::size_t edges = 0;
  for (const model::Task& task : workflow.definition().tasks) edges += task.needs.size();
  return edges;
}

/// Tasks on the longest way through.
std::size_t Depth(const model::Workflow& workflow) {
  std::vector<std::size_t> depth(workflow.size(), 1);
  for (std::uint32_t i = 0; i < workflow.size(); ++i)
    for (const TaskNo upstream : workflow.upstreams(TaskNo(i)))
      depth[i] = std::max(depth[i], depth[upstream.value] + 1);
  return std::ranges::max(depth);
}

TEST(DagGen, ChainHasOneWay) {
  const auto chain = Make(Shape::kChain, 1000);
  EXPECT_EQ(chain->size(), 1000U);
  EXPECT_EQ(Edges(*chain), 999U);
  EXPECT_EQ(Depth(*chain), 1000U);
}

TEST(DagGen, FanSplitsAndJoins) {
  const auto fan = Make(Shape::kFan, 100);
  EXPECT_EQ(fan->size(), 102U);
  EXPECT_EQ(Edges(*fan), 200U);
  EXPECT_EQ(Depth(*fan), 3U);
}

TEST(DagGen, IndependentHasNoEdges) {
  EXPECT_EQ(Make(Shape::kIndependent, 50)->size(), 50U);
  EXPECT_EQ(Edges(*Make(Shape::kIndependent, 50)), 0U);
}

TEST(DagGen, GridIsAWave) {
  const auto grid = Make(Shape::kGrid, 110);
  EXPECT_EQ(grid->size(), 100U);
  EXPECT_EQ(Edges(*grid), 180U);
  EXPECT_EQ(Depth(*grid), 19U);
}

TEST(DagGen, LayeredHasItsSizeAndNarrowNeeds) {
  const auto layered = Make(Shape::kLayered, 1000);
  EXPECT_EQ(layered->size(), 1000U);
  EXPECT_GE(Depth(*layered), 20U);
  for (const model::Task& task : layered->definition().tasks) EXPECT_LE(task.needs.size(), 3U);
}

TEST(DagGen, MontageHasTheProportionsOfARealOne) {
  const auto montage = Make(Shape::kMontage, 2200);
  EXPECT_LE(montage->size(), 2200U);
  EXPECT_GE(montage->size(), 2000U);
  EXPECT_EQ(Depth(*montage), 9U);
  EXPECT_GT(Edges(*montage), montage->size() * 2);
  EXPECT_EQ(Make(Shape::kMontage, 31)->size(), 31U);
}

TEST(DagGen, TheSameSeedGivesTheSameWorkflow) {
  for (std::size_t i = 0; i < ShapeNames().size(); ++i) {
    const auto shape = static_cast<Shape>(i);
    EXPECT_EQ(Make(shape, 200, 7)->version(), Make(shape, 200, 7)->version());
  }
  EXPECT_NE(Make(Shape::kLayered, 200, 7)->version(), Make(Shape::kLayered, 200, 8)->version());
  // Fixed for good: figures of different days are of the same workflow.
  EXPECT_EQ(Edges(*Make(Shape::kLayered, 1000, 1)), 1911U);
}

TEST(DagGen, ItsFilesReadBackEqual) {
  for (std::size_t i = 0; i < ShapeNames().size(); ++i) {
    SCOPED_TRACE(ShapeNames()[i]);
    for (const model::Action& action : {model::Action(model::ShellAction{.script = "echo \"ü\"\n"}),
                                        model::Action(model::ExecAction{{"true", "x y"}}),
                                        model::Action(model::FunctionAction{"f"})}) {
      auto definition =
          Generate({.shape = static_cast<Shape>(i), .size = 100, .seed = 3, .action = action});
      ASSERT_TRUE(definition);
      const auto read = spec::ParseWorkflow(ToWorkflowFile(*definition), "generated", "");
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(read->tasks, definition->tasks);
      EXPECT_EQ(read->name, definition->name);
    }
  }
}

TEST(DagGen, RefusesWhatItCannotMake) {
  EXPECT_EQ(Generate({.size = 0}).error().code, Code::kInvalidArgument);
  EXPECT_FALSE(Generate({.size = 1'000'001}));
  EXPECT_TRUE(Generate({.size = 1}));
  EXPECT_FALSE(Generate({.shape = Shape::kMontage, .size = 30}));
  EXPECT_EQ(*ShapeFromName("grid"), Shape::kGrid);
  EXPECT_EQ(ShapeFromName("ring").error().message,
            "no shape 'ring'; there are chain, fan, independent, layered, grid, montage");
}

}  // namespace
}  // namespace headworks::dag_gen
