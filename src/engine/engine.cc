#include "headworks/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace headworks::engine {

Engine::Engine(EngineOptions options, store::Database& database, dispatcher::Dispatcher& dispatcher,
               Evaluator& evaluator, Clock& clock, Random& random, Logger& logger,
               Observer* observer)
    : options_(std::move(options)),
      database_(database),
      dispatcher_(dispatcher),
      evaluator_(evaluator),
      clock_(clock),
      random_(random),
      logger_(logger),
      observer_(observer),
      start_tasks_(options_.start_tasks),
      due_(options_.ready_order.tenant_weights) {}

Engine::~Engine() { watch_.reset(); }

Status Engine::Open() {
  for (int shard = 0; shard < kShardCount; ++shard) shards_.emplace_back(shard);
  HEADWORKS_ASSIGN(guards_, database_.runs().Acquire(shards_, options_.owner, options_.lease_ttl));
  std::ranges::sort(guards_, {}, &store::Guard::shard);
  const auto permits = database_.limits().ListAllPermits();
  if (!permits) {
    static_cast<void>(database_.runs().Release(guards_));  // if it fails, too, their leases end
    return permits.error();
  }
  pools_.Load(*permits);
  for (const store::Permit& permit : *permits)
    if (options_.recover) holders_.insert({permit.tenant, permit.run});
  if (options_.recover) due_tenants_after_.emplace();
  const Duration mono = clock_.Monotonic();
  lease_due_ = mono + options_.lease_ttl / 3;
  lease_end_ = mono + options_.lease_ttl;
  next_scan_ = mono + std::chrono::minutes(5);
  next_inbox_ = mono;
  watch_ = database_.inbox().WatchAppends([this] {
    const std::scoped_lock lock(mutex_);
    appended_ = woken_ = true;
    mail_arrived_.notify_one();
  });
  open_ = true;
  return {};
}

Result<RunNo> Engine::FirstRun() {
  HEADWORKS_TRY(ReserveRunNos());
  return next_run_no_;
}

Duration Engine::Tick() {
  if (!open_ || lost_) return Duration::max();
  while (lanes_.size() < dispatcher_.lanes()) {
    const std::size_t lane = lanes_.size();
    stats_.lanes.push_back({.executor = std::string(dispatcher_.LaneName(lane))});
    lanes_.push_back(
        Lane{.ready = ReadyQueue(options_.ready_order), .has_lines = dispatcher_.HasLines(lane)});
  }
  const Duration begin = clock_.Monotonic();
  const std::uint64_t rounds = stats_.rounds;
  if (pending_) {
    if (clock_.Monotonic() < pending_->retry_at) return pending_->retry_at;
    TryCommit();
    if (pending_ || lost_) {
      Publish();
      return lost_ ? Duration::max() : pending_->retry_at;
    }
  }
  if (!to_mark_.empty() && mark_at_ <= clock_.Monotonic()) {
    MarkStuck();
  } else if (!isolated_.empty()) {
    auto works = std::move(isolated_.front());
    isolated_.pop_front();
    RunRound(std::move(works), false);
  } else {
    Gather();
    // No round is open.  A line's credit is for those that were queued first.
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      if (lanes_[lane].has_lines && start_tasks_ && OwnsShards()) OfferAgain(lane);
    RunRound({}, true);
    // A round that wrote nothing proved nothing, and this process may have slept meanwhile.
    if (!lost_ && !pending_) KeepLease();
    // Not while a round may yet be rolled back: what follows acts on what is committed.
    if (!pending_ && OwnsShards() && isolated_.empty()) {
      CheckUnstarted();  // after the round: what an earlier owner queued is alone in its way
      InspectRecovered();
      for (std::size_t lane = 0; lane < lanes_.size(); ++lane) OfferAgain(lane);
      NoteHeldUp();
    }
  }
  if (!lost_ && !pending_) KeepLease();
  if (stats_.rounds != rounds) stats_.round_duration.Observe(clock_.Monotonic() - begin);
  Publish();
  return lost_ ? Duration::max() : pending_ ? pending_->retry_at : NextDue();
}

void Engine::WaitForMail(Duration until) {
  std::unique_lock lock(mutex_);
  const Duration now = clock_.Monotonic();
  if (until > now)
    mail_arrived_.wait_for(lock, std::min<Duration>(until - now, std::chrono::hours(1)),
                           [this] { return woken_ || !mail_.empty(); });
  woken_ = false;
}

void Engine::Wake() {
  const std::scoped_lock lock(mutex_);
  woken_ = true;
  mail_arrived_.notify_one();
}

Status Engine::Close() {
  if (!std::exchange(open_, false)) return {};
  watch_.reset();
  AnswerAll();
  if (lost_) return {};
  return database_.runs().Release(guards_);
}

void Engine::AnswerAll() {
  std::vector<Mail> mail;
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    mail.swap(mail_);
  }
  std::vector<Work> works;
  for (auto* queue : {&cancels_, &backlog_})
    std::ranges::move(std::exchange(*queue, {}), std::back_inserter(works));
  std::ranges::move(std::exchange(later_, {}), std::back_inserter(works));
  if (pending_) std::ranges::move(std::exchange(pending_->works, {}), std::back_inserter(works));
  for (auto& batch : std::exchange(isolated_, {}))
    std::ranges::move(batch, std::back_inserter(works));
  for (auto& item : mail)
    if (auto* work = std::get_if<Work>(&item)) works.push_back(std::move(*work));
  Refuse(std::move(works));
}

void Engine::Refuse(std::vector<Work> works) {
  const Error closed{Code::kUnavailable, "the engine is shutting down"};
  for (auto& work : works) {
    if (auto* start = std::get_if<StartWork>(&work.what)) start->result = closed;
    if (auto* command = std::get_if<CommandWork>(&work.what)) command->result = closed;
    if (auto* spoken = std::get_if<WordWork>(&work.what))
      spoken->reply = executor::Reply::kAskAgain;
  }
  Answer(works);
}

void Engine::Start(control::StartRequest request, StartCallback done) {
  if (const Status valid = control::CheckStart(request); !valid) return done(valid.error());
  Error refused{Code::kAtCapacity, ""};
  {
    const std::scoped_lock lock(mutex_);
    if (waiting_starts_ < options_.max_waiting_starts) {
      ++waiting_starts_;
      refused.message.clear();
    } else {
      refused.message =
          fmt::format("{} starts are waiting already; try again later", waiting_starts_);
    }
  }
  if (!refused.message.empty()) return done(refused);
  Post(Work{.tenant = request.tenant,
            .run = RunNo(0),
            .what = StartWork{std::move(request), std::move(done), {}}});
}

void Engine::Execute(control::Command command, CommandCallback done) {
  const RunNo run = command.run;
  Post(Work{.tenant = command.tenant,
            .run = run,
            .what = CommandWork{std::move(command), std::move(done), {}}});
}

void Engine::StopQueueing() {
  const std::scoped_lock lock(mutex_);
  queueing_stopped_ = true;
  woken_ = true;
  mail_arrived_.notify_one();
}

EngineStats Engine::stats() const {
  const std::scoped_lock lock(mutex_);
  return published_;
}

void Engine::Started(const model::AttemptKey& key) { Post(StartedNote{key, clock_.Monotonic()}); }

void Engine::Ended(const model::AttemptKey& key, model::Outcome outcome) {
  Post(Work{.tenant = key.tenant,
            .run = key.run,
            .what = model::Event(model::AttemptEnded{key.task, key.epoch, std::move(outcome)})});
}

void Engine::CapacityChanged() { Wake(); }

void Engine::HandleDispatchFailure(const model::AttemptKey& key,
                                   const executor::OfferResult& result) {
  Post(LateAnswer{.key = key, .result = result});
}

void Engine::HandleDispatchRecovery(const model::AttemptKey& key) {
  Post(LateAnswer{.key = key, .result = {}});
}

void Engine::MarkTaskDispatchFailed(const model::AttemptKey& key, std::string_view reason) {
  Post(LateAnswer{.key = key,
                  .result = {model::Disposition::kRejected, std::string(reason), {}},
                  .fails_task = true});
}

struct EngineLoop::Thread {
  std::jthread jthread;
};

EngineLoop::EngineLoop(Engine& engine) : engine_(engine) {}

EngineLoop::~EngineLoop() { Stop(); }

void EngineLoop::Start() {
  thread_ = std::make_unique<Thread>();
  thread_->jthread = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) engine_.WaitForMail(engine_.Tick());
  });
}

void EngineLoop::Stop() {
  if (!thread_) return;
  thread_->jthread.request_stop();
  engine_.Wake();
  thread_.reset();
}

}  // namespace headworks::engine
