#include "headworks/base/json.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cmath>
#include <unordered_set>
#include <vector>

namespace headworks {
namespace json = boost::json;
namespace {

/// Builds the value.  Boost.JSON keeps the last of two equal keys without a word, and reads one
/// fraction in ten a bit beside the nearest number: here the one is refused and the other exact.
class ExactHandler {
 public:
  [[maybe_unused]] static constexpr std::size_t max_object_size = std::size_t(-1);
  [[maybe_unused]] static constexpr std::size_t max_array_size = std::size_t(-1);
  [[maybe_unused]] static constexpr std::size_t max_key_size = std::size_t(-1);
  [[maybe_unused]] static constexpr std::size_t max_string_size = std::size_t(-1);

  const std::string& duplicate() const { return duplicate_; }
  /// A number that is written as digits, and yet is infinite once it is read.
  bool too_large() const { return too_large_; }
  /// Once, after the end of the document.
  json::value TakeValue() { return stack_.release(); }

  bool on_document_begin(json::error_code&) {
    stack_.reset();
    return true;
  }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) {
    keys_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t size, json::error_code&) {
    keys_.pop_back();
    stack_.push_object(size);
    return true;
  }
  bool on_array_begin(json::error_code&) { return true; }
  bool on_array_end(std::size_t size, json::error_code&) {
    stack_.push_array(size);
    return true;
  }
  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    key_.append(part.data(), part.size());
    stack_.push_chars(part);
    return true;
  }
  bool on_key(json::string_view part, std::size_t, json::error_code& ec) {
    key_.append(part.data(), part.size());
    if (!keys_.back().insert(key_).second) {
      duplicate_ = key_;
      ec = json::error::syntax;
      return false;
    }
    key_.clear();
    stack_.push_key(part);
    return true;
  }
  bool on_string_part(json::string_view part, std::size_t, json::error_code&) {
    stack_.push_chars(part);
    return true;
  }
  bool on_string(json::string_view part, std::size_t, json::error_code&) {
    stack_.push_string(part);
    return true;
  }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t value, json::string_view, json::error_code&) {
    stack_.push_int64(value);
    return true;
  }
  bool on_uint64(std::uint64_t value, json::string_view, json::error_code&) {
    stack_.push_uint64(value);
    return true;
  }
  /// `text` is the whole number, for the whole document is there at once.
  bool on_double(double value, json::string_view text, json::error_code& ec) {
    if (!std::isfinite(value)) {
      too_large_ = true;
      ec = json::error::exponent_overflow;
      return false;
    }
    std::from_chars(text.data(), text.data() + text.size(), value);  // one too small stays as read
    stack_.push_double(value);
    return true;
  }
  bool on_bool(bool value, json::error_code&) {
    stack_.push_bool(value);
    return true;
  }
  bool on_null(json::error_code&) {
    stack_.push_null();
    return true;
  }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  json::value_stack stack_;
  std::vector<std::unordered_set<std::string>> keys_;
  std::string key_;
  std::string duplicate_;
  bool too_large_ = false;
};

void WriteNumber(double value, std::string& out) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: above it not every integer is a double
  if (value == std::trunc(value) && std::fabs(value) <= kExact) {
    fmt::format_to(std::back_inserter(out), "{}", static_cast<std::int64_t>(value));
    return;
  }
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  out.append(buffer.data(), end);
}

void Write(const json::value& value, bool sorted, std::string& out) {
  switch (value.kind()) {
    case json::kind::object: {
      std::vector<const json::key_value_pair*> members;
      for (const auto& member : value.get_object()) members.push_back(&member);
      if (sorted)
        std::ranges::sort(members, {}, [](const auto* m) { return std::string_view(m->key()); });
      out += '{';
      for (bool first = true; const auto* member : members) {
        if (!std::exchange(first, false)) out += ',';
        out += QuoteJson(member->key());
        out += ':';
        Write(member->value(), sorted, out);
      }
      out += '}';
      return;
    }
    case json::kind::array:
      out += '[';
      for (bool first = true; const auto& element : value.get_array()) {
        if (!std::exchange(first, false)) out += ',';
        Write(element, sorted, out);
      }
      out += ']';
      return;
    case json::kind::double_:
      WriteNumber(value.get_double(), out);
      return;
    default:
      out += json::serialize(value);
      return;
  }
}

}  // namespace

Result<json::value> ParseJson(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    return Error{Code::kInvalidArgument, fmt::format("{} bytes of JSON, at most {} are taken",
                                                     text.size(), limits.max_bytes)};
  json::parse_options options;
  options.max_depth = limits.max_depth;
  json::error_code ec;
  json::basic_parser<ExactHandler> parser(options);
  const std::size_t read = parser.write_some(false, text.data(), text.size(), ec);
  if (!parser.handler().duplicate().empty())
    return Error{Code::kInvalidArgument, fmt::format("key {} stands twice in one object",
                                                     QuoteJson(parser.handler().duplicate()))};
  if (parser.handler().too_large())
    return Error{Code::kInvalidArgument,
                 fmt::format("the number that ends at byte {} is beyond what can be held, 1.8e308; "
                             "write it as text",
                             read)};
  if (!ec && text.find_first_not_of(" \t\r\n", read) != std::string_view::npos)
    ec = json::error::extra_data;
  if (ec)
    return Error{Code::kInvalidArgument,
                 fmt::format("not JSON: {} at byte {}", ec.message(), read)};
  return parser.handler().TakeValue();
}

Result<json::object> ParseJsonObject(std::string_view text, std::string_view what,
                                     const JsonLimits& limits) {
  auto value = ParseJson(text, limits);
  if (!value) return Error{value.error().code, fmt::format("{}: {}", what, value.error().message)};
  if (!value->is_object())
    return Error{Code::kInvalidArgument,
                 fmt::format("{} must be a JSON object ({{\"key\": value}}), not {}", what,
                             std::string_view(json::to_string(value->kind())))};
  return std::move(value->get_object());
}

std::string CanonicalJson(const json::value& value) {
  std::string out;
  Write(value, true, out);
  return out;
}

std::string PlainJson(const json::value& value) {
  std::string out;
  Write(value, false, out);
  return out;
}

void MergeJson(json::value& into, const json::value& from) {
  if (into.is_object() && from.is_object()) {
    for (const auto& member : from.get_object()) {
      auto [slot, inserted] = into.get_object().emplace(member.key(), member.value());
      if (!inserted) MergeJson(slot->value(), member.value());
    }
  } else if (into.is_array() && from.is_array()) {
    auto& array = into.get_array();
    for (const auto& element : from.get_array())
      if (std::ranges::find(array, element) == array.end()) array.push_back(element);
  } else {
    into = from;
  }
}

std::string Sha256Hex(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string QuoteJson(std::string_view text) {
  json::error_code ec;
  std::string out = json::serialize(json::string_view(text.data(), text.size()));
  json::parse(out, ec);
  if (!ec) return out;
  std::string clean;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t length = 1;  // the longest valid sequence that starts at i
    for (std::size_t n = std::min<std::size_t>(4, text.size() - i); n > 1; --n) {
      json::error_code bad;
      json::parse('"' + std::string(text.substr(i, n)) + '"', bad);
      if (!bad && static_cast<unsigned char>(text[i]) >= 0x80) {
        length = n;
        break;
      }
    }
    if (length == 1 && static_cast<unsigned char>(text[i]) >= 0x80)
      clean += "\xEF\xBF\xBD";
    else
      clean.append(text.substr(i, length));
    i += length;
  }
  return json::serialize(json::string_view(clean));
}

}  // namespace headworks
