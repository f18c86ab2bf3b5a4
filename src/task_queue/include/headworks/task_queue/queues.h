#pragma once

#include "headworks/task_queue/bell.h"
#include "headworks/task_queue/task_queue.h"

namespace headworks::task_queue {

/// The queues of one open database.  The parts live as long as it does.
class Queues {
 public:
  virtual ~Queues() = default;
  virtual TaskQueue& tasks() = 0;
  virtual QueueAdmin& admin() = 0;
  virtual QueueSurvey& survey() = 0;
  /// Rings for what any process made available.
  virtual Bell& bell() = 0;
};

}  // namespace headworks::task_queue
