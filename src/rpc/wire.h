#pragma once

#include <string>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/worker/v1/worker.pb.h"
#include "headworks/worker_api/worker_service.h"

/// Between the words of the port and those of headworks.worker.v1.  `FromWire` is
/// kInvalidArgument for an enumerator that cannot be left out and is none.
namespace headworks::rpc {

namespace v1 = headworks::worker::v1;

void ToWire(const worker_api::Identity& from, v1::Identity& to);
worker_api::Identity FromWire(const v1::Identity& from);

void ToWire(const worker_api::Registration& from, v1::RegisterRequest& to);
worker_api::Registration FromWire(const v1::RegisterRequest& from);
void ToWire(const worker_api::Welcome& from, v1::RegisterResponse& to);
worker_api::Welcome FromWire(const v1::RegisterResponse& from);

void ToWire(const worker_api::Poll& from, v1::PollRequest& to);
worker_api::Poll FromWire(const v1::PollRequest& from);
void ToWire(const worker_api::Polled& from, v1::PollResponse& to);
worker_api::Polled FromWire(const v1::PollResponse& from);

void ToWire(const worker_api::Started& from, v1::StartResponse& to);
worker_api::Started FromWire(const v1::StartResponse& from);

void ToWire(const worker_api::Heartbeat& from, v1::HeartbeatRequest& to);
worker_api::Heartbeat FromWire(const v1::HeartbeatRequest& from);
void ToWire(const worker_api::Beaten& from, v1::HeartbeatResponse& to);
worker_api::Beaten FromWire(const v1::HeartbeatResponse& from);

void ToWire(const std::vector<log_store::Line>& from, v1::LogRequest& to);
/// With their times by this host's clock, which says `now`, where the worker's is far off.
Result<std::vector<log_store::Line>> FromWire(const v1::LogRequest& from, Instant now);

void ToWire(worker_api::ArtifactPut from, v1::PutArtifactRequest& to);
worker_api::ArtifactPut FromWire(const v1::PutArtifactRequest& from);
void ToWire(const worker_api::ArtifactTaken& from, v1::PutArtifactResponse& to);
worker_api::ArtifactTaken FromWire(const v1::PutArtifactResponse& from);
void ToWire(const worker_api::ArtifactGet& from, v1::GetArtifactRequest& to);
worker_api::ArtifactGet FromWire(const v1::GetArtifactRequest& from);
void ToWire(const worker_api::ArtifactPiece& from, v1::GetArtifactResponse& to);
worker_api::ArtifactPiece FromWire(const v1::GetArtifactResponse& from);

void ToWire(const model::Outcome& from, v1::Outcome& to);
Result<model::Outcome> FromWire(const v1::Outcome& from);

v1::Reply ToWire(executor::Reply from);
/// What is not known is said again.
executor::Reply FromWire(v1::Reply from);

/// kInvalidArgument, with the bytes there are and may be.
Status CheckLines(const std::vector<log_store::Line>& lines);
Status CheckOutcome(const model::Outcome& outcome);
Status CheckPut(const worker_api::ArtifactPut& put);
Status CheckGet(const worker_api::ArtifactGet& get);

}  // namespace headworks::rpc
