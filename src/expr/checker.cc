#include "checker.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "functions.h"
#include "headworks/base/text.h"
#include "headworks/expr/limits.h"
#include "lexer.h"
#include "messages.h"
#include "time_value.h"

namespace headworks::expr::internal {
namespace {

using enum Type::Kind;

struct TypeName {
  std::string_view name;
  Type::Kind kind;
};
constexpr std::array<TypeName, 12> kTypeNames = {{
    {"bool", kBool},
    {"int", kInt},
    {"uint", kUint},
    {"double", kDouble},
    {"string", kString},
    {"bytes", kBytes},
    {"list", kList},
    {"map", kMap},
    {"null_type", kNull},
    {"type", kType},
    {"google.protobuf.Timestamp", kTimestamp},
    {"google.protobuf.Duration", kDuration},
}};

std::optional<Type::Kind> FindTypeName(std::string_view name) {
  for (const TypeName& known : kTypeNames) {
    if (known.name == name) return known.kind;
  }
  return std::nullopt;
}

bool IsMap(const Type& type) { return type.kind() == kMap || type.kind() == kObject; }

/// Whether a value of one may equal a value of the other.
bool Comparable(const Type& a, const Type& b) {
  if (a.is_dyn() || b.is_dyn() || (a.is_number() && b.is_number())) return true;
  if ((a.kind() == kNull && b.nullable()) || (b.kind() == kNull && a.nullable())) return true;
  if (IsMap(a) && IsMap(b)) return true;
  if (a.kind() == kList && b.kind() == kList) return Comparable(a.element(), b.element());
  return a.kind() == b.kind();
}

/// The type of what may be either.
Type Join(const Type& a, const Type& b) {
  if (a == b) return a;
  if (a.kind() == kString && b.kind() == kString)
    return a.nullable() || b.nullable() ? Type::Nullable(kString) : Type(kString);
  if (a.kind() == kNull) return Type::Nullable(b);
  if (b.kind() == kNull || Type::Nullable(a) == Type::Nullable(b)) return Type::Nullable(a);
  return {};
}

class Checker {
 public:
  Checker(Ast* ast, const Environment& environment, std::vector<Fault>* faults)
      : ast_(*ast),
        environment_(environment),
        faults_(*faults),
        first_fault_(faults->size()),
        locals_(ast->slots) {}

  void Run() {
    ast_.type = TypeOf(ast_.root);
    CheckOptional();
    CollectReferences(ast_.root);
    std::sort(ast_.references.begin(), ast_.references.end(),
              [](const Reference& a, const Reference& b) { return a.offset < b.offset; });
  }

 private:
  /// Nodes by number, from `begin` up to `end`, in the order in which a tree is walked.
  struct Places {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };
  /// What decides whether a node is reached: the nodes of `in` without those of `but`.
  struct Condition {
    Places in;
    Places but;
  };
  /// Where a text stands in the tree, ascending.
  struct Asked {
    std::vector<std::uint32_t> all;
    /// Those of which a field is read that is not always there, by its name.
    std::map<std::string_view, std::vector<std::uint32_t>> reads;
  };

  Type Fail(FaultKind kind, std::uint32_t begin, std::uint32_t end, std::string message) {
    if (faults_.size() - first_fault_ == kMaxExpressionFaults) return {};
    faults_.push_back({kind, begin, end - begin, std::move(message)});
    return {};
  }
  Type Fail(const Node& node, std::string message) {
    return Fail(FaultKind::kType, node.begin, node.end, std::move(message));
  }
  Type FailName(const Node& node, std::string message) {
    return Fail(FaultKind::kUnknownName, node.name_begin,
                node.name_begin + static_cast<std::uint32_t>(node.name.size()), std::move(message));
  }
  std::string TextOf(const Node& node) const { return Excerpt(ast_.TextOf(node)); }

  Type TypeOf(NodeId id) {
    const Node node = ast_.node(id);  // A copy: resolving names changes nodes.
    switch (node.op) {
      case Op::kConstant:
        return node.constant.TypeKind();
      case Op::kVariable:
        return Variable(id, node);
      case Op::kLocal:
        return locals_[node.slot];
      case Op::kSelect:
        return Select(id, node);
      case Op::kHas:
        Field(node, TypeOf(ast_.ChildId(node, 0)));
        return kBool;
      case Op::kIndex:
        return Index(node);
      case Op::kList:
        return ListOf(node);
      case Op::kMap:
        return MapOf(node);
      case Op::kAnd:
      case Op::kOr:
      case Op::kNot:
        for (const NodeId child : ast_.ChildrenOf(node)) RequireBool(child);
        return kBool;
      case Op::kNegate:
        return Negate(node);
      case Op::kConditional: {
        RequireBool(ast_.ChildId(node, 0));
        const Type yes = TypeOf(ast_.ChildId(node, 1));
        return Join(yes, TypeOf(ast_.ChildId(node, 2)));
      }
      case Op::kCall:
        return CallOf(id, node);
      case Op::kAll:
      case Op::kExists:
      case Op::kExistsOne:
      case Op::kMapEach:
      case Op::kMapSome:
      case Op::kFilter:
      case Op::kBind:
        return Macro(node);
      default:
        return BinaryOf(node);
    }
  }

  Type RequireBool(NodeId id) {
    Type type = TypeOf(id);
    if (!Fits(type, kBool)) {
      const Node& node = ast_.node(id);
      return Fail(node, "'" + TextOf(node) + "' is " + type.ToString() +
                            ", but a bool is needed; compare it with something, e.g. " +
                            (type.is_number() ? "x > 0" : "x != \"\""));
    }
    return type;
  }

  Type Variable(NodeId id, const Node& node) {
    if (const Type* type = environment_.Find(node.name)) return *type;
    if (const auto kind = FindTypeName(node.name)) return BecomeType(id, *kind);
    std::vector<std::string_view> known;
    known.reserve(environment_.variables().size());
    for (const auto& variable : environment_.variables()) known.push_back(variable.name);
    const std::string name(node.name);
    std::string hint = DidYouMean(node.name, known);
    if (hint.empty()) {
      hint = "; text goes into quotes (\"" + name + "\")" + KnownNames(known);
    }
    return FailName(node, "there is no variable '" + name + "'" + hint);
  }

  static std::string KnownNames(std::span<const std::string_view> known) {
    if (known.empty()) return ", and there are no variables here";
    std::string text = ", variables are ";
    for (std::size_t i = 0; i < known.size() && i < 10; ++i) {
      text += (i > 0 ? ", " : "") + std::string(known[i]);
    }
    return text + (known.size() > 10 ? ", ..." : "");
  }

  Type BecomeType(NodeId id, Type::Kind kind) {
    Node& node = ast_.nodes[id];
    node.op = Op::kConstant;
    node.child_count = 0;
    node.constant = Value::OfType(kind);
    return kType;
  }

  /// The dotted name that a chain of selections spells; empty if it is something else.
  std::string DottedName(const Node& node) const {
    if (node.op == Op::kVariable) return std::string(node.name);
    if (node.op != Op::kSelect) return {};
    const std::string before = DottedName(ast_.Child(node, 0));
    return before.empty() ? before : before + '.' + std::string(node.name);
  }

  Type Select(NodeId id, const Node& node) {
    const Node& target = ast_.Child(node, 0);
    if (const auto kind = target.op == Op::kSelect && node.name.size() < 10
                              ? FindTypeName(DottedName(node))
                              : std::nullopt;
        kind && environment_.Find("google") == nullptr) {
      return BecomeType(id, *kind);
    }
    return Field(node, TypeOf(ast_.ChildId(node, 0)));
  }

  /// Type of the field `node.name` of a value of `type`.
  Type Field(const Node& node, const Type& type) {
    if (type.is_dyn()) return {};
    if (type.kind() == kMap) return type.element();
    if (type.kind() != kObject) {
      return Fail(FaultKind::kType, node.name_begin,
                  node.name_begin + static_cast<std::uint32_t>(node.name.size()),
                  "'" + TextOf(ast_.Child(node, 0)) + "' is " + type.ToString() +
                      " and has no field '" + std::string(node.name) + "'");
    }
    if (node.op == Op::kSelect && node.name_begin < node.end) {
      if (const std::string* dashed = DashedField(node, type)) {
        dashed_ = true;
        return FailName(node, "'-' means minus here; the field is written " +
                                  TextOf(ast_.Child(node, 0)) + "[\"" + *dashed +
                                  "\"] (to subtract, put spaces around the '-')");
      }
    }
    if (const Type::Field* field = type.FindField(node.name)) {
      if (!field->absent.empty()) optional_.emplace(node.name_begin, field->absent);
      return field->type;
    }
    if (type.open()) return {};
    std::vector<std::string_view> known;
    known.reserve(type.fields().size());
    for (const auto& field : type.fields()) known.push_back(field.name);
    std::string hint = DidYouMean(node.name, known);
    if (hint.empty() && !known.empty()) hint = "; it has " + Listed(known);
    return FailName(node, "'" + TextOf(ast_.Child(node, 0)) + "' has no field '" +
                              std::string(node.name) + "'" + hint);
  }

  /// A read of a field that is not always there.
  struct OptionalRead {
    std::string_view target;
    std::string_view name;
    std::uint32_t name_begin;
    const std::string& absent;
  };
  std::optional<OptionalRead> OptionalReadOf(const Node& node) const {
    if (node.op != Op::kSelect && node.op != Op::kIndex) return std::nullopt;
    const Node* key = node.op == Op::kIndex ? &ast_.Child(node, 1) : nullptr;
    if (key && (key->op != Op::kConstant || !key->constant.is(Value::Kind::kString)))
      return std::nullopt;
    const auto optional = optional_.find(key ? key->begin : node.name_begin);
    if (optional == optional_.end()) return std::nullopt;
    return OptionalRead{.target = ast_.TextOf(ast_.Child(node, 0)),
                        .name = key ? key->constant.view() : node.name,
                        .name_begin = optional->first,
                        .absent = optional->second};
  }

  /// Fields that are not always there may be read where a condition decides about it: has(), or
  /// whatever else is asked of the same value.
  void CheckOptional() {
    if (optional_.empty()) return;
    for (const Node& node : ast_.nodes)
      if (const auto read = OptionalReadOf(node)) asked_.try_emplace(read->target);
    places_.resize(ast_.nodes.size());
    std::uint32_t next = 0;
    NoteAsked(ast_.root, nullptr, next);
    std::vector<Condition> conditions;
    CheckReads(ast_.root, conditions);
  }

  /// Numbers the nodes at and below `id`, and notes where what is in `asked_` stands.
  void NoteAsked(NodeId id, const Node* parent, std::uint32_t& next) {
    const Node& node = ast_.node(id);
    places_[id].begin = next;
    if (const auto asked = asked_.find(ast_.TextOf(node)); asked != asked_.end()) {
      asked->second.all.push_back(next);
      const auto read = parent ? OptionalReadOf(*parent) : std::nullopt;
      if (read && ast_.ChildId(*parent, 0) == id) asked->second.reads[read->name].push_back(next);
    }
    ++next;
    for (const NodeId child : ast_.ChildrenOf(node)) NoteAsked(child, &node, next);
    places_[id].end = next;
  }

  void CheckReads(NodeId id, std::vector<Condition>& conditions) {
    const Node& node = ast_.node(id);
    if (const auto read = OptionalReadOf(node); read && !IsAsked(*read, conditions)) {
      const std::string target = TextOf(ast_.Child(node, 0));
      const std::string name(read->name);
      Fail(FaultKind::kUnknownName, read->name_begin,
           read->name_begin + static_cast<std::uint32_t>(name.size()),
           "'" + target + "' has no field '" + name + "' " + read->absent + ", or ask first: has(" +
               target + '.' + name + ") ? " + target + '.' + name + " : ...");
    }
    const auto children = ast_.ChildrenOf(node);
    for (std::size_t i = 0; i < children.size(); ++i) {
      const std::size_t before = conditions.size();
      if (node.op == Op::kAnd || node.op == Op::kOr) {
        conditions.push_back({.in = places_[id], .but = places_[children[i]]});
      } else if (node.op == Op::kConditional && i > 0) {
        conditions.push_back({.in = places_[children[0]], .but = {}});
      }
      CheckReads(children[i], conditions);
      conditions.resize(before);
    }
  }

  /// Whether a condition asks something of what `read` reads a field of, other than to read that
  /// field.
  bool IsAsked(const OptionalRead& read, const std::vector<Condition>& conditions) const {
    const Asked& asked = asked_.at(read.target);
    const auto same = asked.reads.find(read.name);
    return std::any_of(conditions.begin(), conditions.end(), [&](const Condition& condition) {
      const auto count = [&](const std::vector<std::uint32_t>& places) {
        return CountIn(places, condition.in) - CountIn(places, condition.but);
      };
      return count(asked.all) > (same == asked.reads.end() ? 0 : count(same->second));
    });
  }
  static std::ptrdiff_t CountIn(const std::vector<std::uint32_t>& places, const Places& range) {
    return std::lower_bound(places.begin(), places.end(), range.end) -
           std::lower_bound(places.begin(), places.end(), range.begin);
  }

  static std::string Listed(std::span<const std::string_view> names) {
    std::string text;
    for (std::size_t i = 0; i < names.size() && i < 10; ++i) {
      text += (i > 0 ? ", " : "") + std::string(names[i]);
    }
    return text + (names.size() > 10 ? ", ..." : "");
  }

  /// The field of `type` with a '-' in it whose name stands in the text where the parser read a
  /// shorter one: `needs.a-b` is (needs.a) - b to the language, which is never what was meant.
  const std::string* DashedField(const Node& node, const Type& type) const {
    const std::string_view here = std::string_view(ast_.text).substr(node.name_begin);
    for (const Type::Field& field : type.fields()) {
      if (field.name.size() <= node.name.size() || field.name[node.name.size()] != '-') continue;
      if (!here.starts_with(field.name)) continue;
      if (here.size() > field.name.size() && IsIdentifierPart(here[field.name.size()])) continue;
      return &field.name;
    }
    return nullptr;
  }

  Type Index(const Node& node) {
    const Type type = TypeOf(ast_.ChildId(node, 0));
    const Type index = TypeOf(ast_.ChildId(node, 1));
    const Node& key = ast_.Child(node, 1);
    if (type.is_dyn()) return {};
    if (type.kind() == kList) {
      if (!index.is_dyn() && !index.is_number()) {
        return Fail(key, "a list is indexed by a number, counted from 0, but '" + TextOf(key) +
                             "' is " + index.ToString());
      }
      return type.element();
    }
    if (type.kind() == kMap || type.kind() == kObject) {
      if (!Comparable(type.key(), index)) {
        return Fail(key, "keys are " + type.key().ToString() + ", but '" + TextOf(key) + "' is " +
                             index.ToString());
      }
      if (type.kind() == kMap) return type.element();
      if (key.op != Op::kConstant || !key.constant.is(Value::Kind::kString)) return {};
      Node field = node;
      field.name = key.constant.view();
      field.name_begin = key.begin;
      return Field(field, type);
    }
    return Fail(node, "'" + TextOf(ast_.Child(node, 0)) + "' is " + type.ToString() +
                          " and has no elements" +
                          (type.kind() == kString ? "; write text.charAt(index)" : ""));
  }

  Type ListOf(const Node& node) {
    std::optional<Type> element;
    for (const NodeId child : ast_.ChildrenOf(node)) {
      const Type type = TypeOf(child);
      element = element ? Join(*element, type) : type;
    }
    return element && !element->is_dyn() ? Type::List(*element) : Type(kList);
  }

  Type MapOf(const Node& node) {
    std::optional<Type> key;
    std::optional<Type> value;
    for (std::size_t i = 0; i < node.child_count; i += 2) {
      const NodeId id = ast_.ChildId(node, i);
      const Type type = TypeOf(id);
      if (!type.is_dyn() && type.kind() != kString && type.kind() != kBool && type.kind() != kInt &&
          type.kind() != kUint) {
        Fail(ast_.node(id), "a key of a map is a string, int, uint or bool, but '" +
                                TextOf(ast_.node(id)) + "' is " + type.ToString());
      }
      key = key ? Join(*key, type) : type;
      const Type of = TypeOf(ast_.ChildId(node, i + 1));
      value = value ? Join(*value, of) : of;
    }
    return Type::Map(key.value_or(Type()), value.value_or(Type()));
  }

  Type Negate(const Node& node) {
    Type type = TypeOf(ast_.ChildId(node, 0));
    if (type.is_dyn() || type.kind() == kInt || type.kind() == kDouble) return type;
    return Fail(node, "'-' does not take " + type.ToString() +
                          (type.kind() == kUint ? "; write -int(...)" : ""));
  }

  Type BinaryOf(const Node& node) {
    dashed_ = false;
    const Type a = TypeOf(ast_.ChildId(node, 0));
    // What stands behind the '-' of a name is no operand.
    if (dashed_ && node.op == Op::kSubtract) return {};
    const Type b = TypeOf(ast_.ChildId(node, 1));
    const auto fail = [&] { return Fail(node, NoOperator(ast_, node, a.kind(), b.kind())); };
    switch (node.op) {
      case Op::kEqual:
      case Op::kNotEqual:
        RequireOneOf(a, ast_.Child(node, 0), ast_.Child(node, 1));
        RequireOneOf(b, ast_.Child(node, 1), ast_.Child(node, 0));
        if (Comparable(a, b)) return kBool;
        return Fail(node, "'" + TextOf(ast_.Child(node, 0)) + "' is " + a.ToString() + " and '" +
                              TextOf(ast_.Child(node, 1)) + "' is " + b.ToString() +
                              ": they are never equal" + ConvertHint(node, a, b));
      case Op::kLess:
      case Op::kLessEqual:
      case Op::kGreater:
      case Op::kGreaterEqual:
        return Ordered(a, b) ? Type(kBool) : fail();
      case Op::kIn:
        return In(node, a, b);
      default: {
        if (a.is_dyn() || b.is_dyn()) return Arithmetic(node.op, a, b).value_or(Type());
        const auto result = Arithmetic(node.op, a, b);
        return result ? *result : fail();
      }
    }
  }

  /// `value`, of `type`, is compared with `other`: a constant must be one of the type's texts.
  void RequireOneOf(const Type& type, const Node& value, const Node& other) {
    const std::vector<std::string>& texts = type.texts();
    if (texts.empty() || other.op != Op::kConstant || !other.constant.is(Value::Kind::kString))
      return;
    const std::string_view text = other.constant.view();
    if (std::find(texts.begin(), texts.end(), text) != texts.end()) return;
    const std::vector<std::string_view> known(texts.begin(), texts.end());
    std::string all = Listed(known);
    if (const std::size_t last = all.rfind(", "); last != all.npos && !all.ends_with("..."))
      all.replace(last, 2, " or ");
    Fail(other, "'" + TextOf(value) + "' is never '" + Excerpt(text) + "'; it is " + all +
                    DidYouMean(text, known));
  }

  std::string ConvertHint(const Node& node, const Type& a, const Type& b) const {
    if (a.kind() == kString && b.is_number()) {
      return "; convert one: " + std::string(KindName(b.kind())) + "(" +
             TextOf(ast_.Child(node, 0)) + ")";
    }
    if (b.kind() == kString && a.is_number()) {
      return "; convert one: string(" + TextOf(ast_.Child(node, 0)) + ")";
    }
    if (b.kind() == kString && a.kind() == kBool) return "; leave out the quotes: true or false";
    return "";
  }

  static bool Ordered(const Type& a, const Type& b) {
    const auto has_order = [](const Type& t) {
      return t.is_dyn() || (t.kind() >= kBool && t.kind() <= kDuration);
    };
    if (!has_order(a) || !has_order(b)) return false;
    return a.is_dyn() || b.is_dyn() || a.kind() == b.kind() || (a.is_number() && b.is_number());
  }

  Type In(const Node& node, const Type& a, const Type& b) {
    if (b.is_dyn()) return kBool;
    if (b.kind() != kList && !IsMap(b))
      return Fail(node, NoOperator(ast_, node, a.kind(), b.kind()));
    const Type& member = b.kind() == kList ? b.element() : b.key();
    if (const Node& list = ast_.Child(node, 1); list.op == Op::kList)
      for (const NodeId child : ast_.ChildrenOf(list))
        RequireOneOf(a, ast_.Child(node, 0), ast_.node(child));
    RequireOneOf(member, ast_.Child(node, 1), ast_.Child(node, 0));
    if (Comparable(a, member)) return kBool;
    return Fail(node, "'" + TextOf(ast_.Child(node, 0)) + "' is " + a.ToString() + ", but " +
                          (b.kind() == kList ? "the list has " : "the keys are ") +
                          member.ToString() + ", so it is never in it");
  }

  /// Type of `a op b`; nullopt = there is no such operator.
  static std::optional<Type> Arithmetic(Op op, const Type& a, const Type& b) {
    if (a.is_dyn() && b.is_dyn()) return Type();
    if (a.is_dyn() || b.is_dyn()) {
      const Type& known = a.is_dyn() ? b : a;
      if (known.kind() == kString) return kString;
      return known.is_number() || known.kind() == kBytes ? known : Type();
    }
    const auto both = [&](Type::Kind kind) { return a.kind() == kind && b.kind() == kind; };
    if (op == Op::kModulo) {
      return both(kInt) || both(kUint) ? std::optional(Type(a.kind())) : std::nullopt;
    }
    if (both(kInt) || both(kUint) || both(kDouble)) return Type(a.kind());
    if (op == Op::kAdd) {
      if (both(kString) || both(kBytes) || both(kDuration)) return Type(a.kind());
      if (both(kList)) return a.element() == b.element() ? a : Type(kList);
      if ((a.kind() == kTimestamp && b.kind() == kDuration) ||
          (a.kind() == kDuration && b.kind() == kTimestamp)) {
        return Type(kTimestamp);
      }
    }
    if (op == Op::kSubtract) {
      if (both(kDuration) || both(kTimestamp)) return Type(kDuration);
      if (a.kind() == kTimestamp && b.kind() == kDuration) return Type(kTimestamp);
    }
    return std::nullopt;
  }

  Type Macro(const Node& node) {
    const Type over = TypeOf(ast_.ChildId(node, 0));
    Type& local = locals_[node.slot];
    if (node.op == Op::kBind) {
      local = over;
      return TypeOf(ast_.ChildId(node, 1));
    }
    if (over.kind() == kList) {
      local = over.element();
    } else if (IsMap(over)) {
      local = over.key();
    } else {
      local = {};
      if (!over.is_dyn()) {
        Fail(ast_.Child(node, 0), std::string(node.name) + "() goes over a list or a map, but '" +
                                      TextOf(ast_.Child(node, 0)) + "' is " + over.ToString());
      }
    }
    if (node.op == Op::kMapEach) return ListType(TypeOf(ast_.ChildId(node, 1)));
    RequireBool(ast_.ChildId(node, 1));
    if (node.op == Op::kMapSome) return ListType(TypeOf(ast_.ChildId(node, 2)));
    if (node.op == Op::kFilter) return ListType(AsChosen(local));
    return kBool;
  }
  /// Of what a filter has chosen: it may have looked for the fields that are not always there.
  static Type AsChosen(const Type& type) {
    std::vector<Type::Field> fields = type.fields();
    for (Type::Field& field : fields) field.absent.clear();
    return fields.empty() ? type : Type::Object(std::move(fields), type.open());
  }
  static Type ListType(const Type& element) {
    return element.is_dyn() ? Type(kList) : Type::List(element);
  }

  Type CallOf(NodeId id, const Node& written) {
    NamespacedName(id, written);
    const Node node = ast_.node(id);
    const Function* function = FindFunction(node.name);
    std::vector<Type> arguments;
    arguments.reserve(node.child_count);
    for (const NodeId child : ast_.ChildrenOf(node)) arguments.push_back(TypeOf(child));
    if (function == nullptr) return UnknownFunction(node);
    ast_.nodes[id].function = function;
    const Overload* found = nullptr;
    bool several = false;
    for (const Overload& overload : function->overloads) {
      if (overload.member != node.member || overload.count != arguments.size()) continue;
      bool fits = true;
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        fits = fits && Fits(arguments[i], overload.parameters[i]);
      }
      if (!fits) continue;
      several = found != nullptr && found->result != overload.result;
      found = &overload;
    }
    if (found == nullptr) return WrongArguments(node, *function, arguments);
    CheckConstants(id);
    if (function->call == CallJoin) CheckJoined(ast_.Child(node, 0), arguments.front());
    if (function->name == "dyn" || several) return {};
    return found->result == kList ? Type::List(kString) : Type(found->result);
  }

  void CheckJoined(const Node& list, const Type& type) {
    const Type::Kind element = type.element().kind();
    if (element != kNull && element != kList && element != kMap && element != kObject) return;
    Fail(list, "join() takes a list of texts, numbers and booleans, but '" + TextOf(list) +
                   "' is " + type.ToString() + "; write list.map(x, string(x)).join(...)");
  }

  /// `strings.quote(x)` is a function's name, not a call on a variable.
  void NamespacedName(NodeId id, const Node& node) {
    if (!node.member || FindFunction(node.name) != nullptr) return;
    const Node& target = ast_.Child(node, 0);
    if (target.op != Op::kVariable || environment_.Find(target.name) != nullptr) return;
    const Function* function =
        FindFunction(std::string(target.name) + '.' + std::string(node.name));
    if (function == nullptr) return;
    Node& call = ast_.nodes[id];
    call.name = function->name;
    call.member = false;
    ++call.first_child;
    --call.child_count;
  }

  Type UnknownFunction(const Node& node) {
    std::vector<std::string_view> known = {"all", "exists", "exists_one", "map", "filter", "has"};
    if (std::find(known.begin(), known.end() - 1, node.name) != known.end() - 1)
      return FailName(node, "'" + std::string(node.name) +
                                "' goes over a list or a map, written list." +
                                std::string(node.name) + "(x, x == 1)");
    known.reserve(known.size() + Functions().size());
    for (const Function& function : Functions()) known.push_back(function.name);
    std::string hint = DidYouMean(node.name, known);
    if (hint.empty()) hint = "; docs/expressions.md lists them all";
    return FailName(node, "there is no function '" + std::string(node.name) + "'" + hint);
  }

  Type WrongArguments(const Node& node, const Function& function,
                      const std::vector<Type>& arguments) {
    std::string given;
    std::size_t i = 0;
    if (node.member) given = arguments[i++].ToString() + '.';
    given += std::string(node.name) + '(';
    for (const std::size_t first = i; i < arguments.size(); ++i) {
      given += (i > first ? ", " : "") + arguments[i].ToString();
    }
    return Fail(node, "there is no " + given + "); it is called " + Usage(function));
  }

  /// What can be known to fail because it does not depend on variables.
  void CheckConstants(NodeId id) {
    Node& node = ast_.nodes[id];
    const auto constant = [&](std::size_t index) -> const Node* {
      if (index >= node.child_count) return nullptr;
      const Node& child = ast_.Child(node, index);
      const bool text = child.op == Op::kConstant && child.constant.is(Value::Kind::kString);
      return text ? &child : nullptr;
    };
    const auto report = [&](const Node& at, const Error& error) { Fail(at, error.message); };
    if (const Node* pattern = constant(1); pattern != nullptr && node.name == "matches") {
      auto compiled = CompilePattern(pattern->constant.view());
      if (!compiled) return report(*pattern, compiled.error());
      node.pattern = compiled->get();
      ast_.patterns.push_back(*std::move(compiled));
    } else if (const Node* zone = constant(1); zone != nullptr && node.name.starts_with("get")) {
      const auto found = FindZone(zone->constant.view());
      if (!found) report(*zone, found.error());
    } else if (const Node* text = constant(0); text != nullptr && node.name == "timestamp") {
      const auto read = ReadTimestamp(text->constant.view());
      if (!read) report(*text, read.error());
    } else if (text != nullptr && node.name == "duration") {
      const auto read = ReadDuration(text->constant.view());
      if (!read) report(*text, read.error());
    }
  }

  /// Appends the references at and below `id`.  A chain of constant fields on a variable is one.
  void CollectReferences(NodeId id) {
    std::vector<std::string> path;
    const Node* at = &ast_.node(id);
    const bool tested = at->op == Op::kHas;
    while (at->op == Op::kSelect || at->op == Op::kHas || at->op == Op::kIndex) {
      if (at->op == Op::kIndex) {
        const Node& key = ast_.Child(*at, 1);
        if (key.op == Op::kConstant && key.constant.is(Value::Kind::kString)) {
          path.emplace_back(key.constant.view());
        } else {
          path.clear();  // What follows a computed key is not known.
          CollectReferences(ast_.ChildId(*at, 1));
        }
      } else {
        path.emplace_back(at->name);
      }
      id = ast_.ChildId(*at, 0);
      at = &ast_.node(id);
    }
    if (at->op == Op::kVariable) {
      std::reverse(path.begin(), path.end());
      ast_.references.push_back({std::string(at->name), std::move(path), at->name_begin, tested});
      return;
    }
    for (const NodeId child : ast_.ChildrenOf(*at)) CollectReferences(child);
  }

  Ast& ast_;
  const Environment& environment_;
  std::vector<Fault>& faults_;
  const std::size_t first_fault_;
  /// Types of the macros' variables, by slot.
  std::vector<Type> locals_;
  /// Fields that are not always there, by where their names stand: where they are not.
  std::map<std::uint32_t, std::string> optional_;
  /// What such fields are read of, by its text.
  std::map<std::string_view, Asked> asked_;
  /// A node with all below it, by its id.
  std::vector<Places> places_;
  /// Whether the operand just looked at ended in a fault about a name with a '-'.
  bool dashed_ = false;
};

}  // namespace

void Check(Ast* ast, const Environment& environment, std::vector<Fault>* faults) {
  const auto first = static_cast<std::ptrdiff_t>(faults->size());
  Checker(ast, environment, faults).Run();
  std::sort(faults->begin() + first, faults->end(),
            [](const Fault& a, const Fault& b) { return a.offset < b.offset; });
}

}  // namespace headworks::expr::internal
