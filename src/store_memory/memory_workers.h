#pragma once

#include <memory>

#include "headworks/store/worker_store.h"
#include "storage.h"

namespace headworks::store_memory {

std::unique_ptr<store::WorkerStore> NewMemoryWorkers(std::shared_ptr<Storage> storage);

}  // namespace headworks::store_memory
