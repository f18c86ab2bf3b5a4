#include "scalar_place.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "surrogates.h"

namespace headworks::spec {
namespace {

/// `d83d\ude00`
constexpr std::size_t kPairAfterU = 10;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// Walks along the source as the parser did, counting the bytes it made that are not blank: folding
/// and indentation change blanks only.
class Walk {
 public:
  Walk(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  void SkipProperties() {
    while (SkipBlanks(), at_ < text_.size() && (text_[at_] == '&' || text_[at_] == '!'))
      while (at_ < text_.size() && !IsBlank(text_[at_])) ++at_;
  }
  void EnterScalar() {
    if (at_ >= text_.size()) return;
    quote_ = text_[at_];
    if (quote_ == '|' || quote_ == '>')  // what stands behind it says how to read the block
      at_ = std::min(text_.find('\n', at_), text_.size());
    else if (quote_ == '"' || quote_ == '\'')
      ++at_;
  }
  void SkipBlanks() {
    while (at_ < text_.size() && IsBlank(text_[at_])) ++at_;
  }
  /// Goes on until `count` bytes of the value that are not blank have been passed.
  void Pass(std::size_t count) {
    while (count > 0 && at_ < text_.size()) count -= std::min(count, Next());
  }
  std::size_t at() const { return std::min(at_, text_.size()); }

 private:
  /// Takes one unit of the source; how many bytes that are not blank it makes.
  std::size_t Next() {
    const char c = text_[at_++];
    if (quote_ == '"' && c == '\\') return NextEscape();
    if (quote_ == '\'' && c == '\'') ++at_;
    return IsBlank(c) ? 0 : 1;
  }
  std::size_t NextEscape() {
    if (at_ >= text_.size()) return 0;
    const char c = text_[at_++];
    switch (c) {
      case 'x':
        return CodePoint(2);
      case 'u':
        if (!IsSurrogatePair(text_.substr(at_ - 1))) return CodePoint(4);
        at_ += kPairAfterU;
        return 4;
      case 'U':
        return CodePoint(8);
      case 'n':
      case 'r':
      case 't':
        return 0;
      case 'N':
      case '_':
        return 2;
      case 'L':
      case 'P':
        return 3;
      default:
        return IsBlank(c) ? 0 : 1;
    }
  }
  std::size_t CodePoint(std::size_t digits) {
    std::uint32_t value = 0;
    const std::string_view hex = text_.substr(at_, digits);
    std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
    at_ += hex.size();
    if (value < 0x80) return IsBlank(static_cast<char>(value)) ? 0 : 1;
    return value < 0x800 ? 2 : value < 0x10000 ? 3 : 4;
  }

  std::string_view text_;
  std::size_t at_;
  char quote_ = 0;
};

}  // namespace

Place PlaceInScalar(Source& source, Place start, std::string_view value, std::size_t offset) {
  const std::string_view before = value.substr(0, offset);
  Walk walk(source.text(), source.OffsetOf(start));
  walk.SkipProperties();
  walk.EnterScalar();
  walk.Pass(before.size() - static_cast<std::size_t>(std::ranges::count_if(before, IsBlank)));
  if (offset < value.size() && !IsBlank(value[offset])) walk.SkipBlanks();
  return source.PlaceOf(walk.at());
}

}  // namespace headworks::spec
