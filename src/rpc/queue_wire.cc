#include "queue_wire.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <utility>

#include "headworks/base/json.h"
#include "headworks/base/text.h"
#include "headworks/rpc/rpc_server.h"

namespace headworks::rpc {
namespace {

using task_queue::Settlement;

/// What the store keeps, and some more, so that it is cut only after it was redacted.
constexpr std::size_t kMaxReason = task_queue::kMaxReasonBytes + 1'024;

constexpr std::pair<Code, v1::ClaimFault> kFaults[] = {
    {Code::kLeaseLost, v1::CLAIM_FAULT_LEASE_LOST},
    {Code::kConflict, v1::CLAIM_FAULT_SETTLED},
    {Code::kNotFound, v1::CLAIM_FAULT_NOT_FOUND},
    {Code::kCancelled, v1::CLAIM_FAULT_CANCEL},
};

v1::ClaimFault FaultOf(Code code) {
  for (const auto& [each, fault] : kFaults)
    if (each == code) return fault;
  return v1::CLAIM_FAULT_LEASE_LOST;
}

/// One that this program does not know is of a newer engine: nothing more is to be said of the
/// claim.
Error ErrorOf(const v1::ClaimAnswer& from) {
  for (const auto& [code, fault] : kFaults)
    if (fault == from.fault()) return {code, from.why()};
  return {Code::kLeaseLost, from.why()};
}

}  // namespace

task_queue::PollRequest FromWire(const v1::ClaimRequest& from) {
  return {.tenant = TenantId(from.who().tenant()),
          .queue = from.queue(),
          .max_items = from.max_items(),
          .visibility = Duration(from.visibility_us()),
          .holder = from.who().worker(),
          .max_bytes = kMaxClaimBytes};
}

void ToWire(task_queue::Polled from, v1::ClaimResponse& to) {
  for (task_queue::ClaimedItem& each : from.items) {
    v1::Item& item = *to.add_items();
    item.set_claim(task_queue::FormatClaim(each.claim));
    item.set_id(std::move(each.id));
    item.set_payload(std::move(each.payload));
    item.set_priority(each.priority);
    item.set_attempt(each.attempt);
    item.set_max_attempts(each.max_attempts);
    item.set_lease_us(each.lease.count());
    item.set_enqueued_at_us(each.enqueued_at.time_since_epoch().count());
  }
  to.set_waited_us(from.waited.count());
  to.set_paused(from.paused);
}

Result<task_queue::Polled> FromWire(v1::ClaimResponse& from) {
  task_queue::Polled to{.paused = from.paused(), .waited = Duration(from.waited_us())};
  to.items.reserve(static_cast<std::size_t>(from.items_size()));
  for (v1::Item& item : *from.mutable_items()) {
    HEADWORKS_ASSIGN(const auto claim, task_queue::ParseClaim(item.claim()));
    to.items.push_back({.claim = claim,
                        .id = std::move(*item.mutable_id()),
                        .payload = std::move(*item.mutable_payload()),
                        .priority = item.priority(),
                        .attempt = item.attempt(),
                        .max_attempts = item.max_attempts(),
                        .lease = Duration(item.lease_us()),
                        .enqueued_at = Instant(Duration(item.enqueued_at_us()))});
  }
  return to;
}

Result<std::vector<task_queue::Claim>> ClaimsOf(const v1::ExtendRequest& from) {
  std::vector<task_queue::Claim> claims;
  claims.reserve(static_cast<std::size_t>(from.claims_size()));
  for (const std::string& text : from.claims()) {
    HEADWORKS_ASSIGN(const auto claim, task_queue::ParseClaim(text));
    claims.push_back(claim);
  }
  return claims;
}

Result<std::vector<Settlement>> SettlementsOf(const v1::SettleRequest& from) {
  std::vector<Settlement> all;
  all.reserve(static_cast<std::size_t>(from.settlements_size()));
  for (const v1::Settlement& each : from.settlements()) {
    if (each.kind() < v1::SETTLEMENT_KIND_ACK || each.kind() > v1::SETTLEMENT_KIND_REJECT)
      return Error{Code::kInvalidArgument,
                   fmt::format("claim {}: {} is no kind of settlement", each.claim(),
                               static_cast<int>(each.kind()))};
    HEADWORKS_ASSIGN(const auto claim, task_queue::ParseClaim(each.claim()));
    Settlement settlement{
        .claim = claim,
        .kind = static_cast<Settlement::Kind>(each.kind() - v1::SETTLEMENT_KIND_ACK)};
    settlement.reason = ReplaceInvalidUtf8(each.reason());
    if (each.has_delay_us()) settlement.delay = Duration(each.delay_us());
    all.push_back(std::move(settlement));
  }
  return all;
}

void ToWire(const Settlement& from, v1::Settlement& to) {
  to.set_claim(task_queue::FormatClaim(from.claim));
  to.set_kind(
      static_cast<v1::SettlementKind>(static_cast<int>(from.kind) + v1::SETTLEMENT_KIND_ACK));
  to.set_reason(from.reason.substr(0, kMaxReason));
  if (from.delay) to.set_delay_us(from.delay->count());
}

void ToWire(const Result<task_queue::ItemState>& from, v1::ClaimAnswer& to) {
  if (from)
    to.set_state(static_cast<v1::ItemState>(*from));
  else
    ToWire(Status(from.error()), to);
}

void ToWire(const Status& from, v1::ClaimAnswer& to) {
  if (from) return;
  to.set_fault(FaultOf(from.error().code));
  to.set_why(from.error().message);
}

Result<task_queue::ItemState> StateOf(const v1::ClaimAnswer& from) {
  if (from.fault() != v1::CLAIM_FAULT_NONE) return ErrorOf(from);
  return static_cast<task_queue::ItemState>(from.state());
}

Status StatusOf(const v1::ClaimAnswer& from) {
  if (from.fault() == v1::CLAIM_FAULT_NONE) return {};
  return ErrorOf(from);
}

bool IsRun(std::string_view payload) {
  if (payload.find(task_queue::kRunType) == std::string_view::npos) return false;
  const auto object =
      ParseJsonObject(payload, "payload", {.max_bytes = task_queue::kMaxPayloadBytes});
  const auto* type = object ? object->if_contains("type") : nullptr;
  return type != nullptr && *type == boost::json::value(task_queue::kRunType);
}

}  // namespace headworks::rpc
