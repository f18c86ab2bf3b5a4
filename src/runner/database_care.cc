#include "headworks/runner/database_care.h"

#include <fmt/format.h>

#include "headworks/store_sqlite/admin.h"

namespace headworks {
namespace {

Result<std::string> PathOf(std::string_view url) {
  if (!url.starts_with("sqlite:"))
    return Error{Code::kInvalidArgument,
                 fmt::format("'{}' is not a database file; name one, sqlite:PATH", url)};
  return std::string(url.substr(7));
}

}  // namespace

Result<CareReport> CheckDatabase(std::string_view url) {
  HEADWORKS_ASSIGN(const std::string path, PathOf(url));
  HEADWORKS_ASSIGN(auto report, store_sqlite::Check(path));
  return CareReport{std::move(report.problems),
                    {{"runs", report.runs},
                     {"tasks", report.tasks},
                     {"attempts", report.attempts},
                     {"waiting_messages", report.waiting_messages},
                     {"queue_items", report.queue_items}}};
}

Result<CareReport> BackUpDatabase(std::string_view url, const std::string& target) {
  HEADWORKS_ASSIGN(const std::string path, PathOf(url));
  HEADWORKS_ASSIGN(const auto report, store_sqlite::Backup(path, target));
  return CareReport{{}, {{"bytes", report.bytes}}};
}

Result<CareReport> VacuumDatabase(std::string_view url) {
  HEADWORKS_ASSIGN(const std::string path, PathOf(url));
  HEADWORKS_ASSIGN(const auto report, store_sqlite::Vacuum(path));
  return CareReport{{},
                    {{"bytes_before", report.bytes_before}, {"bytes_after", report.bytes_after}}};
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
