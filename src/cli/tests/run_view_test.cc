#include "run_view.h"

#include <gtest/gtest.h>

#include <thread>

#include "headworks/author/registry.h"
#include "headworks/author/workflow_builder.h"

namespace headworks::cli {
namespace {

TEST(RunReader, OnlyWhatWaitsForAPoolHasPoolsReadAndOnlyWhereTheyAreAskedFor) {
  TaskRegistry registry;
  ASSERT_TRUE(registry.Register(
      FunctionName::Parse("train").value(),
      [](TaskContext&) { return TaskResult<Json>(Json("{}")); }, "test"));
  SystemClock clock;
  NullLogger logger;
  const Context context{
      .loaded = {}, .environment = {}, .clock = clock, .logger = logger, .actor = "ada"};
  RunnerOptions options;
  options.database_url = "memory:";
  options.registry = &registry;
  auto opened = Runner::Open(options);
  ASSERT_TRUE(opened) << opened.error().message;
  Runner& runner = **opened;
  const TenantId tenant = context.tenant();
  ASSERT_TRUE(runner.limits().SetPool(tenant, "gpu", 1, clock.Now()));
  WorkflowBuilder builder("pooled");
  builder.Task("train").Function("train").Pool("gpu", 1);
  ASSERT_TRUE(runner.Register(*builder.Build()));
  ASSERT_TRUE(runner.limits().SetPool(tenant, "gpu", 0, clock.Now()));
  const auto handle = runner.Start("pooled");
  ASSERT_TRUE(handle) << handle.error().message;

  RunReader reader(context);
  RunView view;
  const Duration until = clock.Monotonic() + std::chrono::seconds(60);
  do {
    std::this_thread::yield();
    view = *reader.Read(runner, "@last", clock.Now());
  } while (view.task(TaskNo(0)).reason != model::Reason::kPermit && clock.Monotonic() < until);
  EXPECT_TRUE(view.pools.empty());
  ASSERT_TRUE(reader.ReadLimits(runner, view));
  ASSERT_EQ(view.pools.size(), 1U);
  EXPECT_EQ(view.pools[0].name, "gpu");

  ASSERT_TRUE(runner.limits().SetPool(tenant, "gpu", 1, clock.Now()));
  ASSERT_TRUE(handle->Wait(std::chrono::seconds(60)));
  view = *reader.Read(runner, "@last", clock.Now());
  ASSERT_TRUE(reader.ReadLimits(runner, view));
  EXPECT_TRUE(view.pools.empty()) << "nothing waits for one";
}

}  // namespace
}  // namespace headworks::cli
