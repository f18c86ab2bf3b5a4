#include "yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>

#include "headworks/base/json.h"
#include "headworks/spec/workflow_file.h"
#include "scalar_place.h"

namespace headworks::spec {

/// Turns yaml-cpp's events into a tree, and refuses what yaml-cpp takes without a word: repeated
/// keys, tags, further documents, deep nesting and aliases that multiply.
class YamlTreeBuilder final : public YAML::EventHandler {
 public:
  /// A fault after which reading cannot go on; it is in the source already.
  struct Stop {};

  explicit YamlTreeBuilder(Source& source) : source_(source) {
    tree_.texts_.reserve(source.text().size());
  }

  YamlTree Take() {
    if (pending_.empty()) AddNode({}, YamlTree::Kind::kNull);
    tree_.root_ = pending_.front();
    return std::move(tree_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(started_, true))
      Fail("HW1005", PlaceOf(mark),
           "a second document starts here; a file holds one workflow, so move it to its own file");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Remember(anchor, AddNode(PlaceOf(mark), YamlTree::Kind::kNull));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const NodeNo no = anchor < anchors_.size() ? anchors_[anchor] : kOpen;
    if (no == kOpen)
      Fail("HW1003", PlaceOf(mark), "this alias stands within what it names, which has no end");
    CheckDepth(PlaceOf(mark), tree_.nodes_[no].height);
    pending_.push_back(no);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool tagged = CheckTag(mark, tag);
    const NodeNo no = AddNode(PlaceOf(mark), YamlTree::Kind::kScalar);
    YamlTree::Node& node = tree_.nodes_[no];
    node.faulty = tagged;
    last_scalar_ = no;
    node.plain = tag == "?";
    node.begin = static_cast<std::uint32_t>(tree_.texts_.size());
    node.size = static_cast<std::uint32_t>(value.size());
    node.weight += node.size;
    tree_.texts_ += value;
    Remember(anchor, no);
  }

  /// yaml-cpp takes the end of the text for the end of a quoted text.
  std::optional<Place> UnclosedQuote() const {
    if (last_scalar_ == kOpen || tree_.nodes_[last_scalar_].plain) return std::nullopt;
    const Place place = tree_.nodes_[last_scalar_].place;
    return IsClosed(source_, place) ? std::nullopt : std::optional(place);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlTree::Kind::kList);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlTree::Kind::kMap);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

  [[noreturn]] void Fail(std::string_view code, Place place, std::string message) {
    source_.Add(code, place, std::move(message));
    throw Stop();
  }

 private:
  using NodeNo = YamlTree::NodeNo;
  /// An anchor whose node is not complete yet.
  static constexpr NodeNo kOpen = ~NodeNo{0};
  static constexpr std::uint32_t kWeightOfNode = 64;
  /// A merged entry costs a look at its key, too.
  static constexpr std::size_t kWeightOfMerged = 256;

  struct OpenContainer {
    NodeNo node;
    std::size_t first_pending;
    YAML::anchor_t anchor;
  };

  static Place PlaceOf(const YAML::Mark& mark) {
    return {static_cast<std::uint32_t>(std::max(mark.line, 0)),
            static_cast<std::uint32_t>(std::max(mark.column, 0))};
  }

  NodeNo AddNode(Place place, YamlTree::Kind kind) {
    const auto no = static_cast<NodeNo>(tree_.nodes_.size());
    tree_.nodes_.push_back({.place = place, .weight = kWeightOfNode, .kind = kind});
    pending_.push_back(no);
    return no;
  }

  void Remember(YAML::anchor_t anchor, NodeNo no) {
    if (anchor == 0) return;
    if (anchors_.size() <= anchor) anchors_.resize(anchor + 1, kOpen);
    anchors_[anchor] = no;
  }

  /// Whether there is one that is not taken.
  bool CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return false;
    const bool standard = tag.starts_with("tag:") || tag.starts_with("!!");
    source_.Add("HW1005", PlaceOf(mark),
                fmt::format("the tag {} is not taken; {}", QuoteJson(tag),
                            standard ? "remove it (quotes make text of a number)"
                                     : "if an expression that begins with ! is meant, put all of "
                                       "it in quotes, else remove it"));
    return true;
  }

  void CheckDepth(Place place, std::size_t more) {
    if (open_.size() + more > kMaxDepth)
      Fail("HW1003", place,
           fmt::format("lists and maps are nested deeper than {} here; flatten them", kMaxDepth));
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlTree::Kind kind) {
    CheckTag(mark, tag);
    CheckDepth(PlaceOf(mark), 1);
    const NodeNo no = AddNode(PlaceOf(mark), kind);
    Remember(anchor, kOpen);
    open_.push_back({no, pending_.size(), anchor});
  }

  void Close();
  class KeyIndex;
  void NormalizeMap(std::size_t first);
  void Merge(NodeNo value, std::vector<NodeNo>& merged);

  Source& source_;
  YamlTree tree_;
  bool started_ = false;
  NodeNo last_scalar_ = kOpen;
  std::vector<NodeNo> anchors_;
  std::vector<OpenContainer> open_;
  std::vector<NodeNo> pending_;  // complete nodes whose container is still open
  std::size_t merged_entries_ = 0;
};

void YamlTreeBuilder::Close() {
  const OpenContainer container = open_.back();
  open_.pop_back();
  YamlTree::Node& node = tree_.nodes_[container.node];
  if (node.kind == YamlTree::Kind::kMap) NormalizeMap(container.first_pending);
  std::uint64_t weight = kWeightOfNode;
  std::uint8_t height = 0;
  for (std::size_t i = container.first_pending; i < pending_.size(); ++i) {
    weight += tree_.nodes_[pending_[i]].weight;
    height = std::max(height, tree_.nodes_[pending_[i]].height);
  }
  if (weight > kMaxExpandedBytes)
    Fail("HW1003", node.place,
         fmt::format("with its aliases written out this comes to more than {} MiB; use fewer",
                     kMaxExpandedBytes >> 20));
  const std::size_t children = pending_.size() - container.first_pending;
  node.weight = static_cast<std::uint32_t>(weight);
  node.height = static_cast<std::uint8_t>(height + 1);
  node.begin = static_cast<std::uint32_t>(tree_.children_.size());
  node.size =
      static_cast<std::uint32_t>(node.kind == YamlTree::Kind::kMap ? children / 2 : children);
  tree_.children_.insert(tree_.children_.end(),
                         pending_.begin() + static_cast<std::ptrdiff_t>(container.first_pending),
                         pending_.end());
  pending_.resize(container.first_pending);
  Remember(container.anchor, container.node);
}

/// Finds repeated keys; most maps are small, and then looking at each is cheapest.
class YamlTreeBuilder::KeyIndex {
 public:
  /// The key that has this text already, or nullptr and it is `key` from now on.
  const NodeNo* FindOrAdd(std::string_view text, NodeNo key) {
    constexpr std::size_t kSmall = 16;
    if (small_.size() < kSmall) {
      for (const auto& [known, no] : small_)
        if (known == text) return &no;
      small_.emplace_back(text, key);
      return nullptr;
    }
    if (large_.empty()) large_.insert(small_.begin(), small_.end());
    const auto [at, fresh] = large_.emplace(text, key);
    return fresh ? nullptr : &at->second;
  }

 private:
  std::vector<std::pair<std::string_view, NodeNo>> small_;
  std::unordered_map<std::string_view, NodeNo> large_;
};

/// Leaves in `pending_`, from `first` on, each key once; applies merge keys (`<<`): a key of the
/// map itself wins, then the earlier merged one.
void YamlTreeBuilder::NormalizeMap(std::size_t first) {
  KeyIndex index;
  std::vector<NodeNo> merged;
  std::size_t kept = first;
  for (std::size_t i = first; i + 1 < pending_.size(); i += 2) {
    const NodeNo key = pending_[i];
    const NodeNo value = pending_[i + 1];
    const YamlTree::Node& node = tree_.nodes_[key];
    // The parser finds a missing value only at what follows it.
    if (YamlTree::Node& v = tree_.nodes_[value]; v.kind == YamlTree::Kind::kNull)
      v.place = node.place;
    if (node.kind != YamlTree::Kind::kScalar) {
      source_.Add("HW1005", node.place, "a key must be text; put it in quotes");
    } else if (node.plain && tree_.Text(key) == "<<") {
      Merge(value, merged);
    } else if (const NodeNo* earlier = index.FindOrAdd(tree_.Text(key), key)) {
      const Place at = tree_.nodes_[*earlier].place;
      source_.Add("HW1004", node.place,
                  fmt::format("{} stands twice in this map, first in line {}, column {}; remove "
                              "or rename one of them",
                              QuoteJson(tree_.Text(key)), at.line + 1, at.byte + 1));
    } else {
      pending_[kept++] = key;
      pending_[kept++] = value;
    }
  }
  pending_.resize(kept);
  for (std::size_t i = 0; i + 1 < merged.size(); i += 2) {
    if (index.FindOrAdd(tree_.Text(merged[i]), merged[i]) != nullptr) continue;
    pending_.push_back(merged[i]);
    pending_.push_back(merged[i + 1]);
  }
}

void YamlTreeBuilder::Merge(NodeNo value, std::vector<NodeNo>& merged) {
  const auto add = [&](NodeNo no) {
    const YamlTree::Node& node = tree_.nodes_[no];
    if (node.kind != YamlTree::Kind::kMap) {
      source_.Add("HW1005", node.place,
                  "<< merges maps, and this is none; name a map, e.g. <<: *defaults");
      return;
    }
    merged_entries_ += node.size;
    if (merged_entries_ * kWeightOfMerged > kMaxExpandedBytes)
      Fail("HW1003", node.place, "the file merges too much in all; use fewer merge keys");
    for (std::uint32_t i = 0; i < node.size; ++i) {
      merged.push_back(tree_.Key(no, i));
      merged.push_back(tree_.Value(no, i));
    }
  };
  if (tree_.nodes_[value].kind != YamlTree::Kind::kList) return add(value);
  for (std::uint32_t i = 0; i < tree_.nodes_[value].size; ++i) add(tree_.Element(value, i));
}

namespace {

/// Brackets of a line that are open at its end, by position; `closed` counts those of earlier
/// lines. Quotes and comments are seen, blocks of text are not.
std::vector<std::size_t> OpenBrackets(std::string_view line, std::size_t& closed) {
  std::vector<std::size_t> open;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#' && (i == 0 || line[i - 1] == ' ')) {
      break;
    } else if (c == '{' || c == '[') {
      open.push_back(i);
    } else if (c == '}' || c == ']') {
      if (open.empty())
        ++closed;
      else
        open.pop_back();
    }
  }
  return open;
}

/// The bracket that is still open at the end of `line`; nullopt = none in the lines before.
std::optional<Place> OpenBracketBefore(std::uint32_t line, Source& source) {
  constexpr std::uint32_t kMostLines = 1'000;
  std::size_t closed = 0;
  for (std::uint32_t back = 0; back <= std::min(line, kMostLines); ++back) {
    std::size_t closed_here = 0;
    const auto open = OpenBrackets(source.Line(line - back), closed_here);
    if (open.size() > closed)
      return Place{line - back, static_cast<std::uint32_t>(open[open.size() - 1 - closed])};
    closed = closed - open.size() + closed_here;
  }
  return std::nullopt;
}

/// What most often is the reason that yaml-cpp gave up at `place`, which moves to it.
std::string HintOf(const std::string& message, Place& place, Source& source) {
  const std::string_view line = source.Line(place.line);
  const std::size_t tab = line.substr(0, line.find_first_not_of(" \t")).find('\t');
  if (tab != std::string_view::npos) {
    place.byte = static_cast<std::uint32_t>(tab);
    return "a tab cannot indent, use spaces";
  }
  if (message.find(" flow") != std::string::npos) {
    if (const std::size_t open = line.find("${{"); open != std::string_view::npos) {
      place.byte = static_cast<std::uint32_t>(open);
      return "within { } and [ ] a text with ${{ }} needs quotes";
    }
    if (message == "illegal flow end") return "another bracket was opened last";
    if (const auto open = OpenBracketBefore(place.line, source)) {
      place = *open;
      return fmt::format("a {} is not closed", source.Line(open->line)[open->byte]);
    }
    return "text with ': ' or ', ' in it needs quotes here";
  }
  if (message == "illegal map value")
    return "text with ': ' in it needs quotes, or a block after |";
  if (message.starts_with("end of map") || message.starts_with("end of sequence"))
    return line.find('"') != std::string_view::npos || line.find('\'') != std::string_view::npos
               ? "check the indentation of this line, and put all of a text with quotes in it in "
                 "quotes"
               : "check the indentation of this line";
  return "";
}

/// yaml-cpp says where it gave up; most often one of a few slips is the reason.
Place AddSyntaxFault(const YAML::Exception& e, Source& source) {
  Place place;
  if (!e.mark.is_null())
    place = {static_cast<std::uint32_t>(e.mark.line), static_cast<std::uint32_t>(e.mark.column)};
  const std::string hint = HintOf(e.msg, place, source);
  source.Add("HW1002", place,
             fmt::format("this is not YAML: {}{}{}", e.msg, hint.empty() ? "" : " - ", hint));
  return place;
}

}  // namespace

std::optional<YamlTree> YamlTree::Parse(Source& source, std::optional<Place>* not_yaml) {
  YamlTreeBuilder builder(source);
  try {
    std::istringstream stream{std::string(source.text())};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    if (const auto open = builder.UnclosedQuote()) {
      source.Add("HW1002", *open,
                 "this is not YAML: the quote that is opened here is never closed");
      if (not_yaml != nullptr) *not_yaml = *open;
      return std::nullopt;
    }
    return builder.Take();
  } catch (const YamlTreeBuilder::Stop&) {
    return std::nullopt;
  } catch (const YAML::Exception& e) {
    const Place place = AddSyntaxFault(e, source);
    if (not_yaml != nullptr) *not_yaml = place;
    return std::nullopt;
  }
}

}  // namespace headworks::spec
