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
  const auto report = CheckDatabase(context.settings().runner.database_url);
  if (!report) return NameStore(context, report.error());
  const bool sound = report->lines.empty();
  PrintReport(context, sound ? "no faults found" : "damaged", *report);
  if (sound) return Exit::kOk;
  return Error{Code::kCorrupt,
               fmt::format("{} is damaged; restore a backup, or copy what can be read with "
                           "`headworks db backup`",
                           StoreName(context.settings().runner))};
}

Result<Exit> BackUpStore(const Context& context, const std::string& target) {
  return Tell(context, fmt::format("copied to {}", target),
              BackUpDatabase(context.settings().runner.database_url, target));
}

Result<Exit> VacuumStore(const Context& context) {
  return Tell(context, "gave free space back",
              VacuumDatabase(context.settings().runner.database_url));
}

Result<Exit> MigrateStore(const Context& context, bool dry_run) {
  return Tell(context, dry_run ? "would be migrated" : "is at this program's level",
              MigrateDatabase(context.settings().runner.database_url, dry_run));
}

}  // namespace headworks::cli
