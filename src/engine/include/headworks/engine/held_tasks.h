#pragma once

#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>

#include "headworks/engine/ready_queue.h"

namespace headworks::engine {

/// Ready tasks of one run and lane that wait until fewer attempts of the run are live.
///
/// Of each line one at a time is let go, to compete for credit.  While it does, its line has none,
/// so that the others of the line could not be queued either.  Each call costs the same whatever
/// the number of lines (but for the logarithm).
class HeldTasks {
 public:
  bool empty() const { return lines_.empty(); }
  void Hold(const std::string& line, const ReadyTask& task) {
    const auto here = lines_.try_emplace(line).first;
    const bool waits = !here->second.competes;
    if (waits && !here->second.tasks.empty()) next_.erase({here->second.tasks.top(), here});
    here->second.tasks.push(task);
    if (waits) next_.insert({here->second.tasks.top(), here});
  }
  /// Whether LetGo would find one.
  bool has_next() const { return !next_.empty(); }
  /// The first of the lines of which none competes.
  std::optional<ReadyTask> LetGo() {
    if (next_.empty()) return std::nullopt;
    const auto line = next_.extract(next_.begin()).value().line;
    const ReadyTask task = line->second.tasks.top();
    line->second.tasks.pop();
    line->second.competes = true;
    if (line->second.tasks.empty()) lines_.erase(line);
    return task;
  }
  /// None of the line competes any more.
  void Over(const std::string& line) {
    const auto here = lines_.find(line);
    if (here == lines_.end() || !here->second.competes) return;
    here->second.competes = false;
    next_.insert({here->second.tasks.top(), here});
  }

 private:
  struct Line {
    std::priority_queue<ReadyTask> tasks{};
    bool competes = false;
  };
  using Lines = std::map<std::string, Line>;
  struct Head {
    ReadyTask first;
    Lines::iterator line;
    bool operator<(const Head& other) const { return other.first < first; }
  };

  Lines lines_;          // none is empty
  std::set<Head> next_;  // of lines of which none competes
};

}  // namespace headworks::engine
