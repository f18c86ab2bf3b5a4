#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"

namespace headworks::executor_process {

/// The scratch folders of runs: `<path>/<run id>`, there while a task of the run lives, and for as
/// long as something is in it.
///
/// An empty folder of a run of which no task lives becomes that of a run that needs one: most runs
/// never use theirs, and to make one for each costs more than the start of a process, and a block
/// of the disk.
///
/// Threads.  All methods may be called concurrently.
class ScratchFolders {
 public:
  /// `max_idle`: so many folders wait for the next task of their run before they are looked at.
  explicit ScratchFolders(std::string path, std::size_t max_idle = 256)
      : path_(std::move(path)), max_idle_(max_idle) {}

  std::string PathOf(const RunId& run) const { return path_ + '/' + run.value; }
  /// Sees to it that the run's folder is there until Release.  kUnavailable: it cannot be made.
  Status Take(const RunId& run);
  void Release(const RunId& run);
  /// Removes the folder of a run that is over, with all it holds.
  Status Remove(const RunId& run);

 private:
  struct Use {
    std::uint32_t tasks = 0;
    std::list<RunId>::iterator idle;
  };

  void Reuse(const RunId& run);

  const std::string path_;
  const std::size_t max_idle_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::map<RunId, Use> uses_;
  /// Those of no living task, the longest idle first.
  std::list<RunId> idle_;
};

}  // namespace headworks::executor_process
