#include "recovery.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "expression_check.h"
#include "workflow_reader.h"
#include "yaml_tree.h"

namespace headworks::spec {
namespace {

/// Each reading costs as much as the first one.
constexpr std::size_t kMostReadings = 20;
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

class Rest {
 public:
  explicit Rest(Source& source) : source_(source) {
    const std::string_view text = source.text();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      lines_.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }

  void Read(Place fault);

 private:
  struct Range {
    std::size_t begin = 0, end = 0;
  };

  /// Spaces before the text of a line; nullopt = it has none, or a comment only.
  std::optional<std::size_t> IndentOf(std::size_t line) const {
    const std::size_t at = lines_[line].find_first_not_of(" \t\r");
    if (at == std::string_view::npos || lines_[line][at] == '#') return std::nullopt;
    return at;
  }
  Range EntryAround(std::size_t line, std::size_t deepest) const;
  Range BlockAround(std::size_t line) const { return EntryAround(line, 0); }
  Range SmallBlockAround(std::size_t line) const;
  void LeaveOut(const Range& range) {
    lost_defaults_ |= lines_[BlockAround(range.begin).begin].starts_with("defaults");
    std::fill(lines_.begin() + static_cast<std::ptrdiff_t>(range.begin),
              lines_.begin() + static_cast<std::ptrdiff_t>(range.end), std::string_view());
  }
  bool IsExplained(const Fault& fault) const;
  void Adopt(Source& of_rest, std::size_t behind);

  Source& source_;
  std::vector<std::string_view> lines_;
  bool lost_defaults_ = false;
};

/// The lines from the last one up to `line` that is indented by at most `deepest`, up to the next
/// such line.
Rest::Range Rest::EntryAround(std::size_t line, std::size_t deepest) const {
  const auto is_start = [&](std::size_t at) {
    const auto indent = IndentOf(at);
    return indent && *indent <= deepest;
  };
  Range range{line, line + 1};
  while (range.begin > 0 && !is_start(range.begin)) --range.begin;
  while (range.end < lines_.size() && !is_start(range.end)) ++range.end;
  return range;
}

/// An entry of the block at the left margin: a task within tasks.
Rest::Range Rest::SmallBlockAround(std::size_t line) const {
  const Range block = BlockAround(line);
  for (std::size_t at = block.begin + 1; at < block.end; ++at)
    if (const auto indent = IndentOf(at)) {
      const Range entry = EntryAround(line, *indent);
      return entry.begin > block.begin ? entry : block;
    }
  return block;
}

/// Whether what was left out may be all that is wrong.
bool Rest::IsExplained(const Fault& fault) const {
  // All of a map was left out.
  if (fault.code == "HW1009" && fault.message.ends_with(", not nothing")) return true;
  // A key, tasks, a task that is needed, a name in an expression is missing.
  constexpr auto kMissing =
      std::to_array<std::string_view>({"HW1008", "HW1102", "HW1105", "HW1302"});
  // Retries, the greatest delay, the shell may have come from the defaults.
  constexpr auto kOfDefaults = std::to_array<std::string_view>({"HW1014", "HW1111", "HW1305"});
  return std::ranges::find(kMissing, fault.code) != kMissing.end() ||
         (lost_defaults_ && std::ranges::find(kOfDefaults, fault.code) != kOfDefaults.end());
}

/// As after the reading of a whole file.
void CheckRest(const YamlTree& tree, Source& rest) {
  WorkflowDraft draft = ReadWorkflow(tree, rest);
  std::string& name = draft.definition.name.workflow;
  if (name.empty()) name = "rest";  // one may have been left out
  AddModelFaults(tree, model::Workflow::Check(draft.definition), rest);
  CheckExpressions(draft, tree, rest);
}

/// Takes over what is wrong with the rest; those of a syntax only from line `behind` on.
void Rest::Adopt(Source& of_rest, std::size_t behind) {
  for (Fault& fault : of_rest.TakeFaults()) {
    const bool told = fault.code == "HW1002" && fault.line <= behind;
    if (fault.line == 0 || told || IsExplained(fault)) continue;
    source_.AddFault(std::move(fault));
  }
}

void Rest::Read(Place fault) {
  const std::size_t size = source_.text().size();
  std::size_t told = 0;  // lines up to here are spoken for
  bool widened = false;
  for (std::size_t i = 0; i < kMostReadings && (i + 1) * size <= kMostBytes; ++i) {
    if (fault.line >= lines_.size()) return;
    const Range range = widened ? BlockAround(fault.line) : SmallBlockAround(fault.line);
    LeaveOut(range);
    told = std::max(told, range.end);
    std::string text;
    text.reserve(size);
    for (const std::string_view line : lines_) (text += line) += '\n';
    Source rest(source_.name(), text);
    std::optional<Place> next;
    const auto tree = YamlTree::Parse(rest, &next);
    if (tree) CheckRest(*tree, rest);
    if (!next) return Adopt(rest, told);
    if (next->line >= told) Adopt(rest, told);  // a further slip: tell it, and go on behind it
    widened = next->line < told;
    fault = *next;
  }
}

}  // namespace

void ReadRest(Source& source, Place fault) { Rest(source).Read(fault); }

}  // namespace headworks::spec
