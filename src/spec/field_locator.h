#pragma once

#include <string_view>

#include "source.h"
#include "yaml_tree.h"

namespace headworks::spec {

/// Follows a field such as "tasks.build.needs[0]" down the tree.
class FieldLocator {
 public:
  explicit FieldLocator(const YamlTree& tree) : tree_(tree), node_(tree.root()), key_(node_) {}

  /// The place of the last part of `field` that there is: of its value if that is a scalar and
  /// `of_key` is false, otherwise of its key.  What a task does not say itself may stand under
  /// `defaults`.
  Place Locate(std::string_view field, bool of_key);

 private:
  bool Descend(std::string_view& field);
  /// Takes off all of `field` that there is; false if something is left.
  bool Follow(std::string_view& field);

  const YamlTree& tree_;
  YamlTree::NodeNo node_;
  YamlTree::NodeNo key_;
};

}  // namespace headworks::spec
