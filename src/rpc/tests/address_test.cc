#include "address.h"

#include <gtest/gtest.h>

#include "headworks/rpc/rpc_server.h"

namespace headworks::rpc {
namespace {

TEST(Address, IsHostAndPort) {
  for (const char* good : {"127.0.0.1:7070", "[::1]:0", "localhost:1", ":65535", "a.b-c:80"})
    EXPECT_TRUE(CheckAddress(good)) << good;
  EXPECT_EQ(ParseAddress("[::1]:70")->host, "[::1]");
  EXPECT_EQ(ParseAddress(":70")->host, "");
  EXPECT_EQ(ParseAddress("h:70")->port, 70);
}

TEST(Address, SaysWhatIsNone) {
  for (const char* bad : {"", "host", "host:", "host:x", "host:65536", "host:-1", "::1:70", "[]:7",
                          "http://h:7", "h:7 ", "h h:7", "h:+7"}) {
    const Status status = CheckAddress(bad);
    ASSERT_FALSE(status) << bad;
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_NE(status.error().message.find("write HOST:PORT"), std::string::npos);
  }
}

}  // namespace
}  // namespace headworks::rpc
