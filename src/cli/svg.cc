#include <fmt/format.h>

#include <algorithm>

#include "graph.h"
#include "output.h"

namespace headworks::cli {
namespace {

constexpr double kCharacter = 7.9;  // of the 13 px monospaced text
constexpr double kPadding = 10;
constexpr double kBoxHeight = 28;
constexpr double kBoxGap = 14;   // between boxes of one layer
constexpr double kBendGap = 10;  // between lines that only pass through
constexpr double kLayerGap = 48;
constexpr double kMargin = 16;
constexpr double kTitleHeight = 28;
constexpr int kSweeps = 8;
/// Where arrows would bend more often than this, they go straight.
constexpr std::size_t kMostBends = 20'000;

std::string XmlText(std::string_view text) {
  std::string escaped;
  for (const char c : text) switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        // The only others that XML 1.0 forbids.
        escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  return escaped;
}

/// Layers from left to right: arrows over several layers bend at a point in each, and the order
/// within a layer follows the middle of the neighbours, so that few arrows cross.
class Layout {
 public:
  explicit Layout(const Graph& graph) : graph_(graph) {
    AddPoints();
    Order();
    Place();
  }

  std::string Draw() const {
    std::string text = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="13">
<title>{2}</title>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#8a919c"/></marker></defs>
<text x="{3}" y="{4}" fill="#8a919c">{2}</text>
)",
        width_, height_, XmlText(graph_.title), kMargin, kMargin + 10);
    text += R"(<g fill="none" stroke="#8a919c" stroke-width="1.3">)";
    text += '\n';
    for (const auto& way : ways_) text += Arrow(way);
    text += "</g>\n";
    for (std::uint32_t no = 0; no < graph_.nodes.size(); ++no) text += Box(no);
    return text + "</svg>\n";
  }

 private:
  /// A box, or a bend of an arrow.
  struct Point {
    std::uint32_t layer = 0;
    double x = 0;
    double y = 0;  // of its middle
    double width = 0;
    bool bend = false;
    std::vector<std::uint32_t> before = {};
    std::vector<std::uint32_t> after = {};

    double height() const { return bend ? 0 : kBoxHeight; }
  };

  void AddPoints() {
    std::uint32_t layers = 1;
    for (const Graph::Node& node : graph_.nodes) {
      const auto characters = static_cast<double>(DisplayWidth(node.label));
      points_.push_back({.layer = node.level, .width = characters * kCharacter + 2 * kPadding});
      layers = std::max(layers, node.level + 1);
    }
    std::size_t bends = 0;
    for (const auto& [from, to] : graph_.edges)
      bends += graph_.nodes[to].level - graph_.nodes[from].level - 1;
    ways_.reserve(graph_.edges.size());
    for (const auto& [from, to] : graph_.edges) {
      std::vector<std::uint32_t> way{from};
      for (std::uint32_t layer = graph_.nodes[from].level + 1;
           bends <= kMostBends && layer < graph_.nodes[to].level; ++layer) {
        way.push_back(static_cast<std::uint32_t>(points_.size()));
        points_.push_back({.layer = layer, .bend = true});
      }
      way.push_back(to);
      for (std::size_t i = 1; i < way.size(); ++i) {
        points_[way[i - 1]].after.push_back(way[i]);
        points_[way[i]].before.push_back(way[i - 1]);
      }
      ways_.push_back(std::move(way));
    }
    layers_.resize(layers);
    for (std::uint32_t no = 0; no < points_.size(); ++no) layers_[points_[no].layer].push_back(no);
  }

  /// Sorts one layer by the mean rank of its neighbours on one side.
  void SortLayer(std::vector<std::uint32_t>& layer, bool by_before, std::vector<double>& rank) {
    struct Place {
      double wish;
      std::size_t now;  // equal wishes keep their order
      std::uint32_t no;
      auto operator<=>(const Place&) const = default;
    };
    std::vector<Place> sorted;
    sorted.reserve(layer.size());
    for (const std::uint32_t no : layer) {
      const auto& near = by_before ? points_[no].before : points_[no].after;
      double sum = 0;
      for (const std::uint32_t other : near) sum += rank[other];
      sorted.push_back(
          {near.empty() ? rank[no] : sum / static_cast<double>(near.size()), sorted.size(), no});
    }
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < layer.size(); ++i) {
      layer[i] = sorted[i].no;
      rank[layer[i]] = static_cast<double>(i);
    }
  }

  void Order() {
    std::vector<double> rank(points_.size());
    for (auto& layer : layers_)
      for (std::size_t i = 0; i < layer.size(); ++i) rank[layer[i]] = static_cast<double>(i);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (std::size_t i = 1; i < layers_.size(); ++i) SortLayer(layers_[i], true, rank);
      for (std::size_t i = layers_.size() - 1; i-- > 0;) SortLayer(layers_[i], false, rank);
    }
  }

  static double Gap(const Point& above, const Point& below) {
    return (above.height() + below.height()) / 2 + (above.bend && below.bend ? kBendGap : kBoxGap);
  }

  /// Moves each point of a layer towards the middle of its neighbours, as far as the order and the
  /// gaps allow: overlapping wishes share their mean.
  void Relax(const std::vector<std::uint32_t>& layer, bool by_before) {
    struct Block {
      double sum;  // of wishes, as places of the block's first point
      std::size_t first, count;
      double place() const { return sum / static_cast<double>(count); }
    };
    std::vector<double> offset(layer.size());  // from the layer's first point, packed
    std::vector<Block> blocks;
    for (std::size_t i = 0; i < layer.size(); ++i) {
      const Point& point = points_[layer[i]];
      if (i > 0) offset[i] = offset[i - 1] + Gap(points_[layer[i - 1]], point);
      const auto& near = by_before ? point.before : point.after;
      double wish = 0;
      for (const std::uint32_t other : near) wish += points_[other].y;
      wish = near.empty() ? point.y : wish / static_cast<double>(near.size());
      blocks.push_back({wish - offset[i], i, 1});
      while (blocks.size() > 1 && blocks[blocks.size() - 2].place() > blocks.back().place()) {
        const Block last = blocks.back();
        blocks.pop_back();
        blocks.back().sum += last.sum;
        blocks.back().count += last.count;
      }
    }
    for (const Block& block : blocks)
      for (std::size_t i = block.first; i < block.first + block.count; ++i)
        points_[layer[i]].y = block.place() + offset[i];
  }

  void Place() {
    double x = kMargin;
    for (const auto& layer : layers_) {
      double widest = 0;
      double y = 0;
      for (std::size_t i = 0; i < layer.size(); ++i) {
        Point& point = points_[layer[i]];
        if (i > 0) y += Gap(points_[layer[i - 1]], point);
        point.y = y;
        widest = std::max(widest, point.width);
      }
      for (const std::uint32_t no : layer) {
        points_[no].x = x;
        if (points_[no].bend) points_[no].width = widest;
      }
      x += widest + kLayerGap;
    }
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (std::size_t i = 1; i < layers_.size(); ++i) Relax(layers_[i], true);
      for (std::size_t i = layers_.size() - 1; i-- > 0;) Relax(layers_[i], false);
    }
    double top = 0, bottom = 0;
    for (const Point& point : points_) {
      top = std::min(top, point.y);
      bottom = std::max(bottom, point.y);
    }
    const double shift = kMargin + kTitleHeight + kBoxHeight / 2 - top;
    for (Point& point : points_) point.y += shift;
    width_ = std::max(x - kLayerGap + kMargin,
                      2 * kMargin + kCharacter * static_cast<double>(DisplayWidth(graph_.title)));
    height_ = bottom + shift + kBoxHeight / 2 + kMargin;
  }

  std::string Arrow(const std::vector<std::uint32_t>& way) const {
    const Point& from = points_[way.front()];
    double x = from.x + from.width;
    double y = from.y;
    std::string path = fmt::format("M{:.1f} {:.1f}", x, y);
    for (std::size_t i = 1; i < way.size(); ++i) {
      const Point& next = points_[way[i]];
      const double half = (next.x - x) / 2;
      path += fmt::format("C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", x + half, y, next.x - half,
                          next.y, next.x, next.y);
      x = next.x;
      y = next.y;
      if (next.bend) path += fmt::format("H{:.1f}", x += next.width);
    }
    return fmt::format("<path d=\"{}\" marker-end=\"url(#head)\"/>\n", path);
  }

  std::string Box(std::uint32_t no) const {
    const Point& point = points_[no];
    const Graph::Node& node = graph_.nodes[no];
    const bool main = node.role == model::TaskRole::kMain;
    return fmt::format(
        "<g><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" rx=\"{}\" "
        "fill=\"{}\" stroke=\"#5b6b7f\"/><text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"#1c2733\">{}"
        "</text></g>\n",
        point.x, point.y - kBoxHeight / 2, point.width, kBoxHeight, main ? 4 : 14,
        main ? "#dce6f0" : "#efe6d2", point.x + kPadding, point.y + 4.5, XmlText(node.label));
  }

  const Graph& graph_;
  std::vector<Point> points_;  // boxes first, as in the graph
  std::vector<std::vector<std::uint32_t>> layers_;
  std::vector<std::vector<std::uint32_t>> ways_;  // per edge: the points that it passes
  double width_ = 0, height_ = 0;
};

}  // namespace

std::string Svg(const Graph& graph) { return Layout(graph).Draw(); }

}  // namespace headworks::cli
