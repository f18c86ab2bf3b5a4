// Words: what attempts say that run elsewhere, and whether they may (I3, I5).

#include "headworks/engine/engine.h"

namespace headworks::engine {

using executor::Heard;
using executor::Reply;
using executor::Word;

void Engine::Hear(Word word, std::function<void(Heard)> reply) {
  std::unique_lock lock(mutex_);
  const std::size_t bytes = BytesOf(word);
  // One that is too large by itself is heard when no other waits.
  const bool full =
      waiting_words_ >= options_.max_waiting_words ||
      (waiting_words_ > 0 && waiting_word_bytes_ + bytes > options_.max_waiting_word_bytes);
  if (full) {
    lock.unlock();
    return reply(Reply::kAskAgain);
  }
  ++waiting_words_;
  waiting_word_bytes_ += bytes;
  lock.unlock();
  const TenantId tenant = word.key.tenant;
  const RunNo run = word.key.run;
  Post(Work{.tenant = tenant,
            .run = run,
            .what = WordWork{.word = std::move(word), .done = std::move(reply)}});
}

std::size_t Engine::BytesOf(const Word& word) {
  return word.holder.size() + word.outcome.output.size() + word.outcome.error.size();
}

bool Engine::ApplyWord(Work& work, WordWork& spoken) {
  spoken.reply = Reply::kAskAgain;
  const auto loaded = Load(work.tenant, work.run, clock_.Now());
  if (!loaded) {
    if (loaded.error().code == Code::kNotFound) spoken.reply = Reply::kStop;
    return true;
  }
  Slot& slot = **loaded;
  Visit(slot);
  const bool known = !slot.deleted && slot.run.header.tenant == work.tenant &&
                     spoken.word.key.task.value < slot.run.tasks.size();
  spoken.reply = known ? Judge(slot, spoken.word) : Heard(Reply::kStop);
  if (Reply(spoken.reply) != Reply::kStop) return true;
  // Nothing but this stops code that may be another owner's, and no commit checks it.
  if (StillOwns(slot.run.header.shard))
    ++stats_.fenced;
  else
    spoken.reply = Reply::kAskAgain;
  return true;
}

bool Engine::StillOwns(Shard shard) {
  if (const auto known = owned_.find(shard); known != owned_.end()) return known->second;
  const auto guard = database_.runs().ReadGuard(shard);
  const bool owns = guard && guard->term == guards_[static_cast<std::size_t>(shard.value)].term;
  return owned_[shard] = owns;
}

Engine::Claim* Engine::ClaimOf(Slot& slot, TaskNo task, Epoch epoch) {
  const auto claim = slot.claims.find(task);
  return claim != slot.claims.end() && claim->second.epoch == epoch ? &claim->second : nullptr;
}

Heard Engine::Judge(Slot& slot, const Word& word) {
  const model::AttemptKey& key = word.key;
  const model::TaskRun& task = slot.run.tasks[key.task.value];
  if (key.epoch >= slot.run.header.next_epoch) return Reply::kAskAgain;  // of a later owner
  if (task.epoch != key.epoch || !(model::IsLive(task.state) || task.zombie)) return Reply::kStop;
  Claim* claim = ClaimOf(slot, key.task, key.epoch);
  if (claim == nullptr && word.kind == Word::Kind::kStarted) return ClaimStart(slot, word);
  if (claim == nullptr || claim->holder != word.holder) return Reply::kStop;
  claim->heard = true;
  claim->heard_at = clock_.Monotonic();
  // The next owner knows nothing of what this one answers without a commit.
  if (word.kind != Word::Kind::kVerdict && !OwnsShards()) return Reply::kAskAgain;
  if (word.kind != Word::Kind::kVerdict)
    return {task.cancel_sent ? Reply::kCancel : Reply::kGoOn, task.since};
  const auto stepped = StepSlot(slot, model::AttemptEnded{key.task, key.epoch, word.outcome});
  return stepped ? Reply::kGoOn : Reply::kAskAgain;
}

Heard Engine::ClaimStart(Slot& slot, const Word& word) {
  const model::AttemptKey& key = word.key;
  const model::TaskRun& task = slot.run.tasks[key.task.value];
  if (task.cancel_sent && task.state != model::TaskState::kRunning) {
    // The gate is shut for good, so the attempt is over.
    model::Outcome outcome{.verdict = model::Verdict::kCancelled,
                           .reason = model::Reason::kCancelRequested,
                           .ended_at = clock_.Now()};
    const model::AttemptEnded over{key.task, key.epoch, std::move(outcome), true};
    return StepSlot(slot, over) ? Reply::kStop : Reply::kAskAgain;
  }
  if (task.state != model::TaskState::kQueued) return Reply::kStop;
  if (!StepSlot(slot, model::AttemptStarted{key.task, key.epoch})) return Reply::kAskAgain;
  slot.claims.insert_or_assign(key.task, Claim{key.epoch, word.holder, true, clock_.Monotonic()});
  soft_failures_.erase({key.run, key.task, key.epoch});  // it was dispatched, whatever was said
  return {Reply::kGoOn, task.since};
}

}  // namespace headworks::engine
