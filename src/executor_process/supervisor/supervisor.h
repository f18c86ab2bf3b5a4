#pragma once

#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/attempt_groups.h"
#include "supervisor/proc.h"
#include "supervisor/protocol.h"

namespace headworks::supervisor {

/// Starts the processes of one engine's attempts, ends them whole, and says how they ended.
///
/// It outlives its engine: when the socket closes, however the engine died, it ends every process
/// and exits only when none is left.  Until then it holds the lock file that it was given.
///
/// What belongs to an attempt: its control group, where there are any; its session and process
/// group; and every orphan (a descendant whose parent died; the kernel makes it a child of this
/// process) that carries the attempt's mark in its environment.  An orphan that shed all of these
/// is held against all attempts that were live when it was first seen, and is killed with the last
/// of them.
///
/// Ends.  Timeout, cancel, shutdown: TERM to the whole tree, KILL after the attempt's grace.
/// Main process gone: what remains may finish for `kLeftoverGrace`, then KILL.  `Ended` is sent
/// when nothing of the attempt is left.
///
/// Wake-ups of the engine cost more than anything that is said, so a short attempt costs one:
/// `Started` waits for `kAnnounceAfter`, and the attempt's pipes are held open here until `Ended`
/// is sent, so that the engine sees no end of file before.
///
/// Threads.  One.  Time.  CLOCK_MONOTONIC.
class Supervisor {
 public:
  /// `group`: the engine's control group; empty = none.
  Supervisor(int socket, std::string store_id, std::string group)
      : socket_(socket), store_id_(std::move(store_id)), groups_(std::move(group)) {}
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Serves until the socket closes or Shutdown, then ends everything.  Returns the exit code.
  int Run();

 private:
  enum class Phase : std::uint8_t { kRunning, kTerminating, kKilling };

  struct Attempt {
    AttemptKey key;
    pid_t pid = -1;
    /// Of AttemptGroups; 0 = none.
    int group = 0;
    /// Order of starts; an orphan remembers the last one before it was seen.
    std::uint64_t sequence = 0;
    Phase phase = Phase::kRunning;
    Cause cause = Cause::kNone;
    bool killed = false;
    bool main_gone = false;
    int status = 0;
    rusage usage{};
    std::int64_t started_us = 0;
    std::int64_t ended_us = 0;
    std::int64_t grace_us = 0;
    /// When the phase's next step is due: timeout, KILL, or KILL again.
    std::int64_t due_us = 0;
    /// By CLOCK_BOOTTIME; 0 = never.
    std::int64_t kill_at_us = 0;
    std::uint32_t leftovers = 0;
    bool announced = false;
    /// The writing ends of its pipes.
    std::array<int, 2> pipes{-1, -1};
  };

  static constexpr int kMaxFds = 3;
  using ReceivedFds = std::array<int, kMaxFds>;

  struct Orphan {
    pid_t pid = -1;
    /// The attempt it belongs to; 0 = unknown, then every attempt up to `seen_at` is suspected.
    std::uint64_t owner = 0;
    std::uint64_t seen_at = 0;
    bool listed = true;
  };

  bool Open();
  void Receive();
  void HandleSpawn(const Spawn& request, std::string_view inline_body, ReceivedFds& fds,
                   int fd_count);
  void HandleKill(const Kill& request);
  void HandleKillAt(const KillAt& request);
  void Close();
  template <typename Message>
  void Send(const Message& message);
  void Flush();

  bool Reap();
  void ScanChildren();
  std::vector<pid_t> Children();
  std::uint64_t OwnerOf(pid_t orphan);
  bool Holds(const Attempt& attempt, const Orphan& orphan) const;
  bool Remains(const Attempt& attempt) const;
  void Settle();
  void Report(const Attempt& attempt);
  void Announce(std::int64_t now);

  void Terminate(Attempt& attempt, Cause cause, std::int64_t grace_us);
  void Advance(Attempt& attempt);
  void KillWhatIsOverdue(Attempt& attempt, std::int64_t boot_us);
  void SignalTree(Attempt& attempt, int signal);
  int PollTimeoutMs() const;

  const int socket_;
  const std::string store_id_;
  int signals_ = -1;
  int null_ = -1;
  int children_ = -1;
  /// The limit of open files that this process was given, and hands on to tasks.
  rlimit files_{};
  bool closing_ = false;
  bool peer_gone_ = false;
  bool changed_ = false;
  std::uint64_t last_sequence_ = 0;
  std::vector<Attempt> attempts_;
  std::vector<Orphan> orphans_;
  AttemptGroups groups_;
  std::deque<std::string> outgoing_;
  /// Pipes of attempts that are reported: closed once the report is sent.
  std::vector<int> finished_pipes_;
};

}  // namespace headworks::supervisor
