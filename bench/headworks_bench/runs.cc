/// W1: runs of one task, all there before the engine opens.

#include <fmt/format.h>

#include <array>

#include "floor.h"
#include "site.h"

namespace headworks::bench {
namespace {

struct BurnDownResult {
  Spent spent;
  Written written;  // while it burnt down
};

BurnDownResult Measure(const fs::path& database, std::int64_t runs, model::Action action) {
  Site site(database);
  const auto workflow = SingleTask("single", std::move(action));
  site.options.start_tasks = false;
  site.Open();
  site.Register(workflow);
  site.StartMany("single", runs);
  site.Close();
  const Written before = ReadWritten(database);
  site.options.start_tasks = true;
  const Stopwatch watch;
  site.Open();
  site.AwaitEnds(runs);
  BurnDownResult result{.spent = {watch.Seconds(), watch.Cpu()}};
  site.Close();
  result.written = ReadWritten(database);
  result.written.commits -= before.commits;
  result.written.events -= before.events;
  if (result.written.attempts != runs) Die("W1: attempts are missing");
  return result;
}

}  // namespace

Figures BurnDown(const Options& options) {
  Figures figures;
  const auto measure = [&](std::uint32_t runs) {
    const Scratch scratch(options);
    const double flush = FlushMicros(scratch.path());
    const auto engine =
        Measure(scratch.path() / "engine.db", runs, model::FunctionAction{"nothing"});
    const std::array waves{runs};
    const Spent floor = MeasureFloor(
        scratch.path() / "floor.db",
        {.waves = waves, .run_per_task = true, .events = engine.written.events / runs});
    const std::int64_t rows = std::int64_t{2} * runs + 2 * engine.written.tasks +
                              engine.written.attempts + engine.written.events;
    figures.push_back({.workload = "W1",
                       .what = fmt::format("{} single-task runs, inline", runs),
                       .unit = "runs/s",
                       .engine = runs / engine.spent.seconds,
                       .floor = runs / floor.seconds,
                       .engine_cpu_us = engine.spent.cpu * 1e6 / runs,
                       .floor_cpu_us = floor.cpu * 1e6 / runs,
                       .commits = engine.written.commits,
                       .rows = rows,
                       .aim = "30,000, ratio 0.5",
                       .flush_us = flush});
  };
  measure(options.quick ? 1'000 : 10'000);
  if (!options.quick) measure(100'000);
  if (options.million) measure(1'000'000);
  return figures;
}

Figures BurnDownProcesses(const Options& options) {
  const Scratch scratch(options);
  const std::uint32_t runs = options.quick ? 100 : 2'000;
  const double flush = FlushMicros(scratch.path());
  // Before and after, because the machine drifts.
  const double before = SpawnRate(options.quick ? 0.2 : 1);
  const auto engine = Measure(scratch.path() / "engine.db", runs, model::ExecAction{{"/bin/true"}});
  const double after = SpawnRate(options.quick ? 0.2 : 1);
  return {{.workload = "W1p",
           .what = fmt::format("{} single-task runs of /bin/true; floor: posix_spawn", runs),
           .unit = "runs/s",
           .engine = runs / engine.spent.seconds,
           .floor = (before + after) / 2,
           .commits = engine.written.commits,
           .aim = "ratio 0.85",
           .flush_us = flush}};
}

}  // namespace headworks::bench
