#include "headworks/store_sqlite/admin.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "headworks/base/file.h"
#include "owner_lock.h"
#include "rows.h"
#include "run_store.h"
#include "schema.h"

namespace headworks::store_sqlite {
namespace {

namespace fs = std::filesystem;

struct Opened {
  std::unique_ptr<Connection> connection;
  Levels levels;
};

Result<Opened> OpenExisting(const std::string& path) {
  std::error_code error;
  const std::string absolute = RealPath(path);
  if (path.empty() || !fs::exists(absolute, error)) {
    return Error{Code::kNotFound, fmt::format("{}: there is no database here", path)};
  }
  Opened opened;
  HEADWORKS_ASSIGN(opened.connection, Connection::Open(absolute, {}));
  auto levels = CheckLevels(*opened.connection, Migrations().back().level);
  if (!levels) return std::move(levels).error();
  opened.levels = *levels;
  return opened;
}

Result<std::int64_t> SizeOf(Connection& c) {
  HEADWORKS_ASSIGN(const auto pages, c.Value<std::int64_t>("PRAGMA page_count"));
  HEADWORKS_ASSIGN(const auto page, c.Value<std::int64_t>("PRAGMA page_size"));
  return pages.value_or(0) * page.value_or(0);
}

// ---- Check

class Checker {
 public:
  Checker(Connection& connection, CheckReport& report) : c_(connection), report_(report) {}

  Status All() {
    HEADWORKS_TRY(Pages());
    HEADWORKS_TRY(Orphans());
    HEADWORKS_TRY(Runs());
    HEADWORKS_TRY(Counters());
    return Totals();
  }

 private:
  void Add(std::string problem) {
    if (report_.problems.size() < CheckReport::kMaxProblems) {
      report_.problems.push_back(std::move(problem));
    }
  }

  Status Pages() {
    return c_.ForEach("PRAGMA integrity_check(50)", [&](Row row) {
      if (auto line = row.Get<std::string>(0); line != "ok") Add(std::move(line));
    });
  }

  Status Orphans() {
    struct Table {
      const char* what;
      const char* sql;
    };
#define HEADWORKS_ORPHANS(table)                                                             \
  "SELECT count(*) FROM " table                                                              \
  " AS t WHERE NOT EXISTS (SELECT 1 FROM run AS r WHERE r.tenant_id = t.tenant_id AND "      \
  "r.run_no = t.run_no) AND NOT EXISTS (SELECT 1 FROM deleted_run AS d WHERE d.tenant_id = " \
  "t.tenant_id AND d.run_no = t.run_no)"
    static constexpr std::array kTables{
        Table{"inputs of no run", HEADWORKS_ORPHANS("run_input")},
        Table{"tasks of no run", HEADWORKS_ORPHANS("task")},
        Table{"attempts of no run", HEADWORKS_ORPHANS("attempt")},
        Table{"live attempts of no run", HEADWORKS_ORPHANS("live_attempt")},
        Table{"events of no run", HEADWORKS_ORPHANS("run_event")},
        Table{"runs without input",
              "SELECT count(*) FROM run AS r WHERE NOT EXISTS (SELECT 1 FROM run_input AS i WHERE "
              "i.tenant_id = r.tenant_id AND i.run_no = r.run_no)"},
        Table{"runs of a version that is not there",
              "SELECT count(*) FROM run AS r WHERE NOT EXISTS (SELECT 1 FROM workflow_version AS v "
              "WHERE v.tenant_id = r.tenant_id AND v.version = r.version)"},
        Table{
            "queue items of no queue",
            "SELECT count(*) FROM queue_item AS i WHERE NOT EXISTS (SELECT 1 FROM queue AS q WHERE "
            "q.tenant_id = i.tenant_id AND q.name = i.queue)"},
        Table{"queue items without payload",
              "SELECT count(*) FROM queue_item AS i WHERE i.state IN (1, 2, 4) AND NOT EXISTS "
              "(SELECT 1 FROM queue_payload AS p WHERE p.tenant_id = i.tenant_id AND p.queue = "
              "i.queue AND p.item_no = i.item_no)"},
        Table{
            "payloads of no queue item",
            "SELECT count(*) FROM queue_payload AS p WHERE NOT EXISTS (SELECT 1 FROM queue_item AS "
            "i WHERE i.tenant_id = p.tenant_id AND i.queue = p.queue AND i.item_no = p.item_no "
            "AND i.state IN (1, 2, 4))"},
        Table{"queues whose counts do not fit their items",
              "SELECT count(*) FROM queue AS q WHERE (q.pending, q.processing, q.dead) IS NOT "
              "(SELECT count(*) FILTER (WHERE i.state = 1), count(*) FILTER (WHERE i.state = 2), "
              "count(*) FILTER (WHERE i.state = 4) FROM queue_item AS i WHERE i.tenant_id = "
              "q.tenant_id AND i.queue = q.name)"},
        Table{"workflows that point at a version that is not there",
              "SELECT count(*) FROM workflow AS w WHERE NOT EXISTS (SELECT 1 FROM workflow_version "
              "AS v WHERE v.tenant_id = w.tenant_id AND v.version = w.version)"}};
#undef HEADWORKS_ORPHANS
    for (const Table& table : kTables) {
      HEADWORKS_ASSIGN(const auto count, c_.Value<std::int64_t>(table.sql));
      if (count.value_or(0) > 0) Add(fmt::format("{} {}", *count, table.what));
    }
    return {};
  }

  /// A run's counts, against its task rows: every task that is past `ready` has one.
  Status Runs() {
    return c_.ForEach("SELECT tenant_id, run_no, counts FROM run", [&](Row row) -> Status {
      store::RunKey key;
      std::string encoded;
      row.Read(key.tenant, key.run, encoded);
      Counts stored{};
      if (!DecodeCounts(encoded, stored)) {
        Add(fmt::format("run {}: its counts are damaged", key.run.value));
        return {};
      }
      Counts rows{};
      HEADWORKS_TRY(c_.ForEach(
          "SELECT state, count(*) FROM task WHERE tenant_id = ?1 AND run_no = ?2 GROUP BY state",
          [&](Row group) {
            std::size_t state = 0;
            std::uint32_t count = 0;
            group.Read(state, count);
            if (state < rows.size()) {
              rows[state] = count;
            } else {
              Add(fmt::format("run {}: tasks in the unknown state {}", key.run.value, state));
            }
          },
          key.tenant, key.run));
      constexpr auto kFirstWithRow = static_cast<std::size_t>(model::TaskState::kQueued);
      if (!std::equal(rows.begin() + kFirstWithRow, rows.end(), stored.begin() + kFirstWithRow)) {
        Add(fmt::format("run {}: its counts do not fit its tasks", key.run.value));
      }
      return {};
    });
  }

  Status Counters() {
    struct Rule {
      const char* problem;
      const char* broken;
    };
    static constexpr std::array kRules{
        Rule{"the counter of waiting starts is wrong",
             "SELECT waiting_starts <> (SELECT count(*) FROM inbox WHERE kind = 'start') FROM "
             "store"},
        Rule{"the next run number is in use",
             "SELECT next_run_no <= (SELECT coalesce(max(run_no), 0) FROM run) FROM store"},
        Rule{"the next queue number is in use",
             "SELECT next_queue_no <= (SELECT coalesce(max(max(item_no, claim_no)), 0) FROM "
             "queue_item) FROM store"},
        Rule{"the next inbox id is in use",
             "SELECT next_inbox_id <= (SELECT coalesce(max(id), 0) FROM inbox) FROM store"}};
    for (const Rule& rule : kRules) {
      HEADWORKS_ASSIGN(const auto broken, c_.Value<bool>(rule.broken));
      if (broken.value_or(true)) Add(rule.problem);
    }
    return {};
  }

  Status Totals() {
    return c_.ForEach(
        "SELECT (SELECT count(*) FROM run), (SELECT count(*) FROM task), "
        "(SELECT count(*) FROM attempt), (SELECT count(*) FROM inbox), "
        "(SELECT count(*) FROM queue_item)",
        [&](Row row) {
          row.Read(report_.runs, report_.tasks, report_.attempts, report_.waiting_messages,
                   report_.queue_items);
        });
  }

  Connection& c_;
  CheckReport& report_;
};

// ---- Backup

Status Copy(Connection& from, Connection& to) {
  sqlite3_backup* backup = sqlite3_backup_init(to.handle(), "main", from.handle(), "main");
  if (backup == nullptr) return to.Failure(sqlite3_extended_errcode(to.handle()));
  // In one step: the copy is of one moment, and a writer does not make it start over.
  const int step = sqlite3_backup_step(backup, -1);
  const int finish = sqlite3_backup_finish(backup);
  if (step != SQLITE_DONE) return (step == SQLITE_FULL ? to : from).Failure(step);
  if (finish != SQLITE_OK) return to.Failure(finish);
  return {};
}

Status Verify(Connection& copy) {
  std::string first;
  HEADWORKS_TRY(
      copy.ForEach("PRAGMA quick_check(1)", [&](Row row) { first = row.Get<std::string>(0); }));
  if (first == "ok") return {};
  return Error{Code::kCorrupt,
               fmt::format("{}: the copy is damaged ({}); check the database with `headworks db "
                           "check`, and both disks",
                           copy.path(), first)};
}

}  // namespace

Result<CheckReport> Check(const std::string& path) {
  HEADWORKS_ASSIGN(const Opened opened, OpenExisting(path));
  Connection& c = *opened.connection;
  CheckReport report;
  if (opened.levels.schema < Migrations().back().level) {
    report.problems.push_back(
        fmt::format("level {}, this program's is {}: run `headworks db "
                    "migrate`",
                    opened.levels.schema, Migrations().back().level));
    return report;
  }
  HEADWORKS_TRY(c.Script("PRAGMA query_only = ON"));
  HEADWORKS_ASSIGN(const Transaction transaction, Transaction::BeginRead(c));
  if (const Status status = Checker(c, report).All(); !status) {
    if (status.error().code != Code::kCorrupt) return status.error();
    report.problems.push_back(status.error().message);
  }
  return report;
}

Status ForEachOutput(const std::string& path,
                     const std::function<Status(const StoredOutput&)>& visit) {
  HEADWORKS_ASSIGN(const Opened opened, OpenExisting(path));
  if (opened.levels.schema == 0) return {};
  Connection& c = *opened.connection;
  HEADWORKS_TRY(c.Script("PRAGMA query_only = ON"));
  return c.ForEach(
      "SELECT t.tenant_id, t.run_no, r.run_id, t.task_no, t.output FROM task AS t JOIN run AS r "
      "ON r.tenant_id = t.tenant_id AND r.run_no = t.run_no WHERE t.output IS NOT NULL "
      "ORDER BY t.tenant_id, t.run_no, t.task_no",
      [&](Row row) -> Status {
        StoredOutput stored;
        OwnedPayload output;
        row.Read(stored.tenant, stored.run, stored.run_id, stored.task, output);
        stored.output = output.bytes;
        return visit(stored);
      });
}

Result<BackupReport> Backup(const std::string& path, const std::string& target) {
  HEADWORKS_ASSIGN(const Opened opened, OpenExisting(path));
  const int fd = open(target.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST) {
    return Error{Code::kConflict,
                 fmt::format("{}: exists already; a backup overwrites nothing", target)};
  }
  if (fd < 0) return ToError(SQLITE_CANTOPEN, "", errno, target);
  close(fd);
  const auto copied = [&]() -> Result<BackupReport> {
    HEADWORKS_ASSIGN(const auto copy, Connection::Open(target, {}));
    HEADWORKS_TRY(Copy(*opened.connection, *copy));
    HEADWORKS_TRY(Verify(*copy));
    BackupReport report;
    HEADWORKS_ASSIGN(report.bytes, SizeOf(*copy));
    return report;
  }();
  if (!copied) {
    std::error_code error;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(target + suffix, error);
  }
  return copied;
}

Result<VacuumReport> Vacuum(const std::string& path) {
  HEADWORKS_ASSIGN(const Opened opened, OpenExisting(path));
  Connection& c = *opened.connection;
  HEADWORKS_ASSIGN(const auto lock, OwnerLock::Take(c.path() + ".lock"));
  VacuumReport report;
  HEADWORKS_ASSIGN(report.bytes_before, SizeOf(c));
  for (bool more = opened.levels.schema > 0; more;) {
    HEADWORKS_ASSIGN(Transaction transaction, Transaction::BeginWrite(c));
    HEADWORKS_ASSIGN(more, SweepDeletedRuns(c, 10'000));
    HEADWORKS_TRY(transaction.Commit());
  }
  HEADWORKS_TRY(c.Run("VACUUM"));
  HEADWORKS_TRY(c.Run("PRAGMA wal_checkpoint(TRUNCATE)"));
  HEADWORKS_ASSIGN(report.bytes_after, SizeOf(c));
  return report;
}

Result<MigrateReport> Migrate(const std::string& path, bool dry_run) {
  HEADWORKS_ASSIGN(const Opened opened, OpenExisting(path));
  MigrateReport report{opened.levels.schema, opened.levels.schema, {}};
  std::vector<Migration> missing;
  std::ranges::copy_if(Migrations(), std::back_inserter(missing),
                       [&](auto& m) { return m.level > opened.levels.schema; });
  if (!dry_run && !missing.empty()) {
    HEADWORKS_ASSIGN(missing, ApplyMigrations(*opened.connection, Migrations()));
  }
  for (const Migration& migration : missing) {
    report.to_level = migration.level;
    report.steps.push_back(fmt::format("level {}: {}", migration.level, migration.what));
  }
  return report;
}

Result<std::string> LiveEngine(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return Error{Code::kNotFound, fmt::format("{}: there is no database here", path)};
  }
  return OwnerLock::Holder(RealPath(path) + ".lock");
}

}  // namespace headworks::store_sqlite
