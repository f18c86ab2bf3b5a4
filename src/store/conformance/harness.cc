#include "headworks/store_conformance/harness.h"

#include <utility>

#include "headworks/store_conformance/samples.h"

namespace headworks::store::conformance {

void Conformance::Own() {
  const Shard shard = kShard;
  auto guards = runs().Acquire(std::span(&shard, 1), "engine-1", kTtl);
  ASSERT_TRUE(guards) << guards.error().message;
  guard_ = guards->front();
}

Round Conformance::NextRound() const {
  Round round;
  round.guards = {{guard_.shard, guard_.term, RoundNo(guard_.round.value + 1)}};
  round.lease_ttl = kTtl;
  round.now = kT0;
  return round;
}

Status Conformance::Commit(const Round& round) {
  HEADWORKS_TRY(runs().Commit(round));
  guard_ = round.guards.front();
  return {};
}

Status Conformance::Commit(RunWrite write) {
  Round round = NextRound();
  round.runs.push_back(std::move(write));
  return Commit(round);
}

}  // namespace headworks::store::conformance
