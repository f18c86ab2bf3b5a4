#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/random.h"

/// What libFuzzer does for hours (tools/soak fuzz), for some seconds: a corpus, and seeded changes
/// of it.
namespace headworks {

inline std::vector<std::string> ReadCorpus(const std::filesystem::path& folder) {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    texts.push_back(text.str());
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

/// Parts of two texts, and some characters changed for ones that mean something.
inline std::string ChangedText(const std::vector<std::string>& texts, std::string_view meaning,
                               SeededRandom& random) {
  const std::string& first = texts[random.Next() % texts.size()];
  const std::string& second = texts[random.Next() % texts.size()];
  std::string text = first.substr(0, random.Next() % (first.size() + 1)) +
                     second.substr(random.Next() % (second.size() + 1));
  for (std::uint64_t changes = random.Next() % 6; changes > 0 && !text.empty(); --changes) {
    const std::size_t at = random.Next() % text.size();
    const char c = meaning[random.Next() % meaning.size()];
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

/// `check` ends the process where a property is broken.  Makes `changes` of the corpus, under the
/// sanitizers, which are slow, a fiftieth.
inline void AttackWithCorpus(const std::filesystem::path& folder, std::string_view meaning,
                             int changes, void (*check)(std::string_view)) {
  const auto texts = ReadCorpus(folder);
  ASSERT_FALSE(texts.empty());
  for (const std::string& text : texts) check(text);
#if __has_feature(address_sanitizer)
  changes /= 50;
#endif
  SeededRandom random{20261129};
  for (int i = 0; i < changes; ++i) check(ChangedText(texts, meaning, random));
}

}  // namespace headworks
