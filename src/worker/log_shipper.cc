#include "log_shipper.h"

#include <fmt/format.h>

#include <utility>

namespace headworks::worker {
namespace {

constexpr std::string_view kCutNote =
    "[headworks: the rest is not kept: the engine took no lines before the task was stopped]";

}  // namespace

LogShipper::LogShipper(std::size_t share, std::function<void(const model::AttemptKey&)> on_lines)
    : share_(share), on_lines_(std::move(on_lines)) {}

void LogShipper::Open(const model::AttemptKey& attempt) {
  const std::scoped_lock lock(mutex_);
  waiting_.try_emplace(attempt);
}

void LogShipper::Close(const model::AttemptKey& attempt) {
  const std::scoped_lock lock(mutex_);
  waiting_.erase(attempt);
  room_.notify_all();
}

std::vector<log_store::Line> LogShipper::Peek(const model::AttemptKey& attempt) {
  std::vector<log_store::Line> lines;
  const std::scoped_lock lock(mutex_);
  const auto found = waiting_.find(attempt);
  if (found == waiting_.end()) return lines;
  found->second.told = false;
  std::size_t bytes = 0;
  for (const log_store::Line& line : found->second.lines) {
    bytes += BytesOf(line);
    if (bytes > kMaxTaken) break;
    lines.push_back(line);
  }
  return lines;
}

void LogShipper::Stored(const model::AttemptKey& attempt, std::size_t count) {
  const std::scoped_lock lock(mutex_);
  const auto found = waiting_.find(attempt);
  if (found == waiting_.end()) return;
  for (; count > 0; --count) {
    found->second.bytes -= BytesOf(found->second.lines.front());
    found->second.lines.pop_front();
  }
  room_.notify_all();
}

void LogShipper::DropRest(const model::AttemptKey& attempt) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = waiting_.find(attempt); found != waiting_.end())
    found->second.dropping = true;
  room_.notify_all();
}

bool LogShipper::HasLines(const model::AttemptKey& attempt) const {
  const std::scoped_lock lock(mutex_);
  const auto found = waiting_.find(attempt);
  return found != waiting_.end() && !found->second.lines.empty();
}

void LogShipper::Shut() {
  const std::scoped_lock lock(mutex_);
  shut_ = true;
  room_.notify_all();
}

bool LogShipper::FitsLocked(const model::AttemptKey& attempt, std::size_t bytes) const {
  const auto found = waiting_.find(attempt);
  return found == waiting_.end() || found->second.lines.empty() ||
         found->second.bytes + bytes <= share_;
}

/// Whether what is to be added need not wait.
bool LogShipper::RoomLocked(const model::AttemptKey& attempt, std::size_t bytes) const {
  const auto found = waiting_.find(attempt);
  return FitsLocked(attempt, bytes) || found->second.dropping;
}

bool LogShipper::AddLocked(const model::AttemptKey& attempt,
                           const std::vector<log_store::Line>& lines) {
  const auto found = waiting_.find(attempt);
  if (found == waiting_.end() || lines.empty() || found->second.cut) return false;
  for (log_store::Line line : lines) {
    if (found->second.dropping && !FitsLocked(attempt, BytesOf(line))) {
      line.stream = log_store::Stream::kNote;
      line.bytes = kCutNote;
      found->second.cut = true;
    }
    found->second.bytes += BytesOf(line);
    found->second.lines.push_back(std::move(line));
    if (found->second.cut) break;
  }
  return !std::exchange(found->second.told, true);
}

Status LogShipper::Append(std::span<const log_store::Batch> batches) {
  std::vector<model::AttemptKey> tell;
  {
    const std::scoped_lock lock(mutex_);
    for (const log_store::Batch& batch : batches) {
      std::size_t bytes = 0;
      for (const log_store::Line& line : batch.lines) bytes += BytesOf(line);
      if (!RoomLocked(batch.attempt, bytes))
        return Error{Code::kAtCapacity,
                     fmt::format("more than {} bytes of lines wait to be passed on", share_)};
    }
    for (const log_store::Batch& batch : batches)
      if (AddLocked(batch.attempt, batch.lines)) tell.push_back(batch.attempt);
  }
  for (const model::AttemptKey& attempt : tell) on_lines_(attempt);
  return {};
}

Status LogShipper::Append(const model::AttemptKey& key, std::int64_t number, Instant at,
                          std::string_view line, const std::stop_token& stop) {
  const std::vector<log_store::Line> lines = {
      {number, log_store::Stream::kStdout, at, std::string(line)}};
  std::unique_lock lock(mutex_);
  const bool room =
      room_.wait(lock, stop, [&] { return shut_ || RoomLocked(key, BytesOf(lines.front())); });
  if (shut_) return Error{Code::kUnavailable, "the worker has ended"};
  if (!room)
    return Error{Code::kCancelled,
                 fmt::format("the task was stopped while {} bytes of its lines waited to be passed "
                             "on",
                             share_)};
  const bool tell = AddLocked(key, lines);
  lock.unlock();
  if (tell) on_lines_(key);
  return {};
}

Result<log_store::Page> LogShipper::Read(const log_store::Query& /*query*/) {
  return log_store::Page{};
}
Result<log_store::Page> LogShipper::Tail(const log_store::Query& /*query*/) {
  return log_store::Page{};
}
Status LogShipper::DeleteRun(const TenantId& /*tenant*/, RunNo /*run*/) { return {}; }

}  // namespace headworks::worker
