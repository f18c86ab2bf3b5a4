#include "source.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "headworks/base/text.h"

namespace headworks::spec {
namespace {

/// Characters of an excerpt; a longer line is shown around the caret.
constexpr std::size_t kWindow = 100;

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80; }

std::size_t CountCharacters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return !IsContinuation(c); }));
}

/// The line with a caret below `byte`.  Control characters become spaces, and what is not UTF-8
/// question marks, so that a file cannot write to the terminal and the caret stands where it
/// should.
std::string Excerpt(std::string_view line, std::size_t byte) {
  std::size_t begin = byte > kWindow / 2 && line.size() > kWindow ? byte - kWindow / 2 : 0;
  while (begin > 0 && IsContinuation(line[begin])) --begin;
  std::size_t end = std::min(line.size(), begin + kWindow);
  while (end < line.size() && IsContinuation(line[end])) ++end;
  std::string shown(line.substr(begin, end - begin));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  for (std::size_t bad; (bad = ValidUtf8Prefix(shown)) < shown.size();) shown[bad] = '?';
  const std::string_view front = begin > 0 ? "..." : "";
  const std::string_view back = end < line.size() ? "..." : "";
  const std::size_t indent = front.size() + CountCharacters(line.substr(begin, byte - begin));
  return fmt::format("    {}{}{}\n    {:{}}^", front, shown, back, "", indent);
}

}  // namespace

void Source::FindLines() {
  if (!line_starts_.empty()) return;
  line_starts_.push_back(0);
  for (std::size_t at = text_.find('\n'); at != std::string_view::npos;
       at = text_.find('\n', at + 1))
    line_starts_.push_back(at + 1);
}

std::size_t Source::OffsetOf(Place place) {
  FindLines();
  if (place.line >= line_starts_.size()) return text_.size();
  return std::min(line_starts_[place.line] + place.byte, text_.size());
}

Place Source::PlaceOf(std::size_t offset) {
  FindLines();
  const auto next = std::ranges::upper_bound(line_starts_, offset);
  const auto line = static_cast<std::size_t>(next - line_starts_.begin()) - 1;
  return {static_cast<std::uint32_t>(line),
          static_cast<std::uint32_t>(offset - line_starts_[line])};
}

std::string_view Source::Line(std::uint32_t line) {
  FindLines();
  if (line >= line_starts_.size()) return {};
  std::string_view rest = text_.substr(line_starts_[line]);
  rest = rest.substr(0, rest.find('\n'));
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  return rest;
}

Fault Source::MakeFault(std::string_view code, Place place, std::string message) {
  const std::string_view line = Line(place.line);
  const std::size_t byte = std::min<std::size_t>(place.byte, line.size());
  return {code,
          name_,
          place.line + 1,
          static_cast<std::uint32_t>(CountCharacters(line.substr(0, byte)) + 1),
          std::move(message),
          line.empty() ? "" : Excerpt(line, byte)};
}

void Source::Add(std::string_view code, Place place, std::string message) {
  if (faults_.size() < kMostFaults)
    faults_.push_back(MakeFault(code, place, std::move(message)));
  else
    ++dropped_;
}

void Source::Warn(std::string_view code, Place place, std::string message) {
  if (warnings_.size() < kMostWarnings)
    warnings_.push_back(MakeFault(code, place, std::move(message)));
}

void Source::AddFault(Fault fault) {
  if (faults_.size() < kMostFaults)
    faults_.push_back(std::move(fault));
  else
    ++dropped_;
}

void Source::AddWhole(std::string_view code, std::string message) {
  faults_.push_back({code, name_, 0, 0, std::move(message), ""});
}

std::vector<Fault> Source::TakeFaults() {
  std::ranges::sort(faults_, {}, [](const Fault& f) {
    return std::tuple(f.line, f.column, f.code, std::string_view(f.message));
  });
  // What an anchor or a default holds is found wrong wherever it is used.
  faults_.erase(std::unique(faults_.begin(), faults_.end()), faults_.end());
  if (dropped_ > 0)
    faults_.push_back(
        {"HW1116", name_, 0, 0, fmt::format("and {} more faults; mend these first", dropped_), ""});
  return std::move(faults_);
}

std::string Fault::ToString() const {
  const std::string at = line == 0 ? file : fmt::format("{}:{}:{}", file, line, column);
  return fmt::format("{}: {} {}{}{}", at, code, message, excerpt.empty() ? "" : "\n", excerpt);
}

}  // namespace headworks::spec
