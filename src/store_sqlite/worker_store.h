#pragma once

#include "core.h"
#include "headworks/store/worker_store.h"

namespace headworks::store_sqlite {

class SqliteWorkerStore final : public store::WorkerStore {
 public:
  explicit SqliteWorkerStore(Core& core) : core_(core) {}

  Status WriteWorkers(std::span<const store::WorkerRecord> workers, Instant now) override;
  Result<std::vector<store::WorkerRecord>> ListWorkers(const TenantId& tenant) override;
  Result<std::vector<store::WorkerRecord>> ListPresent() override;

  Status Order(std::span<const store::WorkerOrder> orders) override;
  Result<std::vector<store::WorkerOrder>> ListOrders(const TenantId& tenant) override;
  Result<std::vector<store::WorkerOrder>> ListAllOrders() override;
  Result<std::vector<store::WorkerOrder>> ListNewOrders() override;
  Status NoteTaken(std::span<const store::WorkerOrder> orders) override;

 private:
  Core& core_;
};

}  // namespace headworks::store_sqlite
