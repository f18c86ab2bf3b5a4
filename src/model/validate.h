#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/model/workflow.h"

namespace headworks::model {

/// Collects what is wrong with a definition; of a hopeless one the first kMost are enough.
class FaultList {
 public:
  static constexpr std::size_t kMost = 1'000;

  void Add(std::string_view code, std::string field, std::string message);
  bool empty() const { return faults_.empty(); }
  /// Suggestions cost a pass over all names, so only the first few faults get one.
  bool wants_suggestion() const { return faults_.size() < 20; }
  /// The faults so far; the last one says how many more there are, if there are.
  std::vector<Fault> Take();

 private:
  std::vector<Fault> faults_;
  std::size_t dropped_ = 0;
};

/// "tasks.build", "finally.clean": where a task stands in a file.
std::string TaskField(const Task& task);

/// Checks all that can be seen without the graph: number of tasks, names, ranges, texts.  False if
/// there are too many tasks to look at.
bool CheckFields(const WorkflowDefinition& definition, FaultList& faults);

/// Joins faults to one error, one a line, at most `most` of them.
Error ToError(const std::vector<Fault>& faults, std::size_t most);

}  // namespace headworks::model
