#include <boost/json.hpp>
#include <random>
#include <set>

#include "headworks/base/json.h"
#include "headworks/spec/definition.h"
#include "language.h"
#include "parse.h"

namespace headworks::spec {
namespace {

namespace json = boost::json;

/// Random files that are right: every key of a task and its parts, in any mixture.
class Author {
 public:
  explicit Author(unsigned seed) : random_(seed) {}

  /// JSON, which is YAML.
  std::string Write() {
    json::object file{{"version", 1}, {"name", "w"}};
    if (Maybe()) file["description"] = Text();
    if (Maybe()) file["tags"] = Texts();
    if (Maybe()) file["env"] = Environment();
    if (Maybe()) {
      json::object concurrency{{"limit", Number(1, 1'000'000)}};
      if (Maybe()) concurrency["key"] = "input.who";
      if (Maybe()) concurrency["on_conflict"] = "cancel_previous";
      if (Maybe()) concurrency["rate"] = {{"limit", Number(1, 10'000)}, {"per", "90s"}};
      file["concurrency"] = std::move(concurrency);
    }
    if (Maybe()) file["max_parallel"] = Number(0, 1'000);
    if (Maybe()) file["timeout"] = Time();
    if (Maybe()) file["on_failure"] = "cancel_rest";
    if (Maybe()) file["x-own"] = json::array{Text(), nullptr, 1.5};
    if (Maybe()) file["defaults"] = Settings();
    file["params"] = Params();
    file["tasks"] = Tasks("t");
    if (Maybe()) file["finally"] = Tasks("f");
    if (Maybe()) file["on_cancel"] = Tasks("c");
    return PlainJson(file);
  }

 private:
  int Number(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  bool Maybe() { return Number(0, 1) == 1; }
  template <typename... T>
  std::string OneOf(T... values) {
    const std::string all[] = {values...};
    return all[Number(0, sizeof...(T) - 1)];
  }
  std::string Text() {
    return OneOf("x", "two words", "010", "yes", "\xC3\xA4\xE2\x82\xAC", "a\nb\n", "tab\there",
                 "\"quoted\" \\ it's", "{} [] : # & * ! | > % @", " space around ", "null", "1.10");
  }
  json::array Texts() {
    json::array all;
    for (int i = Number(1, 3); i > 0; --i) all.emplace_back(Text());
    return all;
  }
  std::string Time() { return OneOf("0s", "250ms", "90s", "1h30m", "2d"); }
  json::object Environment() {
    json::object env;
    for (int i = Number(0, 3); i > 0; --i)
      env["V" + std::to_string(i)] = Maybe() ? Text() : "p=${{ params.p0 }}";
    return env;
  }
  json::object Condition() {
    json::object condition{{"exit_codes", json::array{Number(1, 255), Number(1, 255)}}};
    if (Maybe()) condition["output_matches"] = OneOf("a.*b", "(x|y)+", "\\d");
    return condition;
  }
  json::object Retry() {
    json::object retry{{"max_attempts", Number(2, 1'000)}};
    if (Maybe()) retry["backoff"] = OneOf("fixed", "linear", "exponential");
    if (Maybe()) retry["max"] = OneOf("10m", "3d");
    if (Maybe()) retry["jitter"] = Number(0, 8) / 8.0;
    if (Maybe()) retry["max_losses"] = Number(1, 9);
    if (Maybe()) retry["when"] = Condition();
    if (Maybe()) retry["unless"] = Condition();
    return retry;
  }
  /// What may stand in a task and under `defaults`.
  json::object Settings() {
    json::object task;
    if (Maybe()) task["env"] = Environment();
    if (Maybe()) task["env_file"] = Texts();
    if (Maybe()) task["inherit_env"] = json::array{"HOME"};
    if (Maybe()) task["cwd"] = Text();
    if (Maybe()) task["retry"] = Retry();
    if (Maybe()) task["timeout"] = Time();
    if (Maybe()) task["deadline"] = Time();
    if (Maybe()) task["grace"] = Time();
    if (Maybe()) {
      task["pool"] = "gpu";
      task["weight"] = Number(1, 1'000'000);
    }
    if (Maybe()) task["queue"] = OneOf("gpu", "default");
    if (Maybe()) task["requires"] = json::array{"gpu", "region=eu"};
    if (Maybe()) task["priority"] = Number(-1'000, 1'000);
    if (Maybe()) task["allow_failure"] = Maybe();
    if (Maybe()) task["labels"] = {{Text(), Text()}};
    if (Maybe()) task["output"] = OneOf("file", "stdout", "stdout-json", "stdout-lines");
    return task;
  }
  static void ToFunction(json::object& task) {
    task["function"] = "f";
    for (const char* key : {"env", "env_file", "inherit_env", "cwd", "retry"}) task.erase(key);
    if (task.contains("output")) task["output"] = {{"type", {{"n", "integer"}}}};
  }
  json::object Params() {
    json::object params{{"p0", "x"}};
    const json::value declared[] = {
        {{"type", "integer"}, {"default", Number(-9, 9)}, {"min", -9}, {"max", 9.5}},
        {{"type", "number"}, {"default", Number(0, 9) / 4.0}},
        {{"type", "string"}, {"enum", {"yes", "010"}}, {"description", Text()}},
        {{"type", "date"}, {"required", true}},
        {{"type", "object"}, {"default", {{"b", 1}, {"a", {1, nullptr}}}}},
        {{"pattern", "[0-9-]+"}, {"default", "${{ run.date }}"}},
        nullptr,
        {1, "a", true}};
    for (int i = Number(0, 6); i > 0; --i) params["p" + std::to_string(i)] = declared[Number(0, 7)];
    return params;
  }
  json::object Matrix() {
    if (Number(0, 3) == 0) return {{"include", Entries()}};
    json::object matrix{{"os", {"linux", "mac"}}};
    const bool two = Maybe();
    if (two) matrix["py"] = {"3.10", 2.5, true};
    if (Number(0, 3) == 0) matrix["more"] = {Number(0, 1), "x"};
    if (two && Maybe()) matrix["exclude"] = {{{"py", true}}};
    if (two && Maybe()) matrix["exclude"] = {{{"os", "linux"}, {"py", "3.10"}}};
    json::array include;
    if (Maybe()) include.emplace_back(json::object{{"os", "linux"}, {"extra", Text()}});
    if (Maybe()) include.emplace_back(json::object{{"wide", 1e-7}});
    if (Maybe())
      include.emplace_back(json::object{
          {"os", OneOf("bsd", "aix")}, {"py", "3.10"}, {"more", 0}, {"extra", Number(0, 9)}});
    if (!include.empty()) matrix["include"] = std::move(include);
    return matrix;
  }
  /// Combinations without lists: all of the same names, or not.
  json::array Entries() {
    json::array entries;
    for (int i = 0, count = Number(1, 4); i < count; ++i) {
      json::object entry{{"z", i}};
      if (Maybe()) entry["include"] = "a,b";
      entry["os"] = OneOf("linux", "mac");
      entries.emplace_back(std::move(entry));
    }
    return entries;
  }
  json::object Tasks(const std::string& prefix) {
    json::object tasks;
    for (int i = 0, count = Number(1, 8); i < count; ++i) {
      json::object task = Settings();
      task["description"] = Text();
      if (Maybe())
        task["run"] = OneOf("echo ${{ params.p0 }}", "true\n", "x # ${{ y");
      else if (Maybe())
        task["exec"] = {"x", Text(), "${{ run.id }}"};
      else
        ToFunction(task);
      if (task.contains("run") && Maybe()) task["shell"] = OneOf("sh", "bash");
      if (Maybe()) task["when"] = {"true", "params.p0 == 'x'"};
      if (Maybe()) task["trigger_rule"] = OneOf("all_done", "one_failed", "always");
      if (Maybe()) task["idempotency_key"] = "k-${{ run.id }}";
      if (Number(0, 3) == 0) task["matrix"] = Matrix();
      json::array needs;
      for (int up = 0; up < i; ++up)
        if (Number(0, 3) == 0) needs.emplace_back(prefix + std::to_string(up));
      if (!needs.empty()) task["needs"] = std::move(needs);
      tasks[prefix + std::to_string(i)] = std::move(task);
    }
    return tasks;
  }

  std::mt19937 random_;
};

TEST(RoundTrip, EveryAcceptedFileReadsBackFromItsCanonicalJson) {
  std::set<std::string> versions;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const std::string file = Author(seed).Write();
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, file));
    const auto workflow = model::Workflow::Create(Good(file));
    ASSERT_TRUE(workflow.has_value()) << workflow.error().message;
    const auto again = model::Workflow::FromCanonicalJson((*workflow)->canonical_json());
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ((*again)->version(), (*workflow)->version());
    EXPECT_EQ((*again)->definition(), (*workflow)->definition());
    versions.insert((*workflow)->version());
  }
  EXPECT_GT(versions.size(), 195U) << "the files differ";
}

TEST(RoundTrip, EveryAcceptedFileIsWrittenAsAFileOfTheSameVersion) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    const std::string file = Author(seed).Write();
    const auto workflow = model::Workflow::Create(Good(file)).value();
    const std::string written = PlainJson(DefinitionJson(*workflow, Detail::kSaid));
    SCOPED_TRACE(fmt::format("seed {}: {}\n{}", seed, file, written));
    const auto again = model::Workflow::Create(Good(written)).value();
    ASSERT_EQ(again->canonical_json(), workflow->canonical_json());
  }
}

/// The matrix of one task as it is written again.
std::string Rewritten(std::string_view matrix) {
  const auto workflow =
      model::Workflow::Create(
          Good(fmt::format("version: 1\ntasks:\n  t: {{run: x, matrix: {}}}\n", matrix)))
          .value();
  return PlainJson(DefinitionJson(*workflow, Detail::kSaid).at("tasks").at("t").at("matrix"));
}

TEST(RoundTrip, AMatrixIsWrittenAsListsWhereItCanBe) {
  for (const std::string_view matrix :
       {R"({"os":["a","b"],"n":[1,2.5]})",
        R"({"os":["a","b"],"n":[1,2],"exclude":[{"os":"b","n":1}]})",
        R"({"os":["a","b"],"include":[{"os":"a","more":true}]})",
        R"({"include":[{"b":1,"a":2},{"a":3}]})"})
    EXPECT_EQ(Rewritten(matrix), matrix);
  EXPECT_EQ(Rewritten("{os: [a], n: [1, 2], include: [{os: b, n: 2}]}"),
            R"({"os":["a","b"],"n":[1,2],"exclude":[{"os":"b","n":1}]})");
  EXPECT_EQ(Rewritten("{include: [{a: 1, b: x}, {a: 2, b: y}]}"),
            R"({"a":[1,2],"b":["x","y"],"exclude":[{"a":1,"b":"y"},{"a":2,"b":"x"}]})");
  EXPECT_EQ(Rewritten("{a: [1, 2], b: [x, y], exclude: [{a: 1, b: x}]}"),
            R"({"a":[1],"b":["y"],"include":[{"a":2,"b":"x"},{"a":2,"b":"y"}]})")
      << "in no order of the lists do these come like this";
}

}  // namespace
}  // namespace headworks::spec
