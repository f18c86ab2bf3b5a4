#include "reader.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "foreign_words.h"
#include "headworks/base/json.h"
#include "headworks/base/text.h"
#include "headworks/base/time.h"
#include "headworks/model/artifact.h"
#include "quoting.h"
#include "yaml_value.h"

/// Values, whatever key they stand behind.
namespace headworks::spec {

void Reader::WrongType(NodeNo no, std::string_view wanted) {
  // What to do comes last.
  const std::size_t end = std::min(wanted.find(';'), wanted.size());
  std::string hint(wanted.substr(end));
  // A text that its ': ' made a map of.
  if (Is(no, Kind::kMap) && tree_[no].size == 1 &&
      tree_.Text(tree_.Key(no, 0)).find(' ') != std::string_view::npos)
    if (const std::string mended = WithQuotes(source_.Line(tree_[no].place.line)); !mended.empty())
      hint = "; text with ': ' in it needs quotes; write " + mended;
  Fault("HW1009", no,
        fmt::format("{}, not {}{}", wanted.substr(0, end), Describe(tree_, no), hint));
}

namespace {

/// The one of `here` that `word` means, which is none of them; empty = nobody knows.
std::string_view MeantWord(std::string_view word, std::span<const std::string_view> here) {
  const ForeignWord* foreign = FindForeignWord(word, here);
  return foreign != nullptr && !foreign->meant.empty() ? foreign->meant : NearestWord(word, here);
}

/// Digits behind a sign, however many.
bool IsWholeNumber(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// What no shell is there to expand in the path of an artifact; empty = nothing.
std::string_view ShellInPath(std::string_view path) {
  const std::string_view literal = path.substr(0, path.find("${{"));
  if (literal.starts_with('~'))
    return "is taken as it is, without a home folder for ~; give a path below the task's working "
           "folder";
  if (literal.starts_with('$') && !literal.starts_with(model::kScratchPath) && literal != "$")
    return "is taken as it is, without variables; give a path below the task's working folder, or "
           "one that begins with $HEADWORKS_SCRATCH/ or with an expression";
  if (literal.find('*') != std::string_view::npos)
    return "is taken as it is, without patterns; an artifact is one file, so pack several (tar) "
           "and "
           "name that";
  return "";
}

}  // namespace

Reader::NodeNo Reader::FindKey(NodeNo map, std::string_view key) const {
  for (std::uint32_t i = 0; map != kNone && Is(map, Kind::kMap) && i < tree_[map].size; ++i)
    if (tree_.Text(tree_.Key(map, i)) == key) return tree_.Key(map, i);
  return kNone;
}

Reader::NodeNo Reader::ValueOf(NodeNo map, std::string_view key) const {
  for (std::uint32_t i = 0; map != kNone && Is(map, Kind::kMap) && i < tree_[map].size; ++i)
    if (tree_.Text(tree_.Key(map, i)) == key) return tree_.Value(map, i);
  return kNone;
}

bool Reader::HasMisspeltKey(NodeNo map, std::span<const std::string_view> names) const {
  for (std::uint32_t i = 0; Is(map, Kind::kMap) && i < tree_[map].size; ++i)
    if (!MeantWord(tree_.Text(tree_.Key(map, i)), names).empty()) return true;
  return false;
}

bool Reader::IsBehindComma(NodeNo key, NodeNo value) const {
  const Place place = tree_[key].place;
  const std::string_view before = source_.Line(place.line).substr(0, place.byte);
  const std::size_t last = before.find_last_not_of(" \t");
  return last != std::string_view::npos && before[last] == ',' &&
         (Is(value, Kind::kNull) || tree_.Text(key).find(' ') != std::string_view::npos);
}

/// Where fields of the result are written by slip.
constexpr auto kOutputNames = std::to_array<std::string_view>({"from", "type"});

void Reader::UnknownKey(NodeNo key, NodeNo value, std::span<const std::string_view> here) {
  const std::string_view text = tree_.Text(key);
  const std::string quoted = QuoteJson(text);
  if (const ForeignWord* foreign = FindForeignWord(text, here); foreign && !foreign->says.empty())
    return Fault("HW1006", key, fmt::format("unknown key {}; {}", quoted, foreign->says));
  for (const KeyMap& map : Language())
    if (std::ranges::find(map.keys, text, &Key::name) != map.keys.end() &&
        (map.name == "workflow" || map.name == "task" || map.name == "retry"))
      return Fault(
          "HW1006", key,
          fmt::format("the key {} does not belong here; it belongs {}", quoted, map.place));
  const std::span<const ReservedKey> reserved = ReservedKeys();
  if (const auto found = std::ranges::find(reserved, text, &ReservedKey::name);
      found != reserved.end())
    return Fault("HW1007", key, WhyReserved(*found));
  const std::string_view meant = MeantWord(text, here);
  if (meant.empty() && std::ranges::equal(here, kOutputNames))
    return Fault(
        "HW1006", key,
        fmt::format("unknown key {}; a field of the result stands under type: {{{}: integer}}",
                    quoted, text));
  Fault("HW1006", key,
        fmt::format("unknown key {}{}{}", quoted,
                    meant.empty() ? fmt::format("; known here: {}", fmt::join(here, ", "))
                                  : fmt::format(", did you mean '{}'?", meant),
                    IsBehindComma(key, value) ? "; within { } a comma begins the next key: put a "
                                                "text that has one into quotes"
                                              : ""));
}

void Reader::Text(NodeNo no, std::string& into) {
  if (Is(no, Kind::kScalar))
    into = tree_.Text(no);
  else
    WrongType(no, "text belongs here");
}

void Reader::Command(NodeNo no, std::string& into) {
  if (Is(no, Kind::kNull)) return;
  into = "true";
  if (Is(no, Kind::kList) && key_->name == "run")
    WrongType(no,
              "text belongs here; write the commands below `run: |`, each on a line of its own");
  else
    Text(no, into);
}

void Reader::Bool(NodeNo no, bool& into) {
  if (Is(no, Kind::kScalar) && tree_[no].plain)
    if (const auto value = BoolOf(tree_.Text(no))) {
      into = *value;
      return;
    }
  const bool quoted = Is(no, Kind::kScalar) && BoolOf(tree_.Text(no));
  const bool computed = Is(no, Kind::kScalar) && tree_.Text(no).find("${{") != std::string::npos;
  WrongType(no, quoted ? "write true or false; the quotes make text of it, so remove them"
                : computed
                    ? "write true or false; no expression is taken here, so make what differs a "
                      "task of its own"
                    : "write true or false");
}

void Reader::NotANumber(NodeNo no, std::string_view wanted) {
  std::string text(Is(no, Kind::kScalar) ? tree_.Text(no) : "");
  std::string_view hint;
  if (!tree_[no].plain && NumberOf(text))
    hint = "; the quotes make text of it, so remove them";
  else if (std::erase(text, '_') > 0 && NumberOf(text))
    hint = "; leave out the _";
  WrongType(no, fmt::format("{}{}", wanted, hint));
}

void Reader::Integer(NodeNo no, int& into) {
  const std::string_view text = Is(no, Kind::kScalar) && tree_[no].plain ? tree_.Text(no) : "";
  const auto number = NumberOf(text);
  const auto out_of_range = [&] {
    if (key_->most > 0)
      Fault("HW1111", no,
            fmt::format("{} is out of range: it must be {} to {}", text, key_->least, key_->most));
    else
      Fault("HW1010", no, fmt::format("{} is too large a number", text));
  };
  if (!number && IsWholeNumber(text)) return out_of_range();
  if (!number) return NotANumber(no, "a whole number belongs here");
  if (const std::string trap = TrapOf(text); !trap.empty()) return Fault("HW1013", no, trap);
  const char* end = number->data() + number->size();
  int value = 0;
  const auto [stop, ec] = std::from_chars(number->data(), end, value);
  if (ec == std::errc::result_out_of_range)
    out_of_range();
  else if (stop != end)
    WrongType(no, "a whole number belongs here");
  else
    into = value;
}

void Reader::Fraction(NodeNo no, double& into) {
  const std::string_view text = Is(no, Kind::kScalar) && tree_[no].plain ? tree_.Text(no) : "";
  auto number = NumberOf(text);
  // Beyond 64 bits; as a double it is near enough.
  if (!number && IsWholeNumber(text)) number = text.substr(text.starts_with('+') ? 1 : 0);
  if (!number) return NotANumber(no, "a number belongs here");
  std::from_chars(number->data(), number->data() + number->size(), into);
}

void Reader::Time(NodeNo no, Duration& into) {
  if (!Is(no, Kind::kScalar)) return WrongType(no, "a duration such as 30s belongs here");
  const auto duration = ParseDuration(tree_.Text(no));
  if (duration)
    into = *duration;
  else if (!TrapOf(tree_.Text(no)).empty() && tree_.Text(no).find(':') != std::string_view::npos)
    Fault("HW1013", no,
          fmt::format("{} could be hours or minutes; write the units, e.g. 1h30m or 1m30s",
                      Describe(tree_, no)));
  else
    Fault("HW1010", no, duration.error().message);
}

void Reader::Size(NodeNo no, std::uint64_t& into) {
  if (!Is(no, Kind::kScalar)) return WrongType(no, "a size such as 512MiB belongs here");
  if (const auto bytes = ParseBytes(tree_.Text(no)))
    into = *bytes;
  else
    Fault("HW1010", no, bytes.error().message);
}

void Reader::Texts(NodeNo no, std::string_view wanted, std::vector<std::string>& into) {
  into.clear();
  if (Is(no, Kind::kScalar)) {
    into.emplace_back(tree_.Text(no));
  } else if (Is(no, Kind::kList)) {
    into.reserve(tree_[no].size);
    for (std::uint32_t i = 0; i < tree_[no].size; ++i) {
      const NodeNo element = tree_.Element(no, i);
      if (Is(element, Kind::kScalar))
        into.emplace_back(tree_.Text(element));
      else
        WrongType(element, wanted);
    }
  } else {
    WrongType(no, wanted);
  }
}

void Reader::TextMap(NodeNo no, std::string_view wanted, std::map<std::string, std::string>& into) {
  if (!Is(no, Kind::kMap)) return WrongType(no, wanted);
  for (std::uint32_t i = 0; i < tree_[no].size; ++i) {
    const NodeNo value = tree_.Value(no, i);
    const std::string_view name = tree_.Text(tree_.Key(no, i));
    // Also where its value is faulty, there is such a name.
    into.insert_or_assign(std::string(name),
                          std::string(Is(value, Kind::kScalar) ? tree_.Text(value) : ""));
    if (Is(value, Kind::kScalar)) continue;
    if (Is(value, Kind::kNull))
      Fault("HW1009", value,
            fmt::format("{} has no value; write \"\" for an empty one, or remove it",
                        QuoteJson(name)));
    else
      WrongType(value, fmt::format("the value of {} must be text", QuoteJson(name)));
  }
}

void Reader::Path(NodeNo no, std::string_view path) {
  const bool variable =
      path.starts_with('$') && !path.starts_with("${{") && !path.starts_with("$${{");
  if (path == "~" || path.starts_with("~/"))
    Fault(
        "HW1010", no,
        fmt::format("{} is taken as it is, without a home folder for ~; give an absolute path, or "
                    "write ./~ for a folder of that name",
                    QuoteJson(path)));
  else if (variable)
    Fault(
        "HW1010", no,
        fmt::format("{} is taken as it is, without variables; use an expression, e.g. ${{{{ "
                    "run.dir }}}} for HEADWORKS_SCRATCH or ${{{{ env.NAME }}}} for one of env, or "
                    "write ./$ for a name that begins so",
                    QuoteJson(path)));
}

void Reader::Cwd(NodeNo no, std::string& into) {
  Text(no, into);
  if (Is(no, Kind::kScalar)) Path(no, tree_.Text(no));
}

void Reader::EnvFiles(NodeNo no, std::vector<std::string>& into) {
  Texts(no, "env_file takes a path or a list of them", into);
  const auto check = [&](NodeNo file) {
    if (!Is(file, Kind::kScalar)) return;
    if (tree_.Text(file).empty())
      Fault("HW1010", file, "the path is empty; name a file, or remove it");
    Path(file, tree_.Text(file));
  };
  if (!Is(no, Kind::kList)) return check(no);
  for (std::uint32_t i = 0; i < tree_[no].size; ++i) check(tree_.Element(no, i));
}

void Reader::Artifacts(NodeNo no, std::map<std::string, std::string>& into) {
  TextMap(no, "artifacts takes a map from names to paths", into);
  if (!Is(no, Kind::kMap)) return;
  for (std::uint32_t i = 0; i < tree_[no].size; ++i) {
    const NodeNo value = tree_.Value(no, i);
    const std::string_view path = Is(value, Kind::kScalar) ? tree_.Text(value) : "";
    const std::string_view problem = ShellInPath(path);
    if (!problem.empty()) Fault("HW1124", value, fmt::format("{} {}", QuoteJson(path), problem));
    // A path that could not be read has its fault, and needs no other.
    if (!Is(value, Kind::kScalar) || !problem.empty())
      into.insert_or_assign(std::string(tree_.Text(tree_.Key(no, i))), "_");
  }
}

std::optional<std::size_t> Reader::Choice(NodeNo no, std::span<const std::string_view> names) {
  const std::string_view text = Is(no, Kind::kScalar) ? tree_.Text(no) : "";
  if (!Is(no, Kind::kScalar)) {
    WrongType(no, fmt::format("one of {} belongs here", fmt::join(names, ", ")));
    return std::nullopt;
  }
  const auto found = std::ranges::find(names, text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  const std::string_view meant = MeantWord(text, names);
  Fault("HW1010", no,
        fmt::format("{} is none of {}{}", Describe(tree_, no), fmt::join(names, ", "),
                    meant.empty() ? "" : fmt::format(", did you mean '{}'?", meant)));
  return std::nullopt;
}

void Reader::Pattern(NodeNo no, std::string& into) {
  if (!Is(no, Kind::kScalar)) return WrongType(no, "a regular expression belongs here");
  const std::string_view text = tree_.Text(no);
  const re2::RE2 pattern(re2::StringPiece(text.data(), text.size()), re2::RE2::Quiet);
  if (pattern.ok())
    into = text;
  else
    Fault("HW1010", no,
          fmt::format("{} is no regular expression of RE2: {}", Describe(tree_, no),
                      pattern.error()));
}

void Reader::Json(NodeNo no, std::string& into) {
  CheckTraps(tree_, no, source_);
  into = ToJson(tree_, no, source_);
}

}  // namespace headworks::spec
