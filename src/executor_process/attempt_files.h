#pragma once

#include <string>

#include "environment.h"
#include "headworks/base/result.h"
#include "headworks/executor/executor.h"

namespace headworks::executor_process {

/// The folder that an executor keeps: `attempts/<run>-<epoch>.{in.json,out,sh}`, `scratch/<run
/// id>/`, and the supervisor's lock.
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
  /// Removes the files of one attempt.
  void Remove(const model::AttemptKey& key) const;
  /// Removes the files of all attempts: for when none is left of an earlier engine.
  Status Clear() const;
  Status RemoveScratch(const RunId& run_id) const;

 private:
  std::string Base(const model::AttemptKey& key) const;

  std::string path_;
};

}  // namespace headworks::executor_process
