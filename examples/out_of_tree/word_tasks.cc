// Two typed tasks and the workflow that joins them.
#include <chrono>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "headworks/author/author.h"

namespace word_tasks {

struct Text {
  std::string text;
  std::optional<int> shortest;
};
HEADWORKS_FIELDS(Text, text, shortest);

struct Counts {
  std::map<std::string, int> words;
};
HEADWORKS_FIELDS(Counts, words);

struct Ranking {
  std::vector<std::string> often;
};
HEADWORKS_FIELDS(Ranking, often);

Counts Count(const Text& input, headworks::TaskContext& context) {
  const auto shortest = static_cast<std::size_t>(input.shortest.value_or(1));
  Counts counts;
  std::istringstream words(input.text);
  for (std::string word; words >> word;) {
    context.ThrowIfCancelled();
    if (word.size() >= shortest) ++counts.words[word];
  }
  context.Log(std::to_string(counts.words.size()) + " different words");
  return counts;
}
HEADWORKS_TASK("count", Count);

headworks::TaskResult<Ranking> Rank(const Counts& counts) {
  if (counts.words.empty()) return headworks::Skip("there are no words");
  Ranking ranking;
  for (const auto& [word, count] : counts.words)
    if (count > 1) ranking.often.push_back(word);
  return ranking;
}
HEADWORKS_TASK("words::rank", Rank);

HEADWORKS_WORKFLOW("words", [](headworks::WorkflowBuilder& w) {
  using namespace std::chrono_literals;
  w.Param("text").Param("shortest", 3).Timeout(1h);
  w.Task("count").Function("count").Timeout(30s).Retry({.max_attempts = 3, .initial = 2s});
  w.Task("rank").Function("rank").Needs({"count"});
  w.Finally("report").Run("echo done");
});

}  // namespace word_tasks
