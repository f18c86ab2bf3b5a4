#pragma once

#include <cstdint>

#include "headworks/store_conformance/harness.h"

namespace headworks::store::conformance {

/// Makes `calls` random calls (rounds, leases, messages, queries, crashes) on both stores and
/// expects equal answers, then compares all that is stored.  The same seed makes the same calls.
/// Stops at the first difference; the failure names seed and call.
void CompareTraces(Harness& reference, Harness& subject, std::uint64_t seed, int calls);

}  // namespace headworks::store::conformance
