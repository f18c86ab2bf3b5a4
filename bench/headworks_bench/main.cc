#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string>

#include "bench.h"

namespace headworks::bench {
namespace {

constexpr std::array kWorkloads{
    Workload{"W1", "burn-down of single-task runs, inline", BurnDown},
    Workload{"W1p", "burn-down of single-task runs, commands", BurnDownProcesses},
    Workload{"W3", "chain", Chain},
    Workload{"W4", "fan out and in", Fan},
    Workload{"W5", "latency under load", Latency},
    Workload{"idle", "cost of an open runner", Idle},
    Workload{"W6", "recovery after kill -9", Recovery},
    Workload{"W7", "shapes of real workflows; more from the folder $HEADWORKS_DAGS", Shapes},
    Workload{"W8", "memory of waiting tasks", WaitingMemory},
    Workload{"disp", "the way from the engine to an executor", DispatchCost},
    Workload{"lim", "pools and concurrency keys", LimitCost},
    Workload{"lang", "expressions and workflow files", LanguageCost},
    Workload{"queue", "queues: push, claim and ack", QueueItems},
    Workload{"worker", "workers over gRPC: hops, tasks by slots, idle ones", RemoteWorkers},
    Workload{"store", "rounds without an engine", StoreRoundsAlone},
    Workload{"CLI", "start of the program", ProgramStart},
};

[[noreturn]] void Usage(int code) {
  fmt::print(
      "usage: headworks-bench [WORKLOAD ...] [--json FILE] [--quick] [--million] [--folder PATH]\n"
      "  --quick    small numbers, to see that everything works\n"
      "  --million  W1 also with 1,000,000 runs\n"
      "  --folder   where the databases go; a real disk (default: the folder for temporary files)\n"
      "workloads:\n");
  for (const Workload& workload : kWorkloads)
    fmt::print("  {:<6} {}\n", workload.name, workload.about);
  std::exit(code);
}

int Main(std::span<char*> arguments) {
  Options options{.folder = fs::temp_directory_path()};
  std::string json;
  std::vector<std::string_view> wanted;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    const auto value = [&] { return ++i < arguments.size() ? arguments[i] : (Usage(2), ""); };
    if (argument == "--recovery-child") {
      const std::string path = value();
      return RecoveryChild(path, std::atoi(value()));
    }
    if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--million") {
      options.million = true;
    } else if (argument == "--json") {
      json = value();
    } else if (argument == "--folder") {
      options.folder = value();
    } else if (argument == "--help") {
      Usage(0);
    } else if (std::ranges::find(kWorkloads, argument, &Workload::name) != kWorkloads.end()) {
      wanted.push_back(argument);
    } else {
      Usage(2);
    }
  }
  Figures all;
  PrintHeading();
  for (const Workload& workload : kWorkloads) {
    if (!wanted.empty() && std::ranges::find(wanted, workload.name) == wanted.end()) continue;
    for (Figure& figure : workload.run(options)) {
      Print(figure);
      all.push_back(std::move(figure));
    }
  }
  if (!json.empty() && !WriteJson(all, json)) Die("cannot write " + json);
  return 0;
}

}  // namespace
}  // namespace headworks::bench

int main(int argc, char** argv) {
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  return headworks::bench::Main({argv + 1, argv + argc});
}
