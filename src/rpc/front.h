#pragma once

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "calls.h"
#include "headworks/rpc/rpc_server.h"
#include "headworks/worker_api/worker_service.h"
#include "status.h"

namespace headworks::rpc {

using Context = grpc::CallbackServerContext;
using CallPtr = std::shared_ptr<Call>;

/// Whether the credential is for `who`; kPermissionDenied names what it is not for.
Status Admit(const Grant& grant, const worker_api::Identity& who);
Status AdmitQueue(const Grant& grant, std::string_view queue);
Status AdmitQueues(const Grant& grant, const std::map<std::string, std::uint32_t>& queues);
/// If they may not, that is the answer: the credential is at fault, and nothing is over by it.
bool MaySpeak(const CallPtr& call, const Status& may);

/// What all services of the server have in common: who may call, and how many calls there are.
class Front {
 public:
  Front(const RpcServerPorts& ports, std::size_t max_calls)
      : ports_(ports), waits_(max_calls), words_(max_calls) {}

  /// Answers all that is under way, and takes no more.
  void Close() {
    waits_.Close();
    words_.Close();
  }

  Calls& waits() { return waits_; }
  Calls& words() { return words_; }

  /// Checks the credential, begins a call of `calls` and passes on to `handle`, whose error is the
  /// answer.
  template <typename Handle>
  grpc::ServerUnaryReactor* Take(const char* name, Calls& calls, Context& context,
                                 const Handle& handle) {
    return TakeBy(
        name, [&](const TenantId& tenant) { return calls.Begin(tenant); }, context, handle);
  }
  template <typename Begin, typename Handle>
  grpc::ServerUnaryReactor* TakeBy(const char* name, const Begin& begin, Context& context,
                                   const Handle& handle) {
    context.AddTrailingMetadata(kEngineMark, "1");
    CallPtr call;
    // No exception gets out of here: what it says is not for whoever calls.
    try {
      const auto grant = Check(context);
      if (!grant) return Refuse(context, ToStatus(grpc::UNAUTHENTICATED, grant.error().message));
      call = begin(grant->tenant);
      if (call == nullptr) return Refuse(context, NoRoom());
      if (const Status handled = handle(call, *grant); !handled)
        call->Answer(ToStatus(handled.error()));
    } catch (const std::exception& error) {
      return Failed(call, name, context, error.what());
    } catch (...) {
      return Failed(call, name, context, "no std::exception");
    }
    return call.get();
  }

  /// Until the caller will not wait any more.
  Duration Left(const Context& context) const;

 private:
  Result<Grant> Check(const Context& context);
  grpc::Status NoRoom() const;
  static grpc::ServerUnaryReactor* Refuse(Context& context, const grpc::Status& status);
  grpc::ServerUnaryReactor* Failed(const CallPtr& call, const char* name, Context& context,
                                   const char* why);

  const RpcServerPorts ports_;
  Calls waits_, words_;
};

}  // namespace headworks::rpc
