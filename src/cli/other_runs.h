#pragma once

#include <mutex>
#include <set>
#include <vector>

#include "headworks/runner/runner.h"

namespace headworks::cli {

/// The runs that an engine of this process is at work on, beside the one that it is there for.
///
/// Threads.  The engine's thread adds, the one that shows takes.
/// Bounds.  The first kMost are named.
class OtherRuns {
 public:
  static constexpr std::size_t kMost = 1'000;

  OtherRuns() = default;
  OtherRuns(const OtherRuns&) = delete;
  OtherRuns& operator=(const OtherRuns&) = delete;

  /// `options` of an engine that tells this of its runs; must not outlive it.
  RunnerOptions Watch(RunnerOptions options);
  /// Those that began an attempt since the last call, without `own`.
  std::vector<RunNo> TakeNew(RunNo own);
  /// Whether it ever began an attempt here.
  bool Has(RunNo run) const;

 private:
  mutable std::mutex mutex_;
  std::set<RunNo> seen_;
  std::vector<RunNo> fresh_;
};

}  // namespace headworks::cli
