#pragma once

#include <cstdint>

#include "headworks/task_queue_conformance/harness.h"

namespace headworks::task_queue::conformance {

/// Makes `calls` random calls (producers, consumers, operators, time, crashes) on both and expects
/// equal answers, then compares all that is stored.  The same seed makes the same calls.  Stops at
/// the first difference; the failure names seed and call.
void CompareTraces(Harness& reference, Harness& subject, std::uint64_t seed, int calls);

}  // namespace headworks::task_queue::conformance
