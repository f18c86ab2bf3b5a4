#pragma once

namespace headworks::rpc {

/// Before the first use of gRPC in this process; may be repeated.
///
/// What gRPC has to say comes back as errors and statuses: standard error is for our own lines. And
/// gRPC 1.51 begins the threads that call back with the first channel or server that needs them and
/// ends them with the last, which frees their completion queue twice now and then.  One channel
/// that stays until the process ends keeps them.
void PrepareGrpc();

}  // namespace headworks::rpc
