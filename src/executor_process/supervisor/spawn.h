#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include "supervisor/protocol.h"

namespace headworks::supervisor {

/// A start, with every byte in place: the child may not allocate.
struct SpawnPlan {
  const char* cwd = nullptr;
  /// Ended by null; `argv[0]` without a slash is looked up in the PATH of `envp`.
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  /// The control group to start it in: as AttemptGroups gives them; -1 = the caller's own.
  int group_clone_fd = -1;
  int group_join_fd = -1;
  /// The limit of open files that it is given; null = the caller's.
  const rlimit* files = nullptr;
};

struct SpawnResult {
  /// -1 when no process was made.  With `error` set the process has already exited: reap it.
  pid_t pid = -1;
  SpawnStep step{};
  int error = 0;
};

/// Starts a process as leader of its own session and process group, with only 0, 1 and 2 open,
/// an empty signal mask, and SIGKILL as the signal that it gets when this process dies.
///
/// It is clone(CLONE_VM | CLONE_VFORK): the cost does not grow with the caller's memory, and
/// the error of a failed execve comes back without a pipe.  The caller is suspended until then.
/// Call from one thread; dispositions that the caller ignores stay ignored.
SpawnResult SpawnProcess(const SpawnPlan& plan);

/// Whether a process can be started in a group that is given as in SpawnPlan.
bool CanSpawnInto(int group_clone_fd, int group_join_fd);

}  // namespace headworks::supervisor
