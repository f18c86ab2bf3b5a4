#include "yaml_format.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "headworks/spec/schema.h"

namespace headworks::cli {
namespace {

constexpr std::size_t kIndent = 2;
/// What a map is, by where it stands; others keep their order.
enum class Place : unsigned char { kFile, kTasks, kTask, kRetry, kOther };

/// The keys of each place in the order of the reference page.
class KeyOrder {
 public:
  KeyOrder() {
    const boost::json::value schema = boost::json::parse(spec::JsonSchema());
    Read(schema, Place::kFile);
    Read(schema.at("definitions").at("task"), Place::kTask);
    Read(schema.at("definitions").at("retry"), Place::kRetry);
  }

  std::span<const std::string> Of(Place place) const {
    const auto found = keys_.find(place);
    return found == keys_.end() ? std::span<const std::string>() : found->second;
  }

 private:
  void Read(const boost::json::value& map, Place place) {
    for (const auto& [key, value] : map.at("properties").as_object())
      keys_[place].emplace_back(key);
  }

  std::map<Place, std::vector<std::string>> keys_;
};

Place Below(Place place, std::string_view key) {
  if (place == Place::kFile && (key == "tasks" || key == "on_cancel" || key == "finally"))
    return Place::kTasks;
  if (place == Place::kFile && key == "defaults") return Place::kTask;
  if (place == Place::kTasks) return Place::kTask;
  if (place == Place::kTask && key == "retry") return Place::kRetry;
  return Place::kOther;
}

std::size_t IndentOf(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}
bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}
bool IsComment(std::string_view line) {
  const std::size_t at = line.find_first_not_of(" \t");
  return at != std::string_view::npos && line[at] == '#';
}

class Formatter {
 public:
  Formatter(std::string_view text, bool reorder) : reorder_(reorder) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      std::string_view line = text.substr(at, end - at);
      if (line.ends_with('\r')) {
        line.remove_suffix(1);
        if (at == 0) line_end_ = "\r\n";
      }
      lines_.emplace_back(line);
      at = end + 1;
    }
  }

  /// All lines end as the first one does.
  std::string Format(const YAML::Node& root) {
    std::vector<std::string> out;
    if (root.IsMap() && root.Style() != YAML::EmitterStyle::Flow)
      AddMap(root, Place::kFile, 0, lines_.size(), 0, out);
    else
      for (std::size_t line = 0; line < lines_.size(); ++line) AddLine(line, 0, out);
    std::string text;
    bool blank = true;
    for (std::string& line : out) {
      if (line.empty() && std::exchange(blank, true)) continue;
      if (line == kKeptBlank) line.clear();
      blank = line.empty();
      (text += line) += line_end_;
    }
    const std::string blank_line = line_end_ + line_end_;
    while (text.ends_with(blank_line)) text.resize(text.size() - line_end_.size());
    return text;
  }

 private:
  /// One key with its value: lines [begin, end), of which [begin, key) are blank or comments.
  struct Entry {
    std::string key;
    YAML::Node value;
    std::size_t begin, line, end;
    std::size_t column;
    bool apart = false;  // a blank line comes before it
  };

  /// A blank line of a text, which is kept however many there are.
  static constexpr std::string_view kKeptBlank{"\0", 1};

  /// Empty if a key is not where lines can be moved: beside another, a complex or merged one.
  std::vector<Entry> EntriesOf(const YAML::Node& map, std::size_t begin, std::size_t end) const {
    std::vector<Entry> entries;
    for (const auto& pair : map) {
      if (!pair.first.IsScalar()) return {};
      const YAML::Mark mark = pair.first.Mark();
      const auto line = static_cast<std::size_t>(mark.line);
      const auto column = static_cast<std::size_t>(mark.column);
      if (mark.line < 0 || line < begin || line >= end || IndentOf(lines_[line]) != column ||
          (!entries.empty() && (entries.back().line >= line || entries.back().column != column)))
        return {};
      entries.push_back({pair.first.Scalar(), pair.second, line, line, end, column, false});
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
      std::size_t& first = entries[i].begin;
      const std::size_t floor = i == 0 ? begin : entries[i - 1].line + 1;
      // A comment that is indented further belongs to what stands above it.
      while (first > floor &&
             (IsBlank(lines_[first - 1]) ||
              (IsComment(lines_[first - 1]) && IndentOf(lines_[first - 1]) <= entries[i].column)))
        --first;
      if (i > 0) entries[i - 1].end = first;
    }
    return entries;
  }

  void AddMap(const YAML::Node& map, Place place, std::size_t begin, std::size_t end,
              std::size_t target, std::vector<std::string>& out) {
    std::vector<Entry> entries = EntriesOf(map, begin, end);
    if (entries.empty()) {
      // Whatever it is, it keeps its shape.
      std::size_t least = std::string::npos;
      for (std::size_t line = begin; line < end; ++line)
        if (!IsBlank(lines_[line])) least = std::min(least, IndentOf(lines_[line]));
      const auto shift = static_cast<std::ptrdiff_t>(target) -
                         static_cast<std::ptrdiff_t>(least == std::string::npos ? target : least);
      for (std::size_t line = begin; line < end; ++line) AddLine(line, shift, out);
      return;
    }
    // What stands above the first key of the file speaks of the file.
    for (std::size_t line = begin; line < entries.front().begin; ++line) AddLine(line, 0, out);
    if (place == Place::kFile) entries.front().begin = KeepHead(entries.front(), out);
    // What stands below the last key stays there, whichever key that will be.
    const std::size_t tail = EndOfValue(entries.back());
    entries.back().end = tail;
    if (reorder_) Reorder(entries, place);
    for (const Entry& entry : entries) AddEntry(entry, place, target, out);
    for (std::size_t line = tail; line < end; ++line) AddAt(line, target, out);
  }

  /// Before the comments behind its value that are indented no further than the key.
  std::size_t EndOfValue(const Entry& entry) const {
    std::size_t end = entry.end;
    while (end > entry.line + 1 &&
           (IsBlank(lines_[end - 1]) ||
            (IsComment(lines_[end - 1]) && IndentOf(lines_[end - 1]) <= entry.column)))
      --end;
    return end;
  }

  /// Comments at the top of the file that a blank line parts from the first key.
  std::size_t KeepHead(const Entry& first, std::vector<std::string>& out) {
    std::size_t last = first.line;
    while (last > first.begin && !IsBlank(lines_[last - 1])) --last;
    for (std::size_t line = first.begin; line < last; ++line) AddLine(line, 0, out);
    return last;
  }

  void Reorder(std::vector<Entry>& entries, Place place) const {
    const auto keys = order_.Of(place);
    if (keys.empty()) return;
    std::vector<std::pair<std::size_t, std::size_t>> order;
    order.reserve(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::string& key = entries[i].key;
      const auto known = std::ranges::find(keys, key);
      // Anchors (x-...) come before what refers to them; what is not known stays behind.
      const auto rank = static_cast<std::size_t>(known - keys.begin()) + 1;
      order.emplace_back(key.starts_with("x-") || key == "<<" ? 0 : rank, i);
    }
    if (std::ranges::is_sorted(order)) return;
    std::ranges::sort(order);
    std::vector<Entry> sorted;
    sorted.reserve(entries.size());
    for (const auto& [rank, i] : order) {
      Entry& entry = sorted.emplace_back(std::move(entries[i]));
      // Blank lines parted it from what stood above; now only long parts of the file stand apart.
      while (entry.begin < entry.line && IsBlank(lines_[entry.begin])) ++entry.begin;
      entry.apart = place == Place::kFile && sorted.size() > 1 && IsLong(entry);
    }
    entries = std::move(sorted);
  }

  bool IsLong(const Entry& entry) const {
    return std::any_of(lines_.begin() + static_cast<std::ptrdiff_t>(entry.line) + 1,
                       lines_.begin() + static_cast<std::ptrdiff_t>(entry.end),
                       [](const std::string& line) { return !IsBlank(line); });
  }

  void AddEntry(const Entry& entry, Place place, std::size_t target,
                std::vector<std::string>& out) {
    if (entry.apart) out.emplace_back();
    for (std::size_t line = entry.begin; line < entry.line; ++line) AddAt(line, target, out);
    const auto shift =
        static_cast<std::ptrdiff_t>(target) - static_cast<std::ptrdiff_t>(entry.column);
    AddLine(entry.line, shift, out);
    const std::size_t begin = entry.line + 1;
    const std::size_t end = EndOfValue(entry);
    AddValue(entry, Below(place, entry.key), begin, end, target, out);
    for (std::size_t line = end; line < entry.end; ++line) AddAt(line, target, out);
  }

  void AddValue(const Entry& entry, Place place, std::size_t begin, std::size_t end,
                std::size_t target, std::vector<std::string>& out) {
    const auto line = static_cast<std::size_t>(entry.value.Mark().line);
    const bool inside = entry.value.Mark().line >= 0 && line > entry.line && line < end &&
                        entry.value.Style() != YAML::EmitterStyle::Flow;
    if (inside && entry.value.IsMap())
      AddMap(entry.value, place, begin, end, target + kIndent, out);
    else if (inside && entry.value.IsSequence())
      AddShifted(begin, end, target + kIndent, out);
    else if (entry.value.IsScalar() && EndsInBlockMark(lines_[entry.line]))
      AddBlockText(begin, end, target + kIndent, out);
    else
      AddText(begin, end,
              static_cast<std::ptrdiff_t>(target) - static_cast<std::ptrdiff_t>(entry.column), out);
  }

  /// "key: |", "key: >-", with a comment or not.  Not "|2", whose indentation is said.
  static bool EndsInBlockMark(std::string_view line) {
    if (const std::size_t comment = line.find(" #"); comment != std::string_view::npos)
      line = line.substr(0, comment);
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    if (line.ends_with('-') || line.ends_with('+')) line.remove_suffix(1);
    return line.ends_with(": |") || line.ends_with(": >");
  }

  /// The text ends with its last line that is indented; behind it are comments of the map.
  void AddBlockText(std::size_t begin, std::size_t end, std::size_t target,
                    std::vector<std::string>& out) {
    std::size_t first = begin;
    while (first < end && IsBlank(lines_[first])) ++first;
    if (first == end) return AddText(begin, end, 0, out);
    const std::size_t indent = IndentOf(lines_[first]);
    std::size_t last = first;
    for (std::size_t line = first; line < end; ++line)
      if (!IsBlank(lines_[line])) {
        if (IndentOf(lines_[line]) < indent) break;
        last = line + 1;
      }
    for (std::size_t line = begin; line < last; ++line) {
      const std::string& text = lines_[line];
      if (text.size() <= indent && IsBlank(text))
        out.emplace_back(kKeptBlank);
      else
        out.push_back(std::string(target, ' ') + text.substr(indent));
    }
    for (std::size_t line = last; line < end; ++line) AddAt(line, target, out);
  }

  /// As a whole, so that its first line stands at `target`.
  void AddShifted(std::size_t begin, std::size_t end, std::size_t target,
                  std::vector<std::string>& out) {
    std::optional<std::size_t> indent;
    for (std::size_t line = begin; line < end && !indent; ++line)
      if (!IsBlank(lines_[line]) && !IsComment(lines_[line])) indent = IndentOf(lines_[line]);
    AddText(begin, end,
            static_cast<std::ptrdiff_t>(target) - static_cast<std::ptrdiff_t>(indent.value_or(0)),
            out);
  }

  /// Lines of a value that is left as it is: blank ones may belong to a text.
  void AddText(std::size_t begin, std::size_t end, std::ptrdiff_t shift,
               std::vector<std::string>& out) {
    std::size_t last = begin;
    for (std::size_t line = begin; line < end; ++line)
      if (!IsBlank(lines_[line])) last = line + 1;
    for (std::size_t line = begin; line < end; ++line) {
      if (line < last && IsBlank(lines_[line]))
        out.emplace_back(kKeptBlank);
      else
        AddLine(line, shift, out, true);
    }
  }

  /// `keep`: blanks at its end may be part of a text.
  void AddLine(std::size_t line, std::ptrdiff_t shift, std::vector<std::string>& out,
               bool keep = false) const {
    std::string text = lines_[line];
    if (!keep || IsBlank(text)) text.erase(text.find_last_not_of(" \t\r") + 1);
    if (shift > 0 && !text.empty()) text.insert(0, static_cast<std::size_t>(shift), ' ');
    if (shift < 0) text.erase(0, std::min(IndentOf(text), static_cast<std::size_t>(-shift)));
    out.push_back(std::move(text));
  }

  /// A comment or a blank line, at `target`.
  void AddAt(std::size_t line, std::size_t target, std::vector<std::string>& out) const {
    AddLine(
        line,
        static_cast<std::ptrdiff_t>(target) - static_cast<std::ptrdiff_t>(IndentOf(lines_[line])),
        out);
  }

  KeyOrder order_;
  bool reorder_;
  std::vector<std::string> lines_;  // without their ends
  std::string line_end_ = "\n";
};

}  // namespace

Result<std::string> FormatYaml(std::string_view text, bool reorder) {
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    return Formatter(text, reorder).Format(root);
  } catch (const YAML::Exception& error) {
    return Error{Code::kInvalidArgument, error.what()};
  }
}

}  // namespace headworks::cli
