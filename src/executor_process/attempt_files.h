#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "scratch_folders.h"

namespace headworks::executor_process {

/// Files and folders of one attempt, absolute.
struct AttemptFiles {
  /// The folder `attempts/<slot>`; 0 = none.
  std::uint32_t slot = 0;
  std::string input;
  std::string output;
  std::string script;
  /// Where artifacts of other tasks are put; in the slot's folder, unless somebody said where.
  std::string artifacts;
  /// Some may be there.
  bool placed = false;
  RunId run;
  /// Shared by all tasks of the run.
  std::string scratch;
};

/// The folder that an executor keeps: `attempts/<slot>/{input.json,output,script,needs/}`,
/// `scratch/<run id>/`, and the supervisor's lock.
///
/// A slot is an attempt's while it lives; then the next one's, which writes over its files.  To
/// make and remove files for each attempt would cost more than its process does: a file system
/// may look through all that was removed of late before it makes one (ext4 does, for a minute).
///
/// Threads.  All methods may be called concurrently.
class StateFolder {
 public:
  /// Makes what is missing.  kUnavailable names the folder that cannot be made.
  static Result<std::unique_ptr<StateFolder>> Open(const std::string& path);

  /// Where the scratch folders of runs are, of a folder at `path`; absolute.
  static std::string ScratchRoot(const std::string& path);
  /// Below it a folder of an attempt's may be for artifacts of other tasks, which goes with it.
  std::string ArtifactRoot() const { return path_ + "/attempts/needs"; }
  std::string LockFile() const { return path_ + "/supervisor.lock"; }

  /// A slot that is nobody else's until it is released, with the run's scratch folder.
  /// kUnavailable: a folder cannot be made; no slot is held then.
  Result<AttemptFiles> Take(const RunId& run_id);
  /// Writes the input, and the script if it is not empty.
  static Status Write(const AttemptFiles& files, const std::string& input,
                      const std::string& script);
  /// Gives the slot back.  False: there are artifacts, or the attempt made a folder of its output;
  /// removing that may take long, and is ReleaseTree's.
  bool Release(const AttemptFiles& files);
  void ReleaseTree(const AttemptFiles& files);
  /// Removes all slots: for when no attempt is left.
  Status Clear();
  Status RemoveScratch(const RunId& run_id) { return scratch_.Remove(run_id); }

 private:
  explicit StateFolder(std::string path) : path_(std::move(path)), scratch_(ScratchRoot(path_)) {}
  void Free(std::uint32_t slot);

  const std::string path_;
  ScratchFolders scratch_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<std::uint32_t> free_;
  std::uint32_t made_ = 0;
};

}  // namespace headworks::executor_process
