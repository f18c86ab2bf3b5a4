#pragma once

#include <functional>
#include <memory>
#include <string>

#include "headworks/store/run_store.h"

/// How whoever appends to the inbox wakes the engine of the database, in whatever process it is: a
/// FIFO beside the file.  It carries no news, only that there is some.
namespace headworks::store_sqlite {

/// Nobody listens: nothing happens.  Never blocks.
void RingDoorbell(const std::string& path);

/// Calls `rung` after each ring, or once for several, on a thread of its own, and takes the FIFO
/// away in the end.  For the owner of the database.  Null where the file system has no FIFOs, or
/// something else is in its place.
std::unique_ptr<store::Inbox::Watch> HangDoorbell(const std::string& path,
                                                  std::function<void()> rung);

}  // namespace headworks::store_sqlite
