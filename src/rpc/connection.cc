#include "connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "address.h"
#include "grpc_library.h"
#include "headworks/rpc/rpc_server.h"
#include "pem.h"
#include "status.h"

namespace headworks::rpc {
namespace {

constexpr int kSlackBytes = 1 << 20;
/// What fits the kernel's address of a socket, with the zero at its end.
constexpr std::size_t kMaxSocketPath = 107;
/// No limit of a message is below that.
constexpr std::size_t kLargeBytes = std::size_t{1} << 20;
/// What gRPC's libraries say of a message beyond a limit.  With the same code they end calls for
/// want of memory and of much else that passes.
constexpr std::string_view kTooLarge[] = {"larger than max", "exceeds maximum size"};
/// Before a lost connection is tried again: at first and at most.
constexpr int kFirstReconnectMs = 100;
constexpr int kMaxReconnectMs = 5'000;
/// For a connection to be made, with TLS and across the world.
constexpr int kConnectWithinMs = 5'000;

int ToMs(Duration duration) {
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

gpr_timespec In(Duration wait) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_micros(wait.count(), GPR_TIMESPAN));
}

Result<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(const std::string& ca_file) {
  if (ca_file.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions tls;
  HEADWORKS_ASSIGN(tls.pem_root_certs, ReadPem(ca_file, "TLS authorities"));
  return grpc::SslCredentials(tls);
}

grpc::ChannelArguments ArgumentsOf(const RpcClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxJobBytes) + kSlackBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, ToMs(options.keepalive_every));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ToMs(options.keepalive_timeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectWithinMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

Status CheckTarget(const std::string& text) {
  if (IsUnixAddress(text)) {
    const std::size_t bytes = text.size() - text.find(':') - 1;
    if (bytes > 0 && bytes <= kMaxSocketPath) return {};
    return Error{Code::kInvalidArgument,
                 fmt::format("'{}' has a path of {} bytes; that of a socket has 1 to {}", text,
                             bytes, kMaxSocketPath)};
  }
  HEADWORKS_ASSIGN(const Address target, ParseAddress(text));
  if (!target.host.empty() && target.port != 0) return {};
  return Error{Code::kInvalidArgument, fmt::format("'{}' names no server; write HOST:PORT", text)};
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::Open(RpcClientOptions options) {
  PrepareGrpc();
  HEADWORKS_TRY(CheckTarget(options.target));
  if (options.name.empty()) options.name = options.target;
  HEADWORKS_ASSIGN(const auto credentials, CredentialsOf(options.tls_ca_file));
  return std::unique_ptr<Connection>(new Connection(std::move(options), credentials));
}

Connection::Connection(RpcClientOptions options,
                       const std::shared_ptr<grpc::ChannelCredentials>& credentials)
    : options_(std::move(options)),
      channel_(grpc::CreateCustomChannel(options_.target, credentials, ArgumentsOf(options_))) {}

Connection::~Connection() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  for (grpc::ClientContext* context : under_way_) context->TryCancel();
  idle_.wait(lock, [this] { return under_way_.empty(); });
}

void Connection::SetDeadline(grpc::ClientContext& context, Duration wait, std::size_t bytes) const {
  context.set_deadline(
      In(wait + options_.patience + kPerKiB * static_cast<std::int64_t>(bytes / 1'024)));
}

void Connection::Begin(grpc::ClientContext& context) {
  const std::scoped_lock lock(mutex_);
  under_way_.insert(&context);
  if (closed_) context.TryCancel();
}

void Connection::End(grpc::ClientContext& context) {
  const std::scoped_lock lock(mutex_);
  under_way_.erase(&context);
  if (under_way_.empty()) idle_.notify_all();
}

/// What may stand in a header: gRPC ends the program at anything else.
Result<std::string> Connection::Bearer() const {
  std::string word = options_.credential();
  word.erase(word.find_last_not_of(" \t\r\n") + 1);
  const auto bad = std::ranges::find_if(word, [](char c) { return c < 0x20 || c > 0x7e; });
  if (bad != word.end())
    return Error{Code::kPermissionDenied,
                 fmt::format("the worker's token has a character at {} that no token has; is it "
                             "whole, and one line?",
                             bad - word.begin() + 1)};
  if (word.size() > worker_api::kMaxTokenBytes)
    return Error{Code::kPermissionDenied, fmt::format("the worker's token has {} bytes; at most {}",
                                                      word.size(), worker_api::kMaxTokenBytes)};
  return "Bearer " + word;
}

/// What to do where the two sides do not mean the same by TLS; empty = nothing of it is known.
std::string Connection::HintOf(std::string_view said) const {
  const auto has = [&](std::string_view text) { return said.find(text) != std::string_view::npos; };
  if (options_.tls_ca_file.empty()) {
    // A TLS server hangs up on whoever speaks plainly, as any server does that ends.
    const bool plainly = !was_answered_ && !IsUnixAddress(options_.target) && has("Socket closed");
    return plainly ? "; if it expects TLS, name the authority of its certificate (--tls-ca)" : "";
  }
  if (has("certificate verify failed"))
    return fmt::format(
        "; its certificate is not one of {}, or not valid today: give the "
        "authority that signed it (--tls-ca)",
        options_.tls_ca_file);
  if (has("is not in peer certificate"))
    return "; its certificate is not for this name: use one that it names, or have one made for it";
  if (has("wrong version number"))
    return "; it speaks no TLS: set rpc_tls_cert and rpc_tls_key there, or leave the authority "
           "(--tls-ca) out here";
  return {};
}

/// `bytes`: of the request.
Error Connection::ErrorOf(const grpc::ClientContext& context, std::size_t bytes,
                          const grpc::Status& status, OnRefusal refusal) const {
  Error error = FromStatus(status);
  const bool engines = context.GetServerTrailingMetadata().contains(kEngineMark);
  // By whatever the request comes through: it would be so again.
  const bool too_large = !engines && error.code == Code::kAtCapacity && bytes > kLargeBytes &&
                         std::ranges::any_of(kTooLarge, [&](std::string_view text) {
                           return status.error_message().find(text) != std::string::npos;
                         });
  if (too_large)
    error = {Code::kInvalidArgument,
             fmt::format("too large on the way to {}: {}", options_.name, error.message)};
  else if (!engines && error.code != Code::kCancelled)
    error.code = Code::kUnavailable;
  if (!engines && status.error_code() == grpc::UNIMPLEMENTED)  // tidy-allow(unfinished): its name
    error.message = "it does not know this call: an engine that is older than this program?";
  if (error.code == Code::kUnavailable)
    error.message = fmt::format("no answer from {}: {}{}", options_.name, error.message,
                                engines ? "" : HintOf(error.message));
  if (status.error_code() == grpc::UNAUTHENTICATED && refusal == OnRefusal::kSayAgain)
    error.code = Code::kUnavailable;
  return error;
}

}  // namespace headworks::rpc
