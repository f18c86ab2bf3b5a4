#include "messages.h"

namespace headworks::expr::internal {
namespace {

using enum Type::Kind;

bool IsNumber(Type::Kind kind) { return kind == kInt || kind == kUint || kind == kDouble; }

/// `operand` as a double: a literal gets a fraction, anything else a call.
std::string AsDouble(const Ast& ast, const Node& operand, Type::Kind kind) {
  std::string text = Excerpt(ast.TextOf(operand));
  if (kind == kDouble) return text;
  if (kind == kInt && operand.op == Op::kConstant) return text + ".0";
  return "double(" + text + ")";
}

std::string AsInt(const Ast& ast, const Node& operand, Type::Kind kind) {
  std::string text = Excerpt(ast.TextOf(operand));
  return kind == kInt ? text : "int(" + text + ")";
}

std::string AsText(const Ast& ast, const Node& operand, Type::Kind kind) {
  std::string text = Excerpt(ast.TextOf(operand));
  return kind == kString ? text : "string(" + text + ")";
}

}  // namespace

std::string NullHint(const Ast& ast, const Node& operand) {
  return "; test for null first: " + Excerpt(ast.TextOf(operand)) + " != null && ...";
}

std::string_view Spelling(Op op) {
  switch (op) {
    case Op::kEqual:
      return "==";
    case Op::kNotEqual:
      return "!=";
    case Op::kLess:
      return "<";
    case Op::kLessEqual:
      return "<=";
    case Op::kGreater:
      return ">";
    case Op::kGreaterEqual:
      return ">=";
    case Op::kIn:
      return "in";
    case Op::kAdd:
      return "+";
    case Op::kSubtract:
      return "-";
    case Op::kMultiply:
      return "*";
    case Op::kDivide:
      return "/";
    case Op::kModulo:
      return "%";
    default:
      return "";
  }
}

std::string NoOperator(const Ast& ast, const Node& node, Type::Kind left, Type::Kind right) {
  const std::string op(Spelling(node.op));
  const Node& a = ast.Child(node, 0);
  const Node& b = ast.Child(node, 1);
  std::string message = "'" + op + "' does not take " + std::string(KindName(left)) + " and " +
                        std::string(KindName(right));
  if (node.op == Op::kIn ? right == kNull : left == kNull || right == kNull) {
    return message + NullHint(ast, left == kNull && node.op != Op::kIn ? a : b);
  }
  if (node.op == Op::kIn) {
    return message +
           "; on the right of 'in' is a list or a map; in text, look with "
           "text.contains(part)";
  }
  if (IsNumber(left) && IsNumber(right)) {
    if (node.op == Op::kModulo) {
      return message + "; only whole numbers have a remainder: " + AsInt(ast, a, left) + " % " +
             AsInt(ast, b, right);
    }
    const bool doubles = left == kDouble || right == kDouble;
    return message + ": numbers of different types are not mixed; write " +
           (doubles ? AsDouble(ast, a, left) + ' ' + op + ' ' + AsDouble(ast, b, right)
                    : AsInt(ast, a, left) + ' ' + op + ' ' + AsInt(ast, b, right));
  }
  if (node.op == Op::kAdd && (left == kString || right == kString)) {
    return message + "; make both text: " + AsText(ast, a, left) + " + " + AsText(ast, b, right);
  }
  if (left == kString && IsNumber(right)) {
    return message + "; convert the text: " + std::string(KindName(right)) + "(" +
           Excerpt(ast.TextOf(a)) + ")";
  }
  if (right == kString && IsNumber(left)) {
    return message + "; convert the text: " + std::string(KindName(left)) + "(" +
           Excerpt(ast.TextOf(b)) + ")";
  }
  return message;
}

std::string_view NoText(Type::Kind kind) {
  switch (kind) {
    case kNull:
      return "null, which is no text; write string(...) for \"null\", or a condition: x == null ? "
             "\"\" : x";
    case kList:
      return "a list, which is no text; write list.join(\" \"), or string(...) for JSON";
    case kMap:
    case kObject:
      return "a map, which is no text; choose a field, or write string(...) for JSON";
    case kBytes:
      return "bytes, which are no text; write string(...)";
    case kType:
      return "a type, which is no text; compare it, e.g. type(x) == int";
    default:
      return {};
  }
}

}  // namespace headworks::expr::internal
