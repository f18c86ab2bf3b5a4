// Artifacts: what holders leave and need, on its way between them and the store.

#include <fmt/format.h>

#include "border.h"
#include "headworks/model/artifact.h"
#include "impl.h"
#include "job.h"

namespace headworks::executor_queue {

using artifact_store::Blob;
using artifact_store::Owner;
using executor::AttemptGate;
using executor::Reply;
using executor::Word;
using worker_api::ArtifactPiece;
using worker_api::ArtifactTaken;

namespace {

/// For each that its task leaves: more than a worker's tries to pass on one that others change.
constexpr std::size_t kMostFiles = 16;
/// Only digests are wanted.
constexpr std::string_view kNoFolder = "/nowhere";

/// Of all that one attempt fetches, or passes on: a worker that only seems to go on does not keep
/// it for ever (I12).
constexpr Duration kLongestTransfer = std::chrono::hours(12);

Error Over() { return {Code::kUnavailable, "the attempt is over, or about to be"}; }
Error NoRoom() { return {Code::kUnavailable, "too many pieces wait to be stored; say it again"}; }

}  // namespace

void Impl::HearHolder(const std::string& work_token, Heard_ then) {
  const auto work = ports_.tokens.Verify(work_token, executor::TokenUse::kWork);
  if (!work) return then(executor::ToError(work.error()), {});
  const auto sink = [&]() -> Result<executor::AttemptSink*> {
    const Lock lock(mutex_);
    TouchLocked(*work);
    return SpeakLocked();
  }();
  if (!sink) return then(Error(sink.error()), {});
  gate_.Say(
      **sink, work_token, Word::Kind::kOutput, {},
      [this, work = *work, then = std::move(then)](const Result<AttemptGate::Answer>& answer) {
        if (!answer) return then(Error(answer.error()), {});
        NoteReply(answer->reply);
        if (!Heard(answer->reply)) return then(answer->reply, {});
        executor::Attempt attempt;
        Calls calls;
        {
          const Lock lock(mutex_);
          AdoptLocked(work, calls);
          if (const auto known = entries_.find(IdOf(work.attempt)); known != entries_.end())
            attempt = known->second.attempt;
        }
        Make(calls);
        // The engine is about to ask after it, and says more then.
        then(attempt.workflow ? answer->reply : Reply::kAskAgain, attempt);
      });
  Spoken();
}

void Impl::MovedLocked(Entry& entry, Transfer transfer) const {
  const Duration now = ports_.clock.Monotonic();
  if (entry.stage != Stage::kRunning || now >= OverdueAt(entry)) return;
  if (entry.transfer < transfer) {
    if (entry.transfer_began == Duration(0) || transfer == Transfer::kPassingOn)
      entry.transfer_began = now;
    entry.transfer = transfer;
  }
  if (entry.transfer == transfer && now < entry.transfer_began + kLongestTransfer)
    entry.moved_at = now;
}

void Impl::Moved(const Id& id, Transfer transfer, const std::string& fetched) {
  const Lock lock(mutex_);
  const auto known = entries_.find(id);
  if (known == entries_.end()) return;
  Entry& entry = known->second;
  MovedLocked(entry, transfer);
  if (fetched.empty() || entry.transfer != Transfer::kFetching) return;
  entry.fetched.insert(fetched);
  // Its code begins.
  if (entry.needed && entry.fetched.size() >= entry.needed->size())
    entry.transfer = Transfer::kNone;
}

Status Impl::AdmitPut(const executor::Attempt& attempt, const std::string& sha256) {
  const auto bad = [](std::string why) { return Error{Code::kInvalidArgument, std::move(why)}; };
  const std::size_t leaves = attempt.task().artifacts.size();
  if (leaves == 0) return bad(fmt::format("task {} leaves no artifacts", attempt.task().id));
  const Lock lock(mutex_);
  const auto known = entries_.find(IdOf(attempt.key));
  // Its run may be removed by now, with all that it has.
  if (known == entries_.end() || known->second.stage != Stage::kRunning) return Over();
  if (sha256.empty()) return {};
  auto& left = known->second.left;
  if (left.size() >= leaves * kMostFiles && !left.contains(sha256))
    return bad(fmt::format("the attempt has passed on {} different files, and task {} leaves {}",
                           left.size(), attempt.task().id, leaves));
  left.insert(sha256);
  return {};
}

void Impl::PutArtifact(worker_api::ArtifactPut put, Done<ArtifactTaken> done) {
  if (const Status good = CheckPut(put); !good) return done(good.error());
  Transfers::Room room = transfers_.Take(put.bytes.size());
  if (!room) return done(NoRoom());
  const std::string token = put.work_token;
  HearHolder(token, [this, put = std::move(put), room = std::move(room), done = std::move(done)](
                        Result<Reply> reply, const executor::Attempt& attempt) {
    if (!reply) return done(Error(reply.error()));
    if (!Heard(*reply)) return done(ArtifactTaken{.reply = *reply});
    const Id id = IdOf(attempt.key);
    if (!attempt.task().artifacts.empty()) Moved(id, Transfer::kPassingOn);
    transfers_.Put(
        id, {attempt.key.tenant, attempt.run_id}, put,
        [this, attempt, sha256 = put.sha256] { return AdmitPut(attempt, sha256); }, *reply, room,
        [this, id, done](const Result<ArtifactTaken>& taken) {
          if (taken && !taken->failure) Moved(id, Transfer::kPassingOn);
          done(taken);
        });
  });
}

void Impl::GetArtifact(worker_api::ArtifactGet get, Done<ArtifactPiece> done) {
  if (const Status good = CheckGet(get); !good) return done(good.error());
  const std::string token = get.work_token;
  HearHolder(token, [this, get = std::move(get), done = std::move(done)](
                        Result<Reply> reply, const executor::Attempt& attempt) {
    if (!reply) return done(Error(reply.error()));
    if (!Heard(*reply)) return done(ArtifactPiece{.reply = *reply});
    const Id id = IdOf(attempt.key);
    if (HasArtifacts(attempt)) Moved(id, Transfer::kFetching);
    transfers_.Get(
        id, {attempt.key.tenant, attempt.run_id}, get,
        [this, attempt, sha256 = get.sha256] { return FindNeeded(attempt, sha256); }, *reply,
        [this, id, sha256 = get.sha256, done](const Result<ArtifactPiece>& piece) {
          if (piece && !piece->failure)
            Moved(id, Transfer::kFetching, piece->last ? sha256 : std::string());
          done(piece);
        });
  });
}

std::string Impl::ArtifactDirLocked(const Entry& entry) const {
  const auto worker = workers_.find(entry.who);
  if (worker == workers_.end() || !HasArtifacts(entry.attempt)) return {};
  return worker_api::ArtifactFolder(worker->second.registration->artifact_dir, entry.attempt.key);
}

void Impl::NoteNeeded(const Id& id, const std::vector<executor::NeededArtifact>& artifacts) {
  Needed needed;
  for (const executor::NeededArtifact& each : artifacts)
    needed[each.artifact.sha256] = {each.artifact.sha256, each.artifact.size};
  const Lock lock(mutex_);
  if (const auto known = entries_.find(id); known != entries_.end())
    known->second.needed = std::move(needed);
}

/// On a thread that may block: what an earlier engine's job named is looked up again.
Result<Blob> Impl::FindNeeded(const executor::Attempt& attempt, const std::string& sha256) {
  const Id id = IdOf(attempt.key);
  const auto find = [&]() -> std::optional<Result<Blob>> {
    const Lock lock(mutex_);
    const auto known = entries_.find(id);
    if (known == entries_.end()) return Over();
    if (!known->second.needed) return std::nullopt;
    if (const auto blob = known->second.needed->find(sha256); blob != known->second.needed->end())
      return blob->second;
    return Error{Code::kNotFound,
                 fmt::format("the attempt needs no artifact with the SHA-256 {}", sha256)};
  };
  if (auto found = find()) return *std::move(found);
  if (HasArtifacts(attempt)) {
    executor::Attempt placed = attempt;
    placed.artifact_dir = kNoFolder;
    const auto resolved = ports_.resolver.Resolve(placed);
    if (!resolved) {
      ports_.log.Warning("what an attempt needs cannot be looked up for its worker",
                         {{"task", attempt.task().id}, {"error", resolved.error().message}});
      return Error{Code::kUnavailable,
                   "what the attempt needs cannot be looked up; the engine's log says why"};
    }
    NoteNeeded(id, resolved->artifacts);
  } else {
    NoteNeeded(id, {});
  }
  if (auto found = find()) return *std::move(found);
  return Over();
}

void Impl::CheckArtifacts(const std::string& work_token, const Owner& owner, const Id& id,
                          model::Outcome outcome, Done<Reply> done) {
  const auto result = model::ReadResult(outcome.output);
  if (!result) return done(Error(result.error()));
  std::vector<Transfers::Named> blobs;
  for (const auto& [name, artifact] : result->artifacts)
    blobs.push_back({name, {artifact.sha256, artifact.size}});
  Transfers::Room room = transfers_.Take(outcome.output.size());
  if (!room) return done(NoRoom());
  transfers_.Check(
      owner, std::move(blobs), std::move(room),
      [this, work_token, id, outcome = std::move(outcome), done = std::move(done)](Status there) {
        model::Outcome said = outcome;
        if (!there && there.error().code == Code::kUnavailable) return done(Error(there.error()));
        if (!there) {
          said.verdict = model::Verdict::kRetry;
          said.reason = model::Reason::kArtifact;
          said.output.clear();
          said.error = there.error().message;
        }
        const auto sink = [&]() -> Result<executor::AttemptSink*> {
          const Lock lock(mutex_);
          return SpeakLocked();
        }();
        if (!sink) return done(Error(sink.error()));
        PassVerdict(**sink, work_token, id, said, done);
        Spoken();
      });
}

}  // namespace headworks::executor_queue
