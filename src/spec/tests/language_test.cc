#include "language.h"

#include <chrono>
#include <map>
#include <set>

#include "parse.h"

namespace headworks::spec {
namespace {

using Faults = std::vector<std::string>;
using model::Param;
using model::ParamType;

void ExpectSays(std::string_view text, std::string_view message) {
  EXPECT_NE(MessageOf(text).find(message), std::string::npos) << text << "\n" << MessageOf(text);
}

/// A good file with `lines` in it at the left margin.
std::string With(std::string_view lines) {
  return fmt::format("version: 1\n{}\ntasks: {{a: {{run: x}}}}\n", lines);
}
/// A good file whose task says `keys` as well.
std::string Task(std::string_view keys) {
  return fmt::format("version: 1\ntasks: {{a: {{run: x, {}}}}}\n", keys);
}

Param ParamOf(std::string_view declaration) {
  auto d = Good(With(fmt::format("params:\n  p: {}", declaration)));
  return d.params["p"];
}

TEST(Language, TextCutByACommaIsToldToBeQuoted) {
  const auto hints = [](std::string_view task) {
    return MessageOf(fmt::format("version: 1\ntasks:\n  a: {}\n", task))
               .find("within { } a comma begins the next key") != std::string::npos;
  };
  EXPECT_TRUE(hints("{run: x, description: A source, to see a failure.}"));
  EXPECT_TRUE(hints("{run: x, description: A source, broken}"));
  EXPECT_TRUE(hints("{run: x, description: A source, such as: this}"));
  EXPECT_FALSE(hints("{run: x, descr: A source}"));
  EXPECT_FALSE(hints("{some key: y, run: x}"));
  EXPECT_FALSE(hints("\n    run: a,\n    some key: x"));
}

TEST(Language, EveryKeyIsDescribedAndItsExampleIsTaken) {
  for (const KeyMap& map : Language()) {
    std::set<std::string_view> names;
    for (const Key* key : map.keys) {
      SCOPED_TRACE(fmt::format("{}.{}", map.name, key->name));
      EXPECT_TRUE(names.insert(key->name).second) << "twice in the table";
      EXPECT_TRUE(key->text.ends_with('.') && key->text.size() > 10);
      EXPECT_FALSE(key->since.empty());
      const std::string line = fmt::format("{}: {}", key->name, key->example);
      if (map.name == "workflow" && !key->required)
        Good(With(line + (key->name == "params" ? "" : "\nparams: {day: x, customer: x}")));
      else if (map.name == "task" && key->name != "needs" && key->name != "function" &&
               key->name != "exec" && key->name != "run")
        Good(fmt::format(
            "version: 1\nparams: {{env: x, day: x}}\ntasks:\n  a:\n    run: x\n    {}{}\n", line,
            key->name == "weight" ? "\n    pool: gpu" : ""));
      else if (map.name == "retry")
        Good(Task(fmt::format("retry: {{{}{}}}", line,
                              key->name == "max_attempts" ? "" : ", max_attempts: 3")));
      else if (map.name == "concurrency")
        Good(With(fmt::format("params: {{customer: x}}\nconcurrency: {{{}{}}}", line,
                              key->name == "limit" ? "" : ", limit: 3")));
      else if (map.name == "rate")
        Good(With(fmt::format("concurrency: {{rate: {{{}, {}}}}}", line,
                              key->name == "limit" ? "per: 1s" : "limit: 3")));
      else if (map.name == "output")
        Good(Task(fmt::format("output: {{{}}}", line)));
      else if (map.name == "resources")
        Good(Task(fmt::format("resources: {{{}}}", line)));
      else if (map.name == "condition")
        Good(Task(fmt::format("retry: {{max_attempts: 3, when: {{{}}}}}", line)));
    }
  }
}

TEST(Language, DefaultsInTheTableAreThoseOfTheModel) {
  // Writing every default out changes nothing.
  std::string workflow, task, retry;
  for (const KeyMap& map : Language())
    for (const Key* key : map.keys) {
      if (key->usual.empty()) continue;
      if (map.name == "workflow") workflow += fmt::format("{}: {}\n", key->name, key->usual);
      if (map.name == "task" && key->name != "retry")
        task += fmt::format("    {}: {}\n", key->name, key->usual);
      if (map.name == "retry") retry += fmt::format("      {}: {}\n", key->name, key->usual);
    }
  auto written = Good(fmt::format("version: 1\n{}tasks:\n  a:\n    run: x\n{}    retry:\n{}",
                                  workflow, task, retry));
  // But that the platform has no word in it.
  EXPECT_NE(std::exchange(written.tasks[0].said, 0), 0);
  EXPECT_EQ(std::exchange(written.tasks[0].start_timeout, Duration(0)),
            model::PlatformDefaults{}.start_timeout);
  EXPECT_EQ(written, Good("version: 1\ntasks: {a: {run: x}}"));
  EXPECT_GT(retry.size(), 50U);
}

TEST(Language, ConcurrencyIsTakenWithinItsBoundsAndWhereItDoesSomething) {
  const auto file = [](std::string_view keys) {
    return With(fmt::format("concurrency: {{{}}}", keys));
  };
  for (const char* good :
       {"limit: 1", "limit: 1000000", "rate: {limit: 1, per: 1us}", "rate: {limit: 10000, per: 1h}",
        "rate: {limit: 1, per: 1h}, on_conflict: skip",
        "rate: {limit: 1, per: 1h}, limit: 1, on_conflict: cancel_previous"})
    Good(file(good));
  for (const auto& [bad, says] : std::map<std::string, std::string>{
           {"limit: 0",
            "HW1111 a limit of 0 limits nothing; leave it out, or give it 1 to 1000000"},
           {"limit: 0, rate: {limit: 1, per: 1h}", "HW1111 a limit of 0 limits nothing"},
           {"limit: -1", "HW1111 -1 is out of range: it must be 1 to 1000000"},
           {"limit: 1000001", "HW1111 1000001 is out of range: it must be 1 to 1000000"},
           {"limit: 99999999999", "HW1111 99999999999 is out of range: it must be 1 to 1000000"},
           {"limit: 99999999999999999999999",
            "HW1111 99999999999999999999999 is out of range: it must be 1 to 1000000"},
           {"limit: -99999999999999999999999", "it must be 1 to 1000000"},
           {"limit: many", "a whole number belongs here"},
           {"limit: 1e9", "HW1111 1000000000 is out of range"},
           {"limit: 1e30", "a whole number belongs here"},
           {"key: [a], limit: 1", "HW1009 text belongs here"},
           {"key: {a: b}, limit: 1", "HW1009 text belongs here"},
           {"rate: 5", "HW1009 rate takes a map"},
           {"rate: {per: 1h}", "HW1008 the rate has no limit"},
           {"rate: {limit: 1}", "HW1008 the rate has no per"},
           {"rate: {limit: many, per: 1h}", "HW1009 a whole number belongs here"},
           {"rate: {limit: 1, per: 60}", "HW1010"},
           {"rate: {limit: 1, per: -1m}", "HW1010"},
           {"rate: {limit: 1, per: 100000d}", "HW1010"},
           {"rate: {limit: 1, per: [1h]}", "HW1009 a duration"},
           {"rate: {limit: 0, per: 1h}", "HW1111 a rate of 0 lets nothing start"},
           {"rate: {limit: -1, per: 1h}", "HW1111 -1 is out of range: it must be 1 to 10000"},
           {"rate: {limit: 10001, per: 1h}", "HW1111 10001 is out of range: it must be 1 to 10000"},
           {"rate: {limit: 1, per: 0s}",
            "HW1111 0s is out of range: it must be more than 0s, and at most 10 years"},
           {"key: input.x", "HW1120 limits nothing; give it a limit or a rate"},
           {"rate: {limit: 1, per: 1h}, on_conflict: cancel_previous",
            "HW1120 cancel_previous does nothing with a rate alone"}}) {
    ExpectSays(file(bad), says);
    EXPECT_EQ(FaultsOf(file(bad)).size(), 1U) << bad << "\n" << MessageOf(file(bad));
  }
}

TEST(Language, EmptyPoolTakesAwayThatOfDefaultsWithItsWeight) {
  const auto definition = Good(
      "version: 1\ndefaults: {pool: gpu, weight: 2}\ntasks:\n"
      "  a: {run: x}\n  b: {run: x, pool: ''}\n  c: {run: x, pool: db}\n");
  EXPECT_EQ(definition.tasks[0].pool, "gpu");
  EXPECT_EQ(definition.tasks[1].pool, "");
  EXPECT_EQ(definition.tasks[1].weight, 1);
  EXPECT_EQ(definition.tasks[2].weight, 2);
  ExpectSays(Task("pool: '', weight: 2"), "HW1117 says nothing without a pool");
}

TEST(Language, QueuesAndLabelsAreCheckedWherePeopleWroteThem) {
  const auto definition = Good(
      "version: 1\ndefaults: {queue: gpu, requires: [a100]}\ntasks:\n"
      "  a: {run: x}\n  b: {run: x, queue: default, requires: region=eu}\n");
  EXPECT_EQ(definition.tasks[0].queue, "gpu");
  EXPECT_EQ(definition.tasks[0].required, std::vector<std::string>{"a100"});
  EXPECT_EQ(definition.tasks[1].queue, "");
  EXPECT_EQ(definition.tasks[1].required, std::vector<std::string>{"region=eu"});
  ExpectSays(Task("queue: a b"), "HW1122 \"a b\" cannot name a queue");
  ExpectSays(Task("requires: ['']"), "HW1122 \"\" cannot be a label");
}

TEST(Language, ArtifactsAreCheckedWherePeopleWroteThem) {
  const auto file = [](std::string_view artifacts) {
    return fmt::format("version: 1\ntasks:\n  a:\n    run: x\n    artifacts:\n{}", artifacts);
  };
  EXPECT_EQ(Good(file("      r: out/${{ run.id }}.txt\n")).tasks[0].artifacts.at("r"),
            "out/${{ run.id }}.txt");
  EXPECT_EQ(FaultsOf(file("      r: x\n      1st: x\n")), Faults{"7:7 HW1123"});
  EXPECT_EQ(FaultsOf(file("      r: x\n      s: ../x\n")), Faults{"7:10 HW1124"});
  EXPECT_EQ(FaultsOf(file("      r: x\n      s: /x\n")), Faults{"7:10 HW1124"});
  EXPECT_EQ(FaultsOf(file("      r: ${{ params.no }}\n")), Faults{"6:21 HW1302"});
  for (const char* expanded : {"$HOME/x", "${HEADWORKS_SCRATCH}/x", "~/x", "'*.txt'", "out/*.whl"})
    EXPECT_EQ(FaultsOf(file(fmt::format("      r: {}\n", expanded))), Faults{"6:10 HW1124"})
        << expanded;
  for (const char* good : {"$HEADWORKS_SCRATCH/x", "${{ 2 * 3 }}", "a~", "$${{x", "a$b"})
    Good(file(fmt::format("      r: {}\n", good)));
  EXPECT_EQ(FaultsOf(file("      r: [x]\n")), Faults{"6:10 HW1009"});
  ExpectSays("version: 1\ntasks: {a: {function: f, artifacts: {r: x}}}\n",
             "HW1014 artifacts is for run and exec");
}

TEST(Language, ReservedKeysSayWhatTheyComeWithAndWhatToDoNow) {
  for (const ReservedKey& key : ReservedKeys()) {
    ExpectSays(With(fmt::format("{}: 1", key.name)), "is reserved: it comes with");
    ExpectSays(Task(fmt::format("{}: 1", key.name)), key.until_then);
  }
  EXPECT_EQ(FaultsOf(With("schedule: '0 3 * * *'")), Faults{"2:1 HW1007"});
}

TEST(Language, OwnKeysAreFreeEverywhere) {
  Good(
      "version: 1\nx-base: &base {env: {A: 1}, x-note: {deep: [1]}}\n"
      "tasks: {a: {<<: *base, run: x, retry: {x-why: flaky}}}\n");
}

TEST(Params, TypesAreDeclaredOrInferred) {
  EXPECT_EQ(ParamOf("3"), ParamOf("{default: 3}")) << "the short form means the same";
  EXPECT_EQ(ParamOf("0.5"), ParamOf("{default: 0.5}"));
  EXPECT_EQ(ParamOf("x"), ParamOf("{default: x}"));
  EXPECT_EQ(ParamOf("false").type, ParamType::kBoolean);
  EXPECT_EQ(ParamOf("[1]").type, ParamType::kArray);
  EXPECT_EQ(ParamOf("~"), Param::Plain("null"));
  EXPECT_EQ(ParamOf("'${{ run.id }}'").type, ParamType::kAny) << "known when it is made";
  EXPECT_EQ(ParamOf("{default: 3}").type, ParamType::kInteger);
  EXPECT_EQ(ParamOf("{default: 3.5}").type, ParamType::kNumber);
  EXPECT_EQ(ParamOf("2.0").type, ParamType::kNumber) << "written as one that need not be whole";
  EXPECT_EQ(ParamOf("{default: 2.0, max: 3.5}").type, ParamType::kNumber);
  EXPECT_EQ(ParamOf("{default: 2}").type, ParamType::kInteger);
  EXPECT_EQ(ParamOf("{default: true}").type, ParamType::kBoolean);
  EXPECT_EQ(ParamOf("{default: x}").type, ParamType::kString);
  EXPECT_EQ(ParamOf("{default: [1]}").type, ParamType::kArray);
  EXPECT_EQ(ParamOf("{default: {a: 1}}").type, ParamType::kObject);
  EXPECT_EQ(ParamOf("{enum: [1, 2]}").type, ParamType::kInteger);
  EXPECT_EQ(ParamOf("{required: true}").type, ParamType::kString);
  EXPECT_EQ(ParamOf("{type: date, default: 2026-01-31}").default_json, "\"2026-01-31\"");
  EXPECT_EQ(ParamOf("{type: string, default: 010, enum: [010, yes]}").allowed,
            (std::vector<std::string>{"\"010\"", "\"yes\""}))
      << "declared as text, so taken as it is written";
  EXPECT_EQ(ParamOf("{type: date, default: '${{ run.date }}'}").default_json,
            "\"${{ run.date }}\"");
}

TEST(Params, ContradictionsAreFaults) {
  const auto faults = [](std::string_view declaration) {
    return FaultsOf(With(fmt::format("params:\n  p: {}", declaration)));
  };
  EXPECT_EQ(faults("{a: 1}"), Faults{"3:6 HW1006"});
  EXPECT_EQ(faults("{}"), Faults{"3:6 HW1006"});
  EXPECT_EQ(faults("{type: int}"), Faults{"3:13 HW1010"});
  EXPECT_EQ(faults("{type: integer, defualt: 1}"), Faults{"3:22 HW1006"});
  EXPECT_EQ(faults("{typ: integer, defualt: 1}"), (Faults{"3:7 HW1006", "3:21 HW1006"}));
  EXPECT_EQ(faults("{type: integer, default: x}"), Faults{"3:31 HW1010"});
  EXPECT_EQ(faults("{type: boolean, default: yes}"), Faults{"3:31 HW1010"});
  EXPECT_EQ(faults("{type: date, default: 2026-02-30}"), Faults{"3:28 HW1010"});
  EXPECT_EQ(faults("{type: datetime, default: 2026-01-31}"), Faults{"3:32 HW1010"});
  EXPECT_EQ(faults("{default: c, enum: [a, b]}"), Faults{"3:16 HW1010"});
  EXPECT_EQ(faults("{enum: [a, [b]]}"), Faults{"3:17 HW1010"});
  EXPECT_EQ(faults("{enum: a}"), Faults{"3:13 HW1009"});
  EXPECT_EQ(faults("{enum: []}"), Faults{"3:13 HW1010"});
  EXPECT_EQ(faults("{default: 3, min: 4}"), Faults{"3:16 HW1010"});
  EXPECT_EQ(faults("{default: 3, min: 4, max: 2}"), (Faults{"3:16 HW1010", "3:24 HW1111"}));
  EXPECT_EQ(faults("{default: x, min: 4}"), Faults{"3:19 HW1014"});
  EXPECT_EQ(faults("{default: 1, pattern: x}"), Faults{"3:19 HW1014"});
  EXPECT_EQ(faults("{default: ab, pattern: a}"), Faults{"3:16 HW1010"}) << "the whole must match";
  EXPECT_EQ(faults("{pattern: '('}"), Faults{"3:16 HW1010"});
  EXPECT_EQ(faults("{required: true, default: 1}"), Faults{"3:23 HW1014"});
  ExpectSays(With("params: {p: {type: list}}"), "list is called array here");
}

TEST(Faults, OneMistakeIsToldOnce) {
  const auto of_param = [](std::string_view declaration) {
    return FaultsOf(With(fmt::format("params:\n  p: {}", declaration)));
  };
  EXPECT_EQ(of_param("{type: int, default: 1, min: 0}"), Faults{"3:13 HW1010"}) << "meant is known";
  EXPECT_EQ(of_param("{type: number, default: 1_000}"), Faults{"3:30 HW1010"});
  EXPECT_EQ(of_param("{type: number, default: 010}"), Faults{"3:30 HW1013"})
      << "a number, but which?";
  EXPECT_EQ(of_param("{type: boolean, enum: [yes, true]}"), Faults{"3:29 HW1010"});
  EXPECT_EQ(of_param("{type: number, default: 1e400}"), Faults{"3:30 HW1010"});
  EXPECT_EQ(of_param("{default: .inf}"), Faults{"3:16 HW1010"});
  EXPECT_EQ(of_param("{type: number, enum: [1, -.inf]}"), Faults{"3:31 HW1010"});
  ExpectSays(With("params: {p: {type: number, default: 1e400}}"), "write one that it can");
  EXPECT_EQ(FaultsOf(Task("retry: {max_attempts: 2, when: {exit_codse: [3]}}")).size(), 1U);
  EXPECT_EQ(FaultsOf(Task("retry: {max_attempts: 2, when: {exit_codes: [x]}}")).size(), 1U);
  EXPECT_EQ(FaultsOf(Task("retry: {max_attempts: 2, unless: {output_matches: '('}}")).size(), 1U);
  for (const char* nothing : {"{}", "{exit_codes: []}", "{output_matches: ''}", "{x-a: 1}"})
    ExpectSays(Task(fmt::format("retry: {{max_attempts: 2, when: {}}}", nothing)), "says nothing");
  EXPECT_EQ(of_param("{type: integer, enum: [a, 1], default: a}"), Faults{"3:29 HW1010"});
  EXPECT_EQ(of_param("{type: integer, required: true, default: x}"), Faults{"3:38 HW1014"});
  EXPECT_EQ(FaultsOf("version: 1\nenv: {A: }\ntasks: {a: {run: 'echo ${{ env.A }}'}}\n"),
            Faults{"2:7 HW1009"});
  EXPECT_EQ(FaultsOf("version: 1\ntasks: {a: {rn: x}}\n"), Faults{"2:13 HW1006"});
  EXPECT_EQ(FaultsOf("version: 1\ntasks: {a: {command: x}}\n"), Faults{"2:13 HW1006"});
  EXPECT_EQ(FaultsOf("version: 1\njobs: {a: {run: x}}\n"), Faults{"2:1 HW1006"});
  EXPECT_EQ(FaultsOf("version: 1\ntasks:\n  a:\n    matrix: {os: linux, py: [1]}\n"
                     "    run: echo ${{ matrix.os }}\n"),
            Faults{"4:18 HW1009"});
}

TEST(Faults, SayOnceAndInTheirOwnWordsWhatToWrite) {
  const auto says = [](const std::string& text, std::string_view message) {
    ExpectSays(text, message);
    EXPECT_EQ(FaultsOf(text).size(), 1U) << text << "\n" << MessageOf(text);
  };
  EXPECT_EQ(FaultsOf("Version: 1\ntasks: {a: {run: x}}\n"), Faults{"1:1 HW1006"});
  says(
      "version: 1\ntasks:\n  a-b: {run: x}\n"
      "  c: {run: x, needs: a-b, when: needs[\"a-b\"].state == 'failed'}\n",
      "within { } and [ ] quotes around a text with a [ or { in it");
  says("version: 1\ntasks: {a: {run: !!str 5}}\n", "the tag \"!!str\" is not taken; remove it");
  const std::string quotes = "; the quotes make text of it, so remove them\n";
  says(Task("priority: '3'"), "a whole number belongs here, not \"3\"" + quotes);
  says(Task("resources: {cpu: '3'}"), "a number belongs here, not \"3\"" + quotes);
  says(Task("allow_failure: 'true'"), "write true or false, not \"true\"" + quotes);
  says(Task("allow_failure: 'yes'"), "write true or false, not \"yes\"\n");
  says(Task("priority: 1_000"), "not \"1_000\"; leave out the _\n");
  says(Task("priority: one_more"), "not \"one_more\"\n");
  says(Task("retry: {max_attempts: 2, jitter: 99999999999999999999}"), "1e+20 is out of range");
  says(Task("resources: {cpu: ''}"), "a number belongs here, not \"\"\n");
  says(Task("resources: {cpu: -0}"), "no task runs without a processor");
  says(With("finally_timeout: 0s"), "0s is out of range: it must be more than 0s, and at most 10");
  says(Task("retry: {max_attempts: 2, initial: 5m1s}"), "5m1s is above retry.max, 5m; lower it");
  says(Task("retry: {max_attempts: 2, initial: 1500ms, max: 1s}"),
       "1s500ms is above retry.max, 1s");
  says(Task("timeout: 1.5s"), "'1.5s' is not a duration: a fraction takes a smaller unit, 1s500ms");
  says(Task("timeout: -1s"), "it is negative");
  says(Task("timeout: 5 min"), "it has a blank in it");
  says(Task("timeout: 1y"), "the units are us, ms, s, m, h and d");
  says(Task("trigger_rule: "), "one of all_success, all_failed, all_done");
  says(With("on_failure: [finish]"), "one of finish, cancel_rest belongs here, not a list");
  says("version: 1\ntasks: {a: {exec: ls -l}}\n",
       "exec takes a list, e.g. [ls, -l], not \"ls -l\"; a command line for a shell goes under "
       "`run`");
  says("version: 1\ntasks: {a: {run: [x, y]}}\n",
       "text belongs here, not a list; write the commands below `run: |`");
  says(Task("output: {type: {l: [string, integer]}}"),
       "the type of a list has exactly one type in it, e.g. [string]\n");
  says(Task("matrix: {include: [{}]}"),
       "an entry is a map from names to values, e.g. {os: linux}, "
       "not an empty one");
  says(Task("matrix: {os: [a], exclude: [{os: a}]}"), "no combination is left; take fewer away");
  EXPECT_EQ(FaultsOf(Task("matrix: {os: [a], exclude: [{os: a}]}")), Faults{"2:48 HW1016"});
  EXPECT_EQ(FaultsOf(Task("inherit_env: 1A")), Faults{"2:34 HW1112"}) << "the text, not its key";
  says(Task("env_file: ''"), "the path is empty; name a file, or remove it");
  for (const char* path : {"~", "~/x", "$HOME/x", "${HOME}"})
    for (const char* key : {"cwd: '{}'", "env_file: [x, '{}']", "env_file: '{}'"})
      says(Task(fmt::format(fmt::runtime(key), path)), "is taken as it is, without ");
  for (const char* good : {"cwd: ./~", "cwd: ~x", "cwd: '${{ run.id }}'", "cwd: '$${{ x'",
                           "cwd: './$x'", "env_file: [a$b, '${{ env.A }}/x']"})
    Good(fmt::format("version: 1\nenv: {{A: x}}\ntasks: {{a: {{run: x, {}}}}}\n", good));
  says(Task("env: {A: '${{ params.day }}'}"),
       "'params' has no field 'day'; declare it under `params`");
  says(With("params: {days: 1}\nenv: {A: '${{ params.day }}'}"), "did you mean 'days'?\n");
}

TEST(Faults, KeysOfOtherProgramsAreKnown) {
  ExpectSays("version: 1\nsteps: {a: {run: x}}\n", "unknown key \"steps\", did you mean 'tasks'?");
  ExpectSays(Task("depends_on: b"), "unknown key \"depends_on\", did you mean 'needs'?");
  ExpectSays(Task("if: 'true'"), "unknown key \"if\", did you mean 'when'?");
  ExpectSays(With("steps: []"), "unknown key \"steps\", did you mean 'tasks'?");
  ExpectSays(Task("retry: {command: x}"), "unknown key \"command\"; known here");
  ExpectSays(Task("allow_failure: '${{ matrix.x }}'"),
             "; no expression is taken here, so make what differs a task of its own");
  ExpectSays(Task("output: {n: integer}"),
             "unknown key \"n\"; a field of the result stands under type: {n: integer}");
  ExpectSays(Task("output: {mode: stdout}"), "unknown key \"mode\", did you mean 'from'?");
  struct {
    const char *file, *says;
  } const cases[] = {
      {"strategy: {matrix: {os: [a]}}", "\"strategy\"; write matrix: {os: [linux, mac]}"},
      {"always: true", "\"always\"; write trigger_rule: all_done, or put the task under finally"},
      {"attempts: 3", "\"attempts\"; write retry: {max_attempts: 4}, which counts the first try"},
      {"retries: 3", "\"retries\"; write retry: {max_attempts: 4}"},
      {"retry: {attempts: 3}", "\"attempts\", did you mean 'max_attempts'?"},
      {"retry: {max_attempts: 2, delay: 3s}", "\"delay\", did you mean 'initial'?"},
      {"retry: {max_attempts: 2, limit: 3}", "\"limit\"; write max_attempts, which counts"},
      {"retry_delay: 3s", "\"retry_delay\"; write retry: {initial: 10s}"},
      {"retry: {on_exit_codes: [1]}", "\"on_exit_codes\"; write retry: {when: {exit_codes: [75]}}"},
      {"output: json",
       "\"json\" is none of file, stdout-json, stdout-lines, stdout, did you mean "
       "'stdout-json'?"},
      {"output: {from: lines}", "did you mean 'stdout-lines'?"},
      {"steps: [{run: x}]", "\"steps\"; a task has no steps; write their commands below `run: |`"},
      {"continueOnError: true", "\"continueOnError\", did you mean 'allow_failure'?"},
      {"continue_on_error: true", "did you mean 'allow_failure'?"},
      {"timeout_minutes: 3", "did you mean 'timeout'?"},
      {"runs-on: ubuntu", "\"runs-on\"; queue and requires say which workers run a task"},
      {"uses: x", "\"uses\"; there are no actions to use"},
      {"with: {a: b}", "\"with\"; there are no actions to use"},
      {"max_active_tasks: 3", "\"max_active_tasks\"; write max_parallel at the left margin"},
      {"bash_command: x", "\"bash_command\", did you mean 'run'?"},
      {"name: build", "\"name\"; a task is called by its key, as in `build: {run: make}`"},
      {"secrets: [a]", "the key \"secrets\" is reserved"},
      {"on_exit: x", "\"on_exit\"; write a task under finally"},
      {"trigger_rule: none_failed_or_skipped", "did you mean 'none_failed_min_one_success'?"},
  };
  for (const auto& [file, says] : cases) ExpectSays(Task(file), says);
  ExpectSays(With("on: push"),
             "\"on\"; what starts runs, triggers and schedule, comes with the "
             "scheduler; until then let cron call `headworks run`");
  ExpectSays(With("max_active_tasks: 3"), "did you mean 'max_parallel'?");
  ExpectSays(With("concurrency: {group: params.a, limit: 1}"), "did you mean 'key'?");
  ExpectSays(With("concurrency: {limit: 1, on_conflict: cancel}"),
             "did you mean 'cancel_previous'?");
  ExpectSays(With("on_failure: continue"), "did you mean 'finish'?");
}

TEST(Traps, ValuesThatYamlReadsInTwoWaysAreRefusedWhereTheTypeIsTakenFromThem) {
  for (const char* trap : {"yes", "No", "OFF", "010", "08", "-07", "1_000", "0b11", "3.10",
                           "-2.50e3", "1:30", "12:30:45", "2026-01-31", "2026-01-31T08:30:00Z"}) {
    EXPECT_EQ(FaultsOf(With(fmt::format("params:\n  p: {}", trap))), Faults{"3:6 HW1013"}) << trap;
    EXPECT_EQ(FaultsOf(With(fmt::format("params:\n  p: [x, {{k: {}}}]", trap))),
              Faults{"3:14 HW1013"});
    EXPECT_EQ(FaultsOf(With(fmt::format("params:\n  p: {{default: {}}}", trap))),
              Faults{"3:16 HW1013"});
    EXPECT_EQ(FaultsOf(With(fmt::format("params:\n  p: {{enum: [a, {}]}}", trap))),
              Faults{"3:17 HW1013"});
    Good(With(fmt::format("params:\n  p: {{type: string, default: {}}}", trap)));
    Good(With(fmt::format("params:\n  p: \"{}\"", trap)));
    Good(With(fmt::format("env:\n  P: {}", trap)));
  }
  for (const char* fine : {"0", "10", "1.5", "0.5", "y", "n", "nope", "2026", "10.0.0.1", "-0",
                           "a:b", "2026-1-1", "1e3", "1.0", "0b", "0b12"})
    Good(With(fmt::format("params:\n  p: {}", fine)));
  ExpectSays(With("params: {p: 08}"), "text in older YAML; write 8, or \"08\" for the text");
  ExpectSays(With("params: {p: 3.10}"),
             "3.10 is the number 3.1; write \"3.10\" for the text, or 3.1 for the number");
  EXPECT_EQ(FaultsOf(Task("priority: 010")), Faults{"2:31 HW1013"});
  ExpectSays(Task("priority: 010"), "write 10 or 0o10");
  ExpectSays(Task("timeout: 1:30"), "write the units, e.g. 1h30m or 1m30s");
}

TEST(Defaults, MergeFieldByField) {
  const auto d = Good(R"(version: 1
defaults:
  timeout: 10m
  shell: bash
  env: {A: 1, B: 1}
  labels: {team: data}
  inherit_env: [HOME]
  output: stdout
  retry: {max_attempts: 5, initial: 2s, when: {exit_codes: [75]}}
tasks:
  a:
    run: x
    env: {B: 2, C: 2}
    retry: {max_attempts: 2, when: {output_matches: late}}
    inherit_env: [PATH]
  b: {exec: [x], timeout: 0s}
  f: {function: f}
finally:
  c: {run: x, shell: sh}
)");
  using Map = std::map<std::string, std::string>;
  ASSERT_EQ(d.tasks.size(), 4U);
  const model::Task &a = d.tasks[0], &b = d.tasks[1], &f = d.tasks[2], &c = d.tasks[3];
  EXPECT_EQ(a.timeout, std::chrono::minutes(10));
  EXPECT_EQ(a.env, (Map{{"A", "1"}, {"B", "2"}, {"C", "2"}}));
  EXPECT_EQ(a.labels, (Map{{"team", "data"}}));
  EXPECT_EQ(a.inherit_env, std::vector<std::string>{"PATH"}) << "a list is one value";
  EXPECT_EQ(a.retry.max_attempts, 2);
  EXPECT_EQ(a.retry.initial, std::chrono::seconds(2));
  EXPECT_EQ(a.retry.when, (model::RetryCondition{{75}, "late"}));
  EXPECT_EQ(std::get<model::ShellAction>(a.action).shell[0], "bash");
  EXPECT_EQ(b.timeout, Duration(0));
  EXPECT_EQ(b.retry.max_attempts, 5);
  EXPECT_EQ(b.output.mode, model::OutputMode::kStdout);
  EXPECT_EQ(f.output.mode, model::OutputMode::kFile) << "a function returns its result";
  EXPECT_EQ(std::get<model::ShellAction>(c.action).shell, std::vector<std::string>{});
}

TEST(Defaults, AreCheckedOnceWhereTheyStand) {
  EXPECT_EQ(FaultsOf(R"(version: 1
defaults: {run: x, needs: a, tmeout: 1s, priority: 2000, grace: soon}
tasks:
  a: {run: x}
  b: {run: x}
  c: {run: x, priority: 3000, retry: {max_attempts: 2, jitter: 3}}
)"),
            (Faults{"2:12 HW1006", "2:20 HW1006", "2:30 HW1006", "2:52 HW1111", "2:65 HW1010",
                    "6:25 HW1111", "6:64 HW1111"}));
}

TEST(Defaults, CopiesCountAsTheFileWrittenOut) {
  std::string text =
      "version: 1\ndefaults: {env: {A: " + std::string(1'000'000, 'x') + "}}\ntasks:\n";
  for (int i = 0; i < 540; ++i) text += fmt::format("  t{}: {{run: x}}\n", i);
  EXPECT_EQ(FaultsOf(text), Faults{"2:11 HW1003"});
}

TEST(Language, WhatGoesWithAnotherKindOfTaskOnlyIsAFault) {
  EXPECT_EQ(FaultsOf("version: 1\ntasks:\n  a: {exec: [x], shell: bash}\n"
                     "  b: {function: f, output: stdout}\n"),
            (Faults{"3:18 HW1014", "4:28 HW1014"}));
  EXPECT_EQ(
      FaultsOf("version: 1\ntasks:\n  a:\n    function: f\n    env: {A: 1}\n    env_file: e\n"
               "    inherit_env: A\n    cwd: d\n    shell: sh\n"
               "    output: {from: stdout, type: {n: integer}}\n"
               "    retry: {max_attempts: 2, when: {exit_codes: 1}, unless: {exit_codes: 2}}\n"),
      (Faults{"5:5 HW1014", "6:5 HW1014", "7:5 HW1014", "8:5 HW1014", "9:5 HW1014", "10:14 HW1014",
              "11:30 HW1014", "11:53 HW1014"}));
  EXPECT_EQ(FaultsOf(Task("shell: zsh")), Faults{"2:28 HW1010"});
  ExpectSays(Task("resources: {memory: 4GB}"), "or of KiB, MiB, GiB or TiB");
  ExpectSays(Task("shell: python3"), "write shell: [python3]\n");
  ExpectSays(Task("shell: /usr/bin/env  python3 -u a=b"),
             "write shell: [/usr/bin/env, python3, -u, \"a=b\"]\n");
  EXPECT_EQ(FaultsOf(Task("shell: []")), Faults{"2:28 HW1010"});
  EXPECT_EQ(FaultsOf(Task("output: stdot")), Faults{"2:29 HW1010"});
  EXPECT_EQ(FaultsOf(Task("output: {type: {n: int, l: [], o: {m: [integer, string]}}}")),
            (Faults{"2:40 HW1010", "2:48 HW1009", "2:59 HW1009"}));
  EXPECT_EQ(FaultsOf(Task("output: {from: stdout, type: {n: integer, text: string, o: any}}")),
            Faults{"2:51 HW1014"});
  EXPECT_EQ(FaultsOf(Task("output: {from: stdout-lines, type: {lines: [string], text: string}}")),
            Faults{"2:74 HW1014"});
  EXPECT_EQ(FaultsOf(Task("output: {from: stdout, type: {text: integer}}")), Faults{"2:57 HW1014"});
  for (const char* wrong : {"string", "[integer]", "{n: string}", "[[string]]"})
    EXPECT_EQ(
        FaultsOf(Task(fmt::format("output: {{from: stdout-lines, type: {{lines: {}}}}}", wrong))),
        Faults{"2:64 HW1014"})
        << wrong;
  for (const char* good : {"from: stdout, type: {text: date}", "from: stdout, type: {text: any}",
                           "from: stdout-lines, type: {lines: array}",
                           "from: stdout-lines, type: {lines: [datetime]}"})
    EXPECT_EQ(MessageOf(Task(fmt::format("output: {{{}}}", good))), "");
  ExpectSays(Task("output: {from: stdout, type: {text: integer}}"), "where numbers are numbers");
  EXPECT_EQ(FaultsOf(Task("output: {type: string}")), Faults{"2:36 HW1009"});
  EXPECT_EQ(FaultsOf(Task("retry: {max_attempts: 2, when: {}, unless: 3}")),
            (Faults{"2:46 HW1110", "2:64 HW1009"}));
  EXPECT_EQ(FaultsOf(Task("retry: {max_attempts: 2, when: {exit_codes: [0, 1, 255, 256, -1, x]}}")),
            (Faults{"2:66 HW1111", "2:77 HW1111", "2:82 HW1111", "2:86 HW1009"}));
  ExpectSays(Task("retry: {max_attempts: 2, unless: {exit_codes: 0}}"),
             "0 is the exit code of a success");
}

TEST(Language, WhatATaskThatIsTriedOnceSaysOfFurtherTriesIsAFault) {
  EXPECT_EQ(FaultsOf(Task("retry: {backoff: fixed, initial: 3s}")), Faults{"2:29 HW1014"});
  EXPECT_EQ(FaultsOf(Task("retry: {max_attempts: 1, unless: {exit_codes: 3}}")),
            Faults{"2:46 HW1014"});
  EXPECT_EQ(FaultsOf(Task("retry: {max: 3h}")), Faults{"2:29 HW1014"});
  EXPECT_EQ(FaultsOf(Task("retry: {jitter: 0}")), Faults{"2:29 HW1014"});
  EXPECT_EQ(FaultsOf(Task("retry: {max_attempts: x, when: {exit_codes: 3}}")),
            Faults{"2:43 HW1009"});
  Good(Task("retry: {max_attempts: 2, when: {exit_codes: 3}}"));
  Good(Task("retry: {max_losses: 2}"));
  Good(Task("retry: {max_attempts: 1, backoff: exponential, initial: 1s}"));
  const auto d = Good(
      "version: 1\ndefaults: {retry: {max_attempts: 2}, env: {A: 1}, cwd: x}\n"
      "tasks:\n  a: {run: x, retry: {backoff: fixed}}\n  f: {function: f}\n"
      "  g: {function: f, output: {type: {n: integer}}}\n");
  EXPECT_EQ(d.tasks[1].env.size() + d.tasks[1].cwd.size(), 0U) << "nothing for a function";
  EXPECT_EQ(d.tasks[2].output.type_json, R"({"n":"integer"})");
  Good("version: 1\ndefaults: {retry: {backoff: fixed}}\ntasks: {a: {run: x}}\n");
}

TEST(Language, ResourcesAndStartTimeoutAreReadFieldByField) {
  const auto workflow = Good(
      "version: 1\ndefaults: {start_timeout: 2m, resources: {cpu: 0.5, memory: 1GiB}}\n"
      "tasks:\n  a: {run: x}\n  b: {run: x, start_timeout: 5s, resources: {cpu: 2}}\n");
  const model::Task& a = workflow.tasks.at(0);
  EXPECT_EQ(a.start_timeout, std::chrono::minutes(2));
  EXPECT_EQ(a.resources, (model::Resources{0.5, std::uint64_t{1} << 30}));
  const model::Task& b = workflow.tasks.at(1);
  EXPECT_EQ(b.start_timeout, std::chrono::seconds(5));
  EXPECT_EQ(b.resources, (model::Resources{2, std::uint64_t{1} << 30}));
}

TEST(Language, ResourcesAndStartTimeoutAreBounded) {
  Good(Task("start_timeout: 1us"));
  EXPECT_EQ(FaultsOf(Task("start_timeout: 0s")).size(), 1U);
  EXPECT_EQ(FaultsOf(Task("start_timeout: 5")).size(), 1U);
  Good(Task("resources: {cpu: 0.001, memory: 1}"));
  Good(Task("resources: {cpu: 1024, memory: 1024TiB}"));
  for (const char* bad :
       {"{cpu: 0}", "{cpu: 0.0009}", "{cpu: 1024.5}", "{cpu: -1}", "{cpu: two}", "{memory: 0}",
        "{memory: 1025TiB}", "{memory: 1GB}", "{memory: -1}", "{gpu: 1}", "4GiB"})
    EXPECT_EQ(FaultsOf(Task(fmt::format("resources: {}", bad))).size(), 1U) << bad;
}

TEST(Language, WhatIsSaidAsItIsWithoutAWordIsKept) {
  const auto silent = Good(Task("priority: 0"));
  const auto said = Good(Task("timeout: 0s, retry: {max_attempts: 1, jitter: 0.2}"));
  EXPECT_NE((*model::Workflow::Create(said))->version(),
            (*model::Workflow::Create(silent))->version());
  const model::Task& task = said.tasks.at(0);
  EXPECT_TRUE(task.Says(model::Gap::kTimeout));
  EXPECT_TRUE(task.Says(model::Gap::kMaxAttempts));
  EXPECT_TRUE(task.Says(model::Gap::kJitter));
  EXPECT_FALSE(task.Says(model::Gap::kInitial));
}

}  // namespace
}  // namespace headworks::spec
