#include "queue_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "headworks/task_queue/checks.h"
#include "queue_wire.h"
#include "wire.h"

namespace headworks::rpc {
namespace {

/// Those that wait for a commit share it.
constexpr std::size_t kThreads = 4;

/// What nobody may have who comes over a network, whatever the credential is for.
Status CheckNotEngines(std::string_view queue) {
  if (!queue.starts_with(task_queue::kEnginePrefix)) return {};
  return Error{Code::kConflict,
               fmt::format("queue '{}' is the engine's own: it gives out none whose name begins "
                           "with '{}'",
                           queue, task_queue::kEnginePrefix)};
}

Status CheckNoRuns(std::string_view queue, const std::vector<task_queue::ClaimedItem>& items) {
  for (const task_queue::ClaimedItem& item : items)
    if (IsRun(item.payload))
      return Error{
          Code::kConflict,
          fmt::format("queue '{}' holds whole runs, as item '{}', which `headworks runner` "
                      "takes; put items for handlers into another queue",
                      queue, item.id)};
  return {};
}

/// Of whoever claims: one of these waits at a time.
std::string KeyOf(const worker_api::Identity& who, std::string_view queue) {
  return fmt::format("{}/{}/{}/{}", who.tenant.value, who.worker, who.incarnation, queue);
}

Status CheckWho(const worker_api::Identity& who) {
  if (worker_api::IsName(who.worker) && worker_api::IsName(who.incarnation)) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("worker and incarnation are 1 to {} of [A-Za-z0-9_-]",
                           worker_api::kMaxNameBytes)};
}

Status CheckWait(Duration wait) {
  if (wait >= Duration(0) && wait <= worker_api::kMaxWait) return {};
  return Error{Code::kInvalidArgument, fmt::format("a claim that waits {}us; 0 to {}", wait.count(),
                                                   FormatDuration(worker_api::kMaxWait))};
}

/// Whether the credential is for who speaks, and for the queue; if not, it is at fault and no item
/// is over by it.
template <typename Request>
bool MaySpeakOf(const CallPtr& call, const Grant& grant, const Request& request) {
  return MaySpeak(call, Admit(grant, FromWire(request.who()))) &&
         MaySpeak(call, AdmitQueue(grant, request.queue()));
}

/// Says each of `all` in its place.
template <typename T, typename Response>
void AnswerAll(const CallPtr& call, const Result<std::vector<T>>& all, Response& response) {
  if (!all) {
    call->Answer(ToStatus(all.error()));
    return;
  }
  call->Answer(grpc::Status::OK, [&] {
    for (const T& each : *all) ToWire(each, *response.add_answers());
  });
}

}  // namespace

QueueService::QueueService(const RpcServerPorts& ports, Front& front, std::size_t max_piece_bytes)
    : front_(front),
      pieces_(std::make_shared<Pieces>(max_piece_bytes)),
      queues_(*ports.queues, ports.clock, ports.log, kThreads) {}

grpc::ServerUnaryReactor* QueueService::Claim(Context* context, const v1::ClaimRequest* request,
                                              v1::ClaimResponse* response) {
  Calls& calls = request->max_items() > 0 ? front_.waits() : front_.words();
  return front_.Take("Claim", calls, *context, [&](auto& call, auto& grant) -> Status {
    const auto who = FromWire(request->who());
    HEADWORKS_TRY(Admit(grant, who));
    HEADWORKS_TRY(AdmitQueue(grant, request->queue()));
    HEADWORKS_TRY(CheckWho(who));
    auto poll = FromWire(*request);
    const Duration wait(request->wait_us());
    HEADWORKS_TRY(CheckWait(wait));
    if (poll.max_items == 0) {
      queues_.End(KeyOf(who, poll.queue));
      call->Answer(grpc::Status::OK);
      return {};
    }
    HEADWORKS_TRY(task_queue::CheckPoll(poll));
    HEADWORKS_TRY(CheckNotEngines(poll.queue));
    const auto waits =
        queues_.Await(KeyOf(who, poll.queue), poll, std::min(wait, front_.Left(*context)),
                      [this, call, response, tenant = who.tenant, queue = poll.queue](auto polled) {
                        if (polled)
                          if (const Status plain = CheckNoRuns(queue, polled->items); !plain) {
                            call->Answer(ToStatus(plain.error()));
                            return false;
                          }
                        return Hand(call, tenant, std::move(polled), *response);
                      });
    call->WhenGone([this, waits] { queues_.End(waits); });
    return {};
  });
}

/// False: whoever asked does not get them.
bool QueueService::Hand(const CallPtr& call, const TenantId& tenant,
                        Result<task_queue::Polled> polled, v1::ClaimResponse& response) {
  if (!polled) return call->Answer(ToStatus(polled.error()));
  std::size_t bytes = 0;
  for (const task_queue::ClaimedItem& item : polled->items) bytes += item.payload.size();
  auto room = pieces_->Take(tenant, bytes);
  if (!room) {
    call->Answer(ToStatus({Code::kAtCapacity, "too many items are under way"}));
    return false;
  }
  call->Hold(std::move(room));
  return call->Answer(grpc::Status::OK, [&] { ToWire(*std::move(polled), response); });
}

grpc::ServerUnaryReactor* QueueService::Extend(Context* context, const v1::ExtendRequest* request,
                                               v1::ExtendResponse* response) {
  return front_.Take("Extend", front_.words(), *context, [&](auto& call, auto& grant) -> Status {
    if (!MaySpeakOf(call, grant, *request)) return {};
    HEADWORKS_TRY(CheckNotEngines(request->queue()));
    HEADWORKS_ASSIGN(auto claims, ClaimsOf(*request));
    // The request goes with the call, should its caller give up.
    queues_.Do([call, response, tenant = grant.tenant, queue = request->queue(),
                claims = std::move(claims),
                visibility = Duration(request->visibility_us())](task_queue::TaskQueue& tasks) {
      AnswerAll(call, tasks.Extend(tenant, queue, claims, visibility), *response);
    });
    return {};
  });
}

grpc::ServerUnaryReactor* QueueService::Settle(Context* context, const v1::SettleRequest* request,
                                               v1::SettleResponse* response) {
  return front_.Take("Settle", front_.words(), *context, [&](auto& call, auto& grant) -> Status {
    if (!MaySpeakOf(call, grant, *request)) return {};
    HEADWORKS_TRY(CheckNotEngines(request->queue()));
    HEADWORKS_ASSIGN(auto all, SettlementsOf(*request));
    queues_.Do([call, response, tenant = grant.tenant, queue = request->queue(),
                all = std::move(all)](task_queue::TaskQueue& tasks) {
      AnswerAll(call, tasks.Settle(tenant, queue, all), *response);
    });
    return {};
  });
}

}  // namespace headworks::rpc
