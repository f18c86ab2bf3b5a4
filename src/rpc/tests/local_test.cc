#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "harness.h"

namespace headworks::rpc {
namespace {

namespace fs = std::filesystem;

/// Over a socket of this host.
class Local : public RpcTest {
 protected:
  Local() {
    std::string folder = (fs::temp_directory_path() / "local-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  ~Local() override { fs::remove_all(folder_); }

  std::string Address(const std::string& name) const { return "unix:" + folder_ + "/" + name; }
  Result<worker_api::Welcome> Register(RpcClient& client) {
    Answered<worker_api::Welcome> answer;
    client.Register({.who = who}, answer.done());
    if (engine_hears) engine.registered.Take().second(worker_api::Welcome{});
    return answer.Get();
  }

  std::string folder_;
  bool engine_hears = true;
};

TEST_F(Local, WordsComeAcrossAndTheSocketGoesWithItsServer) {
  auto server = Serve({.address = Address("s")});
  EXPECT_EQ(server->address(), Address("s"));
  EXPECT_TRUE(fs::is_socket(folder_ + "/s"));
  EXPECT_TRUE(Register(*Connect(Address("s"))));
  engine_hears = false;
  const auto refused = Register(*Connect(Address("s"), "bad"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  server.reset();
  EXPECT_FALSE(fs::exists(folder_ + "/s"));
}

TEST_F(Local, ASocketThatADeadProcessLeftIsReplaced) {
  const std::string path = folder_ + "/s";
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int left = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  close(left);
  const auto client = Connect(Address("s"));
  engine_hears = false;
  const auto nobody = Register(*client);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, Code::kUnavailable);
  const auto server = Serve({.address = Address("s")});
  engine_hears = true;
  EXPECT_TRUE(Register(*Connect(Address("s"))));
}

TEST_F(Local, WhatIsNoSocketStays) {
  std::ofstream(folder_ + "/file") << "mine";
  for (const char* taken : {"file", "no-folder/s"}) {
    const auto server = RpcServer::Open({.address = Address(taken)}, {engine, words, clock, log});
    ASSERT_FALSE(server) << taken;
    EXPECT_EQ(server.error().code, Code::kConflict);
    EXPECT_NE(server.error().message.find("no socket can be made there"), std::string::npos);
  }
  EXPECT_EQ(fs::file_size(folder_ + "/file"), 4U);
}

TEST_F(Local, ErrorsCallItByItsName) {
  RpcClientOptions options;
  options.name = "the engine of db";
  engine_hears = false;
  const auto nobody = Register(*Connect(Address("s"), "good", options));
  ASSERT_FALSE(nobody);
  EXPECT_TRUE(nobody.error().message.starts_with("no answer from the engine of db: "))
      << nobody.error().message;
}

TEST_F(Local, APathHasOneTo107Bytes) {
  const auto open = [](std::size_t bytes) {
    return RpcClient::Open(
        {.target = "unix:" + std::string(bytes, 'p'), .credential = [] { return ""; }});
  };
  EXPECT_TRUE(open(1));
  EXPECT_TRUE(open(107));
  for (const std::size_t bytes : {0U, 108U}) {
    const auto client = open(bytes);
    ASSERT_FALSE(client) << bytes;
    EXPECT_EQ(client.error().code, Code::kInvalidArgument);
  }
  const std::string longest = folder_ + "/" + std::string(107 - folder_.size() - 1, 'p');
  const auto server = Serve({.address = "unix:" + longest});
  EXPECT_TRUE(Register(*Connect("unix:" + longest)));
}

}  // namespace
}  // namespace headworks::rpc
