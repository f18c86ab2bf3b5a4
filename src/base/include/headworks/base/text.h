#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/base/time.h"

/// Text that people write: is it valid, and what did they mean.
namespace headworks {

/// Length of the longest prefix of `text` that is valid UTF-8 (RFC 3629); `text.size()` if all is.
std::size_t ValidUtf8Prefix(std::string_view text);

/// `bytes` as valid UTF-8: each byte that is not part of it becomes U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view bytes);

/// The entry of `known` that `word` most likely misspells; empty if none is near.  Counts inserted,
/// dropped, changed and swapped characters, upper and lower case being equal; a third of the word,
/// at most 3, may be wrong.  Of equally near ones the first.  Words over 100 bytes have none.
std::string_view NearestWord(std::string_view word, std::span<const std::string_view> known);

/// ", did you mean 'x'?" with the nearest word, or empty: to be appended to an error.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> known);

/// A number of bytes, or of KiB, MiB, GiB or TiB: "512MiB"; 1 byte to 1 PiB.  kInvalidArgument.
Result<std::uint64_t> ParseBytes(std::string_view text);
/// With the largest of these units that divides it, as ParseBytes reads it back.
std::string FormatBytes(std::uint64_t bytes);

/// Without loss, as ParseDuration reads it back: "1h30m", "1s500ms", "0s".  Not negative.
std::string FormatExactly(Duration duration);

}  // namespace headworks
