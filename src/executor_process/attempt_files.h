#pragma once

#include <string>

#include "environment.h"
#include "headworks/base/result.h"
#include "headworks/executor/executor.h"

namespace headworks::executor_process {

/// The folder that an executor keeps: `attempts/<run>-<epoch>.{in.json,out,sh}`, `scratch/<run
/// id>/`, the supervisor's lock, and the boot that all this belongs to.
///
/// Threads.  All methods may be called concurrently.
class StateFolder {
 public:
  /// Makes what is missing.  kUnavailable names the folder that cannot be made.
  static Result<StateFolder> Open(const std::string& path);

  AttemptFiles FilesOf(const model::AttemptKey& key, const RunId& run_id) const;
  std::string LockFile() const { return path_ + "/supervisor.lock"; }

  /// Writes the input (and the script, if it is not empty) and makes the scratch folder.
  Status Write(const AttemptFiles& files, const std::string& input,
               const std::string& script) const;
  /// Whether an attempt came as far as Write, in this boot or (see `trusted`) an earlier one.
  bool HasTrace(const model::AttemptKey& key) const;
  /// False: the machine was restarted since the folder was last used, so that a missing trace
  /// proves nothing.
  bool trusted() const { return trusted_; }
  /// From now on a missing trace proves, within this boot, that there was no attempt.  Call it when
  /// no attempt is live.
  Status NoteBoot() const;
  void Remove(const model::AttemptKey& key) const;
  Status RemoveRun(RunNo run, const RunId& run_id) const;

 private:
  std::string Base(const model::AttemptKey& key) const;

  std::string path_;
  bool trusted_ = false;
};

}  // namespace headworks::executor_process
