/// W6: from Open to the first dispatch after kill -9, with many runs active.

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "floor.h"
#include "headworks/dag_gen/dag_gen.h"
#include "headworks/store_sqlite/sqlite_store.h"
#include "site.h"

extern char** environ;

namespace headworks::bench {
namespace {

/// One step is done, the next is under way or waits for its turn.
std::shared_ptr<const model::Workflow> TwoSteps() {
  model::WorkflowDefinition definition;
  definition.name.workflow = "two_steps";
  definition.tasks.resize(2);
  definition.tasks[0].id = "done";
  definition.tasks[0].action = model::FunctionAction{"nothing"};
  definition.tasks[1].id = "long";
  definition.tasks[1].needs = {"done"};
  definition.tasks[1].action = model::ExecAction{{"/bin/sleep", "1000"}};
  auto workflow = model::Workflow::Create(std::move(definition));
  if (!workflow) Die(workflow.error().message);
  return *workflow;
}

/// Starts this program as the engine that is to be killed, and waits until it says "ready".
pid_t StartChild(const std::string& database, int runs) {
  std::array<int, 2> ready{};
  if (pipe(ready.data()) != 0) Die("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ready[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ready[0]);
  posix_spawn_file_actions_addclose(&actions, ready[1]);
  std::string program = fs::read_symlink("/proc/self/exe").string(), mode = "--recovery-child",
              path = database, count = std::to_string(runs);
  std::array<char*, 5> argv{program.data(), mode.data(), path.data(), count.data(), nullptr};
  pid_t pid = -1;
  if (posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ) != 0)
    Die("cannot start " + program);
  posix_spawn_file_actions_destroy(&actions);
  close(ready[1]);
  char byte = 0;
  if (read(ready[0], &byte, 1) != 1) Die("the child ended early");
  close(ready[0]);
  return pid;
}

}  // namespace

int RecoveryChild(const std::string& path, int runs) {
  Site site(path);
  std::int64_t first_steps = 0;
  std::int64_t commands = 0;
  site.watch = [&](const RunEvent& event) {
    if (!event.task) return;
    if (event.task->value == 0 && event.task_state == model::TaskState::kSucceeded) ++first_steps;
    if (event.task->value == 1 && event.task_state == model::TaskState::kRunning) ++commands;
  };
  site.Open();
  site.Register(TwoSteps());
  site.StartMany("two_steps", runs);
  site.Await([&] { return first_steps == runs && commands > 0; });
  std::fputc('\n', stdout);
  std::fflush(stdout);
  for (;;) pause();
}

namespace {

/// What the engine's thread does to bring a run back to memory.
Figure LoadLargeRun(const Options& options) {
  const std::uint32_t tasks = options.quick ? 10'000 : 100'000;
  const Scratch scratch(options);
  const double flush = FlushMicros(scratch.path());
  Site site(scratch.path() / "engine.db");
  auto definition = dag_gen::Generate({.shape = dag_gen::Shape::kLayered,
                                       .size = tasks,
                                       .action = model::FunctionAction{"nothing"}});
  if (!definition) Die(definition.error().message);
  const auto workflow = model::Workflow::Create(*std::move(definition));
  if (!workflow) Die(workflow.error().message);
  site.Open();
  site.Register(*workflow);
  site.StartMany((*workflow)->name().workflow, 1);
  site.AwaitEnds(1);
  site.Close();
  const auto store = store_sqlite::Open(site.database(), {});
  if (!store) Die(store.error().message);
  const Stopwatch watch;
  auto image = (*store)->runs().LoadRun(TenantId("public"), RunNo(1));
  if (!image) Die(image.error().message);
  const double read = watch.Seconds();
  model::Changes effects;
  const auto run =
      model::Rebuild(std::move(image->header), *workflow, image->tasks, Instant{}, effects);
  if (!run) Die(run.error().message);
  return {
      .workload = "W6",
      .what = fmt::format("load a run of {} tasks (of which {:.1f} ms reading)", tasks, read * 1e3),
      .unit = "ms",
      .engine = watch.Seconds() * 1e3,
      .smaller_is_better = true,
      .engine_cpu_us = watch.Cpu() * 1e6 / tasks,
      .flush_us = flush};
}

}  // namespace

Figures Recovery(const Options& options) {
  Figures figures;
  for (const int runs : {1'000, 10'000}) {
    if (options.quick && runs > 1'000) break;
    const Scratch scratch(options);
    const double flush = FlushMicros(scratch.path());
    const std::string database = (scratch.path() / "engine.db").string();
    const pid_t child = StartChild(database, runs);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    Site site(database);
    double first = 0;
    const Stopwatch watch;
    site.watch = [&](const RunEvent& event) {
      if (first == 0 && event.task && event.task_state == model::TaskState::kQueued)
        first = watch.Seconds();
    };
    site.Open();
    site.Await([&] { return first > 0; });
    site.Close();
    figures.push_back({.workload = "W6",
                       .what = fmt::format("open to first dispatch, {} active runs, kill -9", runs),
                       .unit = "ms",
                       .engine = first * 1e3,
                       .smaller_is_better = true,
                       .aim = "1,000 ms",
                       .flush_us = flush});
  }
  figures.push_back(LoadLargeRun(options));
  return figures;
}

}  // namespace headworks::bench
