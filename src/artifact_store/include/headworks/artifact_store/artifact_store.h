#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"

/// The seam to where files of tasks are kept: large, written once, read whole.
namespace headworks::artifact_store {

/// The bytes of one file, named by what they are.
struct Blob {
  /// In lower-case hex.
  std::string sha256;
  /// Bytes.
  std::uint64_t size = 0;

  bool operator==(const Blob&) const = default;
};

/// Whose blobs they are: they live and die with their run.
struct Owner {
  TenantId tenant;
  RunId run;

  auto operator<=>(const Owner&) const = default;
};

/// One blob on its way in.  Destroyed without Commit it leaves nothing.
///
/// Errors.  kConflict: what was appended is lost, as where the store is a process that was started
///   anew; begin again, with all of it.  kInvalidArgument: the store takes none that is so large.
/// Threads.  One at a time.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual Status Append(std::string_view bytes) = 0;
  /// Once.  Durable and whole when it returns, also if the owner has the same bytes already.
  virtual Result<Blob> Commit() = 0;
};

/// One blob on its way out.
///
/// Threads.  One at a time.
class Reader {
 public:
  virtual ~Reader() = default;
  /// Fills the front of `into`, which is not empty; 0 = that was all, and it is the blob that was
  /// asked for.  kCorrupt: it is not.
  virtual Result<std::size_t> Read(std::span<char> into) = 0;
};

/// What whoever runs tasks does with a store.
///
/// Errors.  As of ArtifactStore; kCancelled: whoever waits for it was told to stop.
/// Threads.  All methods may be called concurrently.
class BlobStore {
 public:
  virtual ~BlobStore() = default;

  virtual Result<std::unique_ptr<Writer>> Begin(const Owner& owner) = 0;
  /// kNotFound: the owner has no such blob.  kCorrupt: what is there has another size.
  virtual Result<std::unique_ptr<Reader>> Open(const Owner& owner, const Blob& blob) = 0;
  /// Makes durable what Open finds of the owner, who has something: a Commit that failed or died
  /// may have left it there as it is.
  virtual Status Settle(const Owner& owner) = 0;
};

/// Keeps blobs of runs.
///
/// Atomicity.  A blob is there whole or not at all, whatever dies when.
/// Time.  What a run has stays until Remove, or until Sweep finds that there is no such run.
/// Errors.  kUnavailable: no room, no permission, a disk that fails; it may work later.
/// Threads.  All methods may be called concurrently, also by several processes.
/// Bounds.  Never holds a whole blob in memory.
class ArtifactStore : public BlobStore {
 public:
  /// Removes all that the owner has; nothing is no error.
  virtual Status Remove(const Owner& owner) = 0;
  /// Removes what writers left that died, and all of owners that are not `kept`; an error of its
  /// ends the sweep.
  virtual Status Sweep(const std::function<Result<bool>(const Owner&)>& kept) = 0;
};

}  // namespace headworks::artifact_store
