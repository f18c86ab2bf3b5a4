#include "headworks/store_memory/memory_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <ranges>
#include <unordered_set>

#include "headworks/store/checks.h"
#include "headworks/task_queue/checks.h"
#include "memory_queues.h"
#include "memory_workers.h"
#include "storage.h"

namespace headworks::store_memory {
namespace {

using model::RunHeader;
using store::Answer;
using store::Guard;
using store::InboxRow;

Error NoRun(RunNo run) { return {Code::kNotFound, fmt::format("no run {}", run.value)}; }

bool IsDueOnce(const RunHeader& h) { return h.wake_at != kNever && h.stuck_reason.empty(); }
DueKey DueKeyOf(const RunHeader& h) {
  return {h.tenant, std::max(h.wake_at, Instant{}), -h.priority, h.run_no};
}
/// After all of the tenant's.
DueKey LastDueKeyOf(const TenantId& tenant) {
  return {tenant, Instant::max(), std::numeric_limits<int>::max(), RunNo()};
}

bool IsActive(const RunHeader& h, const TenantId& tenant,
              const store::RunQuery::ActiveFilter& filter) {
  const bool active = h.state == model::RunState::kRunning ||
                      (h.state == model::RunState::kPending && filter.pending) ||
                      (model::IsTerminal(h.state) && h.wake_at <= Instant{});
  return active && h.tenant == tenant && h.name == filter.name &&
         (!filter.key || h.concurrency_key == filter.key);
}

bool ListedAlike(const RunHeader& a, const RunHeader& b) {
  return a.priority == b.priority && a.wake_at == b.wake_at && a.finished_at == b.finished_at &&
         a.stuck_reason == b.stuck_reason;
}

/// `to` with everything from `from` that a run's later writes may change.
void Update(RunHeader& to, RunHeader from) {
  from.run_no = to.run_no;
  from.run_id = std::move(to.run_id);
  from.tenant = std::move(to.tenant);
  from.name = std::move(to.name);
  from.version = std::move(to.version);
  from.shard = to.shard;
  from.created_at = to.created_at;
  from.start_key = std::move(to.start_key);
  from.concurrency_key = std::move(to.concurrency_key);
  from.trace_context = std::move(to.trace_context);
  from.rerun_of = to.rerun_of;
  from.root_run = to.root_run;
  to = std::move(from);
}

class MemoryStore final : public Database,
                          public store::RunStore,
                          public store::Inbox,
                          public store::RunQuery,
                          public store::WorkflowStore,
                          public store::LimitStore {
 public:
  MemoryStore(std::shared_ptr<Storage> storage, Clock& clock, Logger* logger)
      : storage_(std::move(storage)),
        s_(*storage_),
        clock_(clock),
        logger_(logger),
        queues_(NewMemoryQueues(storage_, clock, logger)),
        workers_(NewMemoryWorkers(storage_)) {}

  store::RunStore& runs() override { return *this; }
  store::Inbox& inbox() override { return *this; }
  store::RunQuery& query() override { return *this; }
  store::WorkflowStore& workflows() override { return *this; }
  store::LimitStore& limits() override { return *this; }
  task_queue::Queues& queues() override { return *queues_; }
  store::WorkerStore& workers() override { return *workers_; }

  // ---- RunStore

  Result<std::vector<Guard>> Acquire(std::span<const Shard> shards, std::string_view owner,
                                     Duration ttl) override {
    HEADWORKS_TRY(store::CheckShards(shards));
    HEADWORKS_TRY(store::CheckTtl(ttl));
    if (owner.empty()) return Error{Code::kInvalidArgument, "acquire: no owner given"};
    const std::lock_guard lock(s_.mutex);
    const Duration now = clock_.Monotonic();
    for (const Shard shard : shards) {
      const GuardRow& row = At(shard);
      if (!row.owner.empty() && row.owner != owner && row.lease_until > now) {
        return Error{Code::kConflict,
                     fmt::format("shard {} is owned by {}", shard.value, row.owner)};
      }
    }
    std::vector<Guard> guards;
    for (const Shard shard : shards) {
      GuardRow& row = At(shard);
      row = {Term(row.term.value + 1), row.round, std::string(owner), now + ttl};
      guards.push_back({shard, row.term, row.round});
    }
    ++s_.data_version;
    return guards;
  }

  Status Release(std::span<const Guard> guards) override {
    HEADWORKS_TRY(store::CheckGuards(guards));
    const std::lock_guard lock(s_.mutex);
    for (const Guard& guard : guards) {
      if (GuardRow& row = At(guard.shard); row.term == guard.term) row.owner.clear();
    }
    ++s_.data_version;
    return {};
  }

  Result<Guard> ReadGuard(Shard shard) override {
    HEADWORKS_TRY(store::CheckShards(std::span(&shard, 1)));
    const std::lock_guard lock(s_.mutex);
    return Guard{shard, At(shard).term, At(shard).round};
  }

  Status Renew(std::span<const Guard> guards, Duration ttl) override {
    HEADWORKS_TRY(store::CheckGuards(guards));
    HEADWORKS_TRY(store::CheckTtl(ttl));
    const std::lock_guard lock(s_.mutex);
    for (const Guard& guard : guards) HEADWORKS_TRY(CheckHeld(guard));
    for (const Guard& guard : guards) At(guard.shard).lease_until = clock_.Monotonic() + ttl;
    ++s_.data_version;
    return {};
  }

  Status Commit(const store::Round& round) override {
    HEADWORKS_TRY(store::CheckRound(round));
    for (const store::QueuedItem& item : round.items) {
      const task_queue::NewItem checked{
          .id = item.id, .payload = item.payload, .max_attempts = item.max_attempts};
      HEADWORKS_TRY(task_queue::CheckEnqueue(item.tenant, item.queue, {&checked, 1}));
    }
    const std::lock_guard lock(s_.mutex);
    HEADWORKS_TRY(CheckAgainstRows(round));  // after this nothing fails: all of it or none
    for (const Guard& guard : round.guards) {
      At(guard.shard).round = guard.round;
      At(guard.shard).lease_until = clock_.Monotonic() + round.lease_ttl;
    }
    for (const store::RunWrite& write : round.runs) Apply(write);
    for (const store::RunKey& key : round.deleted_runs) Delete(key);
    for (const Answer& answer : round.answers) Put(answer, round.now);
    for (const std::int64_t id : round.consumed) Consume(id, round.now);
    ForgetOldAnswers(round.now);
    ++s_.data_version;
    if (round.items.empty()) return {};
    const std::size_t left_out = EnqueueRoundItems(storage_, clock_, logger_, round.items);
    if (left_out > 0 && logger_ != nullptr)
      logger_->Warning("items of a round were left out: their queue is full",
                       {{"items", std::to_string(left_out)}, {"queue", round.items[0].queue}});
    return {};
  }

  Result<store::RunImage> LoadRun(const TenantId& tenant, RunNo run) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    const RunRow* row = Find(tenant, run);
    if (row == nullptr) return NoRun(run);
    store::RunImage image{row->header, {}, {}, {}};
    for (const auto& [no, task] : row->tasks) {
      image.tasks.push_back(task.row);
      image.executors.push_back(task.executor);
      image.holders.push_back(task.holder);
    }
    return image;
  }

  Result<std::vector<TenantId>> ListDueTenants(std::span<const Shard> shards, Instant until,
                                               const TenantId& after, std::size_t limit) override {
    HEADWORKS_TRY(store::CheckShards(shards));
    const std::lock_guard lock(s_.mutex);
    std::vector<TenantId> tenants;
    auto it = s_.due.upper_bound(LastDueKeyOf(after));
    while (it != s_.due.end() && tenants.size() < limit) {
      const TenantId& tenant = std::get<TenantId>(*it);
      const auto end = s_.due.upper_bound(LastDueKeyOf(tenant));
      if (std::any_of(it, end, [&](const DueKey& key) { return IsDue(key, shards, until); }))
        tenants.push_back(tenant);
      it = end;
    }
    return tenants;
  }

  Result<std::vector<RunHeader>> ListDue(const TenantId& tenant, std::span<const Shard> shards,
                                         Instant until, const DueAfter& after,
                                         std::size_t limit) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    HEADWORKS_TRY(store::CheckShards(shards));
    const std::lock_guard lock(s_.mutex);
    std::vector<RunHeader> due;
    for (auto it = s_.due.upper_bound({tenant, after.wake_at, -after.priority, after.run});
         it != s_.due.end() && due.size() < limit; ++it) {
      if (std::get<TenantId>(*it) != tenant || std::get<Instant>(*it) > until) break;
      if (IsDue(*it, shards, until)) due.push_back(s_.runs.at(std::get<RunNo>(*it)).header);
    }
    return due;
  }

  Result<std::vector<Held>> ListHeld(std::span<const Shard> shards) override {
    HEADWORKS_TRY(store::CheckShards(shards));
    const std::lock_guard lock(s_.mutex);
    std::map<std::string, Held> held;
    for (const auto& [key, run] : s_.runs) {
      if (std::ranges::find(shards, run.header.shard) == shards.end()) continue;
      std::map<std::string, std::uint64_t> of_run;
      for (const auto& [no, task] : run.tasks)
        if (model::IsLive(task.row.state) || task.row.zombie) ++of_run[task.executor];
      for (const auto& [executor, attempts] : of_run) {
        Held& of = held.try_emplace(executor, Held{.executor = executor}).first->second;
        ++of.runs;
        of.attempts += attempts;
      }
    }
    std::vector<Held> all;
    all.reserve(held.size());
    for (auto& [name, of] : held) all.push_back(std::move(of));
    return all;
  }

  Result<std::optional<RunHeader>> FindStartKey(const TenantId& tenant,
                                                const model::Namespace& name,
                                                std::string_view start_key) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    const auto it = s_.start_keys.find({name, std::string(start_key)});
    if (start_key.empty() || name.tenant != tenant.value || it == s_.start_keys.end()) {
      return std::optional<RunHeader>();
    }
    return std::optional(s_.runs.at(it->second).header);
  }

  Result<RunNo> ReserveRunNos(std::int64_t count) override {
    if (count <= 0) return Error{Code::kInvalidArgument, "reserve: count must be 1 or more"};
    const std::lock_guard lock(s_.mutex);
    const RunNo first(s_.next_run_no);
    s_.next_run_no += count;
    ++s_.data_version;
    return first;
  }

  Result<std::vector<InboxRow>> ReadInbox(std::span<const Shard> shards, std::int64_t after,
                                          std::size_t limit) override {
    HEADWORKS_TRY(store::CheckShards(shards));
    const std::lock_guard lock(s_.mutex);
    std::vector<InboxRow> rows;
    for (auto it = s_.inbox.upper_bound(after); it != s_.inbox.end() && rows.size() < limit; ++it) {
      if (std::ranges::find(shards, it->second.shard) != shards.end()) rows.push_back(it->second);
    }
    return rows;
  }

  // ---- Inbox

  Status Append(std::span<const InboxRow> rows) override {
    HEADWORKS_TRY(store::CheckInboxRows(rows));
    const std::lock_guard lock(s_.mutex);
    std::vector<const InboxRow*> fresh;
    std::set<TenantKey> keys;
    std::int64_t starts = 0;
    for (const InboxRow& row : rows) {
      const TenantKey key{row.tenant, row.dedupe_key};
      if (s_.waiting_keys.contains(key) || s_.answers.contains(key)) continue;
      if (!keys.insert(key).second) continue;
      fresh.push_back(&row);
      if (row.kind == "start") ++starts;
    }
    if (starts > 0 && s_.waiting_starts + starts > kMaxStarts) {
      return Error{Code::kAtCapacity,
                   fmt::format("{} starts wait already; try again when some are through",
                               s_.waiting_starts)};
    }
    for (const InboxRow* row : fresh) {
      const std::int64_t id = s_.next_inbox_id++;
      s_.inbox.emplace(id, *row).first->second.id = id;
      s_.waiting_keys.emplace(TenantKey{row->tenant, row->dedupe_key}, id);
    }
    s_.waiting_starts += starts;
    if (!fresh.empty()) ++s_.data_version;
    return {};
  }

  Result<std::optional<Answer>> GetAnswer(const TenantId& tenant,
                                          std::string_view dedupe_key) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    const auto it = s_.answers.find({tenant, std::string(dedupe_key)});
    if (it == s_.answers.end()) return std::optional<Answer>();
    return std::optional(it->second.answer);
  }

  Result<std::int64_t> DataVersion() override {
    const std::lock_guard lock(s_.mutex);
    return s_.data_version;
  }

  std::unique_ptr<Watch> WatchAppends(std::function<void()>) override { return nullptr; }

  // ---- RunQuery

  Result<store::RunRecord> GetRun(const TenantId& tenant, std::string_view reference) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    HEADWORKS_ASSIGN(const auto wanted, store::ParseRunReference(reference));
    const std::lock_guard lock(s_.mutex);
    if (wanted.last) {
      for (const auto& [no, row] : std::views::reverse(s_.runs)) {
        if (row.header.tenant == tenant) return store::RunRecord{row.header};
      }
      return store::NoSuchRun(reference);
    }
    if (wanted.number) {
      if (const RunRow* row = Find(tenant, *wanted.number)) return store::RunRecord{row->header};
    }
    std::vector<std::string> ids;
    for (auto it = s_.run_ids.lower_bound({tenant, wanted.prefix});
         !wanted.prefix.empty() && it != s_.run_ids.end() && it->first.first == tenant &&
         it->first.second.starts_with(wanted.prefix);
         ++it) {
      ids.push_back(it->first.second);
    }
    if (ids.empty()) return store::NoSuchRun(reference);
    if (ids.size() > 1 && ids[0] != wanted.prefix) return store::AmbiguousRun(reference, ids);
    return store::RunRecord{s_.runs.at(s_.run_ids.at({tenant, ids[0]})).header};
  }

  Result<std::vector<store::RunRecord>> ListRuns(const TenantId& tenant,
                                                 const RunFilter& filter) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    std::vector<store::RunRecord> found;
    auto it = filter.before ? s_.runs.lower_bound(*filter.before) : s_.runs.end();
    while (it != s_.runs.begin() && found.size() < filter.limit) {
      const RunHeader& h = (--it)->second.header;
      if (h.tenant == tenant && (!filter.workflow || h.name.workflow == *filter.workflow) &&
          (filter.states.empty() ||
           std::ranges::find(filter.states, h.state) != filter.states.end()) &&
          (!filter.stuck_only || !h.stuck_reason.empty())) {
        found.push_back({h});
      }
    }
    return found;
  }

  Result<std::vector<store::RunRecord>> ListActive(const TenantId& tenant,
                                                   const ActiveFilter& filter) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    std::vector<store::RunRecord> found;
    for (const auto& [no, row] : s_.runs) {
      if (found.size() >= filter.limit) break;
      if (IsActive(row.header, tenant, filter)) found.push_back({row.header});
    }
    return found;
  }

  Result<std::size_t> CountActive(const TenantId& tenant, const ActiveFilter& filter) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    std::size_t found = 0;
    for (const auto& [no, row] : s_.runs) {
      if (found >= filter.limit) break;
      if (IsActive(row.header, tenant, filter)) ++found;
    }
    return found;
  }

  Result<std::vector<Instant>> ListStarts(const model::Namespace& name, std::string_view key,
                                          Instant after) override {
    HEADWORKS_TRY(store::CheckTenant(TenantId(name.tenant)));
    const std::lock_guard lock(s_.mutex);
    std::vector<Instant> starts;
    const std::string text(key);
    auto start = s_.starts.upper_bound({name, text, after, RunNo(INT64_MAX)});
    const auto end = s_.starts.upper_bound({name, text, kNever, RunNo(INT64_MAX)});
    for (; start != end; ++start) starts.push_back(std::get<Instant>(*start));
    return starts;
  }

  Result<std::vector<store::TaskRecord>> ListTasks(const TenantId& tenant, RunNo run,
                                                   std::optional<TaskNo> after,
                                                   std::size_t limit) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    const RunRow* row = Find(tenant, run);
    if (row == nullptr) return NoRun(run);
    std::vector<store::TaskRecord> tasks;
    auto it = after ? row->tasks.upper_bound(*after) : row->tasks.begin();
    for (; it != row->tasks.end() && tasks.size() < limit; ++it) {
      const TaskRow& task = it->second;
      tasks.push_back({task.row, task.executor, task.holder, !task.output.empty()});
    }
    return tasks;
  }

  Result<std::vector<model::AttemptRecord>> ListAttempts(const TenantId& tenant, RunNo run,
                                                         std::optional<TaskNo> task, Epoch after,
                                                         std::size_t limit) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    const RunRow* row = Find(tenant, run);
    if (row == nullptr) return NoRun(run);
    std::vector<model::AttemptRecord> attempts;
    for (auto it = row->attempts.upper_bound(after);
         it != row->attempts.end() && attempts.size() < limit; ++it) {
      if (!task || it->second.task == *task) attempts.push_back(it->second);
    }
    return attempts;
  }

  Result<std::vector<model::RunEventRecord>> ListEvents(const TenantId& tenant, RunNo run,
                                                        std::size_t limit) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    const RunRow* row = Find(tenant, run);
    if (row == nullptr) return NoRun(run);
    const auto count = static_cast<std::ptrdiff_t>(std::min(limit, row->events.size()));
    return std::vector(row->events.end() - count, row->events.end());
  }

  Result<std::vector<store::TaskEnd>> ReadEnds(const TenantId& tenant, RunNo run,
                                               std::span<const TaskNo> tasks) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    const RunRow* row = Find(tenant, run);
    if (row == nullptr) return NoRun(run);
    std::vector<store::TaskEnd> ends(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i)
      if (const auto it = row->tasks.find(tasks[i]); it != row->tasks.end())
        ends[i] = {it->second.row.state, it->second.output};
    return ends;
  }

  Result<std::string> ReadInput(const TenantId& tenant, RunNo run) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    const RunRow* row = Find(tenant, run);
    if (row == nullptr) return NoRun(run);
    return row->input;
  }

  // ---- WorkflowStore

  Status PutVersion(const TenantId& tenant, std::string_view version,
                    std::string_view canonical_json, Instant) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    if (version.empty()) return Error{Code::kInvalidArgument, "no version given"};
    const std::lock_guard lock(s_.mutex);
    if (s_.versions.try_emplace({tenant, std::string(version)}, canonical_json).second) {
      ++s_.data_version;
    }
    return {};
  }

  Result<std::string> GetVersion(const TenantId& tenant, std::string_view version) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    const auto it = s_.versions.find({tenant, std::string(version)});
    if (it == s_.versions.end()) return NoVersion(version);
    return it->second;
  }

  Status Register(const store::WorkflowRecord& record) override {
    const TenantId tenant(record.name.tenant);
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    if (!s_.versions.contains({tenant, record.version})) return NoVersion(record.version);
    s_.workflows[record.name] = record;
    ++s_.data_version;
    return {};
  }

  Result<store::WorkflowRecord> Get(const model::Namespace& name) override {
    HEADWORKS_TRY(store::CheckTenant(TenantId(name.tenant)));
    const std::lock_guard lock(s_.mutex);
    const auto it = s_.workflows.find(name);
    if (it == s_.workflows.end()) return NoWorkflow(name);
    return it->second;
  }

  Result<std::vector<store::WorkflowRecord>> List(const TenantId& tenant) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    std::vector<store::WorkflowRecord> records;
    for (const auto& [name, record] : s_.workflows) {
      if (name.tenant == tenant.value) records.push_back(record);
    }
    return records;
  }

  Status Remove(const model::Namespace& name) override {
    HEADWORKS_TRY(store::CheckTenant(TenantId(name.tenant)));
    const std::lock_guard lock(s_.mutex);
    if (s_.workflows.erase(name) == 0) return NoWorkflow(name);
    ++s_.data_version;
    return {};
  }

  Status SetEnabled(const model::Namespace& name, bool enabled) override {
    HEADWORKS_TRY(store::CheckTenant(TenantId(name.tenant)));
    const std::lock_guard lock(s_.mutex);
    const auto it = s_.workflows.find(name);
    if (it == s_.workflows.end()) return NoWorkflow(name);
    it->second.enabled = enabled;
    ++s_.data_version;
    return {};
  }

  // ---- LimitStore

  Status SetPool(const TenantId& tenant, std::string_view name, int limit, Instant now) override {
    HEADWORKS_TRY(store::CheckPool(tenant, name, limit));
    const std::lock_guard lock(s_.mutex);
    store::PoolRecord& pool = s_.pools[{tenant, std::string(name)}];
    if (pool.declared) return store::DeclaredPool(name);
    pool = {std::string(name), limit, false, now};
    ++s_.data_version;
    return {};
  }

  Status DeletePool(const TenantId& tenant, std::string_view name) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    const auto pool = s_.pools.find({tenant, std::string(name)});
    if (pool == s_.pools.end()) return store::NoSuchPool(name);
    if (pool->second.declared) return store::DeclaredPool(name);
    std::int64_t held = 0;
    for (const auto& [key, permit] : s_.permits)
      if (permit.tenant == tenant && permit.pool == name) held += permit.weight;
    if (held > 0) return store::HeldPool(name, held);
    s_.pools.erase(pool);
    ++s_.data_version;
    return {};
  }

  Status DeclarePools(const TenantId& tenant, const model::PoolLimits& pools,
                      Instant now) override {
    HEADWORKS_TRY(store::CheckPools(tenant, pools));
    const std::lock_guard lock(s_.mutex);
    for (auto& [key, pool] : s_.pools)
      if (key.first == tenant && !pools.contains(key.second)) pool.declared = false;
    for (const auto& [name, limit] : pools) {
      store::PoolRecord& pool = s_.pools[{tenant, name}];
      if (!pool.declared || pool.limit != limit) pool = {name, limit, true, now};
    }
    ++s_.data_version;
    return {};
  }

  Result<std::vector<store::PoolRecord>> ListPools(const TenantId& tenant) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    std::vector<store::PoolRecord> pools;
    for (const auto& [key, pool] : s_.pools)
      if (key.first == tenant) pools.push_back(pool);
    return pools;
  }

  Result<std::vector<store::Permit>> ListPermits(const TenantId& tenant) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    std::vector<store::Permit> permits;
    for (const auto& [key, permit] : s_.permits)
      if (permit.tenant == tenant) permits.push_back(permit);
    return permits;
  }

  Result<std::vector<store::Permit>> ListAllPermits() override {
    const std::lock_guard lock(s_.mutex);
    std::vector<store::Permit> permits;
    permits.reserve(s_.permits.size());
    for (const auto& [key, permit] : s_.permits) permits.push_back(permit);
    return permits;
  }

 private:
  static Error NoVersion(std::string_view version) {
    return {Code::kNotFound, fmt::format("no workflow version {}", version)};
  }
  static Error NoWorkflow(const model::Namespace& name) {
    return {Code::kNotFound, fmt::format("no workflow {}::{}", name.package, name.workflow)};
  }

  bool IsDue(const DueKey& key, std::span<const Shard> shards, Instant until) const {
    const Shard shard = s_.runs.at(std::get<RunNo>(key)).header.shard;
    return std::get<Instant>(key) <= until && std::ranges::find(shards, shard) != shards.end();
  }

  GuardRow& At(Shard shard) { return s_.guards[static_cast<std::size_t>(shard.value)]; }

  Status CheckHeld(const Guard& guard) {
    const GuardRow& row = At(guard.shard);
    if (!row.owner.empty() && row.term == guard.term) return {};
    return Error{Code::kLeaseLost, fmt::format("shard {}: term {} is over (now {}{})",
                                               guard.shard.value, guard.term.value, row.term.value,
                                               row.owner.empty() ? ", released" : "")};
  }

  RunRow* Find(const TenantId& tenant, RunNo run) {
    const auto it = s_.runs.find(run);
    return it == s_.runs.end() || it->second.header.tenant != tenant ? nullptr : &it->second;
  }

  /// In the order in which a store with transactions would find out.
  Status CheckAgainstRows(const store::Round& round) {
    for (const Guard& guard : round.guards) {
      HEADWORKS_TRY(CheckHeld(guard));
      if (const RoundNo stored = At(guard.shard).round; guard.round.value != stored.value + 1) {
        return Error{Code::kLeaseLost,
                     fmt::format("shard {}: round {} does not follow round {}", guard.shard.value,
                                 guard.round.value, stored.value)};
      }
    }
    std::set<TenantKey> new_ids;
    std::set<StartKey> new_start_keys;
    for (const auto& write : round.runs) {
      HEADWORKS_TRY(CheckRunWrite(write, new_ids, new_start_keys));
    }
    for (const auto& key : round.deleted_runs) HEADWORKS_TRY(CheckDelete(key, round.guards));
    std::unordered_set<std::int64_t> seen;
    for (const std::int64_t id : round.consumed) {
      if (!s_.inbox.contains(id) || !seen.insert(id).second) {
        return Error{Code::kConflict,
                     fmt::format("inbox row {} is not there; it was consumed before", id)};
      }
    }
    return {};
  }

  Status CheckRunWrite(const store::RunWrite& write, std::set<TenantKey>& new_ids,
                       std::set<StartKey>& new_start_keys) {
    const RunHeader& h = write.header;
    const RunRow* row = Find(h.tenant, h.run_no);
    if (write.insert_input) {
      const TenantKey id{h.tenant, h.run_id.value};
      const StartKey start_key{h.name, h.start_key};
      if (s_.runs.contains(h.run_no) || s_.run_ids.contains(id) || !new_ids.insert(id).second ||
          (!h.start_key.empty() &&
           (s_.start_keys.contains(start_key) || !new_start_keys.insert(start_key).second))) {
        return Error{Code::kConflict,
                     fmt::format("run {}: its number, id or start key exists", h.run_no.value)};
      }
    } else if (row == nullptr) {
      return NoRun(h.run_no);
    } else if (!write.relist && !ListedAlike(row->header, h)) {
      // Stores that trust the writer would find the run where it no longer is.
      return Error{Code::kInvalidArgument,
                   fmt::format("run {}: what it is listed by has changed", h.run_no.value)};
    }
    for (const auto& task : write.tasks) {
      if (task.known && (row == nullptr || !row->tasks.contains(task.row.task))) {
        return Error{Code::kNotFound, fmt::format("run {}: task {} has no row", h.run_no.value,
                                                  task.row.task.value)};
      }
    }
    std::set<Epoch> new_epochs;
    for (const auto& attempt : write.attempts) {
      if ((row != nullptr && row->attempts.contains(attempt.epoch)) ||
          !new_epochs.insert(attempt.epoch).second) {
        return Error{Code::kConflict, fmt::format("run {}: attempt {} ended before", h.run_no.value,
                                                  attempt.epoch.value)};
      }
    }
    std::set<Epoch> granted;
    for (const auto& grant : write.grants) {
      const bool held = s_.permits.contains({h.tenant, h.run_no, grant.epoch}) &&
                        std::ranges::find(write.freed, grant.epoch) == write.freed.end();
      if (held || !granted.insert(grant.epoch).second) {
        return Error{Code::kConflict, fmt::format("run {}: attempt {} holds a permit already",
                                                  h.run_no.value, grant.epoch.value)};
      }
    }
    return {};
  }

  Status CheckDelete(const store::RunKey& key, const std::vector<Guard>& guards) {
    const RunRow* row = Find(key.tenant, key.run);
    if (row == nullptr) return {};
    if (std::ranges::find(guards, row->header.shard, &Guard::shard) == guards.end()) {
      return Error{Code::kInvalidArgument,
                   fmt::format("round: run {} is on shard {}, which the round does not guard",
                               key.run.value, row->header.shard.value)};
    }
    if (!model::IsTerminal(row->header.state)) {
      return Error{Code::kConflict,
                   fmt::format("run {} is not finished; cancel it first", key.run.value)};
    }
    return {};
  }

  void Apply(const store::RunWrite& write) {
    const RunHeader& h = write.header;
    RunRow& row = s_.runs[h.run_no];
    if (write.insert_input) {
      row.header = h;
      row.input = *write.insert_input;
      s_.run_ids[{h.tenant, h.run_id.value}] = h.run_no;
      if (!h.start_key.empty()) s_.start_keys[{h.name, h.start_key}] = h.run_no;
    } else {
      s_.due.erase(DueKeyOf(row.header));
      Update(row.header, h);
    }
    if (IsDueOnce(row.header)) s_.due.insert(DueKeyOf(row.header));
    for (const auto& task : write.tasks) {
      TaskRow& stored = row.tasks[task.row.task];
      stored.row = task.row;
      stored.executor = task.executor;
      stored.holder = task.holder;
      if (task.output) stored.output = *task.output;
    }
    for (const auto& attempt : write.attempts) {
      auto& stored = row.attempts.emplace(attempt.epoch, attempt).first->second;
      stored.outcome.output.clear();
    }
    row.events.insert(row.events.end(), write.events.begin(), write.events.end());
    if (write.start) NoteStart(h, *write.start);
    for (const Epoch epoch : write.freed) s_.permits.erase({h.tenant, h.run_no, epoch});
    for (const auto& grant : write.grants)
      s_.permits[{h.tenant, h.run_no, grant.epoch}] = {.tenant = h.tenant,
                                                       .pool = grant.pool,
                                                       .run = h.run_no,
                                                       .epoch = grant.epoch,
                                                       .task = grant.task,
                                                       .weight = grant.weight,
                                                       .granted_at = grant.granted_at};
  }

  void NoteStart(const RunHeader& h, const store::RunWrite::Start& start) {
    const auto over = s_.start_ends.upper_bound(start.at);
    for (auto end = s_.start_ends.begin(); end != over; ++end) s_.starts.erase(end->second);
    s_.start_ends.erase(s_.start_ends.begin(), over);
    const RunStart key{h.name, *h.concurrency_key, start.at, h.run_no};
    if (s_.starts.insert(key).second) s_.start_ends.emplace(start.until, key);
  }

  void Delete(const store::RunKey& key) {
    const RunRow* row = Find(key.tenant, key.run);
    if (row == nullptr) return;
    const RunHeader& h = row->header;
    s_.run_ids.erase({h.tenant, h.run_id.value});
    s_.start_keys.erase({h.name, h.start_key});
    s_.due.erase(DueKeyOf(h));
    std::erase_if(s_.permits, [&](const auto& entry) {
      return entry.second.tenant == key.tenant && entry.second.run == key.run;
    });
    s_.runs.erase(key.run);
  }

  void Put(const Answer& answer, Instant now) {
    const TenantKey key{answer.tenant, answer.dedupe_key};
    if (const auto it = s_.waiting_keys.find(key); it != s_.waiting_keys.end()) {
      if (s_.inbox.at(it->second).kind == "start") --s_.waiting_starts;
      s_.inbox.erase(it->second);
      s_.waiting_keys.erase(it);
    }
    s_.answers[key] = {answer, now};
    s_.answer_ages.emplace_back(now, key);
  }

  void Consume(std::int64_t id, Instant now) {
    const auto it = s_.inbox.find(id);
    if (it == s_.inbox.end()) return;  // by its answer
    Put({it->second.tenant, it->second.dedupe_key, {}, it->second.run, {}}, now);
  }

  void ForgetOldAnswers(Instant now) {
    while (!s_.answer_ages.empty() && s_.answer_ages.front().first + kAnswerTtl < now) {
      const auto& [at, key] = s_.answer_ages.front();
      const auto it = s_.answers.find(key);
      if (it != s_.answers.end() && it->second.at == at) s_.answers.erase(it);
      s_.answer_ages.pop_front();
    }
  }

  const std::shared_ptr<Storage> storage_;
  Storage& s_;
  Clock& clock_;
  Logger* const logger_;
  const std::unique_ptr<task_queue::Queues> queues_;
  const std::unique_ptr<store::WorkerStore> workers_;
};

}  // namespace

std::shared_ptr<Storage> NewStorage() { return std::make_shared<Storage>(); }

std::unique_ptr<Database> Open(std::shared_ptr<Storage> storage, Clock& clock, Logger* logger) {
  return std::make_unique<MemoryStore>(std::move(storage), clock, logger);
}

}  // namespace headworks::store_memory
