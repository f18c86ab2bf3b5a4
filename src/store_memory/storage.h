#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "headworks/store/run_store.h"
#include "headworks/store/worker_store.h"
#include "headworks/store_memory/memory_store.h"
#include "headworks/task_queue/bell.h"
#include "headworks/task_queue/rules.h"

namespace headworks::store_memory {

struct GuardRow {
  Term term;
  RoundNo round;
  std::string owner;  // empty = free
  Duration lease_until{};
};

struct TaskRow {
  model::StoredTask row;
  std::string executor;
  std::string holder;
  std::string output;  // empty = none
};

struct RunRow {
  model::RunHeader header;
  std::string input;
  std::map<TaskNo, TaskRow> tasks;
  std::map<Epoch, model::AttemptRecord> attempts;
  std::vector<model::RunEventRecord> events;
};

struct AnswerRow {
  store::Answer answer;
  Instant at;
};

using TenantKey = std::pair<TenantId, std::string>;
using StartKey = std::pair<model::Namespace, std::string>;
using PermitKey = std::tuple<TenantId, RunNo, Epoch>;
/// Tenant, name, incarnation.
using WorkerKey = std::tuple<TenantId, std::string, std::string>;
/// By concurrency key, then when it was.
using RunStart = std::tuple<model::Namespace, std::string, Instant, RunNo>;
/// In ListDue's order, tenant by tenant: when to be woken, -priority, run.
using DueKey = std::tuple<TenantId, Instant, int, RunNo>;

/// A queue, its items, and where to find them.
struct QueueOnDisk {
  task_queue::QueueRow row;
  std::map<task_queue::ItemNo, task_queue::ItemRecord> items;
  std::map<task_queue::ItemNo, std::string> payloads;
  std::map<std::string, task_queue::ItemNo, std::less<>> ids;
  std::set<std::tuple<int, Instant, task_queue::ItemNo>> ready;  // -priority, available at
  std::set<std::tuple<std::int64_t, Duration, task_queue::ItemNo>> leases;        // boot, until
  std::set<std::tuple<task_queue::ItemState, Instant, task_queue::ItemNo>> over;  // ended at
};

class Storage {
 public:
  std::mutex mutex;
  std::array<GuardRow, kShardCount> guards;

  std::map<RunNo, RunRow> runs;
  std::map<TenantKey, RunNo> run_ids;
  std::map<StartKey, RunNo> start_keys;
  std::set<DueKey> due;  // to be woken at some time, and not stuck
  std::int64_t next_run_no = 1;

  std::map<std::int64_t, store::InboxRow> inbox;
  std::map<TenantKey, std::int64_t> waiting_keys;
  std::map<TenantKey, AnswerRow> answers;
  std::deque<std::pair<Instant, TenantKey>> answer_ages;  // in order of answering
  std::int64_t next_inbox_id = 1;
  std::int64_t waiting_starts = 0;

  std::map<TenantKey, store::PoolRecord> pools;
  std::map<PermitKey, store::Permit> permits;
  std::set<RunStart> starts;                    // towards a rate
  std::multimap<Instant, RunStart> start_ends;  // until when each counts

  std::map<TenantKey, std::string> versions;
  std::map<model::Namespace, store::WorkflowRecord> workflows;

  std::map<WorkerKey, store::WorkerRecord> workers;
  std::map<WorkerKey, store::WorkerOrder> worker_orders;

  std::map<TenantKey, QueueOnDisk> queues;
  std::int64_t next_queue_no = 1;
  task_queue::ClockAnchor queue_clock;
  task_queue::Bell bell;

  std::int64_t data_version = 1;
};

}  // namespace headworks::store_memory
