#pragma once

#include <memory>
#include <string>

#include "front.h"
#include "headworks/task_queue/async_queues.h"
#include "headworks/worker/v1/queue.grpc.pb.h"

namespace headworks::rpc {

namespace v1 = headworks::worker::v1;

/// The generated service over queues.
///
/// Life.  Once the front is closed and no call comes any more, destroy.
class QueueService final : public v1::Queues::CallbackService {
 public:
  QueueService(const RpcServerPorts& ports, Front& front, std::size_t max_piece_bytes);

  grpc::ServerUnaryReactor* Claim(Context* context, const v1::ClaimRequest* request,
                                  v1::ClaimResponse* response) override;
  grpc::ServerUnaryReactor* Extend(Context* context, const v1::ExtendRequest* request,
                                   v1::ExtendResponse* response) override;
  grpc::ServerUnaryReactor* Settle(Context* context, const v1::SettleRequest* request,
                                   v1::SettleResponse* response) override;

 private:
  bool Hand(const CallPtr& call, const TenantId& tenant, Result<task_queue::Polled> polled,
            v1::ClaimResponse& response);

  Front& front_;
  const std::shared_ptr<Pieces> pieces_;
  task_queue::AsyncQueues queues_;
};

}  // namespace headworks::rpc
