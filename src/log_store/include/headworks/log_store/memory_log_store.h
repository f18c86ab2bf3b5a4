#pragma once

#include <memory>

#include "headworks/log_store/log_store.h"

namespace headworks::log_store {

/// Keeps everything in memory: for tests and simulation, and the reference for other adapters.
std::unique_ptr<LogStore> NewMemoryLogStore();

}  // namespace headworks::log_store
