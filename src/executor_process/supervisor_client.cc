#include "supervisor_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "environment.h"
#include "leftovers.h"
#include "supervisor/proc.h"

extern char** environ;

namespace headworks::executor_process {
namespace {

namespace wire = supervisor;

constexpr Duration kLockPoll = std::chrono::milliseconds(5);
constexpr Duration kSweepLimit = std::chrono::seconds(10);
constexpr int kHelloTimeoutMs = 10'000;
/// Above every descriptor that posix_spawn moves things to.
constexpr int kSafeFd = 10;

std::string ErrnoText(int error) { return std::strerror(error); }

Error Unavailable(std::string_view what, int error) {
  return Error{Code::kUnavailable, fmt::format("{}: {}", what, ErrnoText(error))};
}

template <typename Message>
std::string BytesOf(const Message& message) {
  return {reinterpret_cast<const char*>(&message), sizeof message};
}

template <typename Message>
bool ReadAs(std::string_view bytes, Message& out) {
  if (bytes.size() != sizeof out) return false;
  std::memcpy(static_cast<void*>(&out), bytes.data(), sizeof out);
  return true;
}

/// A memory file that holds `body`; -1 on failure, with errno.
Fd MemoryFile(std::string_view body) {
  Fd fd(memfd_create("headworks-spawn", MFD_CLOEXEC));
  while (fd && !body.empty()) {
    const ssize_t n = write(fd.get(), body.data(), body.size());
    if (n < 0) return {};
    body.remove_prefix(static_cast<std::size_t>(n));
  }
  return fd;
}

/// What a lock file says about the supervisor that holds, or last held, it.
struct Holder {
  pid_t pid = 0;
  std::string group;
};

Holder ReadHolder(int lock) {
  std::array<char, 4096> text{};
  const ssize_t size = pread(lock, text.data(), text.size(), 0);
  Holder holder;
  if (size <= 0) return holder;
  const std::string_view lines(text.data(), static_cast<std::size_t>(size));
  std::from_chars(lines.data(), lines.data() + lines.size(), holder.pid);
  const std::size_t first = lines.find('\n');
  const std::size_t second = lines.find('\n', first + 1);
  if (first != std::string_view::npos && second != std::string_view::npos) {
    holder.group = lines.substr(first + 1, second - first - 1);
  }
  return holder;
}

}  // namespace

SupervisorClient::~SupervisorClient() {
  if (!socket_) return;
  // End of file: it ends every process, then itself.
  socket_.Close();
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  wire::RemoveGroup(group_);
}

Status SupervisorClient::Start() {
  if (options_.become_subreaper && prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return Unavailable("cannot become the parent of orphaned processes", errno);
  }
  std::vector<wire::AttemptKey> lost;
  HEADWORKS_TRY(Recover(lost));
  log_.Info("the supervisor is ready",
            {{"pid", fmt::to_string(pid_)}, {"control_group", group_.empty() ? "none" : group_}});
  return {};
}

/// The lock is taken here and handed to the supervisor: at no moment is it free in between.
Result<Fd> SupervisorClient::TakeLock() {
  const std::string& path = options_.lock_file;
  const Fd opened(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!opened) return Unavailable(fmt::format("cannot open the lock file {}", path), errno);
  Fd lock(fcntl(opened.get(), F_DUPFD_CLOEXEC, kSafeFd));
  if (!lock) return Unavailable("cannot duplicate a file descriptor", errno);
  SystemClock clock;
  const Duration deadline = clock.Monotonic() + options_.lock_wait;
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return Unavailable(fmt::format("cannot lock {}", path), errno);
    }
    if (clock.Monotonic() >= deadline) {
      return Error{
          Code::kUnavailable,
          fmt::format("process {} still ends the tasks of an earlier engine (it holds {}) "
                      "after {}; wait for it, or look at what it waits for",
                      ReadHolder(lock.get()).pid, path, FormatDuration(options_.lock_wait))};
    }
    std::this_thread::sleep_for(kLockPoll);
  }
  return lock;
}

Status SupervisorClient::Sweep(const std::vector<pid_t>& sessions) {
  const SweepReport report = SweepLeftovers(options_.store_id, sessions, group_, kSweepLimit);
  if (report.killed > 0) {
    log_.Warning("killed what a dead supervisor left",
                 {{"processes", fmt::to_string(report.killed)}});
  }
  if (report.remaining.empty()) return {};
  return Error{Code::kUnavailable,
               fmt::format("processes of earlier attempts cannot be killed: {}; end them, or "
                           "restart the machine",
                           fmt::join(report.remaining, ", "))};
}

Status SupervisorClient::Launch(const Fd& lock) {
  std::array<int, 2> pair{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return Unavailable("cannot make a socket pair", errno);
  }
  socket_ = Fd(pair[0]);
  const Fd low(pair[1]);
  const Fd theirs(fcntl(low.get(), F_DUPFD_CLOEXEC, kSafeFd));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), wire::kSocketFd);
  posix_spawn_file_actions_adddup2(&actions, lock.get(), wire::kLockFd);
  posix_spawn_file_actions_addclosefrom_np(&actions, wire::kLockFd + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  // A session of its own: the terminal's Ctrl-C is the engine's to handle.
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  std::string program = options_.program, store_id = options_.store_id, group = group_;
  const std::array<char*, 4> argv{program.data(), store_id.data(), group.data(), nullptr};
  std::vector<char*> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    if (!IsSecret(*entry)) environment.push_back(*entry);
  environment.push_back(nullptr);
  const int error =
      posix_spawn(&pid_, program.c_str(), &actions, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    pid_ = -1;
    socket_.Close();
    return Unavailable(fmt::format("cannot start the supervisor {}", program), error);
  }
  HEADWORKS_TRY(AwaitHello());
  NoteHolder(lock);
  return {};
}

/// For people who wonder who holds the lock, and for the next engine: which group to look into.
void SupervisorClient::NoteHolder(const Fd& lock) {
  const std::string text = fmt::format("{}\n{}\n", pid_, group_);
  if (ftruncate(lock.get(), 0) != 0 ||
      pwrite(lock.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    log_.Warning("cannot note the supervisor's pid", {{"file", options_.lock_file}});
  }
}

Status SupervisorClient::AwaitHello() {
  pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  wire::Hello hello;
  std::array<char, 64> bytes{};
  ssize_t size = 0;
  int ready = poll(&waiting, 1, kHelloTimeoutMs);
  // A signal for this program says nothing of the supervisor.
  while (ready < 0 && errno == EINTR) ready = poll(&waiting, 1, kHelloTimeoutMs);
  if (ready == 1) {
    size = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  }
  if (ReadAs({bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))}, hello) &&
      hello.header.kind == wire::Kind::kHello && hello.header.version == wire::kProtocolVersion) {
    if (hello.groups == 0) group_.clear();
    return {};
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
  socket_.Close();
  return Error{Code::kUnavailable,
               fmt::format("{} did not start as this version's supervisor: install both from one "
                           "build, and see standard error",
                           options_.program)};
}

Status SupervisorClient::Spawn(SpawnRequest request) {
  request.env.push_back(
      fmt::format("{}={}", wire::kMarkName, wire::FormatMark(options_.store_id, request.attempt)));
  std::string body;
  bool has_nul = false;
  const auto add = [&](const std::string& s) {
    has_nul |= s.find('\0') != std::string::npos;
    body.append(s.c_str(), s.size() + 1);
  };
  add(request.cwd);
  for (const std::string& s : request.argv) add(s);
  for (const std::string& s : request.env) add(s);
  if (has_nul) {
    return Error{Code::kInvalidArgument,
                 "the command, its environment or its folder holds a NUL byte, which no process "
                 "can be given: remove it"};
  }
  if (body.size() > wire::kMaxBodyBytes) {
    return Error{Code::kInvalidArgument,
                 fmt::format("command and environment have {} bytes; the limit is {}: put large "
                             "data into files",
                             body.size(), wire::kMaxBodyBytes)};
  }
  wire::Spawn head;
  head.argc = static_cast<std::uint32_t>(request.argv.size());
  head.envc = static_cast<std::uint32_t>(request.env.size());
  head.body_bytes = static_cast<std::uint32_t>(body.size());
  head.attempt = request.attempt;
  head.timeout_us = request.timeout.count();
  head.grace_us = request.grace.count();
  head.kill_at_us = request.kill_at.count();
  Packet packet{.bytes = {}, .fds = {}, .spawns = request.attempt, .is_spawn = true};
  packet.fds.push_back(std::move(request.stdout_fd));
  packet.fds.push_back(std::move(request.stderr_fd));
  if (body.size() > wire::kInlineBodyBytes) {
    Fd file = MemoryFile(body);
    if (!file) return Unavailable("cannot pass a large command", errno);
    head.body_in_memfd = 1;
    packet.fds.push_back(std::move(file));
    body.clear();
  }
  packet.bytes = BytesOf(head) + body;
  outgoing_.push_back(std::move(packet));
  return {};
}

void SupervisorClient::Kill(const supervisor::AttemptKey& attempt, Duration grace) {
  wire::Kill request;
  request.attempt = attempt;
  request.grace_us = grace.count();
  outgoing_.push_back({.bytes = BytesOf(request), .fds = {}, .spawns = {}, .is_spawn = false});
}

void SupervisorClient::KillAt(const supervisor::AttemptKey& attempt, Duration boot_time) {
  wire::KillAt request;
  request.attempt = attempt;
  request.at_us = boot_time.count();
  outgoing_.push_back({.bytes = BytesOf(request), .fds = {}, .spawns = {}, .is_spawn = false});
}

bool SupervisorClient::Send(const Packet& packet) {
  iovec part{.iov_base = const_cast<char*>(packet.bytes.data()), .iov_len = packet.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(3 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!packet.fds.empty()) {
    std::array<int, 3> fds{};
    std::ranges::transform(packet.fds, fds.begin(), &Fd::get);
    const std::size_t bytes = packet.fds.size() * sizeof(int);
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(header), fds.data(), bytes);
  }
  return sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

void SupervisorClient::Flush() {
  // What cannot be sent stays queued: a full socket drains, a dead one is seen by Read.
  while (!outgoing_.empty() && Send(outgoing_.front())) {
    if (outgoing_.front().is_spawn) live_.emplace(outgoing_.front().spawns, -1);
    outgoing_.pop_front();
  }
}

bool SupervisorClient::Read(std::vector<SupervisorEvent>& events) {
  while (true) {
    alignas(wire::Ended) std::array<char, 256> buffer;
    const ssize_t size = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) return true;
    // Said once when the peer died with requests unread; what it sent before is still there.
    if (size < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (size <= 0) return false;
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(size));
    wire::Header header;
    std::memcpy(static_cast<void*>(&header), bytes.data(), std::min(bytes.size(), sizeof header));
    if (wire::Started m; header.kind == wire::Kind::kStarted && ReadAs(bytes, m)) {
      live_[m.attempt] = m.pid;
      events.emplace_back(m);
    } else if (wire::SpawnFailed f; header.kind == wire::Kind::kSpawnFailed && ReadAs(bytes, f)) {
      live_.erase(f.attempt);
      events.emplace_back(f);
    } else if (wire::Ended e; header.kind == wire::Kind::kEnded && ReadAs(bytes, e)) {
      live_.erase(e.attempt);
      events.emplace_back(e);
    }
  }
}

Result<Fd> SupervisorClient::Clear(std::vector<wire::AttemptKey>& lost) {
  socket_.Close();
  if (pid_ > 0) waitpid(std::exchange(pid_, -1), nullptr, 0);
  std::vector<pid_t> sessions;
  for (const auto& [attempt, pid] : live_) {
    if (pid > 0) sessions.push_back(pid);
  }
  HEADWORKS_ASSIGN(Fd lock, TakeLock());
  if (group_.empty()) group_ = ReadHolder(lock.get()).group;
  // All its members will be killed: nothing but a group of this store will do.
  if (!wire::IsGroupOf(group_, options_.store_id)) group_.clear();
  HEADWORKS_TRY(Sweep(sessions));
  for (const auto& [attempt, pid] : live_) lost.push_back(attempt);
  live_.clear();
  wire::RemoveGroup(group_);
  return lock;
}

Status SupervisorClient::Recover(std::vector<wire::AttemptKey>& lost) {
  HEADWORKS_ASSIGN(const Fd lock, Clear(lost));
  // Made anew: it was killed.
  group_ = wire::MakeGroup(options_.places, options_.store_id);
  return Launch(lock);
}

Status SupervisorClient::Bury(std::vector<wire::AttemptKey>& lost) {
  HEADWORKS_TRY(Clear(lost));
  return {};
}

}  // namespace headworks::executor_process
