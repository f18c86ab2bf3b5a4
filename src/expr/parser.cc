#include "parser.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "headworks/base/text.h"
#include "headworks/expr/limits.h"
#include "lexer.h"
#include "literal.h"

namespace headworks::expr::internal {
namespace {

/// A node, or nothing once there is a fault.
using Parsed = std::optional<NodeId>;

struct Macro {
  std::string_view name;
  Op op;
  /// Arguments behind the name of the variable.
  std::size_t least;
  std::size_t most;
  std::string_view usage;
};
constexpr std::array<Macro, 5> kMacros = {{
    {"all", Op::kAll, 1, 1, "list.all(x, x > 0)"},
    {"exists", Op::kExists, 1, 1, "list.exists(x, x > 0)"},
    {"exists_one", Op::kExistsOne, 1, 1, "list.exists_one(x, x > 0)"},
    {"map", Op::kMapEach, 1, 2, "list.map(x, x * 2) or list.map(x, x > 0, x * 2)"},
    {"filter", Op::kFilter, 1, 1, "list.filter(x, x > 0)"},
}};

struct Binary {
  Lex lex;
  Op op;
  /// Higher binds tighter.
  int level;
};
constexpr int kRelation = 1;
constexpr int kSum = 2;
constexpr int kProduct = 3;
constexpr std::array<Binary, 12> kBinary = {{
    {Lex::kEqual, Op::kEqual, kRelation},
    {Lex::kNotEqual, Op::kNotEqual, kRelation},
    {Lex::kLess, Op::kLess, kRelation},
    {Lex::kLessEqual, Op::kLessEqual, kRelation},
    {Lex::kGreater, Op::kGreater, kRelation},
    {Lex::kGreaterEqual, Op::kGreaterEqual, kRelation},
    {Lex::kIn, Op::kIn, kRelation},
    {Lex::kPlus, Op::kAdd, kSum},
    {Lex::kMinus, Op::kSubtract, kSum},
    {Lex::kTimes, Op::kMultiply, kProduct},
    {Lex::kDivide, Op::kDivide, kProduct},
    {Lex::kModulo, Op::kModulo, kProduct},
}};

class Parser {
 public:
  Parser(Ast* ast, std::vector<Fault>* faults) : ast_(*ast), faults_(*faults), lexer_(ast->text) {}

  bool Run() {
    if (!Advance()) return false;
    if (token_.lex == Lex::kEnd) {
      return Fail(token_, "the expression is empty; write one, e.g. true").has_value();
    }
    const Parsed root = Expression();
    if (!root) return false;
    if (token_.lex != Lex::kEnd) {
      return Fail(token_, "unexpected " + Spelled(token_) + Instead(ast_.node(*root))).has_value();
    }
    ast_.root = *root;
    return true;
  }

 private:
  bool Advance() {
    const auto next = lexer_.Next();
    if (!next) {
      faults_.push_back(lexer_.fault());
      return false;
    }
    last_end_ = token_.end;
    token_ = *next;
    return true;
  }
  Parsed Fail(const Token& at, std::string message, FaultKind kind = FaultKind::kSyntax) {
    faults_.push_back({kind, at.begin, at.end - at.begin, std::move(message)});
    return std::nullopt;
  }
  std::string_view TextOf(const Token& token) const {
    return std::string_view(ast_.text).substr(token.begin, token.end - token.begin);
  }
  std::string Spelled(const Token& token) const {
    return token.lex == Lex::kEnd ? "end" : "'" + Excerpt(TextOf(token)) + "'";
  }
  /// What is missing before the token, where `root` is complete.
  std::string Instead(const Node& root) const {
    const std::string_view word = TextOf(token_);
    if (word == "and" || word == "AND") return "; write && for it";
    if (word == "or" || word == "OR") return "; write || for it";
    if (root.op == Op::kVariable && root.name == "not") return "; write ! for 'not'";
    if (word == "not") return "; write ! for it, e.g. !(x in list)";
    if (word == "is") return "; write == for it";
    return "; the expression is complete before it, so an operator (&&, +, ==, ...) or quotes are "
           "missing";
  }
  /// Takes `lex` or fails; `why` says what it is for.
  bool Expect(Lex lex, const std::string& why) {
    if (token_.lex != lex) {
      return Fail(token_, "unexpected " + Spelled(token_) + ": " + why).has_value();
    }
    return Advance();
  }

  /// Adds a node over `children` that ends with the last token taken.
  Parsed Add(Node node, std::span<const NodeId> children) {
    node.first_child = static_cast<std::uint32_t>(ast_.children.size());
    node.child_count = static_cast<std::uint32_t>(children.size());
    node.end = std::max(node.end, last_end_);
    for (const NodeId child : children) {
      const auto height = static_cast<std::uint16_t>(ast_.node(child).height + 1);
      node.height = std::max(node.height, height);
    }
    if (node.height > kMaxExpressionDepth) return TooDeep(node.begin, node.end);
    ast_.children.insert(ast_.children.end(), children.begin(), children.end());
    ast_.nodes.push_back(node);
    return static_cast<NodeId>(ast_.nodes.size() - 1);
  }
  Parsed Add(Op op, std::uint32_t begin, std::span<const NodeId> children) {
    return Add({.op = op, .begin = begin}, children);
  }
  Parsed TooDeep(std::uint32_t begin, std::uint32_t end) {
    return Fail({Lex::kEnd, begin, end},
                "the expression is nested more than " + std::to_string(kMaxExpressionDepth) +
                    " deep; split it over several tasks or params",
                FaultKind::kLimit);
  }

  /// Expr = Or ["?" Or ":" Expr].
  Parsed Expression() {
    if (depth_ >= kMaxExpressionDepth) return TooDeep(token_.begin, token_.end);
    ++depth_;
    const Parsed result = Conditional();
    --depth_;
    return result;
  }
  Parsed Conditional() {
    const std::uint32_t begin = token_.begin;
    const Parsed condition = Chain(Lex::kOr);
    if (!condition || token_.lex != Lex::kQuestion) return condition;
    if (!Advance()) return std::nullopt;
    const Parsed yes = Chain(Lex::kOr);
    if (!yes || !Expect(Lex::kColon, "'condition ? a : b' needs its ':' here")) return std::nullopt;
    const Parsed no = Expression();
    if (!no) return std::nullopt;
    return Add(Op::kConditional, begin, std::array{*condition, *yes, *no});
  }

  /// A chain of || over chains of && over relations.  One node, however long, because a machine
  /// writes long ones.
  Parsed Chain(Lex lex) {
    const std::uint32_t begin = token_.begin;
    const auto part = [&] { return lex == Lex::kOr ? Chain(Lex::kAnd) : Operators(kRelation); };
    const Parsed first = part();
    if (!first || token_.lex != lex) return first;
    std::vector<NodeId> operands = {*first};
    while (token_.lex == lex) {
      if (!Advance()) return std::nullopt;
      const Parsed next = part();
      if (!next) return std::nullopt;
      operands.push_back(*next);
    }
    return Add(lex == Lex::kOr ? Op::kOr : Op::kAnd, begin, operands);
  }

  /// Left-associative binary operators of `level` and above.
  Parsed Operators(int level) {
    const std::uint32_t begin = token_.begin;
    Parsed left = Unary();
    while (left) {
      const auto* found = std::find_if(kBinary.begin(), kBinary.end(), [&](const Binary& b) {
        return b.lex == token_.lex && b.level >= level;
      });
      if (found == kBinary.end()) break;
      if (!Advance()) return std::nullopt;
      const Parsed right = Operators(found->level + 1);
      if (!right) return std::nullopt;
      left = Add(found->op, begin, std::array{*left, *right});
    }
    return left;
  }

  Parsed Unary() {
    const std::uint32_t begin = token_.begin;
    std::vector<Token> signs;
    while (token_.lex == Lex::kNot || token_.lex == Lex::kMinus) {
      if (signs.size() >= kMaxExpressionDepth) return TooDeep(begin, token_.end);
      signs.push_back(token_);
      if (!Advance()) return std::nullopt;
    }
    const bool number =
        token_.lex == Lex::kInt || token_.lex == Lex::kUint || token_.lex == Lex::kDouble;
    Parsed operand;
    if (number && !signs.empty() && signs.back().lex == Lex::kMinus) {
      // The sign belongs to the number, or the least int could not be written.
      operand = Literal(true, signs.back().begin);
      signs.pop_back();
      operand = operand ? Suffixes(*operand, ast_.node(*operand).begin) : operand;
    } else {
      operand = Member();
    }
    while (operand && !signs.empty()) {
      operand = Add(signs.back().lex == Lex::kNot ? Op::kNot : Op::kNegate, signs.back().begin,
                    std::array{*operand});
      signs.pop_back();
    }
    return operand;
  }

  Parsed Member() {
    const std::uint32_t begin = token_.begin;
    const Parsed primary = Primary();
    return primary ? Suffixes(*primary, begin) : primary;
  }

  /// What follows a primary: .field, .call(...), [index].
  Parsed Suffixes(NodeId of, std::uint32_t begin) {
    Parsed node = of;
    while (node) {
      if (token_.lex == Lex::kOpenBracket) {
        if (!Advance()) return std::nullopt;
        const Parsed index = Expression();
        if (!index || !Expect(Lex::kCloseBracket, "the index needs its ']' here")) {
          return std::nullopt;
        }
        node = Add(Op::kIndex, begin, std::array{*node, *index});
      } else if (token_.lex == Lex::kDot) {
        if (!Advance()) return std::nullopt;
        node = AfterDot(*node, begin);
      } else if (token_.lex == Lex::kOpenBrace && IsTypeName(*node)) {
        return Fail(token_, "there are no message types here; a map is written {\"key\": value}");
      } else {
        break;
      }
    }
    return node;
  }

  bool IsTypeName(NodeId id) const {
    const Node& node = ast_.node(id);
    return node.op == Op::kVariable ||
           (node.op == Op::kSelect && IsTypeName(ast_.ChildId(node, 0)));
  }

  Parsed AfterDot(NodeId target, std::uint32_t begin) {
    const Token name = token_;
    const bool quoted = name.lex == Lex::kQuotedIdentifier;
    if (!quoted && name.lex != Lex::kIdentifier) {
      return Fail(name, "a dot needs a field name behind it, but there is " + Spelled(name) +
                            "; other names go into brackets: x[\"" +
                            (name.lex == Lex::kEnd ? "name" : std::string(TextOf(name))) + "\"]");
    }
    if (!Advance()) return std::nullopt;
    std::string_view text = TextOf(name);
    if (quoted) text = text.substr(1, text.size() - 2);
    if (token_.lex != Lex::kOpenParen || quoted) {
      return Add({.op = Op::kSelect, .begin = begin, .name = text, .name_begin = name.begin},
                 std::array{target});
    }
    const Node& before = ast_.node(target);
    if (text == "bind" && before.op == Op::kVariable && before.name == "cel") {
      return MacroCall({"bind", Op::kBind, 2, 2, "cel.bind(x, 1 + 2, x * x)"}, name, begin, {});
    }
    for (const Macro& macro : kMacros) {
      if (text == macro.name) return MacroCall(macro, name, begin, target);
    }
    std::vector<NodeId> arguments = {target};
    if (!Arguments(&arguments)) return std::nullopt;
    return Add(
        {.op = Op::kCall, .member = true, .begin = begin, .name = text, .name_begin = name.begin},
        arguments);
  }

  /// "(" [Expr {"," Expr}] ")".
  bool Arguments(std::vector<NodeId>* to) {
    if (!Expect(Lex::kOpenParen, "a call needs '('")) return false;
    while (token_.lex != Lex::kCloseParen) {
      const Parsed argument = Expression();
      if (!argument) return false;
      to->push_back(*argument);
      if (token_.lex != Lex::kComma) break;
      if (!Advance()) return false;
    }
    return Expect(Lex::kCloseParen, "the arguments need ',' between them and ')' behind them");
  }

  /// A macro that gives a variable to its other arguments.  `over` is what it goes over; cel.bind
  /// has none and takes its first argument instead.
  Parsed MacroCall(const Macro& macro, const Token& name, std::uint32_t begin, Parsed over) {
    if (!Expect(Lex::kOpenParen, "a call needs '('")) return std::nullopt;
    const Token variable = token_;
    const std::string usage = std::string(macro.name) + "() is written " + std::string(macro.usage);
    if (variable.lex != Lex::kIdentifier || IsReserved(TextOf(variable))) {
      return Fail(variable, usage + ": first a name for the element");
    }
    if (!Advance() || !Expect(Lex::kComma, usage)) return std::nullopt;
    std::vector<NodeId> parts;
    if (over) parts.push_back(*over);
    std::size_t count = 0;
    if (!over) {  // The value of cel.bind does not see the name yet.
      const Parsed value = Expression();
      if (!value || !Expect(Lex::kComma, usage)) return std::nullopt;
      parts.push_back(*value);
      ++count;
    }
    const auto slot = static_cast<std::uint32_t>(locals_.size());
    locals_.push_back(TextOf(variable));
    ast_.slots = std::max(ast_.slots, slot + 1);
    while (count < macro.most) {
      const Parsed part = Expression();
      if (!part) return std::nullopt;
      parts.push_back(*part);
      ++count;
      if (token_.lex != Lex::kComma || count == macro.most) break;
      if (!Advance()) return std::nullopt;
    }
    locals_.pop_back();
    if (count < macro.least) return Fail(name, usage);
    if (!Expect(Lex::kCloseParen, usage)) return std::nullopt;
    const Op op = macro.op == Op::kMapEach && count == 2 ? Op::kMapSome : macro.op;
    return Add(
        {.op = op, .begin = begin, .slot = slot, .name = macro.name, .name_begin = name.begin},
        parts);
  }

  Parsed Primary() {
    const Token token = token_;
    switch (token.lex) {
      case Lex::kInt:
      case Lex::kUint:
      case Lex::kDouble:
      case Lex::kString:
      case Lex::kBytes:
        return Literal(false, token.begin);
      case Lex::kTrue:
      case Lex::kFalse:
        return Constant(Value::Bool(token.lex == Lex::kTrue), token.begin);
      case Lex::kNull:
        return Constant(Value(), token.begin);
      case Lex::kDot:
        if (!Advance()) return std::nullopt;
        return Name(token.begin, true);
      case Lex::kIdentifier:
        return Name(token.begin, false);
      case Lex::kOpenParen: {
        if (!Advance()) return std::nullopt;
        const Parsed inner = Expression();
        if (!inner || !Expect(Lex::kCloseParen, "a ')' is missing here")) return std::nullopt;
        return inner;
      }
      case Lex::kOpenBracket:
        return ListLiteral();
      case Lex::kOpenBrace:
        return MapLiteral();
      default:
        return Fail(token, token.lex == Lex::kEnd
                               ? "the expression ends where a value is needed"
                               : "unexpected " + Spelled(token) + " where a value is needed");
    }
  }

  Parsed Constant(Value value, std::uint32_t begin) {
    if (!Advance()) return std::nullopt;
    return Add({.op = Op::kConstant, .begin = begin, .constant = value}, {});
  }

  Parsed Literal(bool negative, std::uint32_t begin) {
    const auto value = ReadLiteral(token_.lex, TextOf(token_), negative, &ast_.strings);
    if (!value) return Fail({token_.lex, begin, token_.end}, value.error().message);
    return Constant(*value, begin);
  }

  /// A variable, has(), or a call of a function.
  Parsed Name(std::uint32_t begin, bool global) {
    const Token name = token_;
    if (name.lex != Lex::kIdentifier) return Fail(name, "a name is needed here");
    const std::string_view text = TextOf(name);
    if (IsReserved(text)) {
      return Fail(name, "'" + std::string(text) + "' is a reserved word and cannot be a name");
    }
    if (!Advance()) return std::nullopt;
    if (token_.lex == Lex::kOpenParen) {
      if (text == "has" && !global) return Has(name);
      std::vector<NodeId> arguments;
      if (!Arguments(&arguments)) return std::nullopt;
      return Add({.op = Op::kCall, .begin = begin, .name = text, .name_begin = name.begin},
                 arguments);
    }
    if (!global) {
      for (std::size_t i = locals_.size(); i-- > 0;) {
        if (locals_[i] != text) continue;
        return Add({.op = Op::kLocal,
                    .begin = begin,
                    .slot = static_cast<std::uint32_t>(i),
                    .name = text,
                    .name_begin = name.begin},
                   {});
      }
    }
    return Add({.op = Op::kVariable, .begin = begin, .name = text, .name_begin = name.begin}, {});
  }

  /// has(e.f), and has(e["f"]) for fields that cannot stand behind a dot.
  Parsed Has(const Token& name) {
    std::vector<NodeId> arguments;
    if (!Arguments(&arguments)) return std::nullopt;
    if (arguments.size() == 1) {
      const Node field = ast_.node(arguments[0]);
      Node has = {
          .op = Op::kHas, .begin = name.begin, .name = field.name, .name_begin = field.name_begin};
      if (field.op == Op::kSelect) return Add(has, std::array{ast_.ChildId(field, 0)});
      if (field.op == Op::kIndex) {
        const Node& key = ast_.Child(field, 1);
        if (key.op == Op::kConstant && key.constant.is(Value::Kind::kString)) {
          has.name = key.constant.view();
          has.name_begin = key.begin;
          return Add(has, std::array{ast_.ChildId(field, 0)});
        }
      }
    }
    return Fail(name, "has() asks for one field: has(params.name) or has(needs[\"a-b\"])");
  }

  Parsed ListLiteral() {
    const std::uint32_t begin = token_.begin;
    if (!Advance()) return std::nullopt;
    std::vector<NodeId> elements;
    while (token_.lex != Lex::kCloseBracket) {
      const Parsed element = Expression();
      if (!element) return std::nullopt;
      elements.push_back(*element);
      if (token_.lex != Lex::kComma) break;
      if (!Advance()) return std::nullopt;
    }
    if (!Expect(Lex::kCloseBracket, "a list needs ',' between its elements and ']' at its end")) {
      return std::nullopt;
    }
    return Add(Op::kList, begin, elements);
  }

  Parsed MapLiteral() {
    const std::uint32_t begin = token_.begin;
    if (!Advance()) return std::nullopt;
    std::vector<NodeId> entries;
    while (token_.lex != Lex::kCloseBrace) {
      const Parsed key = Expression();
      if (!key || !Expect(Lex::kColon, "an entry of a map is written \"key\": value")) {
        return std::nullopt;
      }
      const Parsed value = Expression();
      if (!value) return std::nullopt;
      entries.insert(entries.end(), {*key, *value});
      if (token_.lex != Lex::kComma) break;
      if (!Advance()) return std::nullopt;
    }
    if (!Expect(Lex::kCloseBrace, "a map needs ',' between its entries and '}' at its end")) {
      return std::nullopt;
    }
    return Add(Op::kMap, begin, entries);
  }

  Ast& ast_;
  std::vector<Fault>& faults_;
  Lexer lexer_;
  Token token_;
  std::uint32_t last_end_ = 0;
  std::size_t depth_ = 0;
  /// Variables of the macros around this place; the index is the slot.
  std::vector<std::string_view> locals_;
};

}  // namespace

bool ParseInto(Ast* ast, std::vector<Fault>* faults) { return Parser(ast, faults).Run(); }

std::string Excerpt(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  if (text.size() <= kLongest) return std::string(text);
  return std::string(text.substr(0, ValidUtf8Prefix(text.substr(0, kLongest)))) + "...";
}

}  // namespace headworks::expr::internal
