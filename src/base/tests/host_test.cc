#include "headworks/base/host.h"

#include <gtest/gtest.h>

#include <map>

namespace headworks {
namespace {

std::string StateFolder(const std::map<std::string, const char*>& variables) {
  return UserFolder(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second;
      },
      "XDG_STATE_HOME", ".local/state");
}

TEST(UserFolder, IsWhatItsVariableNamesOrBelowHome) {
  EXPECT_EQ(StateFolder({{"XDG_STATE_HOME", "/state"}, {"HOME", "/home/ada"}}), "/state");
  EXPECT_EQ(StateFolder({{"HOME", "/home/ada"}}), "/home/ada/.local/state");
  EXPECT_EQ(StateFolder({{"XDG_STATE_HOME", ""}, {"HOME", "/home/ada/"}}),
            "/home/ada/.local/state");
  EXPECT_EQ(StateFolder({{"HOME", "/"}}), "/.local/state");
}

TEST(UserFolder, IsNeverRelative) {
  const std::string of_user = StateFolder({});
  for (const char* relative : {"", "state", "./state", "~"}) {
    EXPECT_EQ(StateFolder({{"XDG_STATE_HOME", relative}, {"HOME", "/home/ada"}}),
              "/home/ada/.local/state");
    EXPECT_EQ(StateFolder({{"HOME", relative}}), of_user);
  }
  EXPECT_TRUE(of_user.empty() || of_user.starts_with("/")) << of_user;
}

}  // namespace
}  // namespace headworks
