#include "other_runs.h"

#include <utility>

namespace headworks::cli {

RunnerOptions OtherRuns::Watch(RunnerOptions options) {
  options.on_event = [this](const RunEvent& event) {
    if (!event.task || !model::IsLive(event.task_state)) return;
    const std::scoped_lock lock(mutex_);
    if (seen_.size() < kMost && seen_.insert(event.run).second) fresh_.push_back(event.run);
  };
  return options;
}

std::vector<RunNo> OtherRuns::TakeNew(RunNo own) {
  const std::scoped_lock lock(mutex_);
  std::vector<RunNo> fresh = std::exchange(fresh_, {});
  std::erase(fresh, own);
  return fresh;
}

bool OtherRuns::Has(RunNo run) const {
  const std::scoped_lock lock(mutex_);
  return seen_.contains(run);
}

}  // namespace headworks::cli
