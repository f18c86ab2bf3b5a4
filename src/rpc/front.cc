#include "front.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace headworks::rpc {
namespace {

/// A wait ends so long before the caller's deadline, of which gRPC tells up to 100 ms too much.
constexpr Duration kAnswerIn = std::chrono::milliseconds(250);

bool Matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

std::string_view BearerOf(const Context& context) {
  constexpr std::string_view kScheme = "Bearer ";
  const auto found = context.client_metadata().find("authorization");
  if (found == context.client_metadata().end()) return {};
  const std::string_view value(found->second.data(), found->second.size());
  return value.starts_with(kScheme) ? value.substr(kScheme.size()) : std::string_view();
}

}  // namespace

Status Admit(const Grant& grant, const worker_api::Identity& who) {
  const auto refused = [](std::string message) {
    return Error{Code::kPermissionDenied, std::move(message)};
  };
  if (who.tenant != grant.tenant)
    return refused(fmt::format("wrong_tenant: this worker token is for tenant '{}', not '{}'",
                               grant.tenant.value, who.tenant.value));
  if (!Matches(grant.worker, who.worker))
    return refused(fmt::format("wrong_name: this worker token is for workers named '{}', not '{}'",
                               grant.worker, who.worker));
  return {};
}

Status AdmitQueue(const Grant& grant, std::string_view queue) {
  if (grant.queues.empty() || std::ranges::find(grant.queues, queue) != grant.queues.end())
    return {};
  return Error{Code::kPermissionDenied,
               fmt::format("wrong_queue: this worker token is for the queues {}, not '{}'",
                           fmt::join(grant.queues, ", "), queue)};
}

Status AdmitQueues(const Grant& grant, const std::map<std::string, std::uint32_t>& queues) {
  for (const auto& [queue, slots] : queues) HEADWORKS_TRY(AdmitQueue(grant, queue));
  return {};
}

bool MaySpeak(const CallPtr& call, const Status& may) {
  if (!may) call->Answer(ToStatus(grpc::UNAUTHENTICATED, may.error().message));
  return may.has_value();
}

Duration Front::Left(const Context& context) const {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return Duration::max();
  const Instant until = std::chrono::floor<Duration>(deadline);
  return std::max(Duration(0), until - ports_.clock.Now() - kAnswerIn);
}

Result<Grant> Front::Check(const Context& context) {
  return ports_.authenticator.Check(BearerOf(context));
}

grpc::Status Front::NoRoom() const {
  if (words_.closed()) return {grpc::UNAVAILABLE, kShuttingDown};
  return ToStatus({Code::kAtCapacity, "too many calls are under way"});
}

grpc::ServerUnaryReactor* Front::Refuse(Context& context, const grpc::Status& status) {
  auto* const refused = context.DefaultReactor();
  refused->Finish(status);
  return refused;
}

grpc::ServerUnaryReactor* Front::Failed(const CallPtr& call, const char* name, Context& context,
                                        const char* why) {
  ports_.log.Error("a worker's call failed",
                   {{"call", name}, {"peer", context.peer()}, {"error", why}});
  const grpc::Status status{grpc::INTERNAL, "the engine failed; its log says why"};
  if (call == nullptr) return Refuse(context, status);
  call->Answer(status);
  return call.get();
}

}  // namespace headworks::rpc
