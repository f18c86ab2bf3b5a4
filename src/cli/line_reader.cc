#include "line_reader.h"

#include <fmt/format.h>

#include <utility>

namespace headworks::cli {
namespace {

/// As many short lines as one chunk of the store has, more or less: a chunk is read as a whole.
constexpr std::size_t kPageLines = 10'000;

}  // namespace

std::string LineText(const log_store::Line& line, const Terminal& terminal) {
  if (line.stream == log_store::Stream::kNote) return fmt::format("[headworks: {}]", line.bytes);
  return terminal.Foreign(line.bytes);
}

Result<bool> LineReader::HasNew() {
  HEADWORKS_ASSIGN(const auto page, logs_->Tail({.tenant = tenant_, .run = run_, .max_lines = 1}));
  return std::exchange(newest_, page.next) != page.next;
}

Result<log_store::Page> LineReader::Next(TaskNo task, Epoch epoch) {
  log_store::Query query = QueryFor(task, epoch, kPageLines);
  log_store::Cursor& place = places_[epoch];
  query.after = place;
  HEADWORKS_ASSIGN(log_store::Page page, logs_->Read(query));
  place = page.next;
  return page;
}

Result<log_store::Page> LineReader::Last(TaskNo task, Epoch epoch, std::size_t count) {
  return logs_->Tail(QueryFor(task, epoch, count));
}

log_store::Query LineReader::QueryFor(TaskNo task, Epoch epoch, std::size_t lines) const {
  return {.tenant = tenant_, .run = run_, .task = task, .epoch = epoch, .max_lines = lines};
}

}  // namespace headworks::cli
