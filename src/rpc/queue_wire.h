#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "headworks/task_queue/task_queue.h"
#include "headworks/worker/v1/queue.pb.h"

/// Between the words of queues and those of headworks.worker.v1, as in wire.h.
namespace headworks::rpc {

namespace v1 = headworks::worker::v1;

task_queue::PollRequest FromWire(const v1::ClaimRequest& from);
void ToWire(task_queue::Polled from, v1::ClaimResponse& to);
/// kInvalidArgument: a claim that is none; the same of all claims that are read here.
Result<task_queue::Polled> FromWire(v1::ClaimResponse& from);

Result<std::vector<task_queue::Claim>> ClaimsOf(const v1::ExtendRequest& from);
Result<std::vector<task_queue::Settlement>> SettlementsOf(const v1::SettleRequest& from);
void ToWire(const task_queue::Settlement& from, v1::Settlement& to);

void ToWire(const Result<task_queue::ItemState>& from, v1::ClaimAnswer& to);
void ToWire(const Status& from, v1::ClaimAnswer& to);
Result<task_queue::ItemState> StateOf(const v1::ClaimAnswer& from);
Status StatusOf(const v1::ClaimAnswer& from);

/// Whether a payload is a whole run, see task_queue::kRunType.
bool IsRun(std::string_view payload);

}  // namespace headworks::rpc
