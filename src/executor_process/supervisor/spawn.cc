#include "supervisor/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>

namespace headworks::supervisor {
namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;
constexpr char kDefaultPath[] = "/usr/local/bin:/usr/bin:/bin";

struct Child {
  const SpawnPlan* plan;
  pid_t parent;
  // Written by the child, read by the parent: they share memory until execve.
  volatile SpawnStep step;
  volatile int error;
};

#define HEADWORKS_CHILD_CODE __attribute__((no_sanitize("address", "undefined", "thread")))

HEADWORKS_CHILD_CODE const char* PathOf(char* const* envp) {
  for (; *envp != nullptr; ++envp) {
    if (std::strncmp(*envp, "PATH=", 5) == 0) return *envp + 5;
  }
  return kDefaultPath;
}

/// As execvpe, but with the PATH of the new environment, and without its silent retry by /bin/sh.
HEADWORKS_CHILD_CODE int Execute(const SpawnPlan& plan) {
  const char* name = plan.argv[0];
  if (std::strchr(name, '/') != nullptr) {
    execve(name, plan.argv, plan.envp);
    return errno;
  }
  const std::size_t name_size = std::strlen(name);
  int error = ENOENT;
  if (name_size == 0) return error;
  const char* from = PathOf(plan.envp);
  while (true) {
    const char* to = strchrnul(from, ':');
    const std::size_t size = static_cast<std::size_t>(to - from);
    char path[PATH_MAX];
    if (size + name_size + 2 <= sizeof path) {
      std::memcpy(path, from, size);
      // An empty entry means the working directory.
      if (size == 0) path[0] = '.';
      const std::size_t folder = size == 0 ? 1 : size;
      path[folder] = '/';
      std::memcpy(path + folder + 1, name, name_size + 1);
      execve(path, plan.argv, plan.envp);
      if (errno == EACCES) error = EACCES;
      if (errno != EACCES && errno != ENOENT && errno != ENOTDIR) return errno;
    }
    if (*to == '\0') return error;
    from = to + 1;
  }
}

HEADWORKS_CHILD_CODE int Fail(Child& child, SpawnStep step, int error) {
  child.step = step;
  child.error = error;
  _exit(127);
}

HEADWORKS_CHILD_CODE int RunChild(void* argument) {
  Child& child = *static_cast<Child*>(argument);
  const SpawnPlan& plan = *child.plan;
  if (plan.group_join_fd >= 0 && write(plan.group_join_fd, "0", 1) != 1) {
    return Fail(child, SpawnStep::kGroup, errno);
  }
  if (plan.argv == nullptr) _exit(0);
  // A session of its own: no terminal to stop on, and a mark that fork and exec do not lose.
  if (setsid() < 0) return Fail(child, SpawnStep::kSession, errno);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return Fail(child, SpawnStep::kSession, errno);
  if (getppid() != child.parent) return Fail(child, SpawnStep::kSession, ESRCH);
  if (dup2(plan.stdin_fd, 0) < 0 || dup2(plan.stdout_fd, 1) < 0 || dup2(plan.stderr_fd, 2) < 0 ||
      syscall(SYS_close_range, 3U, ~0U, 0U) != 0) {
    return Fail(child, SpawnStep::kStandardStreams, errno);
  }
  if (plan.files != nullptr && setrlimit(RLIMIT_NOFILE, plan.files) != 0) {
    return Fail(child, SpawnStep::kStandardStreams, errno);
  }
  if (chdir(plan.cwd) != 0) return Fail(child, SpawnStep::kWorkingDirectory, errno);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  return Fail(child, SpawnStep::kExec, Execute(plan));
}

char* ChildStack() {
  static char* const top = [] {
    void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory) + kStackBytes;
  }();
  return top;
}

/// clone3, for which the C library has no wrapper: `run(argument)` on a stack of its own, in the
/// control group of `group_fd`.
HEADWORKS_CHILD_CODE long CloneInto(int group_fd, int (*run)(void*), void* argument) {
#if defined(__x86_64__)
  clone_args args{};
  args.flags = CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.stack = reinterpret_cast<std::uint64_t>(ChildStack() - kStackBytes);
  args.stack_size = kStackBytes;
  args.cgroup = static_cast<std::uint64_t>(group_fd);
  long result = SYS_clone3;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "mov %[argument], %%rdi\n\t"
      "call *%[run]\n\t"
      "hlt\n"  // it does not return
      "1:"
      : "+a"(result)
      : "D"(&args), "S"(sizeof args), [run] "r"(run), [argument] "r"(argument)
      : "rcx", "r11", "memory");
  return result;
#else
  static_cast<void>(group_fd), static_cast<void>(run), static_cast<void>(argument);
  return -ENOSYS;
#endif
}

/// The pid, or a negative error.
long Clone(Child& child) {
  const int group = child.plan->group_clone_fd;
  if (group >= 0) return CloneInto(group, RunChild, &child);
  const pid_t pid = clone(RunChild, ChildStack(), CLONE_VM | CLONE_VFORK | SIGCHLD, &child);
  return pid < 0 ? -errno : pid;
}

}  // namespace

SpawnResult SpawnProcess(const SpawnPlan& plan) {
  if (ChildStack() == nullptr) return {.step = SpawnStep::kClone, .error = ENOMEM};
  Child child{.plan = &plan, .parent = getpid(), .step = SpawnStep::kExec, .error = 0};
  const long cloned = Clone(child);
  if (cloned < 0) return {.step = SpawnStep::kClone, .error = static_cast<int>(-cloned)};
  const auto pid = static_cast<pid_t>(cloned);
  if (child.error != 0) return {.pid = pid, .step = child.step, .error = child.error};
  return {.pid = pid};
}

bool CanSpawnInto(int group_clone_fd, int group_join_fd) {
  const SpawnPlan plan{.group_clone_fd = group_clone_fd, .group_join_fd = group_join_fd};
  const SpawnResult result = SpawnProcess(plan);
  int status = 0;
  if (result.pid > 0) waitpid(result.pid, &status, 0);
  // It may have been let in and killed.
  return result.error == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace headworks::supervisor
