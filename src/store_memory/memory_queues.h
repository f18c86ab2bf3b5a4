#pragma once

#include <memory>

#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/task_queue/queues.h"
#include "storage.h"

namespace headworks::store_memory {

std::unique_ptr<task_queue::Queues> NewMemoryQueues(std::shared_ptr<Storage> storage, Clock& clock,
                                                    Logger* logger);

}  // namespace headworks::store_memory
