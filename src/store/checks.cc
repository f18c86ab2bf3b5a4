#include "headworks/store/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bitset>
#include <charconv>
#include <ranges>

namespace headworks::store {
namespace {

Error Invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

using ShardSet = std::bitset<kShardCount>;

Result<ShardSet> ToSet(auto&& shards) {
  ShardSet set;
  for (const Shard shard : shards) {
    if (shard.value < 0 || shard.value >= kShardCount) {
      return Invalid(
          fmt::format("no shard {}; they go from 0 to {}", shard.value, kShardCount - 1));
    }
    const auto bit = static_cast<std::size_t>(shard.value);
    if (set[bit]) return Invalid(fmt::format("shard {} is named twice", shard.value));
    set.set(bit);
  }
  if (set.none()) return Invalid("no shard named");
  return set;
}

Status CheckRuns(const Round& round, const ShardSet& guarded) {
  RunNo last;
  for (const RunWrite& write : round.runs) {
    const auto& header = write.header;
    HEADWORKS_TRY(CheckTenant(header.tenant));
    if (header.name.tenant != header.tenant.value) {
      return Invalid(fmt::format("round: run {} of tenant {} has a workflow of tenant {}",
                                 header.run_no.value, header.tenant.value, header.name.tenant));
    }
    if (header.run_no <= last) {
      return Invalid(fmt::format("round: run {} stands after run {}; numbers must rise from 1",
                                 header.run_no.value, last.value));
    }
    last = header.run_no;
    if (model::IsTerminal(header.state) != (header.finished_at != Instant{})) {
      return Invalid(fmt::format("round: run {} has ended and no end, or the other way round",
                                 header.run_no.value));
    }
    if (header.state == model::RunState::kPending &&
        (header.wake_at != Instant{} || !write.tasks.empty())) {
      return Invalid(
          fmt::format("round: pending run {} has tasks or waits for a time", header.run_no.value));
    }
    if (write.start && !header.concurrency_key)
      return Invalid(fmt::format("round: a start of run {}, which has no concurrency key",
                                 header.run_no.value));
    for (const RunWrite::Grant& grant : write.grants) {
      HEADWORKS_TRY(CheckPool(header.tenant, grant.pool, grant.weight));
      if (grant.weight == 0)
        return Invalid(fmt::format("round: run {} is granted no permits", header.run_no.value));
    }
    const auto shard = header.shard.value;
    if (shard < 0 || shard >= kShardCount || !guarded[static_cast<std::size_t>(shard)]) {
      return Invalid(fmt::format("round: run {} is on shard {}, which the round does not guard",
                                 header.run_no.value, shard));
    }
  }
  for (const RunKey& key : round.deleted_runs) {
    HEADWORKS_TRY(CheckTenant(key.tenant));
    if (std::ranges::binary_search(round.runs, key.run, {},
                                   [](const RunWrite& write) { return write.header.run_no; })) {
      return Invalid(fmt::format("round: run {} is both written and deleted", key.run.value));
    }
  }
  return {};
}

}  // namespace

Status CheckTenant(const TenantId& tenant) {
  if (tenant.value.empty()) return Invalid("no tenant given; every call speaks for one");
  return {};
}

Status CheckShards(std::span<const Shard> shards) {
  HEADWORKS_TRY(ToSet(shards));
  return {};
}

Status CheckGuards(std::span<const Guard> guards) {
  HEADWORKS_TRY(ToSet(std::views::transform(guards, &Guard::shard)));
  return {};
}

Status CheckTtl(Duration ttl) {
  if (ttl <= Duration::zero()) return Invalid("a lease must be longer than zero");
  return {};
}

Status CheckRound(const Round& round) {
  HEADWORKS_ASSIGN(const ShardSet guarded,
                   ToSet(std::views::transform(round.guards, &Guard::shard)));
  HEADWORKS_TRY(CheckTtl(round.lease_ttl));
  HEADWORKS_TRY(CheckRuns(round, guarded));
  for (const Answer& answer : round.answers) {
    HEADWORKS_TRY(CheckTenant(answer.tenant));
    if (answer.dedupe_key.empty()) return Invalid("round: an answer without dedupe key");
  }
  return {};
}

Status CheckPool(const TenantId& tenant, std::string_view name, int limit) {
  HEADWORKS_TRY(CheckTenant(tenant));
  if (!model::IsPoolName(name))
    return Invalid(
        fmt::format("'{}' cannot name a pool; use letters, digits, _ and -, at most 64", name));
  if (limit < 0 || limit > LimitStore::kMaxLimit)
    return Invalid(fmt::format("pool '{}': {} is out of range; give 0 to {}", name, limit,
                               LimitStore::kMaxLimit));
  return {};
}

Status CheckPools(const TenantId& tenant, const model::PoolLimits& pools) {
  HEADWORKS_TRY(CheckTenant(tenant));
  for (const auto& [name, limit] : pools) HEADWORKS_TRY(CheckPool(tenant, name, limit));
  return {};
}

Error NoSuchPool(std::string_view name) {
  return {Code::kNotFound, fmt::format("there is no pool '{}'; see 'headworks pool list'", name)};
}

Error DeclaredPool(std::string_view name) {
  return {Code::kConflict,
          fmt::format("the configuration of the engine declares pool '{}'; change it there, and "
                      "start the engine again",
                      name)};
}

Error HeldPool(std::string_view name, std::int64_t permits) {
  return {Code::kConflict,
          fmt::format("{} permits of pool '{}' are held; 'headworks pool show {}' says by whom",
                      permits, name, name)};
}

Status CheckWorkers(std::span<const WorkerRecord> workers) {
  for (const WorkerRecord& worker : workers) {
    HEADWORKS_TRY(CheckTenant(worker.tenant));
    if (worker.name.empty() || worker.incarnation.empty())
      return Invalid(
          fmt::format("a worker of tenant {} without name or incarnation", worker.tenant.value));
    if ((worker.presence == WorkerPresence::kGone) != (worker.gone_at != Instant{}))
      return Invalid(
          fmt::format("worker {} is gone since no time, or the other way round", worker.name));
  }
  return {};
}

Status CheckOrders(std::span<const WorkerOrder> orders) {
  for (const WorkerOrder& order : orders) {
    HEADWORKS_TRY(CheckTenant(order.tenant));
    if (order.name.empty() || order.actor.empty())
      return Invalid(fmt::format("an order of tenant {} without a worker's name or without actor",
                                 order.tenant.value));
  }
  return {};
}

Error TooManyOrders(const TenantId& tenant) {
  return {Code::kAtCapacity,
          fmt::format("more than {} workers of tenant {} would be cordoned or told to drain; "
                      "uncordon those that do not come back",
                      WorkerStore::kMaxOrders, tenant.value)};
}

Status CheckInboxRows(std::span<const InboxRow> rows) {
  for (const InboxRow& row : rows) {
    HEADWORKS_TRY(CheckTenant(row.tenant));
    HEADWORKS_TRY(CheckShards(std::span(&row.shard, 1)));
    if (row.kind.empty()) return Invalid("inbox: a row without kind");
    if (row.dedupe_key.empty()) {
      return Invalid(fmt::format("inbox: a \"{}\" without dedupe key", row.kind));
    }
  }
  return {};
}

Result<RunReference> ParseRunReference(std::string_view text) {
  RunReference reference;
  if (text == "@last") {
    reference.last = true;
    return reference;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number > 0) {
    reference.number = RunNo(number);
  }
  if (text.size() >= RunQuery::kMinPrefix) {
    reference.prefix = text;
    for (char& c : reference.prefix) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
  } else if (!reference.number) {
    return Invalid(fmt::format(
        "\"{}\" names no run: give its id, {} or more of its first characters, its number or @last",
        text, RunQuery::kMinPrefix));
  }
  return reference;
}

Error NoSuchRun(std::string_view reference) {
  if (reference == "@last") return {Code::kNotFound, "there is no run yet"};
  const bool may_be_id =
      reference.find_first_not_of("0123456789abcdefABCDEF-") == std::string_view::npos;
  return {Code::kNotFound,
          fmt::format("no run \"{}\"{}", reference,
                      may_be_id ? ""
                                : fmt::format(": a run is named by its number, its id, {} or more "
                                              "of its first characters, or @last",
                                              RunQuery::kMinPrefix))};
}

Error AmbiguousRun(std::string_view reference, std::span<const std::string> ids) {
  constexpr std::size_t kShown = 5;
  return {Code::kConflict,
          fmt::format("\"{}\" may be several runs: {}{}; give more characters", reference,
                      fmt::join(ids.first(std::min(ids.size(), kShown)), ", "),
                      ids.size() > kShown ? ", ..." : "")};
}

}  // namespace headworks::store
