#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "artifact_files.h"
#include "impl.h"

/// What the carriers do: artifacts of other tasks to an attempt, and those of its own to the store.
namespace headworks::executor_process {
namespace {

/// Of what an attempt needs: whatever has no more is soon copied.
constexpr std::uint64_t kQuickBytes = std::uint64_t{64} << 20;

/// A success that was stopped before its artifacts were stored is none.
void StopStoring(model::Outcome& outcome, StopCause why) {
  const model::Outcome stopped = NotStarted(why);
  outcome.output.clear();
  outcome.verdict = stopped.verdict;
  outcome.reason = stopped.reason;
  outcome.error = "stopped while its artifacts were stored";
}

artifact_store::Owner OwnerOf(const executor::Attempt& attempt) {
  return {attempt.key.tenant, attempt.run_id};
}

}  // namespace

std::shared_ptr<artifact_store::BlobStore> ProcessExecutor::Impl::StoreOf(
    const executor::Attempt& attempt) const {
  if (ports_.artifacts_of) return ports_.artifacts_of(attempt);
  return {std::shared_ptr<void>(), ports_.artifacts};  // borrowed
}

void ProcessExecutor::Impl::Carry(Load load) {
  {
    const std::scoped_lock lock(mutex_);
    const model::AttemptKey key = std::visit([](const auto& each) { return each.offer.key; }, load);
    loads_.push_back(std::move(load));
    if (const auto live = live_.find(key);
        live != live_.end() && live->second.stop != StopCause::kNone)
      TakeOffLocked(key, live->second.stop);
  }
  carry_.notify_all();  // not each of them takes it
}

bool ProcessExecutor::Impl::IsQuick(const Load& load) {
  const auto* prepared = std::get_if<Prepared>(&load);
  if (prepared == nullptr) return false;
  std::uint64_t left = kQuickBytes;
  for (const executor::NeededArtifact& needed : prepared->needed) {
    if (needed.artifact.size > left) return false;
    left -= needed.artifact.size;
  }
  return true;
}

void ProcessExecutor::Impl::TakeOffLocked(const model::AttemptKey& key, StopCause why) {
  const auto at = std::ranges::find_if(loads_, [&](const Load& load) {
    return std::visit([&](const auto& each) { return each.offer.key == key; }, load);
  });
  if (at == loads_.end()) return;
  if (auto* prepared = std::get_if<Prepared>(&*at)) {
    messages_.push_back(std::move(*prepared));  // whoever starts it sees the mark
  } else {
    Cargo& cargo = std::get<Cargo>(*at);
    StopStoring(cargo.outcome, why);
    messages_.push_back(Carried{key, std::move(cargo.outcome)});
  }
  loads_.erase(at);
  Wake();
}

void ProcessExecutor::Impl::CarryLoop(const std::stop_token& stop, bool quick) {
  while (true) {
    std::unique_lock lock(mutex_);
    const auto next = [&] {
      return quick ? std::ranges::find_if(loads_, &IsQuick) : loads_.begin();
    };
    if (!carry_.wait(lock, stop, [&] { return next() != loads_.end(); })) return;
    const auto at = next();
    Load load = std::move(*at);
    loads_.erase(at);
    lock.unlock();
    if (auto* prepared = std::get_if<Prepared>(&load)) {
      Place(*prepared, stop);
      // The executor goes, and leaves this to the next one.
      if (!stop.stop_requested()) Post(std::move(*prepared));
    } else {
      Cargo& cargo = std::get<Cargo>(load);
      Keep(cargo, stop);
      if (!stop.stop_requested()) Post(Carried{cargo.offer.key, std::move(cargo.outcome)});
    }
  }
}

/// Copies what the attempt needs, and completes its request; a verdict in `prepared` if it cannot
/// be had.
void ProcessExecutor::Impl::Place(Prepared& prepared, const std::stop_token& stop) {
  const auto stopped = [&] {
    return stop.stop_requested() || StopOf(prepared.offer.key) != StopCause::kNone;
  };
  const auto store = StoreOf(prepared.offer);
  for (const executor::NeededArtifact& needed : prepared.needed) {
    const Status placed = PlaceFile(*store, OwnerOf(prepared.offer), needed, stopped);
    if (placed) continue;
    // Whoever starts it sees the mark that stopped this.
    if (placed.error().code == Code::kCancelled && stopped()) return;
    const bool for_good =
        placed.error().code == Code::kNotFound || placed.error().code == Code::kCorrupt;
    prepared.failure =
        for_good
            ? Failure(model::Verdict::kFailed, model::Reason::kArtifact, placed.error().message)
            : NotNow(model::Reason::kArtifact, placed.error().message, ports_.clock.Now());
    return;
  }
  FillEnvironment(prepared);
}

/// Stores what a success has left and adds it to its result; otherwise it is none.
void ProcessExecutor::Impl::Keep(Cargo& cargo, const std::stop_token& stop) {
  const auto stopped = [&] {
    return stop.stop_requested() || StopOf(cargo.offer.key) != StopCause::kNone;
  };
  const auto store = StoreOf(cargo.offer);
  model::Outcome& outcome = cargo.outcome;
  model::TaskResult result{.output = std::move(outcome.output), .artifacts = {}};
  for (const auto& [name, path] : cargo.artifacts) {
    auto kept = KeepFile(*store, OwnerOf(cargo.offer),
                         {.name = name,
                          .path = path,
                          .cwd = cargo.cwd,
                          .scratch = cargo.scratch,
                          .max_bytes = options_.max_artifact_bytes},
                         stopped);
    if (kept) {
      result.artifacts.emplace(name, *std::move(kept));
      continue;
    }
    if (kept.error().code == Code::kCancelled) return StopStoring(outcome, StopOf(cargo.offer.key));
    outcome.output.clear();
    const bool own = kept.error().code == Code::kInvalidArgument;
    outcome.verdict = own ? model::Verdict::kFailed : model::Verdict::kRetry;
    outcome.reason = model::Reason::kArtifact;
    outcome.error =
        own ? kept.error().message
            : fmt::format("artifact {} cannot be stored: {}", name, kept.error().message);
    return;
  }
  outcome.output = model::WriteResult(result);
}

}  // namespace headworks::executor_process
