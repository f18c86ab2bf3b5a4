#include "status.h"

#include <string>
#include <utility>

#include "headworks/base/text.h"

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

/// It may have in it whatever the caller said, and is a header, of which gRPC takes 8 KiB by
/// itself, with three bytes for each that is not ASCII.
constexpr std::size_t kMaxMessage = 1'024;
constexpr std::string_view kCut = "...";

}  // namespace

grpc::Status ToStatus(const Error& error) {
  for (const auto& [code, status] : kCodes)
    if (code == error.code) return ToStatus(status, error.message);
  return ToStatus(grpc::INTERNAL, error.message);
}

grpc::Status ToStatus(grpc::StatusCode code, std::string_view message) {
  if (message.size() <= kMaxMessage) return {code, std::string(message)};
  message = message.substr(0, kMaxMessage - kCut.size());
  return {code, std::string(message.substr(0, ValidUtf8Prefix(message))).append(kCut)};
}

Error FromStatus(const grpc::Status& status) {
  for (const auto& [code, known] : kCodes)
    if (known == status.error_code()) return {code, status.error_message()};
  return {Code::kInternal, status.error_message()};
}

}  // namespace headworks::rpc
