#include "headworks/runner/database_care.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>

#include "headworks/artifact_store_files/file_artifact_store.h"
#include "headworks/base/file.h"
#include "headworks/log_store_sqlite/admin.h"
#include "headworks/model/artifact.h"
#include "headworks/store_sqlite/admin.h"
#include "headworks/store_sqlite/sqlite_store.h"
#include "store_files.h"

namespace headworks {
namespace {

namespace fs = std::filesystem;
using artifact_store::ArtifactStore;

constexpr std::size_t kMostLines = 100;

Result<std::string> PathOf(std::string_view url) {
  if (!url.starts_with("sqlite:"))
    return Error{Code::kInvalidArgument,
                 fmt::format("'{}' is not a database file; name one, sqlite:PATH", url)};
  return RealPath(std::string(url.substr(7)));
}

std::unique_ptr<ArtifactStore> ArtifactsOf(const RunnerOptions& options, const std::string& path) {
  return artifact_store_files::NewFileArtifactStore(ArtifactsPath(options, path));
}

/// An artifact that a row names.
struct Kept {
  artifact_store::Owner owner;
  artifact_store::Blob blob;
  /// "run 7, task number 2: artifact 'report'"
  std::string what;
};

/// All of them.  Listed first and read later: a look at the database that lasts keeps its log from
/// being written back.
Result<std::vector<Kept>> ListKept(const std::string& path) {
  std::vector<Kept> all;
  HEADWORKS_TRY(store_sqlite::ForEachOutput(path, [&](const auto& stored) -> Status {
    HEADWORKS_ASSIGN(const model::TaskResult result, model::ReadResult(stored.output));
    for (const auto& [name, artifact] : result.artifacts)
      all.push_back({.owner = {stored.tenant, stored.run_id},
                     .blob = {.sha256 = artifact.sha256, .size = artifact.size},
                     .what = fmt::format("run {}, task number {}: artifact '{}'", stored.run.value,
                                         stored.task.value, name)});
    return {};
  }));
  return all;
}

/// Reads all of it; what the store says is wrong with it is the error.
Status ReadBlob(ArtifactStore& from, const Kept& kept, artifact_store::Writer* into) {
  HEADWORKS_ASSIGN(const auto reader, from.Open(kept.owner, kept.blob));
  std::vector<char> buffer(std::size_t{256} << 10);
  for (;;) {
    HEADWORKS_ASSIGN(const std::size_t count, reader->Read(buffer));
    if (count == 0) return {};
    if (into == nullptr) continue;
    if (Status written = into->Append({buffer.data(), count}); !written)
      return Error{Code::kInternal, written.error().message};  // not what is wrong with `from`
  }
}

bool IsAbout(const Error& error) {
  return error.code == Code::kNotFound || error.code == Code::kCorrupt;
}

Status CheckArtifacts(const RunnerOptions& options, const std::string& path, CareReport& report) {
  const auto artifacts = ArtifactsOf(options, path);
  const auto kept = ListKept(path);
  if (!kept) {
    if (kept.error().code != Code::kCorrupt) return kept.error();
    report.lines.push_back(kept.error().message);
    return {};
  }
  std::unique_ptr<store_sqlite::Database> now;
  for (const Kept& one : *kept) {
    const Status read = ReadBlob(*artifacts, one, nullptr);
    if (read || report.lines.size() >= kMostLines) continue;
    if (!IsAbout(read.error())) return read.error();
    if (now == nullptr) {
      HEADWORKS_ASSIGN(now, store_sqlite::Open(path, {.create = false}));
    }
    // Its run may have been deleted meanwhile.
    const auto run = now->query().GetRun(one.owner.tenant, one.owner.run.value);
    if (!run && run.error().code == Code::kNotFound) continue;
    report.lines.push_back(fmt::format("{}: {}", one.what, read.error().message));
  }
  report.figures.emplace_back("artifacts", static_cast<std::int64_t>(kept->size()));
  return {};
}

/// What the database in `target` names, from the store's artifacts to those beside `target`.
Status CopyArtifacts(const RunnerOptions& options, const std::string& path,
                     const std::string& target, CareReport& report) {
  const auto from = ArtifactsOf(options, path);
  const auto to = ArtifactsOf({}, target);
  HEADWORKS_ASSIGN(const auto kept, ListKept(target));
  std::int64_t copied = 0;
  for (const Kept& one : kept) {
    HEADWORKS_ASSIGN(const auto writer, to->Begin(one.owner));
    const Status read = ReadBlob(*from, one, writer.get());
    if (!read && !IsAbout(read.error())) return read.error();
    if (!read) {
      report.lines.push_back(fmt::format("{}: {}", one.what, read.error().message));
      continue;
    }
    HEADWORKS_TRY(writer->Commit());
    ++copied;
  }
  report.figures.emplace_back("artifacts", copied);
  return {};
}

}  // namespace

Result<CareReport> CheckDatabase(const RunnerOptions& options) {
  HEADWORKS_ASSIGN(const std::string path, PathOf(options.database_url));
  HEADWORKS_ASSIGN(auto found, store_sqlite::Check(path));
  CareReport report{std::move(found.problems),
                    {{"runs", found.runs},
                     {"tasks", found.tasks},
                     {"attempts", found.attempts},
                     {"waiting_messages", found.waiting_messages},
                     {"queue_items", found.queue_items}}};
  const auto logs = log_store_sqlite::CheckLogs(LogsPath(path));
  if (logs) {
    report.lines.insert(report.lines.end(), logs->problems.begin(), logs->problems.end());
    report.figures.emplace_back("log_lines", logs->lines);
  } else if (logs.error().code != Code::kNotFound) {  // without one, nothing was printed
    return logs.error();
  }
  HEADWORKS_TRY(CheckArtifacts(options, path, report));
  return report;
}

Result<CareReport> BackUpDatabase(const RunnerOptions& options, const std::string& target) {
  HEADWORKS_ASSIGN(const std::string path, PathOf(options.database_url));
  const std::array all{target, LogsPath(target), ArtifactsPath({}, target)};
  std::error_code error;
  for (const std::string& file : all)
    if (fs::exists(file, error))
      return Error{Code::kConflict,
                   fmt::format("{}: exists already; a backup overwrites nothing", file)};
  // What a row names was stored before it (I6), so what is copied after the rows has it.
  HEADWORKS_ASSIGN(const auto database, store_sqlite::Backup(path, target));
  CareReport report{{}, {{"bytes", database.bytes}}};
  const auto rest = [&]() -> Status {
    const auto logs = log_store_sqlite::BackUpLogs(LogsPath(path), LogsPath(target));
    if (logs)
      report.figures.emplace_back("log_bytes", *logs);
    else if (logs.error().code != Code::kNotFound)
      return logs.error();
    return CopyArtifacts(options, path, target, report);
  }();
  if (rest) return report;
  for (const std::string& file : all)
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove_all(file + suffix, error);
  return rest.error();
}

Result<CareReport> VacuumDatabase(const RunnerOptions& options) {
  HEADWORKS_ASSIGN(const std::string path, PathOf(options.database_url));
  HEADWORKS_ASSIGN(const auto vacuum, store_sqlite::Vacuum(path));
  CareReport report{{},
                    {{"bytes_before", vacuum.bytes_before}, {"bytes_after", vacuum.bytes_after}}};
  HEADWORKS_ASSIGN(const auto database, store_sqlite::Open(path, {.create = false}));
  const auto logs = log_store_sqlite::VacuumLogs(
      LogsPath(path), [&](const TenantId& tenant, RunNo run) -> Result<bool> {
        const auto known = database->query().GetRun(tenant, std::to_string(run.value));
        if (!known && known.error().code != Code::kNotFound) return Error(known.error());
        return known.has_value();
      });
  if (logs) {
    report.figures.emplace_back("log_bytes_before", logs->bytes_before);
    report.figures.emplace_back("log_bytes_after", logs->bytes_after);
  } else if (logs.error().code != Code::kNotFound) {
    return logs.error();
  }
  const auto artifacts = ArtifactsOf(options, path);
  HEADWORKS_TRY(SweepArtifacts(*artifacts, database->query(), options.artifact_dir.empty(),
                               [] { return false; }));
  return report;
}

Result<CareReport> MigrateDatabase(std::string_view url, bool dry_run) {
  HEADWORKS_ASSIGN(const std::string path, PathOf(url));
  HEADWORKS_ASSIGN(auto report, store_sqlite::Migrate(path, dry_run));
  return CareReport{std::move(report.steps),
                    {{"from_level", report.from_level}, {"to_level", report.to_level}}};
}

Result<std::string> LiveEngine(std::string_view url) {
  HEADWORKS_ASSIGN(const std::string path, PathOf(url));
  return store_sqlite::LiveEngine(path);
}

}  // namespace headworks
