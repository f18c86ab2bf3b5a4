#pragma once

#include <memory>
#include <span>

#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/task_queue/queues.h"
#include "storage.h"

namespace headworks::store_memory {

/// Enqueues the items of a round as far as there is room, for a caller that holds the storage's
/// mutex; returns how many were left out.
std::size_t EnqueueRoundItems(const std::shared_ptr<Storage>& storage, Clock& clock, Logger* logger,
                              std::span<const store::QueuedItem> items);

std::unique_ptr<task_queue::Queues> NewMemoryQueues(std::shared_ptr<Storage> storage, Clock& clock,
                                                    Logger* logger);

}  // namespace headworks::store_memory
