#include <fmt/format.h>

#include <boost/json.hpp>

#include "commands.h"
#include "headworks/runner/database_care.h"
#include "output.h"

namespace headworks::cli {
namespace {

namespace json = boost::json;

/// The lines, then the figures; `done` is said on top.
void PrintReport(const Context& context, std::string_view done, const CareReport& report) {
  if (context.wants_table()) {
    std::string text = fmt::format("{}: {}\n", StoreName(context.settings().runner), done);
    for (const std::string& line : report.lines) text += fmt::format("  {}\n", line);
    for (const auto& [name, figure] : report.figures)
      text += fmt::format("  {} {}\n", name, figure);
    Print(text);
    return;
  }
  json::object object{{"store", StoreName(context.settings().runner)},
                      {"lines", json::value_from(report.lines)}};
  for (const auto& [name, figure] : report.figures) object[name] = figure;
  PrintValue(context.settings().output, object);
}

/// Reports what succeeded; names the store in what did not.
Result<Exit> Tell(const Context& context, std::string_view done, const Result<CareReport>& report) {
  if (!report) return NameStore(context, report.error());
  PrintReport(context, done, *report);
  return Exit::kOk;
}

}  // namespace

Result<Exit> CheckStore(const Context& context) {
  const auto report = CheckDatabase(context.settings().runner);
  if (!report) return NameStore(context, report.error());
  const bool sound = report->lines.empty();
  PrintReport(context, sound ? "no faults found" : "damaged", *report);
  if (sound) return Exit::kOk;
  return Error{Code::kCorrupt,
               fmt::format("{}, or what belongs to it, is damaged: restore a backup. Damaged logs "
                           "can be moved away, and `headworks runs rerun` makes artifacts anew",
                           StoreName(context.settings().runner))};
}

Result<Exit> BackUpStore(const Context& context, const std::string& target) {
  const auto report = BackUpDatabase(context.settings().runner, target);
  if (!report) return NameStore(context, report.error());
  PrintReport(context, fmt::format("copied to {}", target), *report);
  if (report->lines.empty()) return Exit::kOk;
  return Error{Code::kCorrupt,
               fmt::format("{} lacks {} {} that could not be read; `headworks db check` of {} says "
                           "why, and `headworks runs rerun` makes them anew",
                           target, report->lines.size(),
                           report->lines.size() == 1 ? "artifact" : "artifacts",
                           StoreName(context.settings().runner))};
}

Result<Exit> VacuumStore(const Context& context) {
  return Tell(context, "gave free space back", VacuumDatabase(context.settings().runner));
}

Result<Exit> MigrateStore(const Context& context, bool dry_run) {
  return Tell(context, dry_run ? "would be migrated" : "is at this program's level",
              MigrateDatabase(context.settings().runner.database_url, dry_run));
}

}  // namespace headworks::cli
