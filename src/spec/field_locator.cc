#include "field_locator.h"

#include <charconv>

namespace headworks::spec {

using Kind = YamlTree::Kind;
using NodeNo = YamlTree::NodeNo;

/// Takes one key or index off the front of `field`.  Keys may contain dots, so the longest that
/// fits is the one meant.
bool FieldLocator::Descend(std::string_view& field) {
  if (tree_[node_].kind == Kind::kList && field.starts_with('[')) {
    std::uint32_t index = 0;
    std::from_chars(field.data() + 1, field.data() + field.size(), index);
    if (index >= tree_[node_].size) return false;
    key_ = node_ = tree_.Element(node_, index);
    field.remove_prefix(field.find(']') + 1);
    return true;
  }
  // One text stands for a list of one.
  if (tree_[node_].kind == Kind::kScalar && field.starts_with("[0]")) {
    key_ = node_;
    field.remove_prefix(3);
    return true;
  }
  if (tree_[node_].kind != Kind::kMap) return false;
  if (field.starts_with('.')) field.remove_prefix(1);
  NodeNo key = 0, value = 0;
  std::size_t length = 0;
  bool found = false;
  for (std::uint32_t i = 0; i < tree_[node_].size; ++i) {
    const std::string_view text = tree_.Text(tree_.Key(node_, i));
    if (!field.starts_with(text) || (found && text.size() <= length)) continue;
    if (field.size() > text.size() && field[text.size()] != '.' && field[text.size()] != '[')
      continue;
    key = tree_.Key(node_, i);
    value = tree_.Value(node_, i);
    length = text.size();
    found = true;
  }
  if (!found) return false;
  key_ = key;
  node_ = value;
  field.remove_prefix(length);
  return true;
}

bool FieldLocator::Follow(std::string_view& field) {
  while (!field.empty())
    if (!Descend(field)) return false;
  return true;
}

Place FieldLocator::Locate(std::string_view field, bool of_key) {
  const bool of_task = field.starts_with("tasks.") || field.starts_with("finally.") ||
                       field.starts_with("on_cancel.");
  const bool in_task = of_task && Descend(field) && Descend(field);
  std::string_view below = field;
  if (!Follow(field) && in_task) {
    const NodeNo node = node_, key = key_;
    node_ = tree_.root();
    std::string_view defaults = "defaults";
    if (!Descend(defaults) || !Follow(below)) {
      node_ = node;
      key_ = key;
    }
  }
  return tree_[!of_key && tree_[node_].kind == Kind::kScalar ? node_ : key_].place;
}

}  // namespace headworks::spec
