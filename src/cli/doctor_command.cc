#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "commands.h"
#include "output.h"

namespace headworks::cli {
namespace {

namespace fs = std::filesystem;

struct Finding {
  std::string what;
  bool good = true;
  std::string detail;
};

/// The nearest folder above `path` that exists: where the store is, or would be made.
fs::path ExistingFolder(fs::path path) {
  std::error_code ignored;
  while (!path.empty() && !fs::is_directory(path, ignored) && path != path.parent_path())
    path = path.parent_path();
  return path;
}

Finding FindSpace(const fs::path& folder) {
  constexpr std::uint64_t kLeast = std::uint64_t{256} << 20;
  struct statvfs disk{};
  if (statvfs(folder.c_str(), &disk) != 0)
    return {"disk space", false, fmt::format("{}: {}", folder.string(), std::strerror(errno))};
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  return {"disk space", free >= kLeast,
          fmt::format("{} MiB free in {}{}", free >> 20, folder.string(),
                      free >= kLeast ? "" : "; make room, a full disk stops all runs")};
}

/// What the last run printed can be read; `db check` reads all of it.
Finding FindLogs(const Context& context, Runner& runner, const model::RunHeader* last) {
  const std::string path = StoreName(context.settings().runner) + "-logs";
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (error) return {"logs", false, fmt::format("{}: {}", path, error.message())};
  if (last != nullptr) {
    const auto page =
        runner.logs().Tail({.tenant = context.tenant(), .run = last->run_no, .max_lines = 100});
    if (!page) return {"logs", false, page.error().message};
  }
  return {"logs", true, fmt::format("{} MiB in {}", bytes >> 20, path)};
}

Finding FindArtifacts(const Runner& runner) {
  const fs::path folder = runner.options().artifact_dir;
  std::error_code error;
  const bool there = fs::exists(folder, error);
  const fs::path nearest = ExistingFolder(folder);
  if (access(nearest.c_str(), R_OK | W_OK | X_OK) != 0)
    return {"artifacts", false, fmt::format("{}: {}", nearest.string(), std::strerror(errno))};
  Finding space = FindSpace(nearest);
  return {"artifacts", space.good,
          there ? std::move(space.detail)
                : fmt::format("none yet in {}; {}", folder.string(), space.detail)};
}

/// The database, and what belongs to it.
void FindStore(const Context& context, std::vector<Finding>& findings) {
  const auto runner = AttachRunner(context);
  if (!runner) {
    const bool none = runner.error().code == Code::kNotFound;
    findings.push_back({"store", none, runner.error().message});
    return;
  }
  const auto runs = (*runner)->query().ListRuns(context.tenant(), {.limit = 1});
  if (!runs) {
    findings.push_back({"store", false, NameStore(context, runs.error()).message});
    return;
  }
  const model::RunHeader* const last = runs->empty() ? nullptr : &runs->front().header;
  findings.push_back(
      {"store", true,
       fmt::format(
           "{} can be read, {}", StoreName(context.settings().runner),
           last == nullptr ? "no runs yet" : fmt::format("last run {}", last->run_no.value))});
  findings.push_back(FindLogs(context, **runner, last));
  findings.push_back(FindArtifacts(**runner));
}

Finding CheckEngine(const Context& context) {
  const auto engine = FindEngine(context);
  if (!engine) return {"engine", false, engine.error().message};
  return {"engine", true,
          engine->empty() ? "none is running; one can start"
                          : fmt::format("{} is the engine of this store", *engine)};
}

/// What one durable commit costs: every hop of a run waits for it.
Finding MeasureSync(const Context& context, const fs::path& folder) {
  const std::string path = (folder / fmt::format(".headworks-doctor-{}", getpid())).string();
  const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0)
    return {"durable write", false,
            fmt::format("cannot write in {}: {}", folder.string(), std::strerror(errno))};
  constexpr int kRounds = 21;
  std::vector<Duration> times;
  const std::string block(4'096, 'x');
  bool good = true;
  for (int i = 0; i < kRounds && good; ++i) {
    const Duration began = context.clock.Monotonic();
    good = write(fd, block.data(), block.size()) == static_cast<ssize_t>(block.size()) &&
           fdatasync(fd) == 0;
    times.push_back(context.clock.Monotonic() - began);
  }
  const std::string why = std::strerror(errno);
  close(fd);
  unlink(path.c_str());
  if (!good) return {"durable write", false, fmt::format("{}: {}", folder.string(), why)};
  std::ranges::nth_element(times, times.begin() + kRounds / 2);
  return {"durable write", true,
          fmt::format("{} (median of {} times 4 KiB with fdatasync)",
                      FormatDuration(times[kRounds / 2]), kRounds)};
}

Finding FindClock(const Context& context) {
  constexpr Instant kBuilt{std::chrono::sys_days{std::chrono::year{2025} / 1 / 1}};
  const Instant now = context.clock.Now();
  return {"clock", now > kBuilt,
          now > kBuilt ? FormatInstant(now)
                       : fmt::format("{} is before this program was made; set the time",
                                     FormatInstant(now))};
}

Finding CheckSupervisor(const Context& context) {
  const auto path = FindSupervisor(context.options());
  return {"supervisor", path.has_value(), path ? *path : path.error().message};
}

/// Only told: commands are supervised without a cgroup, too.
Finding FindCgroup() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  std::string all;
  while (std::getline(file, line)) all += (all.empty() ? "" : " ") + line;
  const bool version2 = all.starts_with("0::") && all.find(' ') == std::string::npos;
  return {
      "cgroup", true,
      all.empty() ? "none" : fmt::format("version {}: {}", version2 ? 2 : 1, FitToWidth(all, 60))};
}

}  // namespace

Result<Exit> Doctor(const Context& context) {
  const bool on_disk = context.settings().runner.database_url.starts_with("sqlite:");
  std::vector<Finding> findings{{"version", true, "headworks " HEADWORKS_VERSION}};
  if (on_disk) {
    const fs::path folder =
        ExistingFolder(fs::path(StoreName(context.settings().runner)).parent_path());
    findings.push_back(FindSpace(folder));
    findings.push_back(MeasureSync(context, folder));
    FindStore(context, findings);
    findings.push_back(CheckEngine(context));
  }
  findings.push_back(FindClock(context));
  findings.push_back(CheckSupervisor(context));
  findings.push_back(FindCgroup());

  const bool good = std::ranges::all_of(findings, &Finding::good);
  if (context.wants_table()) {
    for (const Finding& finding : findings)
      Print(fmt::format("{:<5} {:<14} {}\n", finding.good ? "ok" : "BAD", finding.what,
                        finding.detail));
  } else {
    boost::json::array list;
    for (const Finding& finding : findings)
      list.emplace_back(boost::json::object{
          {"check", finding.what}, {"ok", finding.good}, {"detail", finding.detail}});
    PrintValue(context.settings().output, list);
  }
  return good ? Exit::kOk : Exit::kUnavailable;
}

}  // namespace headworks::cli
