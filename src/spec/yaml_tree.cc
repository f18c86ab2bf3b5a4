#include "yaml_tree.h"

#include <fmt/format.h>
#include <yaml.h>

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>
#include <unordered_map>

#include "headworks/base/check.h"
#include "headworks/base/json.h"
#include "headworks/spec/workflow_file.h"
#include "quoting.h"
#include "surrogates.h"

namespace headworks::spec {
namespace {

std::string_view TextOf(const yaml_char_t* text, std::size_t size) {
  return {reinterpret_cast<const char*>(text), size};
}

/// nullptr = empty.
std::string_view TextOf(const yaml_char_t* text) {
  return text == nullptr ? std::string_view() : reinterpret_cast<const char*>(text);
}

/// Places of libyaml's marks, which count characters.
class Marks {
 public:
  explicit Marks(Source& source)
      : source_(source),
        ascii_(std::ranges::none_of(source.text(), [](char c) { return c < 0; })) {}

  Place PlaceOf(const yaml_mark_t& mark) {
    if (ascii_)
      return {static_cast<std::uint32_t>(mark.line), static_cast<std::uint32_t>(mark.column)};
    if (mark.line != place_.line || mark.column < column_) {
      place_ = {static_cast<std::uint32_t>(mark.line), 0};
      column_ = 0;
    }
    // From the last one on, because a line may be as long as the file.
    const std::string_view line = source_.Line(place_.line);
    for (; column_ < mark.column && place_.byte < line.size(); ++column_) {
      ++place_.byte;
      while (place_.byte < line.size() && (line[place_.byte] & 0xC0) == 0x80) ++place_.byte;
    }
    return place_;
  }

 private:
  Source& source_;
  bool ascii_;
  /// The last place, and its character.
  Place place_;
  std::size_t column_ = 0;
};

/// Where libyaml gave up, and why.
struct NotYaml {
  Place place;
  std::string message;
};

}  // namespace

/// Turns libyaml's events into a tree, and refuses what libyaml takes without a word: repeated
/// keys, tags, further documents, deep nesting and aliases that multiply.
class YamlTreeBuilder {
 public:
  /// A fault after which reading cannot go on; it is in the source already.
  struct Stop {};

  /// `hidden`: what is read has hidden surrogates.
  YamlTreeBuilder(Source& source, Marks& marks, bool hidden)
      : source_(source), marks_(marks), hidden_(hidden) {
    tree_.texts_.reserve(source.text().size());
  }

  void Add(const yaml_event_t& event) {
    const Place place = marks_.PlaceOf(event.start_mark);
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT:
        return StartDocument(place);
      case YAML_ALIAS_EVENT:
        return AddAlias(place, TextOf(event.data.alias.anchor));
      case YAML_SCALAR_EVENT:
        return AddScalar(place, event);
      case YAML_SEQUENCE_START_EVENT:
        return Open(place, TextOf(event.data.sequence_start.tag), event.data.sequence_start.anchor,
                    YamlTree::Kind::kList);
      case YAML_MAPPING_START_EVENT:
        return Open(place, TextOf(event.data.mapping_start.tag), event.data.mapping_start.anchor,
                    YamlTree::Kind::kMap);
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        return Close();
      default:
        return;
    }
  }

  YamlTree Take() {
    if (pending_.empty()) AddNode({}, YamlTree::Kind::kNull);
    tree_.root_ = pending_.front();
    return std::move(tree_);
  }

  /// The innermost list or map in brackets that is still open.
  std::optional<Place> OpenBracket() const {
    for (auto at = open_.rbegin(); at != open_.rend(); ++at) {
      const Place place = tree_.nodes_[at->node].place;
      const std::string_view line = source_.Line(place.line);
      if (place.byte < line.size() && (line[place.byte] == '{' || line[place.byte] == '['))
        return place;
    }
    return std::nullopt;
  }

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

  /// What an anchor names, and nullptr for no anchor.
  using Anchor = NodeNo*;

  struct OpenContainer {
    NodeNo node;
    std::size_t first_pending;
    Anchor anchor;
  };

  void StartDocument(Place place) {
    if (std::exchange(started_, true))
      Fail("HW1005", place,
           "a second document starts here; a file holds one workflow, so move it to its own file");
  }

  void AddAlias(Place place, std::string_view anchor) {
    const auto found = anchors_.find(std::string(anchor));
    if (found == anchors_.end())
      throw NotYaml{place, fmt::format("no anchor &{0} stands before this; quote \"*{0}\" if the "
                                       "text is meant",
                                       anchor)};
    if (found->second == kOpen)
      Fail("HW1003", place,
           "this alias stands within what it names, which has no end; name something "
           "that is complete before it");
    CheckDepth(place, tree_.nodes_[found->second].height);
    has_aliases_ = true;
    pending_.push_back(found->second);
  }

  void AddScalar(Place place, const yaml_event_t& event) {
    const auto& scalar = event.data.scalar;
    std::string_view value = TextOf(scalar.value, scalar.length);
    std::string shown;
    if (hidden_)
      value = shown = ShowSurrogates(value, scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE);
    const bool tagged = CheckTag(place, TextOf(scalar.tag));
    const bool plain = scalar.style == YAML_PLAIN_SCALAR_STYLE && scalar.tag == nullptr;
    constexpr auto kNulls = std::to_array<std::string_view>({"", "~", "null", "Null", "NULL"});
    const bool null = plain && std::ranges::find(kNulls, value) != kNulls.end();
    const NodeNo no = AddNode(place, null ? YamlTree::Kind::kNull : YamlTree::Kind::kScalar);
    if (const Anchor anchor = Named(scalar.anchor)) *anchor = no;
    if (null) return;
    YamlTree::Node& node = tree_.nodes_[no];
    node.faulty = tagged;
    node.plain = plain;
    node.begin = static_cast<std::uint32_t>(tree_.texts_.size());
    node.size = static_cast<std::uint32_t>(value.size());
    node.weight += node.size;
    tree_.texts_ += value;
  }

  NodeNo AddNode(Place place, YamlTree::Kind kind) {
    const auto no = static_cast<NodeNo>(tree_.nodes_.size());
    tree_.nodes_.push_back({.place = place, .weight = kWeightOfNode, .kind = kind});
    pending_.push_back(no);
    return no;
  }

  Anchor Named(const yaml_char_t* anchor) {
    return anchor == nullptr ? nullptr : &anchors_[std::string(TextOf(anchor))];
  }

  /// Whether there is one that is not taken.
  bool CheckTag(Place place, std::string_view tag) {
    if (tag.empty() || tag == "!") return false;
    constexpr std::string_view kStandard = "tag:yaml.org,2002:";
    const bool standard = tag.starts_with(kStandard);
    const std::string written =
        standard ? fmt::format("!!{}", tag.substr(kStandard.size())) : std::string(tag);
    source_.Add("HW1005", place,
                fmt::format("the tag {} is not taken; {}", QuoteJson(written),
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

  void Open(Place place, std::string_view tag, const yaml_char_t* anchor, YamlTree::Kind kind) {
    CheckTag(place, tag);
    CheckDepth(place, 1);
    const NodeNo no = AddNode(place, kind);
    const Anchor named = Named(anchor);
    if (named != nullptr) *named = kOpen;
    open_.push_back({no, pending_.size(), named});
  }

  void Close();
  class KeyIndex;
  void NormalizeMap(std::size_t first);
  void RefuseKey(NodeNo& key);
  void Merge(NodeNo key, NodeNo value, std::vector<NodeNo>& merged);

  Source& source_;
  Marks& marks_;
  bool hidden_;
  YamlTree tree_;
  bool started_ = false;
  std::unordered_map<std::string, NodeNo> anchors_;
  std::vector<OpenContainer> open_;
  std::vector<NodeNo> pending_;  // complete nodes whose container is still open
  std::size_t merged_entries_ = 0;
  bool has_aliases_ = false;
};

void YamlTreeBuilder::Close() {
  const OpenContainer container = open_.back();
  open_.pop_back();
  // Before a node is referred to: it may add some.
  if (tree_.nodes_[container.node].kind == YamlTree::Kind::kMap)
    NormalizeMap(container.first_pending);
  YamlTree::Node& node = tree_.nodes_[container.node];
  std::uint64_t weight = kWeightOfNode;
  std::uint8_t height = 0;
  for (std::size_t i = container.first_pending; i < pending_.size(); ++i) {
    weight += tree_.nodes_[pending_[i]].weight;
    height = std::max(height, tree_.nodes_[pending_[i]].height);
  }
  if (weight > kMaxExpandedBytes)
    Fail("HW1003", node.place,
         fmt::format("{} comes to more than {} MiB; {}",
                     has_aliases_ ? "with its aliases written out this"
                                  : "with all lists, maps and values in it this",
                     kMaxExpandedBytes >> 20,
                     has_aliases_ ? "use fewer" : "move some of it into files of their own"));
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
  // If it is not taken by something inside, which is what later aliases mean.
  if (container.anchor != nullptr && *container.anchor == kOpen) *container.anchor = container.node;
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
  for (std::size_t i = first; i + 1 < pending_.size(); i += 2)
    if (tree_.nodes_[pending_[i]].kind != YamlTree::Kind::kScalar) RefuseKey(pending_[i]);
  KeyIndex index;  // of texts, to which nothing is added from here on
  std::vector<NodeNo> merged;
  std::optional<Place> merge;
  std::size_t kept = first;
  for (std::size_t i = first; i + 1 < pending_.size(); i += 2) {
    const NodeNo key = pending_[i];
    const NodeNo value = pending_[i + 1];
    const YamlTree::Node& node = tree_.nodes_[key];
    // The parser finds a missing value only at what follows it.
    if (YamlTree::Node& v = tree_.nodes_[value]; v.kind == YamlTree::Kind::kNull)
      v.place = node.place;
    if (node.plain && tree_.Text(key) == "<<") {
      if (merge)
        source_.Add("HW1004", node.place,
                    fmt::format("<< stands twice in this map, first in line {}, column {}; merge "
                                "several maps by one list: <<: [*a, *b]",
                                merge->line + 1, merge->byte + 1));
      merge = merge.value_or(node.place);
      Merge(key, value, merged);
    } else if (const NodeNo* earlier = index.FindOrAdd(tree_.Text(key), key)) {
      if (node.faulty) continue;
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

/// Says why `key` is none, and puts a name in its place: what it stands for is read all the same,
/// so that nobody says that it is missing.
void YamlTreeBuilder::RefuseKey(NodeNo& key) {
  YamlTree::Node name = tree_.nodes_[key];
  source_.Add("HW1005", name.place,
              name.kind == YamlTree::Kind::kNull
                  ? "a key must be text, and this is nothing (null); give it a name, in quotes if "
                    "that is \"null\""
                  : "a key must be text, not a list or a map; put it in quotes");
  name.kind = YamlTree::Kind::kScalar;
  name.faulty = true;
  name.begin = static_cast<std::uint32_t>(tree_.texts_.size());
  constexpr std::string_view kName = "null";
  name.size = static_cast<std::uint32_t>(kName.size());
  tree_.texts_ += kName;
  key = static_cast<NodeNo>(tree_.nodes_.size());
  tree_.nodes_.push_back(name);
}

void YamlTreeBuilder::Merge(NodeNo key, NodeNo value, std::vector<NodeNo>& merged) {
  const auto add = [&](NodeNo no) {
    const YamlTree::Node& node = tree_.nodes_[no];
    if (node.kind != YamlTree::Kind::kMap) {
      // What an alias names stands elsewhere and may be right there.
      const Place at = tree_.nodes_[key].place;
      const bool behind = std::tie(node.place.line, node.place.byte) > std::tie(at.line, at.byte);
      source_.Add("HW1005", behind ? node.place : at,
                  "<< merges maps, and this is none; name a map, e.g. <<: *defaults");
      return;
    }
    merged_entries_ += node.size;
    if (merged_entries_ * kWeightOfMerged > kMaxExpandedBytes)
      Fail("HW1003", tree_.nodes_[key].place,
           fmt::format("with this the merge keys (<<) of the file bring in more than {} entries; "
                       "use fewer, or merge smaller maps",
                       kMaxExpandedBytes / kWeightOfMerged));
    for (std::uint32_t i = 0; i < node.size; ++i) {
      merged.push_back(tree_.Key(no, i));
      merged.push_back(tree_.Value(no, i));
    }
  };
  if (tree_.nodes_[value].kind != YamlTree::Kind::kList) return add(value);
  for (std::uint32_t i = 0; i < tree_.nodes_[value].size; ++i) add(tree_.Element(value, i));
}

namespace {

/// Whether the ':' at `place` is the first of its line that ends a key.
bool IsFirstColon(Place place, Source& source) {
  const std::string_view line = source.Line(place.line);
  return line.substr(place.byte).starts_with(':') && line.find(": ") >= place.byte;
}

/// What to do about a list or map in brackets that goes wrong at `place`, which may become `open`,
/// where the innermost one was opened.
std::string HintOfFlow(Place& place, std::optional<Place> open, Source& source) {
  const std::string_view line = source.Line(place.line);
  if (const std::string mended = WithQuotesInBrackets(line); !mended.empty()) {
    place.byte = static_cast<std::uint32_t>(line.find("${{"));
    return "within { } and [ ] a text with ${{ }} needs quotes; write " + mended;
  }
  const std::string_view rest = line.substr(std::min<std::size_t>(place.byte, line.size()));
  if (rest.starts_with('}') || rest.starts_with(']')) return "another bracket was opened last";
  if (open && (rest.empty() || (place.line > open->line && IsFirstColon(place, source)))) {
    place = *open;
    return fmt::format("a {} is not closed", source.Line(open->line)[open->byte]);
  }
  if (rest.starts_with('[') || rest.starts_with('{'))
    return "a comma belongs between two entries, and within { } and [ ] quotes around a text with "
           "a [ or { in it";
  return rest.starts_with(':') ? "text with ': ' or ', ' in it needs quotes here"
                               : "a comma belongs between two entries, and quotes around a text "
                                 "with ': ' or ', ' in it";
}

/// What most often is the reason that libyaml gave up at `place`, which moves to it.
std::string HintOf(const yaml_parser_t& parser, Place& place, Place context_place,
                   std::optional<Place> open, Source& source) {
  const std::string_view problem = parser.problem;
  const std::string_view context = parser.context == nullptr ? "" : parser.context;
  const std::string_view line = source.Line(place.line);
  const std::size_t tab = line.substr(0, line.find_first_not_of(" \t")).find('\t');
  if (tab != std::string_view::npos) {
    place.byte = static_cast<std::uint32_t>(tab);
    return "a tab cannot indent, use spaces";
  }
  if (context.starts_with("while parsing a flow")) return HintOfFlow(place, open, source);
  if (context == "while scanning a quoted scalar") {
    place = context_place;
    return "the quote that is opened here is never closed";
  }
  if (context == "while scanning a simple key") {
    place = context_place;
    return "a key needs ': ' and its value behind it, or this line another indentation";
  }
  if (context.ends_with(" tag"))
    return "if an expression that begins with ! is meant, put all of it in quotes";
  const bool of_colon = problem == "mapping values are not allowed in this context" ||
                        problem == "found unexpected ':'";
  const bool of_expression = line.find("${{") != line.npos && line.find(": ") != line.npos;
  if (of_colon || of_expression)
    if (const std::string mended = WithQuotes(line); !mended.empty())
      return "text with ': ' in it needs quotes, or a block after |; write " + mended;
  if (of_colon) return "text with ': ' in it needs quotes, or a block after |";
  if (problem.starts_with("did not find expected key") ||
      problem.starts_with("did not find expected '-'") || problem.ends_with("<document start>"))
    return line.find('"') != std::string_view::npos || line.find('\'') != std::string_view::npos
               ? "check the indentation of this line, and put all of a text with quotes in it in "
                 "quotes"
               : "check the indentation of this line";
  if (problem == "found character that cannot start any token" ||
      problem == "did not find expected node content" || context.ends_with(" alias") ||
      context.ends_with(" anchor"))
    return "a text that begins with this character needs quotes";
  if (context == "while scanning a block scalar")
    return "the text after | or > begins on the next line";
  return "";
}

/// libyaml says where it gave up; most often one of a few slips is the reason.
NotYaml ErrorOf(const yaml_parser_t& parser, const YamlTreeBuilder& builder, Marks& marks,
                Source& source) {
  HEADWORKS_CHECK(parser.error != YAML_MEMORY_ERROR);
  if (parser.error == YAML_READER_ERROR)
    return {source.PlaceOf(parser.problem_offset),
            fmt::format("{} - write it as \\x{:02x} in double quotes", parser.problem,
                        static_cast<unsigned>(parser.problem_value))};
  Place place = marks.PlaceOf(parser.problem_mark);
  const std::string hint =
      HintOf(parser, place, marks.PlaceOf(parser.context_mark), builder.OpenBracket(), source);
  return {place, fmt::format("{}{}{}", parser.problem, hint.empty() ? "" : " - ", hint)};
}

/// What libyaml, which reads YAML 1.1, would take for the end of a line, and YAML 1.2 does not.
void RefuseOldBreaks(Source& source) {
  struct Break {
    std::string_view bytes, name, escape;
  };
  constexpr auto kBreaks = std::to_array<Break>({{"\xC2\x85", "U+0085", "\\N"},
                                                 {"\xE2\x80\xA8", "U+2028", "\\L"},
                                                 {"\xE2\x80\xA9", "U+2029", "\\P"}});
  for (const Break& one : kBreaks)
    if (const std::size_t at = source.text().find(one.bytes); at != std::string_view::npos) {
      source.Add("HW1005", source.PlaceOf(at),
                 fmt::format("the character {} ends a line in older YAML; write {} in a text in "
                             "double quotes",
                             one.name, one.escape));
      throw YamlTreeBuilder::Stop();
    }
}

/// Feeds the events of all documents to `builder`.
void ReadEvents(yaml_parser_t& parser, YamlTreeBuilder& builder, Marks& marks, Source& source) {
  yaml_event_t event;
  for (bool more = true; more;) {
    if (yaml_parser_parse(&parser, &event) == 0) throw ErrorOf(parser, builder, marks, source);
    const std::unique_ptr<yaml_event_t, void (*)(yaml_event_t*)> owner(&event, &yaml_event_delete);
    more = event.type != YAML_STREAM_END_EVENT;
    builder.Add(event);
  }
}

}  // namespace

std::optional<YamlTree> YamlTree::Parse(Source& source, std::optional<Place>* not_yaml) {
  Marks marks(source);
  const std::optional<std::string> hidden = HideSurrogates(source.text());
  YamlTreeBuilder builder(source, marks, hidden.has_value());
  yaml_parser_t parser;
  HEADWORKS_CHECK(yaml_parser_initialize(&parser) != 0);
  const std::unique_ptr<yaml_parser_t, void (*)(yaml_parser_t*)> owner(&parser,
                                                                       &yaml_parser_delete);
  const std::string_view text = hidden ? std::string_view(*hidden) : source.text();
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser, reinterpret_cast<const unsigned char*>(text.data()),
                               text.size());
  try {
    RefuseOldBreaks(source);
    ReadEvents(parser, builder, marks, source);
    return builder.Take();
  } catch (const YamlTreeBuilder::Stop&) {
    return std::nullopt;
  } catch (const NotYaml& error) {
    source.Add("HW1002", error.place, fmt::format("this is not YAML: {}", error.message));
    if (not_yaml != nullptr) *not_yaml = error.place;
    return std::nullopt;
  }
}

}  // namespace headworks::spec
