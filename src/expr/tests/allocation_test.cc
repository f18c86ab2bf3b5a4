#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>

#include "expressions.h"

#if __has_feature(address_sanitizer)
#include <sanitizer/allocator_interface.h>

namespace headworks::expr {
namespace {

std::atomic<int> allocations = 0;
void CountAllocation(const volatile void*, std::size_t) { ++allocations; }
void CountNothing(const volatile void*) {}

TEST(Program, EvaluatingAConditionDoesNotAllocate) {
  ASSERT_GT(__sanitizer_install_malloc_and_free_hooks(CountAllocation, CountNothing), 0);
  const auto variables = TestVariables();
  const Limits limits;
  for (const char* text : {"needs.a.output.n > 3 && params.env == \"prod\"",
                           "params.tags.exists(t, t == 'b') ? y in x.list || y + 1 == 8 : false",
                           "has(x.map.k) && [1, 2, 3].map(e, e * y)[1] == 14"}) {
    const auto program = Program::Compile(text, TestEnvironment(), nullptr);
    ASSERT_TRUE(program) << program.error().message;
    const int before = allocations;
    const auto value = program->EvaluateBool(variables, limits);
    const int after = allocations;
    ASSERT_TRUE(value) << value.error().message;
    EXPECT_TRUE(*value);
    EXPECT_EQ(after, before) << text;
    EXPECT_GT(before, 0);  // The hook counts: compiling allocates.
  }
}

}  // namespace
}  // namespace headworks::expr
#endif
