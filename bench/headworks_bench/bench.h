#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// One program that measures the engine beside its floor, so that both see the same machine.
///
/// The floor of a workload is a program that only writes the same rows, to the same schema, in
/// commits of the same bound, with bare prepared statements: nothing durable can be faster.
namespace headworks::bench {

namespace fs = std::filesystem;

struct Options {
  /// Must be on a real disk: on tmpfs a flush costs nothing.
  fs::path folder;
  /// Small numbers, to see that everything works.
  bool quick = false;
  /// W1 with 1,000,000 runs.
  bool million = false;
};

/// One line of the table.
struct Figure {
  std::string workload;
  std::string what;
  std::string unit;
  double engine = 0;
  std::optional<double> floor;
  /// "ms" is better when small, a rate when large; the ratio is 1 where the engine is as fast as
  /// its floor, 0.5 where it takes twice as long.
  bool smaller_is_better = false;
  /// Processor time of all threads for one task, which says more than the clock on a busy machine.
  std::optional<double> engine_cpu_us;
  std::optional<double> floor_cpu_us;
  std::optional<std::int64_t> commits;
  std::optional<std::int64_t> rows;
  std::string aim;
  /// Median of one overwrite of 4 KiB with fdatasync, just before.
  double flush_us = 0;

  std::optional<double> ratio() const {
    if (!floor || *floor == 0 || engine == 0) return std::nullopt;
    return smaller_is_better ? *floor / engine : engine / *floor;
  }
};

using Figures = std::vector<Figure>;

struct Workload {
  std::string_view name;
  std::string_view about;
  Figures (*run)(const Options& options);
};

// runs.cc
Figures BurnDown(const Options& options);
Figures BurnDownProcesses(const Options& options);
// rounds.cc
Figures StoreRoundsAlone(const Options& options);
// shapes.cc
Figures Chain(const Options& options);
Figures Fan(const Options& options);
Figures Shapes(const Options& options);
// steady.cc
Figures Latency(const Options& options);
Figures Idle(const Options& options);
Figures WaitingMemory(const Options& options);
// recovery.cc
Figures Recovery(const Options& options);
/// The child of Recovery: makes runs until it is killed.
int RecoveryChild(const std::string& path, int runs);
// dispatch.cc
Figures DispatchCost(const Options& options);
// limits.cc
Figures LimitCost(const Options& options);
// language.cc
Figures LanguageCost(const Options& options);
// queue.cc
Figures QueueItems(const Options& options);
// worker.cc
Figures RemoteWorkers(const Options& options);
// spawn.cc
Figures ProgramStart(const Options& options);
/// Bare starts and waits of /bin/true a second.
double SpawnRate(double seconds);

// report.cc
void PrintHeading();
void Print(const Figure& figure);
bool WriteJson(const Figures& figures, const std::string& path);
double FlushMicros(const fs::path& folder);

/// Ends the program: a benchmark that goes wrong has no figure.
[[noreturn]] void Die(std::string_view what);

/// A folder of its own, removed at the end.
class Scratch {
 public:
  explicit Scratch(const Options& options);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Processor time of this program so far.
double CpuSeconds();

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  double Cpu() const { return CpuSeconds() - cpu_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double cpu_ = CpuSeconds();
};

struct Spent {
  double seconds = 0;
  double cpu = 0;
};

}  // namespace headworks::bench
