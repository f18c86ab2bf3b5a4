#include "value.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cmath>

#include "headworks/base/check.h"

namespace headworks::expr::internal {
namespace {

namespace json = boost::json;

template <typename T>
Order OrderOf(T a, T b) {
  if (a == b) return Order::kEqual;
  return a < b ? Order::kLess : Order::kGreater;
}

Order Reverse(Order order) {
  if (order == Order::kLess) return Order::kGreater;
  return order == Order::kGreater ? Order::kLess : order;
}

/// As doubles, which rounds integers above 2^53: that is how the language is defined.
template <typename Int>
Order CompareWithDouble(Int integer, double number) {
  if (std::isnan(number)) return Order::kUnordered;
  return OrderOf(static_cast<double>(integer), number);
}

Order CompareIntUint(std::int64_t a, std::uint64_t b) {
  return a < 0 ? Order::kLess : OrderOf(static_cast<std::uint64_t>(a), b);
}

}  // namespace

Value Value::FromJson(const json::value& from) {
  Value v;
  switch (from.kind()) {
    case json::kind::null:
      return v;
    case json::kind::bool_:
      return Bool(from.get_bool());
    case json::kind::int64:
      return Int(from.get_int64());
    case json::kind::uint64:
      if (from.get_uint64() <= INT64_MAX) return Int(static_cast<std::int64_t>(from.get_uint64()));
      return Double(static_cast<double>(from.get_uint64()));
    case json::kind::double_:
      return Double(from.get_double());
    case json::kind::string:
      return String({from.get_string().data(), from.get_string().size()});
    case json::kind::array:
      v.kind = Kind::kJsonList;
      v.json_list = &from.get_array();
      return v;
    case json::kind::object:
      v.kind = Kind::kJsonMap;
      v.json_map = &from.get_object();
      return v;
  }
  return v;
}

std::size_t Value::count() const {
  if (kind == Kind::kJsonList) return json_list->size();
  if (kind == Kind::kJsonMap) return json_map->size();
  return size;
}

Value Value::at(std::size_t index) const {
  if (kind == Kind::kJsonList) return FromJson((*json_list)[index]);
  return list[index];
}

MapEntry Value::entry(std::size_t index) const {
  if (kind == Kind::kMap) return map[index];
  const auto& pair = *(json_map->begin() + static_cast<std::ptrdiff_t>(index));
  return {String({pair.key().data(), pair.key().size()}), FromJson(pair.value())};
}

Type::Kind Value::TypeKind() const {
  switch (kind) {
    case Kind::kNull:
      return Type::Kind::kNull;
    case Kind::kBool:
      return Type::Kind::kBool;
    case Kind::kInt:
      return Type::Kind::kInt;
    case Kind::kUint:
      return Type::Kind::kUint;
    case Kind::kDouble:
      return Type::Kind::kDouble;
    case Kind::kString:
      return Type::Kind::kString;
    case Kind::kBytes:
      return Type::Kind::kBytes;
    case Kind::kTimestamp:
      return Type::Kind::kTimestamp;
    case Kind::kDuration:
      return Type::Kind::kDuration;
    case Kind::kType:
      return Type::Kind::kType;
    case Kind::kList:
    case Kind::kJsonList:
      return Type::Kind::kList;
    case Kind::kMap:
    case Kind::kJsonMap:
      return Type::Kind::kMap;
    case Kind::kError:
      break;
  }
  HEADWORKS_CHECK(false);  // An error never gets as far as a function.
}

std::string_view KindOf(const Value& value) { return KindName(value.TypeKind()); }

Order CompareNumbers(const Value& a, const Value& b) {
  using Kind = Value::Kind;
  if (a.kind == b.kind) {
    if (a.kind == Kind::kInt) return OrderOf(a.integer, b.integer);
    if (a.kind == Kind::kUint) return OrderOf(a.uint, b.uint);
    if (std::isnan(a.number) || std::isnan(b.number)) return Order::kUnordered;
    return OrderOf(a.number, b.number);
  }
  if (a.kind == Kind::kDouble) return Reverse(CompareNumbers(b, a));
  if (b.kind == Kind::kDouble) {
    return a.kind == Kind::kInt ? CompareWithDouble(a.integer, b.number)
                                : CompareWithDouble(a.uint, b.number);
  }
  return a.kind == Kind::kInt ? CompareIntUint(a.integer, b.uint)
                              : Reverse(CompareIntUint(b.integer, a.uint));
}

}  // namespace headworks::expr::internal
