#include "inbox.h"

#include <fmt/format.h>

#include <utility>

#include "doorbell.h"
#include "headworks/store/checks.h"

namespace headworks::store_sqlite {
namespace {

struct Counters {
  std::int64_t next_id = 0;
  std::int64_t waiting_starts = 0;
  bool operator==(const Counters&) const = default;
};

/// Inserts what is new of `rows`.  kAtCapacity: some of them stand in the table; roll back.
Status Insert(Connection& c, std::span<const store::InboxRow> rows, Counters& counters) {
  for (const store::InboxRow& row : rows) {
    HEADWORKS_TRY(c.Run(
        "INSERT INTO inbox (id, tenant_id, dedupe_key, shard, kind, run_no, appended_at, payload) "
        "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 "
        "WHERE NOT EXISTS (SELECT 1 FROM answer WHERE tenant_id = ?2 AND dedupe_key = ?3) "
        "ON CONFLICT DO NOTHING",
        counters.next_id, row.tenant, row.dedupe_key, row.shard, row.kind, row.run, row.appended_at,
        Payload{row.payload}));
    if (c.Changes() == 0) continue;
    ++counters.next_id;
    if (row.kind == "start" && ++counters.waiting_starts > store::Inbox::kMaxStarts) {
      return Error{Code::kAtCapacity,
                   fmt::format("{} starts wait already; try again when some are through",
                               store::Inbox::kMaxStarts)};
    }
  }
  return {};
}

/// The same in a savepoint: all of `rows` or none.
Status InsertAll(Connection& c, std::span<const store::InboxRow> rows, Counters& counters) {
  const Counters before = counters;
  HEADWORKS_TRY(c.Run("SAVEPOINT append"));
  Status status = Insert(c, rows, counters);
  if (!status) {
    counters = before;
    HEADWORKS_TRY(c.Run("ROLLBACK TO append"));
  }
  HEADWORKS_TRY(c.Run("RELEASE append"));
  return status;
}

}  // namespace

Status SqliteInbox::Append(std::span<const store::InboxRow> rows) {
  HEADWORKS_TRY(store::CheckInboxRows(rows));
  Waiting mine{rows, {}, false};
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back(&mine);
  }
  const std::lock_guard lock(core_.writer_mutex());
  if (!mine.done) {
    std::vector<Waiting*> batch;
    {
      const std::lock_guard queue_lock(queue_mutex_);
      batch.swap(queue_);
    }
    Store(batch);
    if (const std::string bell = core_.DoorbellPath(); !bell.empty()) RingDoorbell(bell);
  }
  return std::move(mine.result);
}

void SqliteInbox::Store(std::span<Waiting* const> batch) {
  bool began = false;
  const Status stored = core_.WriteLocked([&](Connection& c) -> Status {
    began = true;
    Counters counters;
    HEADWORKS_TRY(c.ForEach("SELECT next_inbox_id, waiting_starts FROM store",
                            [&](Row row) { row.Read(counters.next_id, counters.waiting_starts); }));
    const Counters before = counters;
    for (Waiting* waiting : batch) {
      waiting->result = InsertAll(c, waiting->rows, counters);
      if (!waiting->result && waiting->result.error().code != Code::kAtCapacity) {
        return waiting->result;
      }
    }
    if (counters == before) return {};
    return c.Run("UPDATE store SET next_inbox_id = ?1, waiting_starts = ?2", counters.next_id,
                 counters.waiting_starts);
  });
  // One that cannot be stored must not fail those that it met: each alone.  The keys make a second
  // try harmless.  Where not even a transaction could be begun, each would only wait as long again.
  if (!stored && began && batch.size() > 1) {
    for (Waiting* const& waiting : batch) Store(std::span(&waiting, 1));
    return;
  }
  for (Waiting* waiting : batch) {
    if (!stored) waiting->result = stored;
    waiting->done = true;
  }
}

std::unique_ptr<store::Inbox::Watch> SqliteInbox::WatchAppends(std::function<void()> appended) {
  const std::string bell = core_.DoorbellPath();
  return bell.empty() ? nullptr : HangDoorbell(bell, std::move(appended));
}

Result<std::optional<store::Answer>> SqliteInbox::GetAnswer(const TenantId& tenant,
                                                            std::string_view dedupe_key) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<std::optional<store::Answer>> {
    std::optional<store::Answer> answer;
    HEADWORKS_TRY(c.ForEach(
        "SELECT tenant_id, dedupe_key, run_no, run_id, code, message FROM answer "
        "WHERE tenant_id = ?1 AND dedupe_key = ?2",
        [&](Row row) {
          std::optional<Code> code;
          std::string message;
          answer.emplace();
          row.Read(answer->tenant, answer->dedupe_key, answer->run, answer->run_id, code, message);
          if (code) answer->error = Error{*code, std::move(message)};
        },
        tenant, dedupe_key));
    return answer;
  });
}

}  // namespace headworks::store_sqlite
