#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/properties.h"
#include "headworks/base/random.h"

// What libFuzzer does for hours (tools/soak fuzz), for a second: the corpus, and seeded changes
// of it.
namespace headworks::expr {
namespace {

std::vector<std::string> Corpus(const std::string& name) {
  std::vector<std::string> texts;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(EXPRESSIONS_CORPUS) / name)) {
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    texts.push_back(text.str());
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

/// Parts of two texts, and some characters changed for ones that mean something.
std::string Changed(const std::vector<std::string>& texts, SeededRandom& random) {
  constexpr std::string_view kMeaning = "${{}}()[]\"'`\\\n.,:?!-+*/%<>=&|#0179aerbu \x00\xff";
  const std::string& first = texts[random.Next() % texts.size()];
  const std::string& second = texts[random.Next() % texts.size()];
  std::string text = first.substr(0, random.Next() % (first.size() + 1)) +
                     second.substr(random.Next() % (second.size() + 1));
  for (std::uint64_t changes = random.Next() % 6; changes > 0 && !text.empty(); --changes) {
    const std::size_t at = random.Next() % text.size();
    const char c = kMeaning[random.Next() % kMeaning.size()];
    if (random.Next() % 3 == 0) {
      text.erase(at, 1 + random.Next() % 4);
    } else if (random.Next() % 2 == 0) {
      text.insert(at, 1, c);
    } else {
      text[at] = c;
    }
  }
  return text;
}

void Attack(const std::string& name, void (*check)(std::string_view)) {
  const auto texts = Corpus(name);
  ASSERT_FALSE(texts.empty());
  for (const std::string& text : texts) check(text);
  SeededRandom random(20261129);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = Changed(texts, random);
    SCOPED_TRACE(text);
    check(text);
  }
}

TEST(Fuzz, ExpressionsHoldTheirProperties) { Attack("expression", CheckExpression); }

TEST(Fuzz, TemplatesHoldTheirProperties) { Attack("template", CheckTemplate); }

}  // namespace
}  // namespace headworks::expr
