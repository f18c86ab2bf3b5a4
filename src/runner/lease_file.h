#pragma once

#include <string>

#include "headworks/executor_queue/queue_executor.h"

namespace headworks {

/// A side file of the store (`<database>-worker-lease`): microseconds, as text.
class LeaseFile final : public executor_queue::LeaseRecord {
 public:
  explicit LeaseFile(std::string path) : path_(std::move(path)) {}

  /// kCorrupt: what is there is no duration.
  Result<Duration> Longest() override;
  /// kUnavailable: what was there before may be there still.
  Status SetLongest(Duration lease) override;

 private:
  const std::string path_;
};

}  // namespace headworks
