#include "run_view.h"

#include <gtest/gtest.h>

#include <semaphore>
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

TEST(ReadPools, HoldersAreNamedOnlyWhereThatIsAskedFor) {
  std::binary_semaphore go(0);
  TaskRegistry registry;
  ASSERT_TRUE(registry.Register(
      FunctionName::Parse("train").value(),
      [&](TaskContext&) {
        go.acquire();
        return TaskResult<Json>(Json("{}"));
      },
      "test"));
  SystemClock clock;
  NullLogger logger;
  const Context context{
      .loaded = {}, .environment = {}, .clock = clock, .logger = logger, .actor = "ada"};
  RunnerOptions options;
  options.database_url = "memory:";
  options.registry = &registry;
  options.pools = {{"gpu", 2}};
  auto opened = Runner::Open(options);
  ASSERT_TRUE(opened) << opened.error().message;
  Runner& runner = **opened;
  WorkflowBuilder builder("pooled");
  builder.Task("train").Function("train").Pool("gpu", 2);
  ASSERT_TRUE(runner.Register(*builder.Build()));
  const auto handle = runner.Start("pooled");
  ASSERT_TRUE(handle) << handle.error().message;
  const auto held = [&](HolderNames names) { return ReadPools(context, runner, names)->at(0); };
  const Duration until = clock.Monotonic() + std::chrono::seconds(60);
  while (held(HolderNames::kNo).held == 0 && clock.Monotonic() < until) std::this_thread::yield();
  const PoolView plain = held(HolderNames::kNo);
  const PoolView named = held(HolderNames::kYes);
  go.release();
  ASSERT_EQ(plain.holders.size(), 1U);
  EXPECT_EQ(plain.holders[0].task, "");
  EXPECT_EQ(plain.holders[0].permits, 2);
  ASSERT_EQ(named.holders.size(), 1U);
  EXPECT_EQ(named.holders[0].task, "train");
  ASSERT_TRUE(handle->Wait(std::chrono::seconds(60)));
}

}  // namespace
}  // namespace headworks::cli
