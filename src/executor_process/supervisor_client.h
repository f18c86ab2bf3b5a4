#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "headworks/base/fd.h"
#include "headworks/base/log.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "supervisor/cgroup.h"
#include "supervisor/protocol.h"

namespace headworks::executor_process {

/// One start, complete.
struct SpawnRequest {
  supervisor::AttemptKey attempt;
  /// `argv[0]` without a slash is looked up in the PATH of `env`.
  std::vector<std::string> argv;
  /// "NAME=value", all of it but the mark.
  std::vector<std::string> env;
  std::string cwd;
  Fd stdout_fd;
  Fd stderr_fd;
  /// Zero = none.
  Duration timeout{};
  Duration grace{};
  /// As SupervisorClient::KillAt takes it; zero = never.
  Duration kill_at{};
};

using SupervisorEvent =
    std::variant<supervisor::Started, supervisor::SpawnFailed, supervisor::Ended>;

/// The engine's side of its supervisor: starts it, speaks to it, and cleans up after it when it
/// dies.
///
/// Life.  Construct, Start, use, destroy (ends every process, bounded by their graces).
/// Threads.  One.
class SupervisorClient {
 public:
  struct Options {
    /// The headworks-supervisor binary.
    std::string program;
    /// Held by the supervisor for as long as a process of an attempt lives.
    std::string lock_file;
    /// In the mark of every process: names the store whose attempts these are.
    std::string store_id;
    /// How long Start waits for the supervisor of an earlier engine to end its processes.
    Duration lock_wait = std::chrono::seconds(30);
    /// Makes this process the parent of orphans, so that what a dead supervisor leaves is seen.
    bool become_subreaper = true;
    /// Where to make the control group above those of the attempts; the first that allows it.
    std::vector<supervisor::CgroupPlace> places;
  };

  SupervisorClient(Options options, Logger& log) : options_(std::move(options)), log_(log) {}
  SupervisorClient(const SupervisorClient&) = delete;
  SupervisorClient& operator=(const SupervisorClient&) = delete;
  ~SupervisorClient();

  /// Waits until no earlier supervisor of this store lives, kills what one left, starts one.
  /// kUnavailable: the lock is still held, something cannot be killed, or the binary cannot be
  /// started.
  Status Start();

  /// To be watched for reading, and while `wants_write()` for writing.  Changes with Recover.
  int fd() const { return socket_.get(); }
  bool wants_write() const { return !outgoing_.empty(); }

  /// Queues a start; its end comes by `Read`.  kInvalidArgument: a string holds a NUL, or all
  /// together are too long.
  Status Spawn(SpawnRequest request);
  /// Queues TERM, and KILL after `grace`.
  void Kill(const supervisor::AttemptKey& attempt, Duration grace);
  /// Queues that KILL comes at `boot_time` (CLOCK_BOOTTIME), unless it is moved.
  void KillAt(const supervisor::AttemptKey& attempt, Duration boot_time);
  /// Sends what the socket takes.
  void Flush();
  /// Adds what the supervisor said.  False: it is dead, call Recover.
  bool Read(std::vector<SupervisorEvent>& events);

  /// After the supervisor died: kills and reaps all that its attempts left, then starts another.
  /// `lost` receives the attempts that it was told of and did not report, once nothing of them is
  /// left; requests that were not sent yet go to the new one.  After an error: call it again.
  Status Recover(std::vector<supervisor::AttemptKey>& lost);
  /// As Recover, and no other is started.  Also for what an earlier engine's supervisor left.
  Status Bury(std::vector<supervisor::AttemptKey>& lost);

  pid_t pid() const { return pid_; }

 private:
  struct Packet {
    std::string bytes;
    std::vector<Fd> fds;
    supervisor::AttemptKey spawns;
    bool is_spawn = false;
  };

  Result<Fd> TakeLock();
  Result<Fd> Clear(std::vector<supervisor::AttemptKey>& lost);
  Status Sweep(const std::vector<pid_t>& sessions);
  Status Launch(const Fd& lock);
  void NoteHolder(const Fd& lock);
  Status AwaitHello();
  bool Send(const Packet& packet);

  const Options options_;
  Logger& log_;
  Fd socket_;
  pid_t pid_ = -1;
  /// Control group above those of the attempts; empty = none.
  std::string group_;
  std::deque<Packet> outgoing_;
  /// Sent and not yet ended; the main process's pid once it is known.
  std::map<supervisor::AttemptKey, pid_t> live_;
};

}  // namespace headworks::executor_process
