#include "supervisor/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "supervisor/spawn.h"

namespace headworks::supervisor {
namespace {

/// How long what outlives the main process may go on: the reader at the end of a pipe finishes.
constexpr std::int64_t kLeftoverGraceUs = 250'000;
/// A process that KILL did not end yet (uninterruptible, or forked meanwhile) gets it again.
constexpr std::int64_t kKillAgainUs = 200'000;
/// An attempt that ends within this is reported once.
constexpr std::int64_t kAnnounceAfterUs = 20'000;

/// What poll sleeps may be longer by CLOCK_BOOTTIME: so often it is looked at.
constexpr std::int64_t kLookAtBootTimeUs = 1'000'000;

std::int64_t ReadUs(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000 + t.tv_nsec / 1'000;
}
std::int64_t NowUs() { return ReadUs(CLOCK_MONOTONIC); }
std::int64_t BootUs() { return ReadUs(CLOCK_BOOTTIME); }

std::int64_t MicrosecondsOf(const timeval& t) {
  return std::int64_t{t.tv_sec} * 1'000'000 + t.tv_usec;
}

/// Reads a whole memfd; false unless it holds exactly `size` bytes.
bool ReadBody(int fd, std::uint32_t size, std::string& out) {
  out.resize(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = pread(fd, out.data() + done, size - done, static_cast<off_t>(done));
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

/// Splits a body into cwd, arguments and environment; false if it does not hold as many strings.
bool SplitBody(const Spawn& request, std::string& body, SpawnPlan& plan,
               std::vector<char*>& pointers) {
  if (request.argc == 0 || body.empty() || body.back() != '\0') return false;
  pointers.clear();
  pointers.reserve(std::size_t{request.argc} + request.envc + 3);
  std::uint32_t count = 0;
  for (std::size_t at = 0; at < body.size(); at += std::strlen(body.data() + at) + 1) {
    pointers.push_back(body.data() + at);
    if (++count == request.argc + 1) pointers.push_back(nullptr);
  }
  if (count != request.argc + request.envc + 1) return false;
  pointers.push_back(nullptr);
  plan.cwd = pointers[0];
  plan.argv = pointers.data() + 1;
  plan.envp = pointers.data() + request.argc + 2;
  return true;
}

}  // namespace

bool Supervisor::Open() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return false;
  // Dispositions once, here: a child then has nothing to reset but its mask.
  // By system call, because the C library keeps two signals (which posix_spawn ignores) from it.
  const std::array<unsigned long, 4> by_default{};
  for (int signal = 1; signal < NSIG; ++signal) {
    syscall(SYS_rt_sigaction, signal, by_default.data(), nullptr, sizeof(std::uint64_t));
  }
  // Requests to end come from the engine alone: a TERM to the whole service must not make this
  // process leave its children behind.  What is not SIGCHLD is read and dropped.
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2}) {
    sigaddset(&mask, signal);
  }
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  signals_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  null_ = open("/dev/null", O_RDWR | O_CLOEXEC);
  std::array<char, 48> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/task/%d/children", getpid());
  // Absent in a kernel without CONFIG_PROC_CHILDREN: then the whole table is read instead.
  children_ = open(path.data(), O_RDONLY | O_CLOEXEC);
  // Four are held for each attempt; how many attempts there may be is the engine's to say.
  if (getrlimit(RLIMIT_NOFILE, &files_) != 0) return false;
  rlimit most = files_;
  most.rlim_cur = most.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &most) != 0) return false;
  groups_.Probe();
  return signals_ >= 0 && null_ >= 0;
}

int Supervisor::Run() {
  if (!Open()) {
    std::perror("headworks-supervisor: cannot start");
    return 1;
  }
  Send(Hello{.groups = static_cast<std::uint8_t>(groups_.usable()), .pid = getpid()});
  while (true) {
    std::array<pollfd, 2> fds{{
        {.fd = signals_, .events = POLLIN, .revents = 0},
        {.fd = peer_gone_ ? -1 : socket_,
         .events = static_cast<short>(POLLIN | (outgoing_.empty() ? 0 : POLLOUT)),
         .revents = 0},
    }};
    if (poll(fds.data(), fds.size(), PollTimeoutMs()) < 0 && errno != EINTR) return 1;
    if (fds[0].revents != 0) {
      // What is left makes poll return again.
      std::array<signalfd_siginfo, 16> drained;
      changed_ = read(signals_, drained.data(), sizeof drained) > 0 || changed_;
    }
    if (fds[1].revents != 0) Receive();
    const std::int64_t now = NowUs();
    for (Attempt& attempt : attempts_) {
      if (attempt.due_us != 0 && attempt.due_us <= now) Advance(attempt);
      if (attempt.kill_at_us != 0) KillWhatIsOverdue(attempt, BootUs());
    }
    if (changed_ || closing_) Settle();
    Announce(now);
    Flush();
    for (const int fd : finished_pipes_) close(fd);
    finished_pipes_.clear();
    if (closing_ && attempts_.empty() && orphans_.empty() && (peer_gone_ || outgoing_.empty())) {
      return 0;
    }
  }
}

/// Takes one request; poll says whether there are more.
void Supervisor::Receive() {
  alignas(Spawn) static std::array<char, kMaxPacketBytes> packet;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  iovec part{.iov_base = packet.data(), .iov_len = packet.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = recvmsg(socket_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET)) return;
  if (size <= 0) {
    peer_gone_ = true;
    Close();
    return;
  }
  ReceivedFds fds{};
  int fd_count = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    fd_count = static_cast<int>((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(fds.data(), CMSG_DATA(c), static_cast<std::size_t>(fd_count) * sizeof(int));
  }
  Header header;
  const std::string_view bytes(packet.data(), static_cast<std::size_t>(size));
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version == kProtocolVersion) {
    if (header.kind == Kind::kSpawn && bytes.size() >= sizeof(Spawn)) {
      Spawn request;
      std::memcpy(static_cast<void*>(&request), bytes.data(), sizeof request);
      HandleSpawn(request, bytes.substr(sizeof request), fds, fd_count);
    } else if (header.kind == Kind::kKill && bytes.size() == sizeof(Kill)) {
      Kill request;
      std::memcpy(static_cast<void*>(&request), bytes.data(), sizeof request);
      HandleKill(request);
    } else if (header.kind == Kind::kKillAt && bytes.size() == sizeof(KillAt)) {
      KillAt request;
      std::memcpy(static_cast<void*>(&request), bytes.data(), sizeof request);
      HandleKillAt(request);
    } else if (header.kind == Kind::kShutdown) {
      Close();
    }
  }
  for (int i = 0; i < fd_count; ++i) {
    if (const int fd = fds[static_cast<std::size_t>(i)]; fd >= 0) close(fd);
  }
}

/// Takes the pipes out of `fds` if the attempt starts.
void Supervisor::HandleSpawn(const Spawn& request, std::string_view inline_body, ReceivedFds& fds,
                             int fd_count) {
  // Another may have begun it by now.
  if (request.kill_at_us != 0 && BootUs() >= request.kill_at_us) {
    return Send(Ended{.cause = Cause::kKillAt, .signal = SIGKILL, .attempt = request.attempt});
  }
  static std::string body;
  static std::vector<char*> pointers;
  std::int64_t began = 0;
  int group = 0;
  SpawnPlan plan;
  SpawnResult result{.step = SpawnStep::kRequest, .error = EINVAL};
  if (closing_) {
    result.error = ESHUTDOWN;
  } else if (fd_count == (request.body_in_memfd != 0 ? 3 : 2) &&
             request.body_bytes <= kMaxBodyBytes) {
    const bool complete = request.body_in_memfd != 0 ? ReadBody(fds[2], request.body_bytes, body)
                                                     : inline_body.size() == request.body_bytes;
    if (request.body_in_memfd == 0) body.assign(inline_body);
    if (complete && SplitBody(request, body, plan, pointers)) {
      plan.stdin_fd = null_;
      plan.stdout_fd = fds[0];
      plan.stderr_fd = fds[1];
      plan.files = &files_;
      group = groups_.Take();
      plan.group_clone_fd = groups_.clone_fd(group);
      plan.group_join_fd = groups_.join_fd(group);
      began = NowUs();  // the child may be well under way when the clone returns
      result = SpawnProcess(plan);
    }
  }
  if (result.error != 0) {
    if (result.pid > 0) waitpid(result.pid, nullptr, 0);
    groups_.Give(group);
    Send(SpawnFailed{.step = result.step, .error = result.error, .attempt = request.attempt});
    return;
  }
  attempts_.push_back({.key = request.attempt,
                       .pid = result.pid,
                       .group = group,
                       .sequence = ++last_sequence_,
                       .started_us = began,
                       .grace_us = request.grace_us,
                       .due_us = request.timeout_us > 0 ? began + request.timeout_us : 0,
                       .kill_at_us = request.kill_at_us,
                       .pipes = {std::exchange(fds[0], -1), std::exchange(fds[1], -1)}});
}

/// Says of attempts that go on for a while that they were started.
void Supervisor::Announce(std::int64_t now) {
  for (Attempt& attempt : attempts_) {
    const std::int64_t ran = now - attempt.started_us;
    if (attempt.announced || attempt.main_gone || ran < kAnnounceAfterUs) continue;
    attempt.announced = true;
    Send(Started{.pid = attempt.pid, .attempt = attempt.key, .ran_us = ran});
  }
}

void Supervisor::HandleKill(const Kill& request) {
  const auto attempt = std::ranges::find(attempts_, request.attempt, &Attempt::key);
  if (attempt != attempts_.end()) Terminate(*attempt, Cause::kCancel, request.grace_us);
}

void Supervisor::HandleKillAt(const KillAt& request) {
  const auto attempt = std::ranges::find(attempts_, request.attempt, &Attempt::key);
  // 0 would be never.
  if (attempt != attempts_.end()) attempt->kill_at_us = std::max<std::int64_t>(request.at_us, 1);
}

void Supervisor::Close() {
  if (closing_) return;
  closing_ = true;
  for (Attempt& attempt : attempts_) Terminate(attempt, Cause::kShutdown, attempt.grace_us);
}

template <typename Message>
void Supervisor::Send(const Message& message) {
  if (peer_gone_) return;
  outgoing_.emplace_back(reinterpret_cast<const char*>(&message), sizeof message);
}

void Supervisor::Flush() {
  while (!outgoing_.empty() && !peer_gone_) {
    const std::string& front = outgoing_.front();
    if (send(socket_, front.data(), front.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      // A peer that is gone shows as end of file on the reading side, where it is handled.
      if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS) return;
    }
    outgoing_.pop_front();
  }
}

/// Takes the status of every child that has ended.  True if there was one.
bool Supervisor::Reap() {
  bool any = false;
  int status = 0;
  rusage usage{};
  for (pid_t pid; (pid = wait4(-1, &status, WNOHANG, &usage)) > 0; any = true) {
    const auto attempt = std::ranges::find(attempts_, pid, &Attempt::pid);
    if (attempt == attempts_.end() || attempt->main_gone) continue;
    attempt->main_gone = true;
    attempt->status = status;
    attempt->usage = usage;
    attempt->ended_us = NowUs();
  }
  return any;
}

std::vector<pid_t> Supervisor::Children() {
  std::vector<pid_t> children;
  if (children_ < 0) {
    for (const Process& p : ListProcesses()) {
      if (p.parent == getpid()) children.push_back(p.pid);
    }
    return children;
  }
  std::array<char, 16384> buffer;
  std::string text;
  for (ssize_t n;
       (n = pread(children_, buffer.data(), buffer.size(), static_cast<off_t>(text.size()))) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
    if (static_cast<std::size_t>(n) < buffer.size() / 2) break;
  }
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    pid_t pid = 0;
    const auto [next, error] = std::from_chars(at, end, pid);
    if (error == std::errc()) children.push_back(pid);
    at = next + 1;
  }
  return children;
}

/// Brings `orphans_` up to date: children of this process that it did not start.
void Supervisor::ScanChildren() {
  for (Orphan& orphan : orphans_) orphan.listed = false;
  for (const pid_t pid : Children()) {
    const bool is_main = std::ranges::any_of(
        attempts_, [&](const Attempt& a) { return a.pid == pid && !a.main_gone; });
    if (is_main) continue;
    if (auto known = std::ranges::find(orphans_, pid, &Orphan::pid); known != orphans_.end()) {
      known->listed = true;
      continue;
    }
    const std::uint64_t owner = OwnerOf(pid);
    orphans_.push_back({.pid = pid, .owner = owner, .seen_at = last_sequence_});
  }
  std::erase_if(orphans_, [](const Orphan& o) { return !o.listed; });
}

std::uint64_t Supervisor::OwnerOf(pid_t orphan) {
  if (const int group = groups_.GroupOf(orphan); group != 0) {
    const auto owner = std::ranges::find(attempts_, group, &Attempt::group);
    return owner == attempts_.end() ? 0 : owner->sequence;
  }
  Process process;
  if (!ReadProcess(orphan, process)) return 0;
  for (const Attempt& a : attempts_) {
    if (process.session == a.pid || process.group == a.pid) return a.sequence;
  }
  AttemptKey key;
  if (!ParseMark(ReadMark(orphan), store_id_, key)) return 0;
  const auto owner = std::ranges::find(attempts_, key, &Attempt::key);
  return owner == attempts_.end() ? 0 : owner->sequence;
}

/// Whether `attempt` may not end before `orphan` does.
bool Supervisor::Holds(const Attempt& attempt, const Orphan& orphan) const {
  if (orphan.owner != 0) return orphan.owner == attempt.sequence;
  return attempt.sequence <= orphan.seen_at &&
         std::ranges::none_of(attempts_, [&](const Attempt& other) {
           return other.sequence != attempt.sequence && other.sequence <= orphan.seen_at;
         });
}

bool Supervisor::Remains(const Attempt& attempt) const {
  if (!groups_.IsEmpty(attempt.group)) return true;
  if (kill(-attempt.pid, 0) == 0 || errno != ESRCH) return true;
  return std::ranges::any_of(orphans_, [&](const Orphan& o) { return Holds(attempt, o); });
}

/// Reports the attempts of which nothing is left; goes after what outlived its main process.
void Supervisor::Settle() {
  // A child that ends during the scan may hand its own children over unseen: scan until none did.
  do {
    Reap();
    ScanChildren();
  } while (Reap());
  changed_ = false;
  for (std::size_t i = 0; i < attempts_.size();) {
    Attempt& attempt = attempts_[i];
    if (!attempt.main_gone) {
      ++i;
    } else if (!Remains(attempt)) {
      Report(attempt);
      attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(i));
      // Its end may leave another attempt as the last that an unknown orphan is held against.
      i = 0;
    } else {
      if (attempt.phase == Phase::kRunning) {
        attempt.phase = Phase::kTerminating;
        attempt.due_us = NowUs() + std::min(kLeftoverGraceUs, attempt.grace_us);
      } else if (attempt.phase == Phase::kKilling) {
        SignalTree(attempt, SIGKILL);
      }
      ++i;
    }
  }
  for (const Orphan& orphan : orphans_) {
    const bool suspected = std::ranges::any_of(attempts_, [&](const Attempt& a) {
      return orphan.owner != 0 ? a.sequence == orphan.owner : a.sequence <= orphan.seen_at;
    });
    if (!suspected) kill(orphan.pid, SIGKILL);
  }
}

void Supervisor::Report(const Attempt& attempt) {
  groups_.Give(attempt.group);
  finished_pipes_.insert(finished_pipes_.end(), attempt.pipes.begin(), attempt.pipes.end());
  const bool exited = WIFEXITED(attempt.status);
  Send(Ended{.cause = attempt.cause,
             .killed = attempt.killed,
             .exit_code = exited ? WEXITSTATUS(attempt.status) : -1,
             .signal = exited ? 0 : WTERMSIG(attempt.status),
             .leftovers = attempt.leftovers,
             .attempt = attempt.key,
             .wall_us = attempt.ended_us - attempt.started_us,
             .user_us = MicrosecondsOf(attempt.usage.ru_utime),
             .system_us = MicrosecondsOf(attempt.usage.ru_stime),
             .max_rss_kib = attempt.usage.ru_maxrss});
}

void Supervisor::Terminate(Attempt& attempt, Cause cause, std::int64_t grace_us) {
  const std::int64_t due = NowUs() + grace_us;
  if (attempt.phase != Phase::kRunning) {
    attempt.due_us = std::min(attempt.due_us, due);
    return;
  }
  attempt.phase = Phase::kTerminating;
  attempt.due_us = due;
  // A main process that ended by itself keeps its own end; only what it left is hurried.
  Reap();
  if (!attempt.main_gone) attempt.cause = cause;
  changed_ = true;
  SignalTree(attempt, SIGTERM);
}

void Supervisor::Advance(Attempt& attempt) {
  if (attempt.phase == Phase::kRunning) {
    Terminate(attempt, Cause::kTimeout, attempt.grace_us);
    return;
  }
  if (attempt.phase == Phase::kTerminating && !attempt.main_gone) attempt.killed = true;
  attempt.phase = Phase::kKilling;
  SignalTree(attempt, SIGKILL);
  attempt.due_us = NowUs() + kKillAgainUs;
}

void Supervisor::KillWhatIsOverdue(Attempt& attempt, std::int64_t boot_us) {
  if (boot_us < attempt.kill_at_us) return;
  attempt.kill_at_us = 0;
  if (attempt.phase == Phase::kKilling) return;
  Reap();
  if (!attempt.main_gone && attempt.phase == Phase::kRunning) attempt.cause = Cause::kKillAt;
  attempt.phase = Phase::kTerminating;
  changed_ = true;
  Advance(attempt);
}

/// Signals the session, the group, and all descendants, whatever they did to leave them.
void Supervisor::SignalTree(Attempt& attempt, int signal) {
  const auto send = [&](const Process& p) {
    Signal(p, signal);
    // A stopped process would not act on TERM.
    if (signal == SIGTERM) Signal(p, SIGCONT);
  };
  std::vector<pid_t> roots;
  if (!attempt.main_gone) roots.push_back(attempt.pid);
  for (const Orphan& orphan : orphans_) {
    if (Holds(attempt, orphan)) roots.push_back(orphan.pid);
  }
  const std::vector<pid_t> members = groups_.Members(attempt.group);
  const std::vector<Process> all = ListProcesses();
  std::uint32_t found = 0;
  // Listed before the first signal: a parent that dies would take the trace to its children along.
  std::vector<Process> family = Descendants(all, roots);
  for (const Process& p : all) {
    const bool root = std::ranges::find(roots, p.pid) != roots.end() ||
                      std::ranges::find(members, p.pid) != members.end();
    const bool known = std::ranges::find(family, p.pid, &Process::pid) != family.end();
    if (!known && (root || p.session == attempt.pid)) family.push_back(p);
  }
  // Before any other: a member that forks on and on is ended by nothing else.
  if (signal == SIGKILL) groups_.Kill(attempt.group);
  kill(-attempt.pid, signal);
  if (signal == SIGTERM) kill(-attempt.pid, SIGCONT);
  for (const Process& p : family) {
    if (p.state == 'Z') continue;
    ++found;
    if (p.group != attempt.pid) send(p);
  }
  if (attempt.main_gone && signal == SIGKILL) {
    attempt.leftovers = std::max(attempt.leftovers, found);
  }
}

int Supervisor::PollTimeoutMs() const {
  std::int64_t due = 0;
  for (const Attempt& a : attempts_) {
    const auto by = [&](std::int64_t when) { due = due == 0 ? when : std::min(due, when); };
    if (a.due_us != 0) by(a.due_us);
    if (a.kill_at_us != 0)
      by(NowUs() + std::clamp<std::int64_t>(a.kill_at_us - BootUs(), 0, kLookAtBootTimeUs));
    if (!a.announced && !a.main_gone) by(a.started_us + kAnnounceAfterUs);
  }
  if (due == 0) return -1;
  return static_cast<int>(std::clamp<std::int64_t>((due - NowUs() + 999) / 1'000, 0, 60'000));
}

}  // namespace headworks::supervisor
