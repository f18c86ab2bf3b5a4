#pragma once

#include <grpcpp/support/status.h>

#include <string_view>

#include "headworks/base/result.h"

namespace headworks::rpc {

/// Trailing metadata of all that an engine answers: what comes without it is some proxy's word, or
/// gRPC's own, and says nothing of an attempt.
inline constexpr const char* kEngineMark = "headworks-engine";

/// The one table of error codes, both ways.  kDrainTimeout alone comes back as another code,
/// kUnavailable, which is what a deadline that passed on the way means.
grpc::Status ToStatus(const Error& error);
/// With as much of `message` as whoever hears it takes.
grpc::Status ToStatus(grpc::StatusCode code, std::string_view message);
/// Of a status that is not OK; what only others send is the code nearest to it.
Error FromStatus(const grpc::Status& status);

}  // namespace headworks::rpc
