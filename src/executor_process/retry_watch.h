#pragma once

#include <re2/re2.h>

#include <memory>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/model/attempt.h"
#include "headworks/model/workflow.h"

namespace headworks::executor_process {

/// Whether a failed try is worth another, by what the task says in `retry.when` and
/// `retry.unless`: it looks at each line of the output as it passes, then at the outcome.
///
/// Bounds.  A line is seen once per pattern, in time proportional to its length (RE2), and none
/// after the pattern has matched.
class RetryWatch {
 public:
  /// Null if the policy has no conditions.  kInvalidArgument: a pattern is none.
  static Result<std::unique_ptr<RetryWatch>> For(const model::RetryPolicy& policy);

  void See(std::string_view line);
  /// Makes a kRetry that the conditions exclude a kFailed which says so.  `unless` wins over
  /// `when`.  A timeout has nothing that `when` could name, and is tried again but for `unless`.
  void Judge(model::Outcome& outcome) const;

 private:
  struct Side {
    const model::RetryCondition* condition = nullptr;
    std::unique_ptr<RE2> pattern;
    bool seen = false;
  };

  RetryWatch() = default;
  static Status Fill(Side& side, const std::optional<model::RetryCondition>& condition,
                     std::string_view name);
  static bool HasCode(const Side& side, const model::Outcome& outcome);

  Side when_, unless_;
};

}  // namespace headworks::executor_process
