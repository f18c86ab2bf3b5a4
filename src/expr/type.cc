#include "headworks/expr/type.h"

#include <algorithm>
#include <utility>

namespace headworks::expr {

struct Type::Parameters {
  Type key;
  Type element;
  std::vector<Field> fields;
  bool open = true;
  std::vector<std::string> texts{};

  bool operator==(const Parameters&) const = default;
};

namespace {
const Type kAny;
}  // namespace

Type Type::List(Type element) {
  Type type(Kind::kList);
  type.parameters_ = std::make_shared<const Parameters>(Parameters{.element = std::move(element)});
  return type;
}

Type Type::Map(Type key, Type value) {
  Type type(Kind::kMap);
  type.parameters_ = std::make_shared<const Parameters>(
      Parameters{.key = std::move(key), .element = std::move(value)});
  return type;
}

Type Type::Object(std::vector<Field> fields, bool open) {
  Type type(Kind::kObject);
  type.parameters_ = std::make_shared<const Parameters>(
      Parameters{.key = Kind::kString, .fields = std::move(fields), .open = open});
  return type;
}

Type Type::OneOf(std::vector<std::string> texts) {
  Type type(Kind::kString);
  type.parameters_ = std::make_shared<const Parameters>(Parameters{.texts = std::move(texts)});
  return type;
}

Type Type::Nullable(Type type) {
  type.nullable_ = type.kind_ != Kind::kDyn && type.kind_ != Kind::kNull;
  return type;
}

const Type& Type::element() const { return parameters_ ? parameters_->element : kAny; }

const Type& Type::key() const { return parameters_ ? parameters_->key : kAny; }

const std::vector<Type::Field>& Type::fields() const {
  static const std::vector<Field> kNone;
  return parameters_ ? parameters_->fields : kNone;
}

const std::vector<std::string>& Type::texts() const {
  static const std::vector<std::string> kNone;
  return parameters_ ? parameters_->texts : kNone;
}

bool Type::open() const { return !parameters_ || parameters_->open; }

const Type::Field* Type::FindField(std::string_view name) const {
  const auto& all = fields();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Field& f) { return f.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string Type::ToString() const {
  std::string text(KindName(kind_));
  if (parameters_ && kind_ == Kind::kList) text += '<' + element().ToString() + '>';
  if (parameters_ && kind_ == Kind::kMap) {
    text += '<' + key().ToString() + ", " + element().ToString() + '>';
  }
  return nullable_ ? text + " or null" : text;
}

bool Type::operator==(const Type& other) const {
  if (kind_ != other.kind_ || nullable_ != other.nullable_) return false;
  if (parameters_ == other.parameters_) return true;
  return key() == other.key() && element() == other.element() && fields() == other.fields() &&
         open() == other.open() && texts() == other.texts();
}

std::string_view KindName(Type::Kind kind) {
  switch (kind) {
    case Type::Kind::kDyn:
      return "dyn";
    case Type::Kind::kNull:
      return "null";
    case Type::Kind::kBool:
      return "bool";
    case Type::Kind::kInt:
      return "int";
    case Type::Kind::kUint:
      return "uint";
    case Type::Kind::kDouble:
      return "double";
    case Type::Kind::kString:
      return "string";
    case Type::Kind::kBytes:
      return "bytes";
    case Type::Kind::kTimestamp:
      return "timestamp";
    case Type::Kind::kDuration:
      return "duration";
    case Type::Kind::kType:
      return "type";
    case Type::Kind::kList:
      return "list";
    case Type::Kind::kMap:
      return "map";
    case Type::Kind::kObject:
      return "object";
  }
  return "dyn";
}

}  // namespace headworks::expr
