#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "headworks/store_conformance/samples.h"
#include "headworks/store_sqlite/sqlite_store.h"

namespace headworks::store_sqlite {

/// Opens, or fails the test with the reason.
inline std::unique_ptr<Database> MustOpen(const std::string& path, const Options& options = {}) {
  auto opened = Open(path, options);
  EXPECT_TRUE(opened) << opened.error().message;
  return opened ? *std::move(opened) : nullptr;
}

/// The rounds of one owner of one shard.
class Engine {
 public:
  explicit Engine(store::Database& db) : db_(db) {}

  Status Own(const std::string& owner = "engine") {
    const Shard shard = store::conformance::kShard;
    HEADWORKS_ASSIGN(const auto guards,
                     db_.runs().Acquire(std::span(&shard, 1), owner, store::conformance::kTtl));
    guard_ = guards.front();
    return {};
  }

  store::Round NextRound() const {
    store::Round round;
    round.guards = {{guard_.shard, guard_.term, RoundNo(guard_.round.value + 1)}};
    round.lease_ttl = store::conformance::kTtl;
    round.now = store::conformance::kT0;
    return round;
  }

  Status Commit(const store::Round& round) {
    HEADWORKS_TRY(db_.runs().Commit(round));
    guard_ = round.guards.front();
    return {};
  }
  Status Commit(store::RunWrite write) {
    store::Round round = NextRound();
    round.runs.push_back(std::move(write));
    return Commit(round);
  }

  const store::Guard& guard() const { return guard_; }
  /// What the store says after an unknown outcome.
  void Adopt(const store::Guard& guard) { guard_ = guard; }

 private:
  store::Database& db_;
  store::Guard guard_;
};

}  // namespace headworks::store_sqlite
