#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "headworks/author/json_io.h"
#include "headworks/author/task.h"
#include "headworks/base/result.h"

/// Structs to JSON and back:
///
///   struct Order { std::string id; std::vector<int> items; std::optional<double> discount; };
///   HEADWORKS_FIELDS(Order, id, items, discount);
///
/// stands after the struct, in its namespace.  Fields are bool, integers, float, double, string,
/// Json (any shape), other such structs, and vector, map<string, …> and optional of these.
/// Reading: a field must be there unless it is optional (there null means empty); members that the
/// struct does not have are ignored, so that a task may pick what it needs from its input.
namespace headworks {
namespace internal {

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsMap : std::false_type {};
template <typename T>
struct IsMap<std::map<std::string, T>> : std::true_type {};

struct AnyVisitor {
  template <typename T>
  void operator()(std::string_view, T&) const {}
};

template <typename T>
concept HasFields = requires(T& value, AnyVisitor visitor) { HeadworksFields(value, visitor); };

template <typename T>
inline constexpr bool kUnsupported = false;

}  // namespace internal

/// Reads the value that `in` stands on.
template <typename T>
void ReadJson(JsonReader& in, T& out) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::same_as<T, bool> || std::same_as<T, std::string> || std::same_as<T, double>) {
    in.Read(out);
  } else if constexpr (std::same_as<T, Json>) {
    in.ReadText(out.text);
  } else if constexpr (std::signed_integral<T>) {
    std::int64_t value = out;
    in.ReadSigned(value, Limits::min(), Limits::max());
    out = static_cast<T>(value);
  } else if constexpr (std::unsigned_integral<T>) {
    std::uint64_t value = out;
    in.ReadUnsigned(value, Limits::max());
    out = static_cast<T>(value);
  } else if constexpr (std::floating_point<T>) {
    double value = static_cast<double>(out);
    in.Read(value);
    out = static_cast<T>(value);
  } else if constexpr (internal::IsOptional<T>::value) {
    out.reset();
    if (!in.IsNull()) ReadJson(in, out.emplace());
  } else if constexpr (internal::IsVector<T>::value) {
    const std::size_t size = in.ArraySize();
    out.clear();
    for (std::size_t i = 0; i < size; ++i) {
      in.EnterElement(i);
      typename T::value_type element{};
      ReadJson(in, element);
      out.push_back(std::move(element));
      in.Leave();
    }
  } else if constexpr (internal::IsMap<T>::value) {
    const std::size_t size = in.ObjectSize();
    out.clear();
    for (std::size_t i = 0; i < size; ++i) {
      std::string name(in.EnterMemberAt(i));
      ReadJson(in, out[std::move(name)]);
      in.Leave();
    }
  } else if constexpr (internal::HasFields<T>) {
    if (!in.IsObject()) return;
    HeadworksFields(out, [&in]<typename Field>(std::string_view name, Field& field) {
      if (in.EnterMember(name)) {
        ReadJson(in, field);
        in.Leave();
      } else if constexpr (internal::IsOptional<Field>::value) {
        field.reset();
      } else {
        in.Missing(name);
      }
    });
  } else {
    static_assert(internal::kUnsupported<T>,
                  "no JSON form: use HEADWORKS_FIELDS(Struct, fields...), or a type of fields.h");
  }
}

template <typename T>
void WriteJson(JsonWriter& out, const T& value) {
  if constexpr (std::same_as<T, bool> || std::same_as<T, double>) {
    out.Write(value);
  } else if constexpr (std::same_as<T, Json>) {
    out.WriteText(value.text);
  } else if constexpr (std::signed_integral<T>) {
    out.WriteSigned(value);
  } else if constexpr (std::unsigned_integral<T>) {
    out.WriteUnsigned(value);
  } else if constexpr (std::floating_point<T>) {
    out.Write(static_cast<double>(value));
  } else if constexpr (std::convertible_to<const T&, std::string_view>) {
    out.Write(std::string_view(value));
  } else if constexpr (internal::IsOptional<T>::value) {
    if (value)
      WriteJson(out, *value);
    else
      out.Null();
  } else if constexpr (internal::IsVector<T>::value) {
    out.BeginArray();
    for (typename T::const_reference element : value)
      WriteJson<typename T::value_type>(out, element);
    out.EndArray();
  } else if constexpr (internal::IsMap<T>::value) {
    out.BeginObject();
    for (const auto& [name, member] : value) {
      out.Key(name);
      WriteJson(out, member);
    }
    out.EndObject();
  } else if constexpr (internal::HasFields<const T>) {
    out.BeginObject();
    HeadworksFields(value, [&out]<typename Field>(std::string_view name, const Field& field) {
      out.Key(name);
      WriteJson(out, field);
    });
    out.EndObject();
  } else {
    static_assert(internal::kUnsupported<T>,
                  "no JSON form: use HEADWORKS_FIELDS(Struct, fields...), or a type of fields.h");
  }
}

/// kInvalidArgument says which fields do not fit and what was expected there.
template <typename T>
Result<T> FromJson(std::string_view text, std::string_view what = "JSON") {
  JsonReader in(text, what);
  T value{};
  if (in.status()) ReadJson(in, value);
  HEADWORKS_TRY(in.status());
  return value;
}

template <typename T>
Result<Json> ToJson(const T& value) {
  JsonWriter out;
  WriteJson(out, value);
  HEADWORKS_ASSIGN(std::string text, out.Finish());
  return Json(std::move(text));
}

}  // namespace headworks

/// Any number of fields up to 256.  See the top of this file.
#define HEADWORKS_FIELDS(Type, ...)                                   \
  template <typename HeadworksSelf, typename HeadworksVisitor>        \
    requires std::same_as<std::remove_const_t<HeadworksSelf>, Type>   \
  void HeadworksFields([[maybe_unused]] HeadworksSelf& self,          \
                       [[maybe_unused]] HeadworksVisitor&& visit) {   \
    __VA_OPT__(HEADWORKS_EXPAND_(HEADWORKS_EACH_FIELD_(__VA_ARGS__))) \
  }                                                                   \
  static_assert(true)

#define HEADWORKS_EACH_FIELD_(field, ...) \
  visit(#field, self.field);              \
  __VA_OPT__(HEADWORKS_EACH_FIELD_AGAIN_ HEADWORKS_PARENS_(__VA_ARGS__))
#define HEADWORKS_EACH_FIELD_AGAIN_() HEADWORKS_EACH_FIELD_
#define HEADWORKS_PARENS_ ()
#define HEADWORKS_EXPAND_(...) \
  HEADWORKS_EXPAND3_(HEADWORKS_EXPAND3_(HEADWORKS_EXPAND3_(HEADWORKS_EXPAND3_(__VA_ARGS__))))
#define HEADWORKS_EXPAND3_(...) \
  HEADWORKS_EXPAND2_(HEADWORKS_EXPAND2_(HEADWORKS_EXPAND2_(HEADWORKS_EXPAND2_(__VA_ARGS__))))
#define HEADWORKS_EXPAND2_(...) \
  HEADWORKS_EXPAND1_(HEADWORKS_EXPAND1_(HEADWORKS_EXPAND1_(HEADWORKS_EXPAND1_(__VA_ARGS__))))
#define HEADWORKS_EXPAND1_(...) __VA_ARGS__
