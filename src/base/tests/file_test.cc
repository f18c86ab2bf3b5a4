#include "headworks/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "headworks/base/fd.h"

namespace headworks {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  File() {
    std::string name = (fs::temp_directory_path() / "headworks-file.XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~File() override { fs::remove_all(folder_); }

  std::string Path(const char* name) const { return folder_ / name; }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::ptrdiff_t Files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  fs::path folder_;
};

TEST_F(File, IsReplacedWithItsMode) {
  const std::string path = Path("f");
  EXPECT_TRUE(ReplaceFile(path, "one\n", 0600));
  EXPECT_EQ(Read(path), "one\n");
  EXPECT_TRUE(ReplaceFile(path, "", 0644));  // whatever the umask
  EXPECT_EQ(Read(path), "");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0644));
  EXPECT_EQ(Files(), 1);
}

TEST_F(File, ALinkIsReplacedAndNotFollowed) {
  std::ofstream(Path("other")) << "mine";
  fs::create_symlink(Path("other"), Path("f"));
  EXPECT_TRUE(ReplaceFile(Path("f"), "new", 0600));
  EXPECT_FALSE(fs::is_symlink(Path("f")));
  EXPECT_EQ(Read(Path("other")), "mine");
}

TEST_F(File, WhatCannotBeWrittenLeavesWhatWasThere) {
  EXPECT_FALSE(ReplaceFile(Path("none/f"), "x", 0600));
  EXPECT_EQ(errno, ENOENT);
  fs::create_directory(Path("f"));  // which no rename replaces
  EXPECT_FALSE(ReplaceFile(Path("f"), "x", 0600));
  EXPECT_EQ(errno, EISDIR);
  EXPECT_EQ(Files(), 1);

  const std::string path = Path("g");
  ASSERT_TRUE(ReplaceFile(path, "old", 0600));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto ignored = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1'000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);  // as a full disk: the second half does not fit
  EXPECT_FALSE(ReplaceFile(path, std::string(2'000, 'x'), 0600));
  EXPECT_EQ(errno, EFBIG);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, ignored);
  EXPECT_EQ(Read(path), "old");
  EXPECT_EQ(Files(), 2);
}

TEST_F(File, AllIsWrittenThoughAPipeTakesLess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Fd from(ends[0]), to(ends[1]);
  const std::string all(300'000, 'x');  // a pipe holds 65,536
  std::size_t seen = 0;
  std::thread reader([&] {
    char piece[4'096];
    for (ssize_t n = 0; (n = read(from.get(), piece, sizeof piece)) > 0;)
      seen += static_cast<std::size_t>(n);
  });
  EXPECT_TRUE(WriteAll(to.get(), all));
  to.Close();
  reader.join();
  EXPECT_EQ(seen, all.size());
  EXPECT_FALSE(WriteAll(-1, "x"));
  EXPECT_EQ(errno, EBADF);
  EXPECT_TRUE(WriteAll(-1, ""));
}

TEST_F(File, HasOneNameByWhateverLinksItIsFound) {
  const std::string real = (fs::canonical(folder_) / "new").string();
  EXPECT_EQ(RealPath(Path("new")), real);
  EXPECT_EQ(RealPath(Path("x/../new")), real);
  fs::create_symlink("new", Path("link"));
  fs::create_symlink(Path("link"), Path("link-to-link"));
  fs::create_directory_symlink(".", Path("here"));
  for (const bool is_there : {false, true}) {
    if (is_there) std::ofstream(Path("new")) << "x";
    for (const char* name : {"link", "link-to-link", "here/new", "here/link"})
      EXPECT_EQ(RealPath(Path(name)), real) << name << is_there;
  }
  fs::create_symlink("round", Path("round"));
  EXPECT_NE(RealPath(Path("round")), "") << "nothing can be made of it";
}

TEST_F(File, AFolderIsSyncedAndAFileIsNone) {
  EXPECT_TRUE(SyncFolder(folder_));
  EXPECT_TRUE(SyncFolder(""));
  std::ofstream(Path("f")) << "x";
  EXPECT_FALSE(SyncFolder(Path("f")));
  EXPECT_EQ(errno, ENOTDIR);
}

}  // namespace
}  // namespace headworks
