#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "headworks/executor/attempt_log.h"
#include "impl.h"
#include "output_file.h"

namespace headworks::executor_process {
namespace {

constexpr std::uint64_t kWakeTag = 0;
/// In the tag of a supervisor, an address otherwise; that of a pipe is one without it.
constexpr std::uint64_t kSupervisorBit = 1;
/// Beyond it the oldest is taken for harmless again.
constexpr std::size_t kMaxSuspects = 10'000;
constexpr int kEventsPerTurn = 64;
/// Read from one pipe before the others have their turn.
constexpr std::size_t kReadPerTurn = std::size_t{1} << 20;
/// What a pipe can still hold when no process of the attempt is left (the kernel's own limit).
constexpr std::size_t kMaxPipeBytes = std::size_t{1} << 20;
/// Lines are handed to the store above this, or at the end of the turn.
constexpr std::size_t kStoreAbove = std::size_t{4} << 20;
/// How long lines wait for a log store that fails before they are dropped, and verdicts with them.
constexpr Duration kLogPatience = std::chrono::seconds(5);
constexpr Duration kLogRetry = std::chrono::milliseconds(50);
/// Lines for which a log store had no room are offered again after so long, however much happens
/// meanwhile: there may be very many.
constexpr std::chrono::milliseconds kHeldRetry(20);
constexpr Duration kRecoverRetry = std::chrono::seconds(1);

supervisor::AttemptKey WireKey(const model::AttemptKey& key) {
  return {.run = key.run.value, .epoch = key.epoch.value};
}

std::uint64_t TagOf(const void* supervisor) {
  return reinterpret_cast<std::uint64_t>(supervisor) | kSupervisorBit;
}

model::AttemptKey WithoutEpoch(model::AttemptKey key) {
  key.epoch = {};
  return key;
}

}  // namespace

void ProcessExecutor::Impl::RunLoop(const std::stop_token& stop) {
  stop_ = stop;
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  Watch(wake_.get(), kWakeTag);
  Watch(main_.client.fd(), TagOf(&main_));
  while (!stop.stop_requested()) {
    Wait();
    if (woken_) HandleMessages();
    if (main_.readable) Handle(main_);
    for (auto& [slot, alone] : alone_)
      if (alone.readable) Handle(alone);
    StoreLines();
    FinishEnded();
    Converse();
  }
}

/// Sends what the supervisors' sockets take, and waits for room for the rest.
void ProcessExecutor::Impl::Converse() {
  const auto converse = [&](Supervisor& to) {
    to.client.Flush();
    if (to.client.wants_write() == to.watched_for_writing) return;
    to.watched_for_writing = to.client.wants_write();
    epoll_event event{.events = EPOLLIN, .data = {.u64 = TagOf(&to)}};
    if (to.watched_for_writing) event.events |= EPOLLOUT;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, to.client.fd(), &event);
  };
  converse(main_);
  for (auto& [slot, alone] : alone_) converse(alone);
}

void ProcessExecutor::Impl::Watch(int fd, std::uint64_t tag) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = tag}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    ports_.log.Error("cannot watch a file descriptor", {{"error", std::strerror(errno)}});
  }
}

void ProcessExecutor::Impl::Wait() {
  epoll_event events[kEventsPerTurn];
  const int count = epoll_wait(epoll_.get(), events, kEventsPerTurn,
                               held_.empty() ? -1 : static_cast<int>(kHeldRetry.count()));
  for (int i = 0; i < count; ++i) {
    const std::uint64_t tag = events[i].data.u64;
    if (tag == kWakeTag) {
      std::uint64_t drained = 0;
      [[maybe_unused]] const ssize_t n = read(wake_.get(), &drained, sizeof drained);
      woken_ = true;
    } else if ((tag & kSupervisorBit) != 0) {
      reinterpret_cast<Supervisor*>(tag & ~kSupervisorBit)->readable |=
          (events[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0;
    } else {
      // These stay valid for this turn: attempts are only forgotten in FinishEnded.
      ReadPipe(*reinterpret_cast<Pipe*>(tag), kReadPerTurn);
      if (unstored_bytes_ > kStoreAbove) StoreLines();
    }
  }
}

void ProcessExecutor::Impl::HandleMessages() {
  woken_ = false;
  std::deque<Message> messages;
  {
    const std::scoped_lock lock(mutex_);
    messages.swap(messages_);
  }
  for (Message& message : messages) {
    if (auto* prepared = std::get_if<Prepared>(&message)) {
      Launch(std::move(*prepared));
    } else if (const auto* stop = std::get_if<Stop>(&message)) {
      SendStop(stop->key);
    } else if (const auto* later = std::get_if<KillLater>(&message)) {
      const auto running = running_.find(WireKey(later->key));
      if (running != running_.end() && running->second->supervisor != nullptr)
        running->second->supervisor->client.KillAt(running->first, later->at);
    } else if (const auto* repeat = std::get_if<Repeat>(&message)) {
      RepeatEnd(repeat->key);
    } else if (auto* carried = std::get_if<Carried>(&message)) {
      Handle(std::move(*carried));
    } else {
      sink_->CapacityChanged();
    }
  }
}

void ProcessExecutor::Impl::RepeatEnd(const model::AttemptKey& key) {
  std::unique_lock lock(mutex_);
  const auto ended = ended_.find(key);
  if (ended == ended_.end()) return;
  model::Outcome outcome = ended->second;
  lock.unlock();
  sink_->Ended(key, std::move(outcome));
}

void ProcessExecutor::Impl::Launch(Prepared prepared) {
  const model::AttemptKey key = prepared.offer.key;
  if (prepared.failure) {
    Report(prepared.offer, prepared.files, *std::move(prepared.failure));
    sink_->CapacityChanged();
    return;
  }
  auto running = std::make_unique<Running>(prepared.offer, options_.max_log_bytes);
  running->files = std::move(prepared.files);
  running->watch = std::move(prepared.watch);
  running->capture.Watch(running->watch.get());
  running->command = prepared.request.argv.front();
  running->cwd = prepared.request.cwd;
  running->artifacts = std::move(prepared.artifacts);
  running->out = {running.get(), log_store::Stream::kStdout, std::move(prepared.out)};
  running->err = {running.get(), log_store::Stream::kStderr, std::move(prepared.err)};
  Running& entry = *running;
  running_[WireKey(key)] = std::move(running);
  StopCause stop = StopCause::kNone;
  std::optional<Duration> kill_at;
  {
    const std::scoped_lock lock(mutex_);
    Live& live = live_.at(key);
    stop = live.stop;
    kill_at = live.kill_at;
    live.sent = stop == StopCause::kNone;
  }
  if (stop != StopCause::kNone) return End(entry, NotStarted(stop));
  if (kill_at && *kill_at <= ports_.clock.Monotonic()) return End(entry, KilledInTime());
  prepared.request.kill_at = kill_at.value_or(Duration(0));
  auto supervisor = SupervisorFor(prepared.offer);
  if (!supervisor) {
    return End(entry,
               NotNow(model::Reason::kSpawn, supervisor.error().message, ports_.clock.Now()));
  }
  entry.supervisor = *supervisor;
  if (ports_.ledger != nullptr) {
    const Status mark = ports_.ledger->MarkStarted(key);
    if (!mark) return End(entry, NotMarked(mark.error(), ports_.clock.Now()));
  }
  if (const Status status = entry.supervisor->client.Spawn(std::move(prepared.request)); !status) {
    return End(entry,
               Failure(model::Verdict::kFailed, model::Reason::kSpawn, status.error().message));
  }
  Watch(entry.out.fd.get(), reinterpret_cast<std::uint64_t>(&entry.out));
  Watch(entry.err.fd.get(), reinterpret_cast<std::uint64_t>(&entry.err));
}

void ProcessExecutor::Impl::SendStop(const model::AttemptKey& key) {
  const auto running = running_.find(WireKey(key));
  // While its artifacts are stored, there is nothing to kill: the carrier sees the mark.
  if (running == running_.end() || running->second->outcome) return;
  running->second->supervisor->client.Kill(WireKey(key), running->second->offer.task().grace);
}

/// One for this attempt alone, where its task may be what killed an earlier one.
Result<ProcessExecutor::Impl::Supervisor*> ProcessExecutor::Impl::SupervisorFor(
    const executor::Attempt& attempt) {
  if (!suspects_.contains(WithoutEpoch(attempt.key))) return &main_;
  std::uint32_t slot = 0;
  while (alone_.contains(slot)) ++slot;
  Supervisor& alone = alone_.try_emplace(slot, OptionsOfAlone(slot), ports_.log).first->second;
  if (Status status = alone.client.Start(); !status) {
    alone_.erase(slot);
    return std::move(status).error();
  }
  Watch(alone.client.fd(), TagOf(&alone));
  return &alone;
}

void ProcessExecutor::Impl::Suspect(const model::AttemptKey& key) {
  if (!suspects_.insert(WithoutEpoch(key)).second) return;
  suspects_by_age_.push_back(WithoutEpoch(key));
  if (suspects_.size() <= kMaxSuspects) return;
  suspects_.erase(suspects_by_age_.front());
  suspects_by_age_.pop_front();
}

void ProcessExecutor::Impl::Handle(Supervisor& supervisor) {
  supervisor.readable = false;
  events_.clear();
  const bool alive = supervisor.client.Read(events_);
  for (const SupervisorEvent& event : events_) {
    std::visit([&](const auto& e) { Handle(e); }, event);
  }
  if (!alive) Recover(supervisor);
}

void ProcessExecutor::Impl::Handle(const supervisor::Started& started) {
  const auto running = running_.find(started.attempt);
  if (running == running_.end()) return;
  const model::AttemptKey& key = running->second->offer.key;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto live = live_.find(key); live != live_.end()) {
      live->second.started_at = ports_.clock.Now() - Duration(started.ran_us);
    }
  }
  sink_->Started(key);
}

void ProcessExecutor::Impl::Handle(const supervisor::SpawnFailed& failed) {
  const auto running = running_.find(failed.attempt);
  if (running == running_.end()) return;
  End(*running->second,
      OutcomeOf(failed, running->second->command, running->second->cwd, ports_.clock.Now()));
}

void ProcessExecutor::Impl::Handle(const supervisor::Ended& ended) {
  const auto found = running_.find(ended.attempt);
  if (found == running_.end()) return;
  Running& running = *found->second;
  const executor::Attempt& offer = running.offer;
  {
    // The supervisor's measure: its word of the start may be read together with that of the end.
    const std::scoped_lock lock(mutex_);
    if (const auto live = live_.find(offer.key); live != live_.end())
      live->second.started_at = ports_.clock.Now() - Duration(ended.wall_us);
  }
  model::Outcome outcome = OutcomeOf(ended, StopOf(offer.key), offer.timeout);
  if (ended.leftovers > 0) {
    running.capture.Note(
        fmt::format("{} process{} outlived the task's main process and {} killed", ended.leftovers,
                    ended.leftovers == 1 ? "" : "es", ended.leftovers == 1 ? "was" : "were"),
        ports_.clock.Now());
  }
  End(running, std::move(outcome));
}

/// The output of a success, which is none if it cannot be taken or is not as declared.
void ProcessExecutor::Impl::TakeOutput(const Running& running, model::Outcome& outcome) {
  const model::OutputSpec& spec = running.offer.task().output;
  auto output = spec.mode == model::OutputMode::kFile ? ReadOutputFile(spec, running.files.output)
                                                      : OutputOfStdout(spec, running.stdout_text);
  if (output) {
    outcome.output = *std::move(output);
  } else {
    outcome.verdict = model::Verdict::kFailed;
    outcome.reason = model::Reason::kOutput;
    outcome.error = std::move(output).error().message;
  }
}

/// All of the attempt is over: takes what is left in its pipes.  The verdict follows the lines.
void ProcessExecutor::Impl::End(Running& running, model::Outcome outcome) {
  if (running.outcome) return;
  for (Pipe* pipe : {&running.out, &running.err}) {
    // Nobody of the attempt writes any more.  If a stranger holds the other end, what is there now
    // is all that counts; the bound is for one who goes on writing.
    ReadPipe(*pipe, kMaxPipeBytes);
    ClosePipe(*pipe);
  }
  if (outcome.verdict == model::Verdict::kSucceeded) TakeOutput(running, outcome);
  if (!running.capture.lines().empty()) unstored_.push_back(&running);
  if (outcome.verdict != model::Verdict::kSucceeded || running.artifacts.empty())
    return Finish(running, std::move(outcome));
  running.outcome = outcome;
  Carry(Cargo{.offer = running.offer,
              .cwd = running.cwd,
              .scratch = running.files.scratch,
              .artifacts = running.artifacts,
              .outcome = std::move(outcome)});
}

void ProcessExecutor::Impl::Handle(Carried carried) {
  const auto running = running_.find(WireKey(carried.key));
  if (running != running_.end()) Finish(*running->second, std::move(carried.outcome));
}

void ProcessExecutor::Impl::Finish(Running& running, model::Outcome outcome) {
  if (running.watch) running.watch->Judge(outcome);
  running.outcome = std::move(outcome);
  ended_now_.push_back(&running);
}

/// The supervisor was killed: nothing is said about its attempts before all they left is dead.
void ProcessExecutor::Impl::Recover(Supervisor& supervisor) {
  ports_.log.Error("the supervisor died; killing what it left", {});
  std::vector<supervisor::AttemptKey> lost;
  while (true) {
    const Status status =
        &supervisor == &main_ ? supervisor.client.Recover(lost) : supervisor.client.Bury(lost);
    for (const supervisor::AttemptKey& key : std::exchange(lost, {})) {
      if (const auto running = running_.find(key); running != running_.end()) {
        Suspect(running->second->offer.key);
        End(*running->second, Lost("the supervisor was killed; no process of it is left"));
      }
    }
    if (status) break;
    ports_.log.Error("the supervisor cannot be replaced", {{"error", status.error().message}});
    StoreLines();
    FinishEnded();
    std::this_thread::sleep_for(kRecoverRetry);
    if (stop_.stop_requested()) return;
  }
  supervisor.watched_for_writing = false;
  if (&supervisor == &main_) return Watch(main_.client.fd(), TagOf(&main_));
  for (const auto& [key, running] : running_)
    if (running->supervisor == &supervisor)
      End(*running, NotNow(model::Reason::kSpawn, "its supervisor was killed before it was told",
                           ports_.clock.Now()));
}

/// Reads up to `limit` bytes; at the end of file the pipe is closed.
void ProcessExecutor::Impl::ReadPipe(Pipe& pipe, std::size_t limit) {
  OutputCapture& capture = pipe.owner->capture;
  const std::size_t before = capture.pending_bytes;
  const bool had_lines = !capture.lines().empty();
  for (std::size_t done = 0; pipe.fd && done < limit;) {
    const ssize_t n = read(pipe.fd.get(), buffer_.data(), buffer_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) ClosePipe(pipe);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
    const std::string_view bytes(buffer_.data(), static_cast<std::size_t>(n));
    capture.Feed(pipe.stream, bytes, ports_.clock.Now());
    if (&pipe == &pipe.owner->out && pipe.owner->keeps_stdout()) {
      std::string& kept = pipe.owner->stdout_text;
      kept += bytes.substr(0, kMaxOutputBytes + 1 - kept.size());
    }
  }
  unstored_bytes_ += capture.pending_bytes - before;
  if (!had_lines && !capture.lines().empty()) unstored_.push_back(pipe.owner);
}

void ProcessExecutor::Impl::ClosePipe(Pipe& pipe) {
  if (!pipe.fd) return;
  pipe.owner->capture.Finish(pipe.stream, ports_.clock.Now());
  pipe.fd.Close();
}

void ProcessExecutor::Impl::StoreLines() {
  if (!held_.empty() && ports_.clock.Monotonic() - held_tried_at_ >= kHeldRetry) {
    held_tried_at_ = ports_.clock.Monotonic();
    unstored_.insert(unstored_.end(), held_.begin(), held_.end());
  }
  if (unstored_.empty()) return;
  std::ranges::sort(unstored_);
  unstored_.erase(std::ranges::unique(unstored_).begin(), unstored_.end());
  std::vector<log_store::Batch> batches;
  const std::vector<Running*> owners = std::exchange(unstored_, {});
  for (Running* running : owners) {
    running->capture.pending_bytes = 0;
    batches.push_back({running->offer.key, std::exchange(running->capture.lines(), {})});
  }
  unstored_bytes_ = 0;
  while (true) {
    const Status status = ports_.log_store.Append(batches);
    if (status) {
      if (log_failing_since_) {
        ports_.log.Info("log lines are stored again",
                        {{"dropped", fmt::to_string(dropped_lines_.load())}});
      }
      log_failing_since_.reset();
      for (Running* running : owners) Unhold(*running);
      return;
    }
    if (status.error().code == Code::kAtCapacity) return StoreWhatFits(owners, batches);
    if (!log_failing_since_) {
      log_failing_since_ = ports_.clock.Monotonic();
      ports_.log.Error("log lines cannot be stored", {{"error", status.error().message}});
    }
    if (ports_.clock.Monotonic() - *log_failing_since_ >= kLogPatience) {
      // Tasks would stop on full pipes, and verdicts be held, for as long as the outage lasts.
      for (std::size_t i = 0; i < owners.size(); ++i) {
        dropped_lines_ += batches[i].lines.size();
        executor::ForAttempt(ports_.log, owners[i]->offer)
            .Error("log lines are dropped", {{"lines", fmt::to_string(batches[i].lines.size())}});
        Unhold(*owners[i]);
      }
      return;
    }
    std::this_thread::sleep_for(kLogRetry);
  }
}

/// The log store is full, perhaps by what one of them prints: the others go on (I11).
void ProcessExecutor::Impl::StoreWhatFits(const std::vector<Running*>& owners,
                                          std::vector<log_store::Batch>& batches) {
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (const Status status = ports_.log_store.Append({&batches[i], 1}); status) {
      Unhold(*owners[i]);
    } else {
      Hold(*owners[i], std::move(batches[i].lines));
    }
  }
}

/// Reads no more of it before `lines` are stored: its task waits at the end of a full pipe.
void ProcessExecutor::Impl::Hold(Running& running, std::vector<log_store::Line> lines) {
  running.capture.lines() = std::move(lines);
  if (std::exchange(running.held, true)) return;
  held_.push_back(&running);
  for (const Pipe* pipe : {&running.out, &running.err})
    if (pipe->fd) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, pipe->fd.get(), nullptr);
}

void ProcessExecutor::Impl::Unhold(Running& running) {
  if (!std::exchange(running.held, false)) return;
  std::erase(held_, &running);
  for (Pipe* pipe : {&running.out, &running.err})
    if (pipe->fd) Watch(pipe->fd.get(), reinterpret_cast<std::uint64_t>(pipe));
}

void ProcessExecutor::Impl::FinishEnded() {
  std::vector<Running*> finished;
  for (Running* running : ended_now_)
    if (!running->held) finished.push_back(running);
  std::erase_if(ended_now_, [](const Running* running) { return !running->held; });
  if (finished.empty()) return;
  for (Running* running : finished) {
    Report(running->offer, running->files, *std::move(running->outcome));
    std::erase_if(alone_, [&](const auto& entry) { return &entry.second == running->supervisor; });
    running_.erase(WireKey(running->offer.key));
  }
  sink_->CapacityChanged();
}

}  // namespace headworks::executor_process
