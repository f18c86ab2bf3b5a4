#include "log_shipper.h"

#include <fmt/format.h>

#include <utility>

namespace headworks::worker {

using worker_api::BytesOf;
namespace {

constexpr std::string_view kCutNote =
    "[headworks: the rest is not kept: the engine took no lines before the task was stopped]";
constexpr std::string_view kRefusedNote =
    "[headworks: lines are missing here: the engine refused them, and its worker's log says why]";

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

void LogShipper::Waiting::Pop(std::size_t count) {
  for (; count > 0; --count) {
    bytes -= BytesOf(lines.front());
    lines.pop_front();
  }
}

void LogShipper::Stored(const model::AttemptKey& attempt, std::size_t count) {
  const std::scoped_lock lock(mutex_);
  const auto found = waiting_.find(attempt);
  if (found == waiting_.end()) return;
  found->second.Pop(count);
  room_.notify_all();
}

void LogShipper::Refused(const model::AttemptKey& attempt, std::size_t count) {
  const std::scoped_lock lock(mutex_);
  const auto found = waiting_.find(attempt);
  if (found == waiting_.end()) return;
  Waiting& waiting = found->second;
  log_store::Line note = waiting.lines[count - 1];
  const bool said = count == 1 && note.bytes == kRefusedNote;
  waiting.Pop(count);
  if (!said) {
    note.stream = log_store::Stream::kNote;
    note.bytes = kRefusedNote;
    waiting.bytes += BytesOf(note);
    waiting.lines.push_front(std::move(note));
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

std::size_t LogShipper::RoomLocked(const model::AttemptKey& attempt) const {
  constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  const auto found = waiting_.find(attempt);
  return found == waiting_.end() || found->second.dropping ? kAny : found->second.Room(share_);
}

bool LogShipper::AddLocked(const model::AttemptKey& attempt,
                           const std::vector<log_store::Line>& lines) {
  const auto found = waiting_.find(attempt);
  if (found == waiting_.end() || lines.empty() || found->second.cut) return false;
  for (log_store::Line line : lines) {
    if (found->second.dropping && BytesOf(line) > found->second.Room(share_)) {
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
      // No further than there is room: what an attempt prints meanwhile may be very many lines.
      std::size_t room = RoomLocked(batch.attempt);
      for (const log_store::Line& line : batch.lines) {
        if (BytesOf(line) > room)
          return Error{Code::kAtCapacity,
                       fmt::format("more than {} bytes of lines wait to be passed on", share_)};
        room -= BytesOf(line);
      }
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
      room_.wait(lock, stop, [&] { return shut_ || BytesOf(lines.front()) <= RoomLocked(key); });
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
