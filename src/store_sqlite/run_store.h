#pragma once

#include "core.h"
#include "headworks/store/run_store.h"

namespace headworks::store_sqlite {

class SqliteRunStore final : public store::RunStore {
 public:
  explicit SqliteRunStore(Core& core) : core_(core) {}

  Result<std::vector<store::Guard>> Acquire(std::span<const Shard> shards, std::string_view owner,
                                            Duration ttl) override;
  Status Release(std::span<const store::Guard> guards) override;
  Result<store::Guard> ReadGuard(Shard shard) override;
  Status Commit(const store::Round& round) override;
  Status Renew(std::span<const store::Guard> guards, Duration ttl) override;
  Result<store::RunImage> LoadRun(const TenantId& tenant, RunNo run) override;
  Result<std::vector<DueRun>> ListDue(std::span<const Shard> shards, Instant until,
                                      std::optional<DueRun> after, std::size_t limit) override;
  Result<std::optional<model::RunHeader>> FindStartKey(const TenantId& tenant,
                                                       const model::Namespace& name,
                                                       std::string_view start_key) override;
  Result<RunNo> ReserveRunNos(std::int64_t count) override;
  Result<std::vector<store::InboxRow>> ReadInbox(std::span<const Shard> shards, std::int64_t after,
                                                 std::size_t limit) override;

 private:
  Status AcquireShard(Connection& connection, Shard shard, std::string_view owner, Duration ttl,
                      std::vector<store::Guard>& guards);

  Core& core_;
  Instant next_forgetting_{};  // of old answers; under the writer's mutex
};

/// Which rows a round's writes are made of; `Commit` in round_writer.cc.
Status WriteRound(Connection& connection, const store::Round& round, Duration lease_until,
                  const std::string& boot_id);
/// Deletes a bounded number of answers that are too old; false = none are left.
Result<bool> ForgetOldAnswers(Connection& connection, Instant now);

}  // namespace headworks::store_sqlite
