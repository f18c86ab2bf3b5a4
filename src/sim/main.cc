// headworks-sim: runs random schedules of the engine and says which seeds break an invariant.

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

#include "headworks/sim/queue_schedule.h"
#include "headworks/sim/schedule.h"

namespace {

constexpr std::string_view kUsage =
    "usage: headworks-sim [--seeds N] [--first S] [--store memory|sqlite] [--restart] [--plain] "
    "[--no-limits] [--no-workers]\n"
    "       headworks-sim --seed S [--trace] [--store memory|sqlite] [--restart] [--plain] "
    "[--no-limits] [--no-workers]\n"
    "       headworks-sim --queue [--seeds N] [--first S | --seed S [--trace]]\n"
    "\n"
    "  --seeds N     run N schedules (1000)\n"
    "  --first S     beginning with this seed (1)\n"
    "  --seed S      run this one only\n"
    "  --trace       say every step of it\n"
    "  --store KIND  memory (default) or sqlite\n"
    "  --restart     the engine's process ends after every commit\n"
    "  --plain       no task has a condition or a deadline\n"
    "  --no-limits   no pools and no concurrency keys\n"
    "  --no-workers  nothing goes to workers that come for it\n"
    "  --queue       durable queues alone, without an engine; runs are items then, rounds calls\n";

struct Arguments {
  std::uint64_t first = 1;
  std::uint64_t seeds = 1'000;
  headworks::sim::ScheduleOptions schedule;
  headworks::sim::ScheduleResult (*run)(const headworks::sim::ScheduleOptions&) =
      headworks::sim::RunSchedule;
};

std::optional<std::uint64_t> Number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Arguments> Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--trace") {
      arguments.schedule.trace = true;
      continue;
    }
    if (flag == "--restart") {
      arguments.schedule.restart_after_each_commit = true;
      continue;
    }
    if (flag == "--no-limits") {
      arguments.schedule.limits = false;
      continue;
    }
    if (flag == "--queue") {
      arguments.run = headworks::sim::RunQueueSchedule;
      continue;
    }
    if (flag == "--no-workers") {
      arguments.schedule.workers = false;
      continue;
    }
    if (flag == "--plain") {
      arguments.schedule.plain = true;
      continue;
    }
    if (i + 1 == argc) return std::nullopt;
    const std::string_view value = argv[++i];
    if (flag == "--store") {
      if (value != "memory" && value != "sqlite") return std::nullopt;
      arguments.schedule.store = value == "memory" ? headworks::sim::StoreKind::kMemory
                                                   : headworks::sim::StoreKind::kSqlite;
      continue;
    }
    const auto number = Number(value);
    if (!number) return std::nullopt;
    if (flag == "--seeds") {
      arguments.seeds = *number;
    } else if (flag == "--first") {
      arguments.first = *number;
    } else if (flag == "--seed") {
      arguments.first = *number;
      arguments.seeds = 1;
    } else {
      return std::nullopt;
    }
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = Parse(argc, argv);
  if (!arguments) {
    std::fputs(kUsage.data(), stderr);
    return 2;
  }
  constexpr std::uint64_t kMostTraces = 5;
  std::uint64_t passed = 0, failed = 0, rounds = 0, crashes = 0, runs = 0, alerts = 0;
  for (std::uint64_t n = 0; n < arguments->seeds; ++n) {
    auto options = arguments->schedule;
    options.seed = arguments->first + n;
    auto result = arguments->run(options);
    rounds += result.rounds;
    crashes += result.crashes;
    runs += result.runs;
    alerts += result.alerts;
    if (result.violation.empty()) {
      ++passed;
      if (options.trace)
        for (const auto& line : result.trace) fmt::print("{}\n", line);
      continue;
    }
    if (++failed <= kMostTraces && !options.trace) {
      options.trace = true;
      result = arguments->run(options);
    }
    for (const auto& line : result.trace) fmt::print("{}\n", line);
    fmt::print("seed {}: {}\n", options.seed, result.violation);
    std::fflush(stdout);
  }
  fmt::print("{} runs, {} rounds, {} crashes, {} alerts\n{} passed, {} failed\n", runs, rounds,
             crashes, alerts, passed, failed);
  return failed == 0 ? 0 : 1;
}
