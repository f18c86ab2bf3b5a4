#include "headworks/artifact_store_files/file_artifact_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "headworks/artifact_store_conformance/harness.h"
#include "headworks/base/json.h"

namespace headworks::artifact_store::conformance {
namespace {

namespace fs = std::filesystem;

class Folder final : public Place {
 public:
  Folder() {
    std::string path = (fs::temp_directory_path() / "artifacts-XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~Folder() override { fs::remove_all(path_); }

  std::unique_ptr<ArtifactStore> Open() override {
    return artifact_store_files::NewFileArtifactStore(Top());
  }
  void Spoil(const Owner& owner, const Blob& blob) override {
    const fs::path file = FileOf(owner, blob);
    fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    const char first = static_cast<char>(stream.get());
    stream.seekp(0);
    stream.put(static_cast<char>(first + 1));
  }
  fs::path FileOf(const Owner& owner, const Blob& blob) const {
    return Top() / "runs" / owner.tenant.value / owner.run.value / blob.sha256;
  }
  fs::path Top() const { return path_ / "blobs"; }
  std::vector<fs::path> Incoming() const {
    return {fs::directory_iterator(Top() / "incoming"), fs::directory_iterator()};
  }

 private:
  fs::path path_;
};

INSTANTIATE_TEST_SUITE_P(Files, ArtifactStoreConformance,
                         ::testing::Values(Adapter{"files",
                                                   [] { return std::make_unique<Folder>(); }}),
                         [](const auto& p) { return p.param.name; });

class FileArtifactStore : public ::testing::Test {
 protected:
  Result<Blob> Put(std::string_view bytes) {
    HEADWORKS_ASSIGN(const auto writer, store_->Begin(owner_));
    HEADWORKS_TRY(writer->Append(bytes));
    return writer->Commit();
  }

  Folder folder_;
  std::unique_ptr<ArtifactStore> store_ = folder_.Open();
  const Owner owner_{TenantId("public"), RunId("r")};
};

TEST_F(FileArtifactStore, BlobsAreForThisUserAloneAndForReadingOnly) {
  const fs::path file = folder_.FileOf(owner_, Put("bytes").value());
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read);
  for (fs::path up = file.parent_path(); up.filename() != "blobs"; up = up.parent_path())
    EXPECT_EQ(fs::status(up).permissions(), fs::perms::owner_all) << up;
  EXPECT_TRUE(folder_.Incoming().empty());
}

TEST_F(FileArtifactStore, AWriterThatGivesUpLeavesNoFile) {
  {
    auto writer = store_->Begin(owner_);
    ASSERT_TRUE(writer && (*writer)->Append("half"));
    EXPECT_EQ(folder_.Incoming().size(), 1U);
  }
  EXPECT_TRUE(folder_.Incoming().empty());
}

TEST_F(FileArtifactStore, SweepTakesWhatADeadWriterLeft) {
  ASSERT_TRUE(Put("bytes"));
  const fs::path left = folder_.Top() / "incoming/abcdef";
  std::ofstream(left) << "half";
  ASSERT_EQ(folder_.Incoming().size(), 1U);
  ASSERT_TRUE(store_->Sweep([](const Owner&) -> Result<bool> { return true; }));
  EXPECT_TRUE(folder_.Incoming().empty());
}

/// What a full disk does, without one.
TEST_F(FileArtifactStore, WithoutRoomNothingIsStoredAndNothingLeft) {
  ASSERT_TRUE(Put("bytes"));
  struct sigaction ignore{}, before{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &ignore, &before);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit tight{.rlim_cur = 10, .rlim_max = limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &tight);
  const auto fits = Put("0123456789");
  const auto stored = Put("0123456789a");
  setrlimit(RLIMIT_FSIZE, &limit);
  sigaction(SIGXFSZ, &before, nullptr);
  EXPECT_TRUE(fits);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code, Code::kUnavailable);
  EXPECT_NE(stored.error().message.find("cannot write"), std::string::npos)
      << stored.error().message;
  EXPECT_TRUE(folder_.Incoming().empty());
  EXPECT_TRUE(Put("0123456789a"));
}

/// What a crash before the folder is synced does, without one: no file can be opened for it.
TEST_F(FileArtifactStore, WhatWasLeftUnsyncedIsSettledLater) {
  ASSERT_TRUE(Put("other"));
  auto writer = store_->Begin(owner_).value();
  ASSERT_TRUE(writer->Append("bytes"));
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const auto stored = writer->Commit();
  const Status settled = store_->Settle(owner_);
  setrlimit(RLIMIT_NOFILE, &limit);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code, Code::kUnavailable);
  EXPECT_TRUE(store_->Open(owner_, {Sha256Hex("bytes"), 5})) << "it is there, for now";
  ASSERT_FALSE(settled);
  EXPECT_EQ(settled.error().code, Code::kUnavailable);
  EXPECT_TRUE(store_->Settle(owner_));
}

TEST_F(FileArtifactStore, AFolderThatCannotBeMadeIsNamed) {
  const auto store = artifact_store_files::NewFileArtifactStore("/proc/no-such-place");
  const auto writer = store->Begin(owner_);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Code::kUnavailable);
  EXPECT_NE(writer.error().message.find("/proc/no-such-place"), std::string::npos)
      << writer.error().message;
}

TEST_F(FileArtifactStore, NobodyNamesAFileOutsideByItsDigest) {
  ASSERT_TRUE(Put("bytes"));
  EXPECT_EQ(store_->Open(owner_, {"../../../../secret", 1}).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace headworks::artifact_store::conformance
