#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/model/workflow.h"

namespace headworks::cli {

/// What is drawn of a workflow: boxes and arrows.
struct Graph {
  struct Node {
    /// Of any characters, with its mark.
    std::string label;
    /// Longest way from a root.
    std::uint32_t level = 0;
    model::TaskRole role = model::TaskRole::kMain;
  };
  std::string title;
  std::vector<Node> nodes;
  /// From, to: indices of nodes; always to a higher level.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
};

/// " (finally)", behind the ids of such tasks; those of the main section have none.
std::string_view RoleMark(model::TaskRole role);

/// Beyond so many tasks a picture shows one box per level; beyond so many levels there is none.
inline constexpr std::size_t kMostDrawn = 1'000;

enum class GraphFormat : unsigned char { kText, kMermaid, kDot, kSvg };

/// kAtCapacity: too many levels to be drawn.
Result<Graph> GraphOf(const model::Workflow& workflow);
/// The picture as text, ending with a line break.
std::string Mermaid(const Graph& graph);
std::string Dot(const Graph& graph);
/// Layers from left to right; colours that can be read on light and dark ground.
std::string Svg(const Graph& graph);

}  // namespace headworks::cli
