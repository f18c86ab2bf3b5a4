#include "transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace headworks::executor_queue {

using artifact_store::Blob;
using artifact_store::Owner;
using executor::Reply;
using worker_api::ArtifactGet;
using worker_api::ArtifactPiece;
using worker_api::ArtifactPut;
using worker_api::ArtifactTaken;

namespace {

/// Read at a time, of what is passed over.
constexpr std::size_t kSkipBytes = std::size_t{256} << 10;

Error Closed() { return {Code::kUnavailable, "the engine is gone; say it again later"}; }
Error NoStore() { return {Code::kUnavailable, "this engine keeps no artifacts"}; }

}  // namespace

Transfers::Transfers(const TransferOptions& options, artifact_store::BlobStore* store, Clock& clock)
    : options_(options), store_(store), clock_(clock) {}

Transfers::~Transfers() {
  for (const Job& job : checks_) job(true);
  for (const Job& job : jobs_) job(true);
}

Transfers::Room Transfers::Take(std::size_t bytes) {
  return TakeOf(budget_, bytes, options_.max_waiting_bytes);
}

Transfers::Room Transfers::TakeOf(const std::shared_ptr<Budget>& budget, std::size_t bytes,
                                  std::size_t most) {
  const std::scoped_lock lock(budget->mutex);
  // What is too large by itself is taken when nothing else waits.
  if (budget->bytes > 0 && budget->bytes + bytes > most) return nullptr;
  budget->bytes += bytes;
  return {new std::size_t(bytes), [budget](const std::size_t* taken) {
            {
              const std::scoped_lock again(budget->mutex);
              budget->bytes -= *taken;
            }
            delete taken;
          }};
}

void Transfers::Post(std::deque<Job>& at, Job job) {
  {
    const std::scoped_lock lock(mutex_);
    at.push_back(std::move(job));
  }
  work_.notify_one();
}

bool Transfers::RunNext() {
  std::unique_lock lock(mutex_);
  std::deque<Job>& from = checks_.empty() ? jobs_ : checks_;
  if (from.empty()) return false;
  const Job job = std::move(from.front());
  from.pop_front();
  lock.unlock();
  job(false);
  return true;
}

void Transfers::Run(const std::stop_token& stop) {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (!work_.wait(lock, stop, [this] { return !checks_.empty() || !jobs_.empty(); })) return;
    }
    static_cast<void>(RunNext());
  }
}

std::optional<Transfers::Open> Transfers::Claim(const Id& id, const TenantId& tenant) {
  const std::scoped_lock lock(mutex_);
  if (const auto known = open_.find(id); known != open_.end()) {
    if (std::exchange(known->second.busy, true)) return std::nullopt;
    Open open = std::move(known->second);
    known->second = {.tenant = tenant, .busy = true};
    return open;
  }
  const auto own = static_cast<std::size_t>(
      std::ranges::count_if(open_, [&](const auto& each) { return each.second.tenant == tenant; }));
  if (open_.size() >= options_.max_open || own >= options_.max_open - options_.max_open / 4)
    return std::nullopt;
  open_[id] = {.tenant = tenant, .busy = true};
  return Open{.tenant = tenant};
}

void Transfers::Release(const Id& id, Open open, bool keep) {
  const std::scoped_lock lock(mutex_);
  const auto at = open_.find(id);
  if (!keep || at->second.over) {
    open_.erase(at);
    return;  // what it has open is closed by this thread, which may touch the disk
  }
  open.touched = clock_.Monotonic();
  open.busy = false;
  at->second = std::move(open);
}

void Transfers::DropLocked(std::map<Id, Open>::iterator at) {
  if (at->second.busy) {
    at->second.over = true;
    return;
  }
  // To remove what is not whole may take long.
  jobs_.emplace_back(
      [gone = std::make_shared<Open>(std::move(at->second))](bool) mutable { gone.reset(); });
  open_.erase(at);
  work_.notify_one();
}

void Transfers::End(const Id& id) {
  const std::scoped_lock lock(mutex_);
  if (const auto at = open_.find(id); at != open_.end()) DropLocked(at);
}

void Transfers::CloseIdle() {
  const std::scoped_lock lock(mutex_);
  const Duration now = clock_.Monotonic();
  for (auto at = open_.begin(); at != open_.end();) {
    const auto here = at++;
    if (!here->second.busy && now - here->second.touched >= options_.idle) DropLocked(here);
  }
}

void Transfers::Put(const Id& id, Owner owner, ArtifactPut put, std::function<Status()> may,
                    Reply reply, Room room, Done<ArtifactTaken> done) {
  Post(jobs_, [this, id, owner = std::move(owner), put = std::move(put), may = std::move(may),
               reply, room = std::move(room), done = std::move(done)](bool closed) {
    if (closed) return done(Closed());
    if (const Status wanted = may(); !wanted) return done(wanted.error());
    ArtifactTaken taken = DoPut(id, owner, put);
    if (taken.reply != Reply::kAskAgain) taken.reply = reply;
    done(std::move(taken));
  });
}

ArtifactTaken Transfers::DoPut(const Id& id, const Owner& owner, const ArtifactPut& put) {
  ArtifactTaken taken{.reply = Reply::kGoOn};
  if (store_ == nullptr) {
    taken.failure = NoStore();
    return taken;
  }
  auto claimed = Claim(id, owner.tenant);
  if (!claimed) return {};
  Open& open = *claimed;
  const bool begins = open.upload != put.upload && put.offset == 0;
  // A piece of an upload that is not known any more says nothing against the one that is.
  if (open.upload != put.upload && !begins) {
    if (!put.sha256.empty()) FindStored(owner, put, taken);
    const bool other = open.writer != nullptr || open.reader != nullptr;
    Release(id, *std::move(claimed), other);
    return taken;
  }
  if (begins) {
    open.reader.reset();
    open.writer.reset();
    open.kept.clear();
    open.kept_room.reset();
    open.upload = put.upload;
    open.at = 0;
  }
  const bool goes_on = Append(open, owner, put, taken);
  Release(id, *std::move(claimed), goes_on);
  return taken;
}

void Transfers::FindStored(const Owner& owner, const ArtifactPut& put, ArtifactTaken& taken) {
  const std::uint64_t end = put.offset + put.bytes.size();
  const auto there = store_->Open(owner, {put.sha256, end});
  if (!there) return;
  if (const Status settled = store_->Settle(owner); !settled) {
    taken.failure = settled.error();
    return;
  }
  taken.stored = true;
  taken.have = end;
}

bool Transfers::Append(Open& open, const Owner& owner, const ArtifactPut& put,
                       ArtifactTaken& taken) {
  const auto failed = [&](Error error) {
    taken.failure = std::move(error);
    return false;
  };
  const std::uint64_t end = put.offset + put.bytes.size();
  if (open.writer == nullptr) {
    auto begun = store_->Begin(owner);
    if (!begun) return failed(begun.error());
    open.writer = *std::move(begun);
  }
  taken.have = open.at;
  if (put.offset > open.at || end < open.at) return true;  // there is a gap, or all is there
  if (end > options_.max_artifact_bytes)
    return failed(
        {Code::kInvalidArgument, fmt::format("has more than {} bytes, the most that one may have "
                                             "(max_artifact_bytes)",
                                             options_.max_artifact_bytes)});
  const std::string_view rest = std::string_view(put.bytes).substr(open.at - put.offset);
  if (const Status written = open.writer->Append(rest); !written) return failed(written.error());
  taken.have = open.at = end;
  if (put.sha256.empty()) return true;
  const auto blob = open.writer->Commit();
  if (!blob) return failed(blob.error());
  taken.stored = blob->sha256 == put.sha256;
  if (!taken.stored)
    return failed({Code::kCorrupt, fmt::format("the SHA-256 of what arrived is {}, and not {}",
                                               blob->sha256, put.sha256)});
  return false;
}

void Transfers::Get(const Id& id, Owner owner, ArtifactGet get, std::function<Result<Blob>()> find,
                    Reply reply, Done<ArtifactPiece> done) {
  Post(jobs_, [this, id, owner = std::move(owner), get = std::move(get), find = std::move(find),
               reply, done = std::move(done)](bool closed) {
    if (closed) return done(Closed());
    const auto blob = find();
    ArtifactPiece piece{.reply = Reply::kGoOn};
    if (blob)
      piece = DoGet(id, owner, get, *blob);
    else
      piece.failure = blob.error();
    if (piece.reply != Reply::kAskAgain) piece.reply = reply;
    done(std::move(piece));
  });
}

ArtifactPiece Transfers::DoGet(const Id& id, const Owner& owner, const ArtifactGet& get,
                               const Blob& blob) {
  auto claimed = Claim(id, owner.tenant);
  if (!claimed) return {};
  auto piece = Read(*claimed, owner, get, blob);
  const bool keep = piece && !piece->last;
  if (!piece) piece = ArtifactPiece{.reply = Reply::kGoOn, .failure = piece.error()};
  Release(id, *std::move(claimed), keep);
  return *std::move(piece);
}

Result<bool> Transfers::Seek(Open& open, const Owner& owner, const Blob& blob,
                             std::uint64_t offset) {
  // Whoever asks for what is not kept, as after a restart, costs another look at it all.
  if (open.reader == nullptr || open.sha256 != blob.sha256 || open.at > offset) {
    open.writer.reset();
    open.upload.clear();
    HEADWORKS_ASSIGN(open.reader, store_->Open(owner, blob));
    open.sha256 = blob.sha256;
    open.at = 0;
  }
  // No further than what is answered in time, and leaves the thread to others (I11).
  const std::uint64_t until = std::min(offset, open.at + options_.max_skipped_bytes);
  std::string skipped(std::min<std::uint64_t>(kSkipBytes, until - open.at), '\0');
  while (open.at < until) {
    const auto most = std::min<std::uint64_t>(skipped.size(), until - open.at);
    HEADWORKS_ASSIGN(const std::size_t count, open.reader->Read({skipped.data(), most}));
    if (count == 0) return Error{Code::kCorrupt, "the file ends early"};
    open.at += count;
  }
  return open.at == offset;
}

Result<ArtifactPiece> Transfers::Read(Open& open, const Owner& owner, const ArtifactGet& get,
                                      const Blob& blob) {
  if (store_ == nullptr) return NoStore();
  if (get.offset > blob.size)
    return Error{Code::kNotFound,
                 fmt::format("the file has {} bytes, and none at {}", blob.size, get.offset)};
  const std::uint64_t most = std::max<std::uint64_t>(get.max_bytes, 1);
  if (open.reader != nullptr && open.sha256 == blob.sha256 && get.offset < open.at &&
      open.at - get.offset <= open.kept.size())
    return ArtifactPiece{
        .reply = Reply::kGoOn,
        .bytes = open.kept.substr(open.kept.size() - (open.at - get.offset), most)};
  open.kept.clear();
  open.kept_room.reset();
  HEADWORKS_ASSIGN(const bool there, Seek(open, owner, blob, get.offset));
  if (!there) return ArtifactPiece{};
  ArtifactPiece piece{.reply = Reply::kGoOn};
  std::string bytes(std::min(most, blob.size - get.offset), '\0');
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    HEADWORKS_ASSIGN(const std::size_t count,
                     open.reader->Read({bytes.data() + filled, bytes.size() - filled}));
    if (count == 0) return Error{Code::kCorrupt, "the file ends early"};
    filled += count;
    open.at += count;
  }
  piece.bytes = std::move(bytes);
  if (open.at < blob.size) {
    open.kept_room = TakeOf(kept_, piece.bytes.size(), options_.max_kept_bytes);
    if (open.kept_room) open.kept = piece.bytes;
    return piece;
  }
  // It is looked at as a whole, before anybody is told that it is whole.
  char more = 0;
  HEADWORKS_ASSIGN(const std::size_t count, open.reader->Read({&more, 1}));
  if (count != 0) return Error{Code::kCorrupt, "the file has become longer"};
  piece.last = true;
  return piece;
}

void Transfers::Check(Owner owner, std::vector<Named> blobs, Room room,
                      std::function<void(Status)> done) {
  Post(checks_, [this, owner = std::move(owner), blobs = std::move(blobs), room = std::move(room),
                 done = std::move(done)](bool closed) {
    const auto check = [&]() -> Status {
      if (closed) return Closed();
      for (const auto& [name, blob] : blobs)
        if (const auto there = store_ == nullptr ? NoStore() : store_->Open(owner, blob); !there)
          return Error{there.error().code,
                       fmt::format("artifact {}: {}", name, there.error().message)};
      return blobs.empty() ? Status() : store_->Settle(owner);
    };
    done(check());
  });
}

}  // namespace headworks::executor_queue
