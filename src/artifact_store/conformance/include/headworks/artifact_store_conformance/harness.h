#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "headworks/artifact_store/artifact_store.h"

/// What an adapter gives to be tested as an artifact store.
namespace headworks::artifact_store::conformance {

/// One place for blobs, empty at first.
class Place {
 public:
  virtual ~Place() = default;
  /// Each call opens the same place, as another process would.
  virtual std::unique_ptr<ArtifactStore> Open() = 0;
  /// Spoils what is kept of a blob that is there, without changing its size.
  virtual void Spoil(const Owner& owner, const Blob& blob) = 0;
};

struct Adapter {
  std::string name;
  std::function<std::unique_ptr<Place>()> make;
};

/// INSTANTIATE_TEST_SUITE_P(Adapter, ArtifactStoreConformance, ::testing::Values(...)).
class ArtifactStoreConformance : public ::testing::TestWithParam<Adapter> {
 protected:
  void SetUp() override {
    place_ = GetParam().make();
    store_ = place_->Open();
  }

  /// Written in pieces of `piece` bytes.
  Blob Put(const Owner& owner, std::string_view bytes, std::size_t piece = 7);
  /// The whole of it, read in pieces.
  static Result<std::string> Get(ArtifactStore& store, const Owner& owner, const Blob& blob,
                                 std::size_t piece = 5);

  std::unique_ptr<Place> place_;
  std::unique_ptr<ArtifactStore> store_;
  const Owner owner_{TenantId("public"), RunId("01900000-0000-7000-8000-000000000001")};
  const Owner other_{TenantId("public"), RunId("01900000-0000-7000-8000-000000000002")};
};

}  // namespace headworks::artifact_store::conformance
