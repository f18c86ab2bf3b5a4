#pragma once

#include <span>
#include <string>
#include <string_view>

#include "headworks/log_store/log_store.h"

/// The stored form of consecutive lines: one format byte, then per line stream (1 byte), time
/// (8 bytes, µs), length (4 bytes), bytes; little-endian.  Numbers are consecutive from the
/// chunk's first.
namespace headworks::log_store {

/// A chunk is closed above this: small enough to read one for a single line.
inline constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

/// Encodes lines from the front of `lines` until the chunk is full or their numbers jump; at
/// least one.  `taken` receives how many.
std::string EncodeChunk(std::span<const Line> lines, std::size_t& taken);

/// kCorrupt if `chunk` is not what EncodeChunk wrote.
Result<std::vector<Line>> DecodeChunk(std::string_view chunk, std::int64_t first_number);

/// kInvalidArgument if `batches` exceed the bounds of Append.
Status CheckAppend(std::span<const Batch> batches);

/// kInvalidArgument if `query.max_lines` is out of bounds.
Status CheckQuery(const Query& query);

}  // namespace headworks::log_store
