#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace headworks::expr {

/// What is known of a value before there is one.
///
/// `dyn` is "any", checked when it is evaluated.  An *object* is a map whose fields have names and
/// types of their own; a closed one has no other fields, so a misspelt field is found at once.
/// Cheap to copy, immutable.
class Type {
 public:
  enum class Kind : std::uint8_t {
    kDyn,
    kNull,
    kBool,
    kInt,
    kUint,
    kDouble,
    kString,
    kBytes,
    kTimestamp,
    kDuration,
    /// The type of a type, e.g. of `type(1)`.
    kType,
    kList,
    kMap,
    kObject,
  };
  struct Field;

  /// dyn.
  Type() = default;
  /// Of the kinds without parameters; kList, kMap and kObject give list<dyn>, map<dyn, dyn> and the
  /// open object without declared fields.
  Type(Kind kind) : kind_(kind) {}  // NOLINT(*-explicit-*): a kind is a type

  static Type List(Type element);
  static Type Map(Type key, Type value);
  /// An `open` object may have fields besides `fields`; their type is dyn.
  static Type Object(std::vector<Field> fields, bool open);
  /// A text that is one of `texts`: comparing it with another one is a fault.
  static Type OneOf(std::vector<std::string> texts);
  /// `type` or null, e.g. a parameter without a default.
  static Type Nullable(Type type);

  Kind kind() const { return kind_; }
  /// Whether null is a value of it.
  bool nullable() const { return nullable_ || kind_ == Kind::kDyn || kind_ == Kind::kNull; }
  bool is_dyn() const { return kind_ == Kind::kDyn; }
  /// int, uint or double.
  bool is_number() const {
    return kind_ == Kind::kInt || kind_ == Kind::kUint || kind_ == Kind::kDouble;
  }
  /// Of a list: its elements.  Of a map: its values.  Else dyn.
  const Type& element() const;
  /// Of a map: its keys.  Of an object: string.  Else dyn.
  const Type& key() const;
  /// Of an object; else empty.
  const std::vector<Field>& fields() const;
  /// Whether an object may have fields that are not declared (other kinds: true).
  bool open() const;
  /// What a text can be; empty = anything.
  const std::vector<std::string>& texts() const;
  /// The declared field `name` of an object; nullptr = none.
  const Field* FindField(std::string_view name) const;

  /// As in the documentation: "list<int>", "map<string, dyn>", "object", "int or null".
  std::string ToString() const;

  bool operator==(const Type& other) const;

 private:
  struct Parameters;
  Kind kind_ = Kind::kDyn;
  bool nullable_ = false;
  /// Shared because copies of a type are many and it never changes.
  std::shared_ptr<const Parameters> parameters_;
};

struct Type::Field {
  std::string name;
  Type type;
  /// Where there is no such field and what to do, as a message puts it ("with os = mac; give it a
  /// value"); empty = it is always there.  An expression may read such a field only under a
  /// condition about the value that has it.
  std::string absent{};

  bool operator==(const Field&) const = default;
};

/// Name of `kind` as expressions spell it; timestamps and durations by their short names.
std::string_view KindName(Type::Kind kind);

}  // namespace headworks::expr
