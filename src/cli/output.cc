#include "output.h"

#include <fmt/format.h>
#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>

#include "headworks/base/check.h"
#include "headworks/base/json.h"
#include "terminal.h"

namespace headworks::cli {
namespace {

namespace json = boost::json;

/// Text that a literal block gives back as it is: lines of visible ASCII, the last one ended once.
bool IsLines(std::string_view text) {
  return text.ends_with('\n') && !text.ends_with("\n\n") && text.front() > ' ' &&
         text.find(" \n") == std::string_view::npos &&
         std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c < 0x7F); });
}

/// In double quotes, byte for byte the same when it is read: the emitter's own would lose some
/// characters.  What YAML takes only as escapes, or older YAML as ends of lines, is escaped.
std::string QuoteYaml(std::string_view text) {
  std::string quoted = QuoteJson(text);
  const auto escape = [&](std::string_view character, std::string_view as) {
    for (std::size_t at = quoted.find(character); at != std::string::npos;
         at = quoted.find(character, at + as.size()))
      quoted.replace(at, character.size(), as);
  };
  escape("\x7F", "\\x7f");
  for (int c = 0x80; c < 0xA0; ++c)
    escape(std::string{'\xC2', static_cast<char>(c)}, fmt::format("\\x{:02x}", c));
  escape("\xE2\x80\xA8", "\\u2028");
  escape("\xE2\x80\xA9", "\\u2029");
  escape("\xEF\xBB\xBF", "\\ufeff");
  escape("\xEF\xBF\xBE", "\\ufffe");
  escape("\xEF\xBF\xBF", "\\uffff");
  return quoted;
}

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7F; });
}

/// Quoted, so that "yes", "007" or "null" come back as the texts they are; scripts as lines.
void EmitText(YAML::Emitter& out, const std::string& text) {
  if (IsLines(text))
    out << YAML::Literal << text;
  else
    out.WriteIntegralType(QuoteYaml(text));  // as it is
}

void Emit(YAML::Emitter& out, const json::value& value) {
  switch (value.kind()) {
    case json::kind::object:
      out << YAML::BeginMap;
      for (const auto& [key, member] : value.get_object()) {
        out << YAML::Key;
        if (IsAscii(key))
          out << std::string(key);
        else
          EmitText(out, key);
        out << YAML::Value;
        Emit(out, member);
      }
      out << YAML::EndMap;
      return;
    case json::kind::array:
      out << YAML::BeginSeq;
      for (const json::value& element : value.get_array()) Emit(out, element);
      out << YAML::EndSeq;
      return;
    case json::kind::string:
      EmitText(out, std::string(value.get_string()));
      return;
    case json::kind::null:
      out << YAML::LowerNull << YAML::Null;
      return;
    case json::kind::bool_:
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_:
      out << PlainJson(value);
      return;
  }
}

std::size_t CharacterBytes(unsigned char first) {
  if (first < 0xC0) return 1;
  if (first < 0xE0) return 2;
  return first < 0xF0 ? 3 : 4;
}

}  // namespace

void Table::AddRow(std::vector<std::string> cells) {
  HEADWORKS_CHECK(cells.size() == headings_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::Render() const {
  std::vector<std::size_t> widths;
  widths.reserve(headings_.size());
  for (const std::string& heading : headings_) widths.push_back(DisplayWidth(heading));
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  std::string text;
  const auto add = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      text += cells[i];
      if (i + 1 < cells.size()) text.append(widths[i] - DisplayWidth(cells[i]) + 2, ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  };
  add(headings_);
  for (const auto& row : rows_) add(row);
  return text;
}

std::string FormatValue(OutputFormat format, const json::value& value) {
  HEADWORKS_CHECK(format != OutputFormat::kTable);
  if (format == OutputFormat::kJson) return PlainJson(value) + "\n";
  YAML::Emitter out;
  Emit(out, value);
  return std::string(out.c_str(), out.size()) + "\n";
}

void PrintValue(OutputFormat format, const json::value& value) {
  Print(FormatValue(format, value));
}

void Note(std::string_view text) {
  const std::string line = std::string(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::size_t DisplayWidth(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string FitToWidth(std::string_view text, std::size_t width) {
  std::string fit;
  std::size_t used = 0;
  const std::size_t total = DisplayWidth(text);
  for (std::size_t at = 0; at < text.size();) {
    if (used + 1 >= width && total > width) {
      if (width > 0) fit += "…";
      return fit;
    }
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t bytes = std::min(CharacterBytes(first), text.size() - at);
    if (first < 0x20 || first == 0x7F || ControlLength(text.substr(at)) > 0)
      fit += ' ';
    else
      fit += text.substr(at, bytes);
    at += bytes;
    ++used;
  }
  return fit;
}

}  // namespace headworks::cli
