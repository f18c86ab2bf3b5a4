#include "headworks/log_store/chunk.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace headworks::log_store {
namespace {

static_assert(std::endian::native == std::endian::little, "chunks are stored little-endian");
constexpr char kFormat = 1;
constexpr std::size_t kLineHeadBytes = 13;

}  // namespace

std::string EncodeChunk(std::span<const Line> lines, std::size_t& taken) {
  std::string chunk(1, kFormat);
  taken = 0;
  for (const Line& line : lines) {
    const bool follows = line.number == lines.front().number + static_cast<std::int64_t>(taken);
    if (taken > 0 && (!follows || chunk.size() + line.bytes.size() > kChunkBytes)) break;
    const std::int64_t at = line.at.time_since_epoch().count();
    const auto size = static_cast<std::uint32_t>(line.bytes.size());
    char head[kLineHeadBytes];
    head[0] = static_cast<char>(line.stream);
    std::memcpy(head + 1, &at, sizeof at);
    std::memcpy(head + 9, &size, sizeof size);
    chunk.append(head, sizeof head).append(line.bytes);
    ++taken;
  }
  return chunk;
}

Result<std::vector<Line>> DecodeChunk(std::string_view chunk, std::int64_t first_number) {
  const Error corrupt{Code::kCorrupt, "a chunk of the log is damaged"};
  if (chunk.empty() || chunk[0] != kFormat) return corrupt;
  chunk.remove_prefix(1);
  std::vector<Line> lines;
  while (!chunk.empty()) {
    if (chunk.size() < kLineHeadBytes) return corrupt;
    std::int64_t at = 0;
    std::uint32_t size = 0;
    std::memcpy(&at, chunk.data() + 1, sizeof at);
    std::memcpy(&size, chunk.data() + 9, sizeof size);
    const auto stream = static_cast<Stream>(chunk[0]);
    chunk.remove_prefix(kLineHeadBytes);
    if (chunk.size() < size) return corrupt;
    lines.push_back({.number = first_number + static_cast<std::int64_t>(lines.size()),
                     .stream = stream,
                     .at = Instant(Duration(at)),
                     .bytes = std::string(chunk.substr(0, size))});
    chunk.remove_prefix(size);
  }
  return lines;
}

Status CheckAppend(std::span<const Batch> batches) {
  std::size_t sum = 0;
  for (const Batch& batch : batches) {
    for (const Line& line : batch.lines) {
      sum += line.bytes.size();
      if (line.bytes.size() > kMaxLineBytes) {
        return Error{Code::kInvalidArgument,
                     fmt::format("a log line has {} bytes; the limit is {}: split it",
                                 line.bytes.size(), kMaxLineBytes)};
      }
    }
  }
  if (sum <= kMaxAppendBytes) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{} bytes of log lines in one append; the limit is {}: append in parts",
                           sum, kMaxAppendBytes)};
}

Status CheckQuery(const Query& query) {
  if (query.max_lines >= 1 && query.max_lines <= kMaxPageLines) return {};
  return Error{Code::kInvalidArgument, fmt::format("{} log lines asked for; 1 to {} are possible",
                                                   query.max_lines, kMaxPageLines)};
}

}  // namespace headworks::log_store
