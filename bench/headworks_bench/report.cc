/// The disk that everything is read by, the table and the JSON.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "bench.h"

namespace headworks::bench {
namespace json = boost::json;

void Die(std::string_view what) {
  fmt::print(stderr, "headworks-bench: {}\n", what);
  std::exit(1);
}

Scratch::Scratch(const Options& options) {
  constexpr auto kTmpfs = 0x01021994;
  struct statfs where{};
  if (statfs(options.folder.c_str(), &where) != 0) Die("no folder " + options.folder.string());
  if (where.f_type == kTmpfs)
    Die(options.folder.string() + " is in memory, where a flush costs nothing; give --folder PATH");
  std::string name = (options.folder / "headworks-bench-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) Die("cannot make a folder in " + options.folder.string());
  path_ = name;
}

Scratch::~Scratch() {
  std::error_code ignored;  // what is left is only in the way
  fs::remove_all(path_, ignored);
}

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double FlushMicros(const fs::path& folder) {
  const fs::path file = folder / "flush";
  const int fd = open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) Die("cannot create " + file.string());
  const std::string page(4096, 'x');
  std::vector<double> micros;
  for (const Stopwatch all; all.Seconds() < 0.3;) {
    const Stopwatch watch;
    if (pwrite(fd, page.data(), page.size(), 0) < 0 || fdatasync(fd) != 0) Die("cannot write");
    micros.push_back(watch.Seconds() * 1e6);
  }
  close(fd);
  std::ranges::sort(micros);
  return micros[micros.size() / 2];
}

namespace {

std::string Number(std::optional<double> value) {
  if (!value) return "-";
  if (*value >= 1'000) return fmt::format("{:.0f}", *value);
  return *value >= 10 ? fmt::format("{:.1f}", *value) : fmt::format("{:.3f}", *value);
}

json::value OrNull(const auto& value) {
  if (value) return *value;
  return nullptr;
}

}  // namespace

void PrintHeading() {
  fmt::print("{:<4} {:<58} {:>8} {:>8} {:>7} {:>6} {:>7} {:>7} {:>7} {:>6}  {}\n", "", "workload",
             "engine", "floor", "unit", "ratio", "cpu us", "floor", "commits", "flush", "aim");
}

void Print(const Figure& f) {
  fmt::print("{:<4} {:<58} {:>8} {:>8} {:>7} {:>6} {:>7} {:>7} {:>7} {:>6.0f}  {}\n", f.workload,
             f.what, Number(f.engine), Number(f.floor), f.unit,
             f.ratio() ? fmt::format("{:.2f}", *f.ratio()) : "-", Number(f.engine_cpu_us),
             Number(f.floor_cpu_us), f.commits ? fmt::format("{}", *f.commits) : "-", f.flush_us,
             f.aim);
  std::fflush(stdout);
}

bool WriteJson(const Figures& figures, const std::string& path) {
  json::array list;
  for (const Figure& f : figures)
    list.push_back({{"workload", f.workload},
                    {"what", f.what},
                    {"unit", f.unit},
                    {"engine", f.engine},
                    {"floor", OrNull(f.floor)},
                    {"ratio", OrNull(f.ratio())},
                    {"engine_cpu_us_per_task", OrNull(f.engine_cpu_us)},
                    {"floor_cpu_us_per_task", OrNull(f.floor_cpu_us)},
                    {"commits", OrNull(f.commits)},
                    {"rows", OrNull(f.rows)},
                    {"fdatasync_p50_us", f.flush_us},
                    {"aim", f.aim}});
  utsname machine{};
  uname(&machine);
  const json::object report{{"processors", std::thread::hardware_concurrency()},
                            {"kernel", machine.release},
                            {"figures", std::move(list)}};
  std::ofstream file(path);
  file << report << "\n";
  return file.good();
}

}  // namespace headworks::bench
