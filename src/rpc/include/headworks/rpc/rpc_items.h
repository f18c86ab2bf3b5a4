#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "headworks/base/random.h"
#include "headworks/rpc/rpc_client.h"
#include "headworks/task_queue/item_source.h"

namespace headworks::rpc {

/// The items of an engine's queues from afar, for a JobWorker.  Connects when it is first asked,
/// and again whenever the connection is lost.
///
/// Errors.  Those of the port; kUnavailable for all that is not known to have been answered, as by
/// an
///   engine that is older than this, with why.  A credential that is refused is kPermissionDenied
///   to Await, and kUnavailable to the others: no item is over by it.  kConflict: the engine gives
///   this queue to nobody.
/// Bounds.  One Await of a queue waits at a time, another one ends it; at most
/// worker_api::kMaxWait.
///   Asked to stop, it returns within the client's `patience`, with what was claimed by then.
/// Life.  No call may be under way when it is destroyed.
class RpcItems final : public task_queue::ItemSource {
 public:
  /// All calls must be for `tenant`; `worker` is who holds the items: 1 to 64 of [A-Za-z0-9_-].
  /// `random` is used here alone.  Errors as for RpcClient::Open.
  static Result<std::unique_ptr<RpcItems>> Open(RpcClientOptions options, TenantId tenant,
                                                std::string worker, Random& random);
  ~RpcItems() override;

  Result<task_queue::Polled> Await(const task_queue::PollRequest& request, Duration wait,
                                   const std::stop_token& stop) override;
  Result<std::vector<Result<task_queue::ItemState>>> Settle(
      const TenantId& tenant, std::string_view queue,
      std::span<const task_queue::Settlement> settlements) override;
  Result<std::vector<Status>> Extend(const TenantId& tenant, std::string_view queue,
                                     std::span<const task_queue::Claim> claims,
                                     Duration visibility) override;

 private:
  class Impl;
  explicit RpcItems(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headworks::rpc
