#pragma once

#include <optional>
#include <string>
#include <string_view>

/// JSON writes a character beyond U+FFFF as two escapes, `"\ud83d\ude00"`; in YAML each would be
/// one of its own, which libyaml refuses.  So they are hidden from it, behind characters for
/// private use and byte for byte of the same length, and put together afterwards.
namespace headworks::spec {

/// `text` with all pairs hidden; nullopt if it has none, or characters that could be taken for
/// hidden ones: then pairs are left to libyaml.
std::optional<std::string> HideSurrogates(std::string_view text);
/// What a scalar that was read from hidden text means.  Only double quotes have escapes; others get
/// back what stands in the file.
std::string ShowSurrogates(std::string_view value, bool double_quoted);
/// Whether `escape`, behind its backslash, begins with such a pair: `ud83d\ude00`.
bool IsSurrogatePair(std::string_view escape);

}  // namespace headworks::spec
