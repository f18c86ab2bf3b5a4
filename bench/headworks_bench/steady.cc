/// W5 and W8: latency under load, the cost of doing nothing, and of waiting.

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>
#include <unordered_map>

#include "headworks/dag_gen/dag_gen.h"
#include "site.h"

namespace headworks::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// From the instant at which a run was to be started until its end is known, so that a start that
/// had to wait counts too.  At a fixed rate, whatever the engine does.
std::vector<double> LatenciesAt(const Options& options, double rate, double seconds) {
  const Scratch scratch(options);
  Site site(scratch.path() / "engine.db");
  std::unordered_map<RunNo, Clock::time_point> begun;  // control thread only
  std::vector<double> millis;                          // likewise, until all have ended
  site.watch = [&](const RunEvent& event) {
    if (event.task || !model::IsTerminal(event.run_state)) return;
    millis.push_back(
        std::chrono::duration<double, std::milli>(Clock::now() - begun.at(event.run)).count());
  };
  site.Open();
  site.Register(SingleTask("single", model::FunctionAction{"nothing"}));
  const auto count = static_cast<std::int64_t>(rate * seconds);
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto due = start + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(static_cast<double>(i) / rate));
    std::this_thread::sleep_until(due);
    site.runner().StartAsync("single", {}, [&, due](const Result<RunHandle>& handle) {
      if (!handle) Die(handle.error().message);
      begun.emplace(handle->run(), due);
    });
  }
  site.AwaitEnds(count);
  site.Close();
  std::ranges::sort(millis);
  return millis;
}

}  // namespace

Figures Latency(const Options& options) {
  const Figure burn_down = BurnDown({.folder = options.folder, .quick = true}).front();
  Figures figures;
  for (const int percent : {10, 70}) {
    const double rate = burn_down.engine * percent / 100;
    const auto millis = LatenciesAt(options, rate, options.quick ? 1 : 5);
    for (const auto& [name, quantile] : {std::pair{"p50", 0.5}, std::pair{"p99", 0.99}}) {
      const auto at = static_cast<std::size_t>(quantile * static_cast<double>(millis.size() - 1));
      figures.push_back({.workload = "W5",
                         .what = fmt::format("start to end, {} at {} % of W1 ({:.0f} runs/s)", name,
                                             percent, rate),
                         .unit = "ms",
                         .engine = millis[at],
                         .flush_us = burn_down.flush_us});
    }
  }
  return figures;
}

Figures Idle(const Options& options) {
  const Scratch scratch(options);
  const double flush = FlushMicros(scratch.path());
  Site site(scratch.path() / "engine.db");
  site.Open();
  const double seconds = options.quick ? 2 : 15;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // what opening leaves to do
  const Stopwatch watch;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return {{.workload = "W5",
           .what = "processor time of an open runner without work",
           .unit = "ms/min",
           .engine = watch.Cpu() / watch.Seconds() * 60 * 1e3,
           .flush_us = flush}};
}

Figures WaitingMemory(const Options& options) {
  constexpr std::uint32_t kTasks = 100'000;
  const int runs = options.quick ? 2 : 8;
  const Scratch scratch(options);
  const double flush = FlushMicros(scratch.path());
  Site site(scratch.path() / "engine.db");
  // Everything waits for a first task that does not end.
  auto definition = dag_gen::Generate(
      {.shape = dag_gen::Shape::kFan, .size = kTasks, .action = model::FunctionAction{"nothing"}});
  if (!definition) Die(definition.error().message);
  definition->tasks.front().action = model::FunctionAction{"hold"};
  site.Open();
  const auto workflow = model::Workflow::Create(*std::move(definition));
  if (!workflow) Die(workflow.error().message);
  const std::string name = (*workflow)->name().workflow;
  site.Register(*workflow);
  const double empty = ResidentBytes();
  site.StartMany(name, 1);
  malloc_trim(0);
  const double first = ResidentBytes();
  site.StartMany(name, runs);
  malloc_trim(0);
  const double each = (ResidentBytes() - first) / runs;
  site.Close();
  return {{.workload = "W8",
           .what = "memory for 100,000 waiting tasks of a known workflow",
           .unit = "MB",
           .engine = each / 1e6,
           .smaller_is_better = true,
           .aim = "6.4 MB",
           .flush_us = flush},
          {.workload = "W8",
           .what = "the same, of the first run (with its workflow)",
           .unit = "MB",
           .engine = (first - empty) / 1e6,
           .smaller_is_better = true,
           .flush_us = flush}};
}

}  // namespace headworks::bench
