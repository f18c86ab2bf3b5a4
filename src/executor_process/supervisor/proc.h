#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol.h"

/// The process table as /proc shows it.  Everything here is a snapshot: a pid may be gone, or be
/// somebody else, by the time it is used; `Signal` checks.
namespace headworks::supervisor {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = 0;
  /// Clock ticks since boot; with the pid it names one process for good.
  std::uint64_t started = 0;
};

/// False when there is no such process.
bool ReadProcess(pid_t pid, Process& out);

/// All processes of this pid namespace; 1 to 2 ms for a hundred.
std::vector<Process> ListProcesses();

/// Of `all`: the descendants of `roots`, without the roots themselves.
std::vector<Process> Descendants(const std::vector<Process>& all, const std::vector<pid_t>& roots);

/// The value of HEADWORKS_ATTEMPT in the environment that `pid` was started with; empty if it
/// has none, is a zombie, or may not be read.
std::string ReadMark(pid_t pid);

/// Reads "<store_id>:<run>:<epoch>"; false for any other mark.
bool ParseMark(std::string_view mark, std::string_view store_id, AttemptKey& out);
std::string FormatMark(std::string_view store_id, const AttemptKey& attempt);

/// Sends `signal` iff `process` is still the one that was listed.  False if it is gone.
bool Signal(const Process& process, int signal);

}  // namespace headworks::supervisor
