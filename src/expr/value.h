#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <string_view>

#include "headworks/expr/type.h"

namespace headworks::expr::internal {

struct MapEntry;
struct Failure;

/// One value while an expression is evaluated.
///
/// Borrows: text, lists and maps live in the variables, in the program, or in the arena of the
/// evaluation.  16 bytes and trivially copyable, so that evaluating allocates only for what is new.
struct Value {
  enum class Kind : std::uint8_t {
    kNull,
    kBool,
    kInt,
    kUint,
    kDouble,
    kString,
    kBytes,
    /// `integer` seconds since 1970 and `size` nanoseconds.
    kTimestamp,
    /// `integer` nanoseconds.
    kDuration,
    kType,
    /// `size` values at `list`.
    kList,
    kJsonList,
    /// `size` entries at `map`.
    kMap,
    kJsonMap,
    /// Not a value: why there is none.
    kError,
  };

  Kind kind = Kind::kNull;
  std::uint32_t size = 0;
  union {
    std::int64_t integer = 0;
    bool boolean;
    std::uint64_t uint;
    double number;
    const char* text;
    Type::Kind type;
    const Value* list;
    const MapEntry* map;
    const boost::json::array* json_list;
    const boost::json::object* json_map;
    const Failure* failure;
  };

  static Value Bool(bool value) {
    Value v;
    v.kind = Kind::kBool;
    v.boolean = value;
    return v;
  }
  static Value Int(std::int64_t value) {
    Value v;
    v.kind = Kind::kInt;
    v.integer = value;
    return v;
  }
  static Value Uint(std::uint64_t value) {
    Value v;
    v.kind = Kind::kUint;
    v.uint = value;
    return v;
  }
  static Value Double(double value) {
    Value v;
    v.kind = Kind::kDouble;
    v.number = value;
    return v;
  }
  /// `text` must be below 4 GiB, as all text within the limits is.
  static Value Text(Kind kind, std::string_view text) {
    Value v;
    v.kind = kind;
    v.size = static_cast<std::uint32_t>(text.size());
    v.text = text.data();
    return v;
  }
  static Value String(std::string_view text) { return Text(Kind::kString, text); }
  static Value Bytes(std::string_view text) { return Text(Kind::kBytes, text); }
  static Value Timestamp(std::int64_t seconds, std::uint32_t nanos) {
    Value v;
    v.kind = Kind::kTimestamp;
    v.size = nanos;
    v.integer = seconds;
    return v;
  }
  static Value Duration(std::int64_t nanos) {
    Value v;
    v.kind = Kind::kDuration;
    v.integer = nanos;
    return v;
  }
  static Value OfType(Type::Kind type) {
    Value v;
    v.kind = Kind::kType;
    v.type = type;
    return v;
  }
  static Value List(const Value* values, std::size_t count) {
    Value v;
    v.kind = Kind::kList;
    v.size = static_cast<std::uint32_t>(count);
    v.list = values;
    return v;
  }
  static Value Map(const MapEntry* entries, std::size_t count) {
    Value v;
    v.kind = Kind::kMap;
    v.size = static_cast<std::uint32_t>(count);
    v.map = entries;
    return v;
  }
  /// Borrows from `json`.
  static Value FromJson(const boost::json::value& json);

  bool is(Kind k) const { return kind == k; }
  bool is_error() const { return kind == Kind::kError; }
  bool is_true() const { return kind == Kind::kBool && boolean; }
  bool is_false() const { return kind == Kind::kBool && !boolean; }
  bool is_list() const { return kind == Kind::kList || kind == Kind::kJsonList; }
  bool is_map() const { return kind == Kind::kMap || kind == Kind::kJsonMap; }
  bool is_number() const {
    return kind == Kind::kInt || kind == Kind::kUint || kind == Kind::kDouble;
  }
  bool is_text() const { return kind == Kind::kString || kind == Kind::kBytes; }
  /// Of a string or bytes.
  std::string_view view() const { return {text, size}; }

  /// Of a list or map, how many elements.
  std::size_t count() const;
  /// Element of a list; `index` below count().
  Value at(std::size_t index) const;
  /// Entry of a map, in its order; `index` below count().
  MapEntry entry(std::size_t index) const;
  /// What `type()` gives; both kinds of list and of map are one.  Not for errors.
  Type::Kind TypeKind() const;
};
static_assert(sizeof(Value) == 16);

struct MapEntry {
  Value key;
  Value value;
};

/// Name of a value's type as users read it: "int", "list".
std::string_view KindOf(const Value& value);

/// Order of two numbers of any kinds; integers are compared with doubles as doubles.  NaN is
/// unordered.
enum class Order : std::uint8_t { kLess, kEqual, kGreater, kUnordered };
Order CompareNumbers(const Value& a, const Value& b);

}  // namespace headworks::expr::internal
