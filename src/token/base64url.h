#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace headworks::token {

/// RFC 4648 section 5, without padding.
std::string EncodeBase64Url(std::string_view bytes);

/// Empty: no such text.  One text per value: padding, white space, other alphabets and bits that
/// mean nothing are refused, so that no two tokens are equal but in their bytes.
std::optional<std::string> DecodeBase64Url(std::string_view text);

}  // namespace headworks::token
