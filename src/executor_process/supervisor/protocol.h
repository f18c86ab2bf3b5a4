#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <string_view>

/// What an engine and its supervisor say to each other over a SOCK_SEQPACKET pair.
///
/// One message per packet; every message starts with `Header`.  Both sides come from one build
/// and run on one machine, so structs travel as they lie in memory; `Header::version` refuses
/// anything else.  Change a struct, raise the version.
namespace headworks::supervisor {

inline constexpr std::uint8_t kProtocolVersion = 4;
/// File descriptors that the supervisor is started with.
inline constexpr int kSocketFd = 3;
inline constexpr int kLockFd = 4;
/// A spawn request's body up to this size follows its head; a larger one travels as a memfd.
inline constexpr std::uint32_t kInlineBodyBytes = 32 * 1024;
/// Largest packet: a spawn head and an inline body.
inline constexpr std::size_t kMaxPacketBytes = kInlineBodyBytes + 256;
/// Bound of one body: far above what execve takes (ARG_MAX is 2 MiB by default).
inline constexpr std::uint32_t kMaxBodyBytes = 16 * 1024 * 1024;
/// Environment variable that marks every process of an attempt: "<store id>:<run>:<epoch>".
inline constexpr std::string_view kMarkName = "HEADWORKS_ATTEMPT";

struct AttemptKey {
  std::int64_t run = 0;
  std::int64_t epoch = 0;

  auto operator<=>(const AttemptKey&) const = default;
};

enum class Kind : std::uint8_t {
  kHello = 1,
  kSpawn = 2,
  kKill = 3,
  kShutdown = 4,
  kStarted = 5,
  kSpawnFailed = 6,
  kEnded = 7,
  kKillAt = 8,
};

/// Why the supervisor ended an attempt's processes.
enum class Cause : std::uint8_t {
  /// It did not: the main process ended by itself.
  kNone = 0,
  kCancel = 1,
  kTimeout = 2,
  kShutdown = 3,
  /// The moment that KillAt named has come.
  kKillAt = 4,
};

/// Which step of a start failed.
enum class SpawnStep : std::uint8_t {
  kRequest = 1,
  kClone = 2,
  kSession = 3,
  kStandardStreams = 4,
  kWorkingDirectory = 5,
  kExec = 6,
  kGroup = 7,
};

struct Header {
  std::uint8_t version = kProtocolVersion;
  Kind kind{};
};

/// Supervisor → engine, once, when it is ready.
struct Hello {
  Header header{.kind = Kind::kHello};
  /// Attempts are kept in control groups.
  std::uint8_t groups = 0;
  std::int32_t pid = 0;
};

/// Engine → supervisor, with the stdout and stderr pipes (and the body's memfd, if any) as
/// SCM_RIGHTS.  Body: cwd, `argc` arguments, `envc` "NAME=value", each ended by NUL.
struct Spawn {
  Header header{.kind = Kind::kSpawn};
  std::uint8_t body_in_memfd = 0;
  std::uint32_t argc = 0;
  std::uint32_t envc = 0;
  std::uint32_t body_bytes = 0;
  AttemptKey attempt;
  /// From the start until TERM; 0 = none.
  std::int64_t timeout_us = 0;
  /// From TERM until KILL.
  std::int64_t grace_us = 0;
  /// As of a KillAt that is heard before anything of the attempt can begin; 0 = none.
  std::int64_t kill_at_us = 0;
};

/// Engine → supervisor: end the attempt.  Unknown attempts are ignored: their end is on its way.
struct Kill {
  Header header{.kind = Kind::kKill};
  AttemptKey attempt;
  std::int64_t grace_us = 0;
};

/// Engine → supervisor: KILL the attempt when CLOCK_BOOTTIME reaches `at_us`, unless another KillAt
/// has moved that by then.  Holds also while the engine does not run.
struct KillAt {
  Header header{.kind = Kind::kKillAt};
  AttemptKey attempt;
  std::int64_t at_us = 0;
};

/// Engine → supervisor: end everything and exit, as if the engine had died, but with reports.
struct Shutdown {
  Header header{.kind = Kind::kShutdown};
};

/// Sent of an attempt that goes on for a while; of a shorter one `Ended` says all.
struct Started {
  Header header{.kind = Kind::kStarted};
  std::int32_t pid = 0;
  AttemptKey attempt;
  std::int64_t ran_us = 0;
};

struct SpawnFailed {
  Header header{.kind = Kind::kSpawnFailed};
  SpawnStep step{};
  std::int32_t error = 0;
  AttemptKey attempt;
};

/// Sent when no process of the attempt is left.
struct Ended {
  Header header{.kind = Kind::kEnded};
  Cause cause = Cause::kNone;
  /// KILL was needed: something ignored TERM for the whole grace.
  std::uint8_t killed = 0;
  /// Exit code, or -1 when a signal ended the main process.
  std::int32_t exit_code = -1;
  std::int32_t signal = 0;
  /// Processes that outlived the main process and were killed.
  std::uint32_t leftovers = 0;
  AttemptKey attempt;
  std::int64_t wall_us = 0;
  std::int64_t user_us = 0;
  std::int64_t system_us = 0;
  std::int64_t max_rss_kib = 0;
};

}  // namespace headworks::supervisor
