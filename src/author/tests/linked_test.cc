#include <gtest/gtest.h>

#include "headworks/author/author.h"

namespace headworks {
namespace {

TEST(Linked, TasksOfAStaticLibraryAreFound) {
  TaskRegistry registry;
  // The faults of the other file are told; what is good is there all the same.
  EXPECT_FALSE(registry.RegisterLinked());
  EXPECT_TRUE(registry.Find({.workflow = "any"}, "greet"));
  const auto special = registry.Find({.workflow = "party"}, "greet");
  ASSERT_TRUE(special);
  EXPECT_NE(*special, *registry.Find({.workflow = "any"}, "greet"));
  const auto party = registry.FindWorkflow({.workflow = "party"});
  ASSERT_NE(party, nullptr);
  EXPECT_EQ(party->size(), 1U);
  EXPECT_EQ(party->definition().params.at("name").default_json, "\"you\"");
}

TEST(Linked, FaultsAreAllNamedWithTheirPlaces) {
  TaskRegistry registry;
  const Status status = registry.RegisterLinked();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  const std::string& message = status.error().message;
  for (const char* part :
       {"linked_faults.cc:6: name \"faulty::once::more::too::often\" has 5 parts",
        "task public::embedded::*::twice is registered twice", "linked_faults.cc:7",
        "linked_faults.cc:8", "tasks.a.needs"})
    EXPECT_NE(message.find(part), std::string::npos) << part << " in:\n" << message;
}

TEST(Linked, EachIsTakenOverOnce) {
  TaskRegistry registry;
  EXPECT_FALSE(registry.RegisterLinked());
  const std::size_t functions = registry.Functions().size();
  EXPECT_TRUE(registry.RegisterLinked());  // nothing new, so nothing twice
  EXPECT_EQ(registry.Functions().size(), functions);
}

}  // namespace
}  // namespace headworks
