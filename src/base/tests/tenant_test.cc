#include "headworks/base/tenant.h"

#include <gtest/gtest.h>

#include <string>

namespace headworks {
namespace {

TEST(CheckTenantName, TakesWhatMayStandInANameOfAWorkflow) {
  for (const char* name : {"public", "a", "Acme.eu-1_x", "-", "0"})
    EXPECT_TRUE(CheckTenantName(name)) << name;
  EXPECT_TRUE(CheckTenantName(std::string(100, 'x')));
}

TEST(CheckTenantName, RefusesTheRestAndShowsIt) {
  using std::string_literals::operator""s;
  for (const std::string& name : {""s, " "s, "a b"s, "a\n"s, "a\tb"s, "a/b"s, "a::b"s, "a=b"s,
                                  "a,b"s, "ä"s, "a\0b"s, "\xff"s, std::string(101, 'x')}) {
    const Status checked = CheckTenantName(name);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(CheckTenantName("a b\n").error().message,
            R"("a b\n" is no name of a tenant; use 1 to 100 letters, digits, _ . and -)");
  EXPECT_LT(CheckTenantName(std::string(1'000'000, 'x')).error().message.size(), 300U);
}

}  // namespace
}  // namespace headworks
