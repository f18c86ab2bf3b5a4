#include <algorithm>
#include <set>
#include <vector>

#include "headworks/artifact_store_conformance/harness.h"
#include "headworks/base/json.h"

namespace headworks::artifact_store::conformance {

Blob ArtifactStoreConformance::Put(const Owner& owner, std::string_view bytes, std::size_t piece) {
  auto writer = store_->Begin(owner);
  EXPECT_TRUE(writer) << writer.error().message;
  if (!writer) return {};
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size())))
    EXPECT_TRUE((*writer)->Append(bytes.substr(0, piece)));
  auto blob = (*writer)->Commit();
  EXPECT_TRUE(blob) << blob.error().message;
  return blob.value_or(Blob());
}

Result<std::string> ArtifactStoreConformance::Get(ArtifactStore& store, const Owner& owner,
                                                  const Blob& blob, std::size_t piece) {
  HEADWORKS_ASSIGN(const auto reader, store.Open(owner, blob));
  std::string all;
  std::vector<char> part(piece);
  for (;;) {
    HEADWORKS_ASSIGN(const std::size_t count, reader->Read(part));
    if (count == 0) return all;
    all.append(part.data(), count);
  }
}

namespace {

std::string Bytes(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 256);
  return bytes;
}

TEST_P(ArtifactStoreConformance, WhatWasWrittenIsReadAsItWas) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{300'000}}) {
    const std::string bytes = Bytes(size);
    const Blob blob = Put(owner_, bytes, 4'096);
    EXPECT_EQ(blob, (Blob{Sha256Hex(bytes), size}));
    for (const std::size_t piece : {std::size_t{1'000}, std::size_t{1} << 20})
      EXPECT_EQ(Get(*store_, owner_, blob, piece).value(), bytes);
  }
}

TEST_P(ArtifactStoreConformance, AnotherProcessSeesWhatWasCommitted) {
  const Blob blob = Put(owner_, "bytes");
  EXPECT_EQ(Get(*place_->Open(), owner_, blob).value(), "bytes");
}

TEST_P(ArtifactStoreConformance, TheSameBytesAreOneBlob) {
  const Blob blob = Put(owner_, "twice");
  EXPECT_EQ(Put(owner_, "twice"), blob);
  EXPECT_EQ(Get(*store_, owner_, blob).value(), "twice");
}

TEST_P(ArtifactStoreConformance, WhatIsNotCommittedIsNotThere) {
  auto writer = store_->Begin(owner_);
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->Append("half"));
  const Blob blob{Sha256Hex("half"), 4};
  EXPECT_EQ(store_->Open(owner_, blob).error().code, Code::kNotFound);
  writer->reset();
  EXPECT_EQ(store_->Open(owner_, blob).error().code, Code::kNotFound);
}

TEST_P(ArtifactStoreConformance, BlobsAreTheirOwnersAlone) {
  const Blob blob = Put(owner_, "mine");
  EXPECT_EQ(store_->Open(other_, blob).error().code, Code::kNotFound);
  const Owner stranger{TenantId("other"), owner_.run};
  EXPECT_EQ(store_->Open(stranger, blob).error().code, Code::kNotFound);
}

TEST_P(ArtifactStoreConformance, ASpoiledBlobIsFoundOut) {
  const Blob blob = Put(owner_, Bytes(100'000));
  place_->Spoil(owner_, blob);
  const auto read = Get(*store_, owner_, blob, 4'096);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kCorrupt);
}

TEST_P(ArtifactStoreConformance, ABlobOfAnotherSizeIsNotTheOneThatIsMeant) {
  Blob blob = Put(owner_, "bytes");
  ++blob.size;
  EXPECT_EQ(store_->Open(owner_, blob).error().code, Code::kCorrupt);
}

TEST_P(ArtifactStoreConformance, RemoveTakesAllOfOneOwner) {
  const Blob first = Put(owner_, "first"), second = Put(owner_, "second");
  const Blob kept = Put(other_, "first");
  ASSERT_TRUE(store_->Remove(owner_));
  EXPECT_EQ(store_->Open(owner_, first).error().code, Code::kNotFound);
  EXPECT_EQ(store_->Open(owner_, second).error().code, Code::kNotFound);
  EXPECT_EQ(Get(*store_, other_, kept).value(), "first");
  EXPECT_TRUE(store_->Remove(owner_)) << "nothing is left, which is no error";
}

TEST_P(ArtifactStoreConformance, SweepAsksForEachOwnerAndTakesThoseThatAreNotKept) {
  const Owner odd{TenantId("../a b/%"), RunId("01900000-0000-7000-8000-000000000003")};
  const Blob gone = Put(owner_, "gone"), kept = Put(other_, "kept"), foreign = Put(odd, "odd");
  std::set<Owner> asked;
  ASSERT_TRUE(store_->Sweep([&](const Owner& owner) -> Result<bool> {
    asked.insert(owner);
    return owner != owner_;
  }));
  EXPECT_EQ(asked, (std::set<Owner>{owner_, other_, odd}));
  EXPECT_EQ(store_->Open(owner_, gone).error().code, Code::kNotFound);
  EXPECT_EQ(Get(*store_, other_, kept).value(), "kept");
  EXPECT_EQ(Get(*store_, odd, foreign).value(), "odd");
}

TEST_P(ArtifactStoreConformance, SweepTakesNothingOnceItCannotTellWhatIsKept) {
  const Blob blob = Put(owner_, "bytes");
  const Status swept = store_->Sweep(
      [](const Owner&) -> Result<bool> { return Error{Code::kUnavailable, "no answer"}; });
  EXPECT_EQ(swept.error().code, Code::kUnavailable);
  EXPECT_EQ(Get(*store_, owner_, blob).value(), "bytes");
}

TEST_P(ArtifactStoreConformance, SweepLeavesAloneWhatIsBeingWritten) {
  auto writer = store_->Begin(owner_);
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->Append("by"));
  ASSERT_TRUE(place_->Open()->Sweep([](const Owner&) -> Result<bool> { return true; }));
  ASSERT_TRUE((*writer)->Append("tes"));
  const auto blob = (*writer)->Commit();
  ASSERT_TRUE(blob) << blob.error().message;
  EXPECT_EQ(Get(*store_, owner_, *blob).value(), "bytes");
}

}  // namespace
}  // namespace headworks::artifact_store::conformance
