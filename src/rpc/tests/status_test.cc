#include "status.h"

#include <gtest/gtest.h>

namespace headworks::rpc {
namespace {

TEST(Status, EveryCodeComesBackButTheDrainTimeout) {
  for (int code = 1; code <= static_cast<int>(Code::kInternal); ++code) {
    const Error error{static_cast<Code>(code), "why"};
    const auto status = ToStatus(error);
    EXPECT_FALSE(status.ok()) << code;
    const Error back = FromStatus(status);
    EXPECT_EQ(back.message, "why");
    EXPECT_EQ(back.code, error.code == Code::kDrainTimeout ? Code::kUnavailable : error.code);
  }
}

TEST(Status, EveryStatusOfGrpcIsACode) {
  const std::pair<grpc::StatusCode, Code> all[] = {
      {grpc::CANCELLED, Code::kCancelled},
      {grpc::UNKNOWN, Code::kInternal},
      {grpc::INVALID_ARGUMENT, Code::kInvalidArgument},
      {grpc::DEADLINE_EXCEEDED, Code::kUnavailable},
      {grpc::NOT_FOUND, Code::kNotFound},
      {grpc::ALREADY_EXISTS, Code::kConflict},
      {grpc::PERMISSION_DENIED, Code::kPermissionDenied},
      {grpc::UNAUTHENTICATED, Code::kPermissionDenied},
      {grpc::RESOURCE_EXHAUSTED, Code::kAtCapacity},
      {grpc::FAILED_PRECONDITION, Code::kConflict},
      {grpc::ABORTED, Code::kLeaseLost},
      {grpc::OUT_OF_RANGE, Code::kInvalidArgument},
      {grpc::UNIMPLEMENTED, Code::kConflict},  // tidy-allow(unfinished): its name
      {grpc::INTERNAL, Code::kInternal},
      {grpc::UNAVAILABLE, Code::kUnavailable},
      {grpc::DATA_LOSS, Code::kCorrupt}};
  EXPECT_EQ(std::size(all), 16U);
  for (const auto& [status, code] : all)
    EXPECT_EQ(FromStatus({status, "why"}).code, code) << status;
}

TEST(Status, AMessageIsCutToWhatAHeaderMayHave) {
  const auto message = [](const std::string& text) {
    return ToStatus({Code::kInvalidArgument, text}).error_message();
  };
  EXPECT_EQ(message(std::string(1'024, 'x')), std::string(1'024, 'x'));
  EXPECT_EQ(message(std::string(1'025, 'x')), std::string(1'021, 'x') + "...");
  // Between characters.
  EXPECT_EQ(message(std::string(1'020, 'x') + std::string(4, 'x') + "\u00e4"),
            std::string(1'021, 'x') + "...");
  EXPECT_EQ(message(std::string(1'020, 'x') + "\u00e4\u00e4\u00e4"),
            std::string(1'020, 'x') + "...");
}

}  // namespace
}  // namespace headworks::rpc
