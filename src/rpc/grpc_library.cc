#include "grpc_library.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <memory>

#include "headworks/worker/v1/worker.grpc.pb.h"

namespace headworks::rpc {
namespace {

namespace v1 = headworks::worker::v1;

/// Refers to the threads that call back from its first call on.
struct Keeper {
  std::unique_ptr<v1::Worker::Stub> stub = v1::Worker::NewStub(
      grpc::CreateChannel("unix:/dev/null", grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::LeaveRequest request;
  v1::LeaveResponse response;
};

}  // namespace

void PrepareGrpc() {
  static Keeper* const keeper = [] {
    gpr_set_log_verbosity(static_cast<gpr_log_severity>(GPR_LOG_SEVERITY_ERROR + 1));
    auto* const made = new Keeper;  // never destroyed, on purpose
    made->stub->async()->Leave(&made->context, &made->request, &made->response,
                               [](const grpc::Status&) {});  // there is nobody to hear it
    return made;
  }();
  static_cast<void>(keeper);
}

}  // namespace headworks::rpc
