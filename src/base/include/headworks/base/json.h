#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "headworks/base/result.h"

/// JSON at the borders.  Inside, payloads are opaque text that was validated once (here).
namespace headworks {

struct JsonLimits {
  std::size_t max_bytes = std::size_t{1} << 20;
  /// Nesting of arrays and objects.
  std::size_t max_depth = 64;
};

/// Parses RFC 8259 text.  kInvalidArgument names the byte offset; duplicate keys, invalid UTF-8,
/// NaN and trailing text are refused; so is anything over `limits`.
Result<boost::json::value> ParseJson(std::string_view text, const JsonLimits& limits);

/// Parses and requires an object; `what` names it in the error ("output of task a").
Result<boost::json::object> ParseJsonObject(std::string_view text, std::string_view what,
                                            const JsonLimits& limits);

/// One text per value: keys sorted by bytes, no white space, shortest number that reads back,
/// integers within int64 without exponent (1.0 is written 1).  Digests are taken over this.
std::string CanonicalJson(const boost::json::value& value);

/// The same with the keys in their own order: for people.
std::string PlainJson(const boost::json::value& value);

/// Merges `from` into `into`: arrays concatenate without repeats, objects merge recursively,
/// otherwise `from` wins (section 7 of the design).  The one function for merged context.
void MergeJson(boost::json::value& into, const boost::json::value& from);

/// SHA-256 in lower-case hex.
std::string Sha256Hex(std::string_view bytes);

/// `text` as a JSON string literal with quotes; invalid UTF-8 becomes U+FFFD.
std::string QuoteJson(std::string_view text);

}  // namespace headworks
