#pragma once

#include <re2/re2.h>

#include <cstdint>
#include <forward_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/expr/program.h"
#include "value.h"

namespace headworks::expr::internal {

struct Function;
using NodeId = std::uint32_t;

enum class Op : std::uint8_t {
  /// `constant`.
  kConstant,
  /// The variable `name`.
  kVariable,
  /// The variable of a macro in `slot`.
  kLocal,
  /// child 0 . name.
  kSelect,
  /// has(child 0 . name).
  kHas,
  /// child 0 [child 1].
  kIndex,
  /// Of all children; of keys and values in turn.
  kList,
  kMap,
  /// Any number of children, of which errors are absorbed.
  kAnd,
  kOr,
  kNot,
  kNegate,
  /// child 0 ? child 1 : child 2.
  kConditional,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kModulo,
  /// function(children), the target of `target.f(...)` being the first.
  kCall,
  /// Over the list or map child 0, with its elements or keys in `slot`.
  kAll,
  kExists,
  kExistsOne,
  /// child 1 makes an element.
  kMapEach,
  /// child 1 chooses, child 2 makes an element.
  kMapSome,
  kFilter,
  /// child 0 is put into `slot`, child 1 is the value.
  kBind,
};

struct Node {
  Op op = Op::kConstant;
  /// Of a call: whether it was written `target.f(...)`.
  bool member = false;
  /// Of a call, above its child count; of any node, how high the tree below it is.
  std::uint16_t height = 1;
  /// Where it is in the text.
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  /// Its children: `child_count` of `Ast::children` from here.
  std::uint32_t first_child = 0;
  std::uint32_t child_count = 0;
  std::uint32_t slot = 0;
  /// Of a variable, selection or call.  Where it stands: from `name_begin` in the text.
  std::string_view name;
  std::uint32_t name_begin = 0;
  /// Of a call once it is checked; nullptr = there is no such function.
  const Function* function = nullptr;
  /// Of a call of `matches` with a constant pattern.
  const RE2* pattern = nullptr;
  Value constant;
};

/// A parsed expression, and after the check all that its evaluation needs.  Not moved: nodes point
/// into `text`.
struct Ast {
  std::string text;
  std::vector<Node> nodes;
  std::vector<NodeId> children;
  /// Text with escapes, and folded names, that nodes point to.
  std::forward_list<std::string> strings;
  std::vector<std::unique_ptr<RE2>> patterns;
  NodeId root = 0;
  /// How many slots macros need at once.
  std::uint32_t slots = 0;
  Type type;
  std::vector<Reference> references;

  const Node& node(NodeId id) const { return nodes[id]; }
  std::span<const NodeId> ChildrenOf(const Node& node) const {
    return std::span(children).subspan(node.first_child, node.child_count);
  }
  NodeId ChildId(const Node& node, std::size_t index) const {
    return children[node.first_child + index];
  }
  const Node& Child(const Node& node, std::size_t index) const {
    return nodes[ChildId(node, index)];
  }
  std::string_view TextOf(const Node& node) const {
    return std::string_view(text).substr(node.begin, node.end - node.begin);
  }
};

/// `text` cut to what a message can bear, on a character's border.
std::string Excerpt(std::string_view text);

}  // namespace headworks::expr::internal
