#include <fmt/format.h>
#include <malloc.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "headworks/executor_process/process_executor.h"
#include "headworks/log_store/memory_log_store.h"

extern char** environ;

// Tasks per second of the process executor beside the bare start of the same program, measured in
// turn, so that both see the same machine.  `executor_process_spawn_rate [ROUNDS] [PER_ROUND]
// [AT_ONCE]`
// prints one JSON object; `ratio` is the executor's rate over the bare one.  The CPU figures are
// of all processes, and mean something on a busy machine too.
namespace headworks::executor_process {
namespace {

constexpr char kProgram[] = "/bin/true";

class CountingSink final : public executor::AttemptSink {
 public:
  void Started(const model::AttemptKey&) override {}
  void Ended(const model::AttemptKey&, model::Outcome outcome) override {
    if (outcome.verdict != model::Verdict::kSucceeded) std::abort();
    ended.fetch_add(1);
    ended.notify_one();
  }
  void Hear(executor::Word, std::function<void(executor::Heard)> reply) override {
    reply(executor::Reply::kStop);
  }
  void CapacityChanged() override {
    changes.fetch_add(1);
    changes.notify_one();
  }
  std::atomic<int> ended = 0;
  std::atomic<int> changes = 0;
};

class FixedResolver final : public executor::Resolver {
 public:
  Result<executor::Resolved> Resolve(const executor::Attempt&) override {
    return executor::Resolved{.context_json = R"({"input":{},"needs":{}})", .merged_json = "{}"};
  }
};

void SpawnBare(int count) {
  for (int i = 0; i < count; ++i) {
    std::string name = kProgram;
    char* argv[] = {name.data(), nullptr};
    pid_t pid = -1;
    if (posix_spawn(&pid, kProgram, nullptr, nullptr, argv, environ) != 0) std::abort();
    waitpid(pid, nullptr, 0);
  }
}

executor::Attempt AttemptOf() {
  model::Task task;
  task.id = "t";
  task.action = model::ExecAction{{kProgram}};
  model::WorkflowDefinition definition;
  definition.name.workflow = "spawn_rate";
  definition.tasks = {task};
  executor::Attempt attempt;
  attempt.key.tenant = TenantId("public");
  attempt.key.run = RunNo(1);
  attempt.run_id = RunId("spawn-rate");
  attempt.workflow = *model::Workflow::Create(std::move(definition));
  return attempt;
}

void RunTasks(ProcessExecutor& executor, CountingSink& sink, executor::Attempt& attempt,
              int count) {
  const int until = sink.ended.load() + count;
  for (int i = 0; i < count;) {
    const int seen = sink.changes.load();
    ++attempt.key.epoch.value;
    if (executor.Offer(attempt).disposition == model::Disposition::kDispatched) {
      ++i;
    } else {
      --attempt.key.epoch.value;
      sink.changes.wait(seen);
    }
  }
  for (int ended; (ended = sink.ended.load()) < until;) sink.ended.wait(ended);
}

/// CPU time of this process and all that it has waited for.
double CpuMs() {
  double ms = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& t : {usage.ru_utime, usage.ru_stime}) {
      ms += static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
    }
  }
  return ms;
}

double MedianOf(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int Measure(int rounds, int per_round, int at_once) {
  std::string folder = (std::filesystem::temp_directory_path() / "headworks-spawn-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  SystemClock clock;
  NullLogger log;
  FixedResolver resolver;
  CountingSink sink;
  const auto logs = log_store::NewMemoryLogStore();
  ProcessExecutorOptions options;
  options.state_dir = folder + "/state";
  options.store_id = "spawn-rate";
  options.max_concurrent = static_cast<std::uint32_t>(at_once);
  options.max_unsettled = 1'000'000;
  const auto ledger =
      executor::StartLedger::Open(folder + "/started", "bench", LedgerCapacity(options), RunNo(1));
  if (!ledger) return 1;
  auto executor = ProcessExecutor::Open(options, {.resolver = resolver,
                                                  .log_store = *logs,
                                                  .clock = clock,
                                                  .log = log,
                                                  .ledger = ledger->get()});
  if (!executor || !(*executor)->Start(sink)) return 1;
  executor::Attempt attempt = AttemptOf();
  const auto rate = [&](auto&& work) {
    const Duration before = clock.Monotonic();
    work();
    return per_round * 1e6 / static_cast<double>((clock.Monotonic() - before).count());
  };
  std::vector<double> bare, tasks, ratios;
  const double cpu_before = CpuMs();
  double bare_cpu = 0;
  for (int i = 0; i < rounds; ++i) {
    const double cpu = CpuMs();
    bare.push_back(rate([&] { SpawnBare(per_round); }));
    bare_cpu += CpuMs() - cpu;
    tasks.push_back(rate([&] { RunTasks(**executor, sink, attempt, per_round); }));
    ratios.push_back(tasks.back() / bare.back());
  }
  executor->reset();
  // The supervisor's, and its children's, count when it has been waited for.
  const double task_cpu = CpuMs() - cpu_before - bare_cpu;
  std::filesystem::remove_all(folder);
  const int count = rounds * per_round;
  fmt::print(
      "{{\"bare_per_s\": {:.0f}, \"tasks_per_s\": {:.0f}, \"ratio\": {:.3f}, "
      "\"bare_cpu_ms\": {:.3f}, \"task_cpu_ms\": {:.3f}}}\n",
      MedianOf(bare), MedianOf(tasks), MedianOf(ratios), bare_cpu / count, task_cpu / count);
  return 0;
}

}  // namespace
}  // namespace headworks::executor_process

int main(int argc, char** argv) {
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  return headworks::executor_process::Measure(argc > 1 ? std::atoi(argv[1]) : 9,
                                              argc > 2 ? std::atoi(argv[2]) : 300,
                                              argc > 3 ? std::atoi(argv[3]) : 4);
}
