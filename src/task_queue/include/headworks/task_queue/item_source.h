#pragma once

#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/task_queue/queues.h"

namespace headworks::task_queue {

/// Where whoever handles items has them from: a database, or a server before one.
///
/// Threads.  All methods may be called concurrently.
/// Errors.  As for TaskQueue.  kUnavailable: it may have happened; ask again, for as long as it
/// takes.
///   All else does not pass.
class ItemSource {
 public:
  virtual ~ItemSource() = default;

  /// TaskQueue::Poll; where there is nothing, waits until there is, at most `wait`, and until
  /// `stop` asks for its end.  Then there may be items all the same.
  virtual Result<Polled> Await(const PollRequest& request, Duration wait,
                               const std::stop_token& stop) = 0;
  virtual Result<std::vector<Result<ItemState>>> Settle(
      const TenantId& tenant, std::string_view queue, std::span<const Settlement> settlements) = 0;
  virtual Result<std::vector<Status>> Extend(const TenantId& tenant, std::string_view queue,
                                             std::span<const Claim> claims,
                                             Duration visibility) = 0;
};

/// The queues of a database that is open here; both are borrowed.
class DatabaseSource final : public ItemSource {
 public:
  DatabaseSource(Queues& queues, Clock& clock) : queues_(queues), clock_(clock) {}

  Result<Polled> Await(const PollRequest& request, Duration wait,
                       const std::stop_token& stop) override;
  Result<std::vector<Result<ItemState>>> Settle(const TenantId& tenant, std::string_view queue,
                                                std::span<const Settlement> settlements) override;
  Result<std::vector<Status>> Extend(const TenantId& tenant, std::string_view queue,
                                     std::span<const Claim> claims, Duration visibility) override;

 private:
  Queues& queues_;
  Clock& clock_;
};

}  // namespace headworks::task_queue
