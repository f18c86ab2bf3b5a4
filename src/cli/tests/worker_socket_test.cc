#include "worker_socket.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace headworks::cli {
namespace {

namespace fs = std::filesystem;

class WorkerSocketTest : public testing::Test {
 protected:
  WorkerSocketTest() {
    std::string folder = (fs::temp_directory_path() / "socket-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  ~WorkerSocketTest() override { fs::remove_all(folder_); }

  Error FaultOf(const std::string& url) {
    const auto socket = WorkerSocket::Open(url);
    EXPECT_FALSE(socket);
    return socket ? Error{} : socket.error();
  }

  std::string folder_;
};

TEST_F(WorkerSocketTest, IsInAFolderOfItsUserAlone) {
  const auto socket = WorkerSocket::Open("sqlite:" + folder_ + "/db");
  ASSERT_TRUE(socket) << socket.error().message;
  EXPECT_EQ(socket->path(), folder_ + "/db-workers/rpc");
  struct stat about{};
  ASSERT_EQ(stat((folder_ + "/db-workers").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0700U);
  EXPECT_TRUE(WorkerSocket::Open("sqlite:" + folder_ + "/db"));
}

TEST_F(WorkerSocketTest, HasAShortAddressHoweverLongThePathIs) {
  const std::string deep = folder_ + "/" + std::string(200, 'd');
  fs::create_directory(deep);
  const auto socket = WorkerSocket::Open("sqlite:" + deep + "/" + std::string(240, 'n'));
  ASSERT_TRUE(socket) << socket.error().message;
  EXPECT_LE(socket->address().size(), 5 + 107U);
  const std::string address = socket->address();
  std::ofstream(address.substr(5)) << "x";
  EXPECT_TRUE(fs::exists(socket->path()));
}

TEST_F(WorkerSocketTest, AFolderThatOthersMayEnterIsRefused) {
  const std::string url = "sqlite:" + folder_ + "/db", own = folder_ + "/db-workers";
  ASSERT_TRUE(WorkerSocket::Open(url));
  fs::permissions(own, fs::perms(0710));
  EXPECT_EQ(FaultOf(url).code, Code::kPermissionDenied);
  EXPECT_NE(FaultOf(url).message.find("mode 0700, but is user"), std::string::npos);
  fs::remove(own);
  fs::create_directory_symlink(folder_, own);
  EXPECT_EQ(FaultOf(url).code, Code::kUnavailable);
  fs::remove(own);
  std::ofstream(own) << "x";
  EXPECT_EQ(FaultOf(url).code, Code::kUnavailable);
  if (geteuid() != 0) return;
  fs::remove(own);
  fs::create_directory(own);
  fs::permissions(own, fs::perms(0700));
  ASSERT_EQ(chown(own.c_str(), 65'534, 65'534), 0);
  EXPECT_EQ(FaultOf(url).code, Code::kPermissionDenied);
}

TEST_F(WorkerSocketTest, AStoreInMemoryHasNone) {
  EXPECT_EQ(FaultOf("memory:").code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace headworks::cli
