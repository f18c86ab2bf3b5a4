#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <new>
#include <string>

#include "headworks/model/workflow.h"
#include "headworks/spec/workflow_file.h"

namespace {
std::size_t allocations = 0;  // of this process, which has one thread
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace headworks::spec {
namespace {

/// Scripts with expressions, conditions, retries, environments and needs, as the fullest files
/// have.
std::string File(int tasks) {
  std::string text = "version: 1\nparams: {env: dev, n: 1}\ntasks:\n";
  for (int i = 0; i < tasks; ++i)
    text += fmt::format(
        "  task_{}:\n    needs: [{}]\n    run: echo ${{{{ params.n }}}} {}\n"
        "    when: params.env == 'dev'\n    retry: {{max_attempts: 3}}\n    env: {{A: b}}\n",
        i, i == 0 ? "" : fmt::format("task_{}", i / 2), i);
  return text;
}

/// How many allocations reading it took.
std::size_t AllocationsOf(int tasks) {
  const std::string text = File(tasks);
  const std::size_t before = allocations;
  const auto definition = ParseWorkflow(text, "w.yaml", "/");
  if (!definition) {
    ADD_FAILURE() << definition.error().message;
    return 0;
  }
  EXPECT_EQ(definition->tasks.size(), static_cast<std::size_t>(tasks));
  EXPECT_TRUE(model::Workflow::Create(*definition).has_value());
  return allocations - before;
}

// The time that it takes is measured by tools/bench; here what that comes from.
TEST(LargeFile, HundredThousandTasksTakeMemoryInProportionAndLessThanAGigabyte) {
  const std::size_t small = AllocationsOf(10'000);
  const std::size_t large = AllocationsOf(100'000);
  EXPECT_LT(large, 11 * small);
  EXPECT_LT(large / 100'000, 150U) << "allocations for each task";
  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 1L << 20) << "KiB at most at a time";
  RecordProperty("max_rss_kib", static_cast<int>(usage.ru_maxrss));
  RecordProperty("allocations_per_task", static_cast<int>(large / 100'000));
}

TEST(LargeFile, WhatIsTooMuchIsSaidWithoutAWordOfAliasesWhereThereAreNone) {
  // 65 bytes of weight each, in two of text.
  const std::size_t values = kMaxExpandedBytes / 65 + 1;
  std::string text = "version: 1\nx-list: [1";
  text.reserve(2 * values + 100);
  for (std::size_t i = 1; i < values; ++i) text += ",1";
  text += "]\ntasks: {a: {run: x}}\n";
  const auto refused = ParseWorkflow(text, "w.yaml", "/");
  ASSERT_FALSE(refused);
  const std::string& message = refused.error().message;
  EXPECT_NE(message.find("HW1003 with all lists, maps and values in it this comes to more than 512 "
                         "MiB"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace headworks::spec
