#include "status.h"

#include <utility>

namespace headworks::rpc {
namespace {

constexpr std::pair<Code, grpc::StatusCode> kCodes[] = {
    {Code::kInvalidArgument, grpc::INVALID_ARGUMENT},
    {Code::kNotFound, grpc::NOT_FOUND},
    {Code::kConflict, grpc::FAILED_PRECONDITION},
    {Code::kLeaseLost, grpc::ABORTED},
    {Code::kAtCapacity, grpc::RESOURCE_EXHAUSTED},
    {Code::kUnavailable, grpc::UNAVAILABLE},
    {Code::kCancelled, grpc::CANCELLED},
    {Code::kCorrupt, grpc::DATA_LOSS},
    {Code::kPermissionDenied, grpc::PERMISSION_DENIED},
    {Code::kInternal, grpc::INTERNAL},
    // What gRPC itself says, or servers of others; read from the top, so never sent but for one.
    {Code::kUnavailable, grpc::DEADLINE_EXCEEDED},
    {Code::kDrainTimeout, grpc::DEADLINE_EXCEEDED},
    {Code::kPermissionDenied, grpc::UNAUTHENTICATED},
    {Code::kConflict, grpc::UNIMPLEMENTED},  // tidy-allow(unfinished): its name
    {Code::kConflict, grpc::ALREADY_EXISTS},
    {Code::kInvalidArgument, grpc::OUT_OF_RANGE},
    {Code::kInternal, grpc::UNKNOWN},
};

}  // namespace

grpc::Status ToStatus(const Error& error) {
  for (const auto& [code, status] : kCodes)
    if (code == error.code) return {status, error.message};
  return {grpc::INTERNAL, error.message};
}

Error FromStatus(const grpc::Status& status) {
  for (const auto& [code, known] : kCodes)
    if (known == status.error_code()) return {code, status.error_message()};
  return {Code::kInternal, status.error_message()};
}

}  // namespace headworks::rpc
