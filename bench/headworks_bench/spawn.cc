/// What starting a program costs.

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "bench.h"

extern char** environ;

namespace headworks::bench {
namespace {

void SpawnAndWait(std::string program, std::string argument) {
  std::array<char*, 3> argv{program.data(), argument.empty() ? nullptr : argument.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", 1 /* O_WRONLY */, 0);
  pid_t pid = -1;
  if (posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ) != 0)
    Die("cannot start " + program);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  waitpid(pid, &status, 0);
  if (status != 0) Die(program + " failed");
}

}  // namespace

double SpawnRate(double seconds) {
  int count = 0;
  const Stopwatch watch;
  for (; watch.Seconds() < seconds; ++count) SpawnAndWait("/bin/true", "");
  return count / watch.Seconds();
}

Figures ProgramStart(const Options& options) {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / "headworks";
  if (!fs::exists(program)) Die("build the program headworks first: it belongs beside this one");
  const auto median = [&](const std::string& path, const std::string& argument) {
    std::vector<double> millis;
    for (int i = 0; i < (options.quick ? 5 : 41); ++i) {
      const Stopwatch watch;
      SpawnAndWait(path, argument);
      millis.push_back(watch.Seconds() * 1e3);
    }
    std::ranges::sort(millis);
    return millis[millis.size() / 2];
  };
  return {{.workload = "CLI",
           .what = "headworks --version; floor: /bin/true",
           .unit = "ms",
           .engine = median(program.string(), "--version"),
           .floor = median("/bin/true", ""),
           .smaller_is_better = true,
           .aim = "30 ms"}};
}

}  // namespace headworks::bench
