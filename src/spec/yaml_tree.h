#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source.h"

namespace headworks::spec {

/// One YAML document as numbered nodes: compact, because a workflow of 100,000 tasks has more than
/// a million.  Aliases share nodes, merge keys are applied, repeated keys are gone (with a fault).
class YamlTree {
 public:
  enum class Kind : std::uint8_t { kNull, kScalar, kList, kMap };
  using NodeNo = std::uint32_t;

  struct Node {
    Place place;
    std::uint32_t begin = 0;   // scalar: in texts_; otherwise in children_
    std::uint32_t size = 0;    // bytes, elements, or entries
    std::uint32_t weight = 0;  // of the expanded subtree
    Kind kind = Kind::kNull;
    bool plain = false;       // scalar without quotes, so it may be a number or a boolean
    bool faulty = false;      // a fault that is told already makes its value meaningless
    std::uint8_t height = 0;  // containers on the longest way down, itself included
  };

  /// Reads `source`.  nullopt: it cannot be read on, the faults say why.  With a tree there may be
  /// faults as well.  An empty document is a null node.
  /// `not_yaml`, if given, becomes the place where the text stops being YAML.
  static std::optional<YamlTree> Parse(Source& source, std::optional<Place>* not_yaml = nullptr);

  NodeNo root() const { return root_; }
  const Node& operator[](NodeNo no) const { return nodes_[no]; }
  std::string_view Text(NodeNo scalar) const {
    return std::string_view(texts_).substr(nodes_[scalar].begin, nodes_[scalar].size);
  }
  NodeNo Element(NodeNo list, std::uint32_t i) const { return children_[nodes_[list].begin + i]; }
  /// Keys are always scalars.
  NodeNo Key(NodeNo map, std::uint32_t i) const { return children_[nodes_[map].begin + 2 * i]; }
  NodeNo Value(NodeNo map, std::uint32_t i) const {
    return children_[nodes_[map].begin + 2 * i + 1];
  }

 private:
  friend class YamlTreeBuilder;

  NodeNo root_ = 0;
  std::vector<Node> nodes_;
  std::vector<NodeNo> children_;
  std::string texts_;
};

}  // namespace headworks::spec
