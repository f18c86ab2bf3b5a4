#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core.h"
#include "headworks/store/run_store.h"

namespace headworks::store_sqlite {

/// Appends of several threads that wait for the writer are stored by whoever gets it first, in one
/// commit.
class SqliteInbox final : public store::Inbox {
 public:
  explicit SqliteInbox(Core& core) : core_(core) {}

  Status Append(std::span<const store::InboxRow> rows) override;
  Result<std::optional<store::Answer>> GetAnswer(const TenantId& tenant,
                                                 std::string_view dedupe_key) override;
  Result<std::int64_t> DataVersion() override { return core_.DataVersion(); }
  std::unique_ptr<Watch> WatchAppends(std::function<void()> appended) override;

 private:
  struct Waiting {
    std::span<const store::InboxRow> rows;
    Status result;
    bool done = false;  // under the writer's mutex
  };

  void Store(std::span<Waiting* const> batch);

  Core& core_;
  std::mutex queue_mutex_;
  std::vector<Waiting*> queue_;  // under queue_mutex_
};

}  // namespace headworks::store_sqlite
