#pragma once

#include <grpcpp/support/status.h>

#include "headworks/base/result.h"

namespace headworks::rpc {

/// The one table of error codes, both ways.  kDrainTimeout alone comes back as another code,
/// kUnavailable, which is what a deadline that passed on the way means.
grpc::Status ToStatus(const Error& error);
/// Of a status that is not OK; what only others send is the code nearest to it.
Error FromStatus(const grpc::Status& status);

}  // namespace headworks::rpc
