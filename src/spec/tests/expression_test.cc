#include "expression_types.h"
#include "parse.h"
#include "scalar_place.h"

namespace headworks::spec {
namespace {

using Faults = std::vector<std::string>;

void ExpectSays(std::string_view text, std::string_view message) {
  EXPECT_NE(MessageOf(text).find(message), std::string::npos) << text << "\n" << MessageOf(text);
}

/// A file with parameters of every kind, whose task `t` has these lines.
std::string Task(std::string_view lines) {
  return fmt::format(R"(version: 1
params:
  s: text
  n: {{type: integer, default: 1}}
  x: {{type: number, default: 1.5}}
  flag: false
  list: [1]
  map: {{type: object, default: {{a: 1}}}}
  day: {{type: date}}
env: {{A: x}}
tasks:
  up: {{run: x, output: {{type: {{n: integer, l: [string], o: {{k: boolean}}}}}}}}
  a-b: {{run: x}}
  other: {{run: x}}
  m: {{run: x, matrix: {{os: [a, b], i: [1, 2]}}}}
  t:
    needs: [up, a-b, m]
{})",
                     lines);
}
std::string When(std::string_view expression) {
  return Task(fmt::format("    run: x\n    when: \"{}\"\n", expression));
}
std::string Exec(std::string_view text) {
  return Task(fmt::format("    exec: [x, \"{}\"]\n", text));
}

TEST(Expressions, WhatIsDeclaredIsKnown) {
  for (const char* good :
       {"params.n > 1", "params.s == 'x' && !params.flag", "params.x > 1.0",
        "params.list.size() > 0", "params.map.anything == 1",
        "params.day != null && params.day < '2027'", "needs.up.output.n + 1 > 2",
        "needs.up.output.o.k", "'x' in needs.up.output.l", "needs.up.state == 'succeeded'",
        "needs['a-b'].output.undeclared == 3", "needs.m.outputs.all(o, o.ok)",
        "needs.m.matrices[0].os == 'a'", "'failed' in needs.m.states",
        "run.id != '' && run.workflow == 'w'", "slot == null", "input.anything == 1", "true"})
    EXPECT_EQ(MessageOf(When(good)), "") << good;
  for (const char* good : {"${{ params.s }}", "n=${{ params.n }} ${{ env.A }}", "$${{ no }}",
                           "${{ needs.up.output.l.join(',') }}"})
    EXPECT_EQ(MessageOf(Exec(good)), "") << good;
}

TEST(Expressions, TextAndLinesOfStdoutAreKnownUndeclared) {
  const auto when = [](std::string_view expression) {
    return fmt::format(
        "version: 1\ntasks:\n  text: {{run: x, output: stdout}}\n  lines: {{run: x, output: "
        "stdout-lines}}\n  t: {{run: x, needs: [text, lines], when: \"{}\"}}\n",
        expression);
  };
  for (const char* good : {"needs.text.output.text == 'x'", "has(needs.text.output.text)",
                           "'x' in needs.lines.output.lines"})
    EXPECT_EQ(MessageOf(when(good)), "");
  ExpectSays(when("needs.text.output.result == 'x'"),
             "HW1302 'needs.text.output' has no field 'result'; it has text");
  ExpectSays(when("needs.text.output == 'x'"), "HW1303");
  ExpectSays(when("needs.lines.output.lines == 3"), "HW1303");
  ExpectSays(when("needs.lines.output.lines[0] > 3"), "HW1303");
}

TEST(Expressions, ArtifactsAreKnownWhereFilesAre) {
  const auto file = [](std::string_view lines) {
    return fmt::format(
        "version: 1\ntasks:\n  a: {{run: x, artifacts: {{report: r.txt, a-b: s}}}}\n  none: {{run: "
        "x}}\n"
        "  m: {{run: x, artifacts: {{out: o}}, matrix: {{os: [a, b]}}}}\n"
        "  t:\n    needs: [a, none, m]\n{}",
        lines);
  };
  const auto exec = [&](std::string_view text) {
    return file(fmt::format("    exec: [x, \"${{{{ {} }}}}\"]\n", text));
  };
  for (const char* good : {"needs.a.artifacts.report", "needs.a.artifacts['a-b']",
                           "needs.m.artifacts[0].out", "needs.m.artifacts.map(f, f.out).join(' ')"})
    EXPECT_EQ(MessageOf(exec(good)), "") << good;
  ExpectSays(exec("needs.a.artifacts.reprot"), "report");
  EXPECT_EQ(FaultsOf(exec("needs.a.artifacts.reprot")).size(), 1U);
  ExpectSays(exec("needs.a.artifacts.reprot"), "HW1302");
  ExpectSays(exec("needs.none.artifacts.x"), "the needed task declares none");
  ExpectSays(exec("needs.m.artifacts.out"), "HW130");
  ExpectSays(exec("needs.a.artifacts.report + 1"), "HW1303");
  ExpectSays(file("    run: x\n    when: needs.a.artifacts.report != ''\n"),
             "conditions are asked before");
  ExpectSays(file("    function: f\n    idempotency_key: ${{ needs.a.artifacts.report }}\n"),
             "HW1302");
}

/// Of the matrix of `build`, t[gcc] needs two instances and t[clang] one; `alone` needs one each.
std::string OneHereSeveralThere(std::string_view expression, std::string_view task = "t") {
  std::string text =
      "version: 1\ntasks:\n  build:\n    run: x\n    artifacts: {bin: x}\n"
      "    output: {type: {n: integer}}\n"
      "    matrix: {include: [{cc: gcc, v: 1}, {cc: gcc, v: 2}, {cc: clang, v: 3}]}\n";
  for (const auto& [name, matrix] :
       {std::pair("t", "{cc: [gcc, clang]}"), {"alone", "{v: [1, 2]}"}})
    text +=
        fmt::format("  {}:\n    needs: [build]\n    matrix: {}\n    exec: [x, \"${{{{ {} }}}}\"]\n",
                    name, matrix, name == task ? expression : "1");
  return text;
}

TEST(Expressions, ANeedWithAMatrixHasItsListsInEveryCombination) {
  for (const char* task : {"t", "alone"})
    for (const char* good :
         {"needs.build.outputs.all(o, o.n > 0)", "needs.build.states[0]",
          "needs.build.matrices[0].cc", "needs.build.all_artifacts.map(a, a.bin).join(' ')",
          "(has(needs.build.outputs) ? needs.build.outputs : [needs.build.output]).size()",
          "has(needs.build.output) ? needs.build.output.n : 0"})
      EXPECT_EQ(MessageOf(OneHereSeveralThere(good, task)), "") << task << " " << good;
  for (const char* one : {"needs.build.output.n", "needs.build.state", "needs.build.matrix.cc",
                          "needs.build.artifacts.bin"}) {
    EXPECT_EQ(MessageOf(OneHereSeveralThere(one, "alone")), "") << one;
    EXPECT_EQ(FaultsOf(OneHereSeveralThere(one)).size(), 1U) << one;
    ExpectSays(OneHereSeveralThere(one), "HW1302");
  }
  ExpectSays(OneHereSeveralThere("needs.build.output.n"),
             "'needs.build' has no field 'output' in combinations that need several; read outputs, "
             "a list that is there in all, or ask first: has(needs.build.output) ? ");
  ExpectSays(OneHereSeveralThere("needs.build.artifacts.bin"), "all_artifacts");
  EXPECT_EQ(MessageOf(OneHereSeveralThere("needs.build.artifacts.bin")).find("declares none"),
            std::string::npos);
  ExpectSays(OneHereSeveralThere("needs.build.outputs[0].m"), "has no field 'm'");
}

TEST(Expressions, FaultsHaveCodesByKind) {
  const auto codes = [](std::string_view expression) {
    Faults faults = FaultsOf(When(expression));
    for (std::string& fault : faults) fault = fault.substr(fault.find(' ') + 1);
    return faults;
  };
  EXPECT_EQ(codes("params.n >"), Faults{"HW1301"});
  EXPECT_EQ(codes(""), Faults{"HW1301"});
  EXPECT_EQ(codes("${{ params.flag }}"), Faults{"HW1301"});
  EXPECT_EQ(codes("params.m == 1"), Faults{"HW1302"});
  EXPECT_EQ(codes("needs.up.output.m == 1 || nope"), (Faults{"HW1302", "HW1302"}));
  EXPECT_EQ(codes("env.A == 'x'"), Faults{"HW1302"}) << "only texts that are rendered see env";
  EXPECT_EQ(codes("matrix.os == 'a'"), Faults{"HW1302"}) << "the task has no matrix";
  EXPECT_EQ(codes("run.outcome == 'failed'"), Faults{"HW1302"});
  EXPECT_EQ(codes("params.s > 1"), Faults{"HW1303"});
  EXPECT_EQ(codes("params.n"), Faults{"HW1303"});
  EXPECT_EQ(codes("needs.m.output.x"), Faults{"HW1302"}) << "several instances";
  EXPECT_EQ(FaultsOf(Exec("${{ params.list }}")).size(), 1U);
  EXPECT_EQ(FaultsOf(Exec("x ${{ null }}")).size(), 1U);
  EXPECT_EQ(FaultsOf(Exec("${{ params.s")).size(), 1U);
}

TEST(Expressions, MessagesSayWhatToWrite) {
  ExpectSays(When("needs.other.state == 'x'"),
             "there is such a task, so add it to this task's needs");
  ExpectSays(When("needs['other'].state == 'x'"), "so add it to this task's needs");
  EXPECT_EQ(MessageOf(When("needs.a-b.state == 'x'")).find("add it to"), std::string::npos)
      << "it stands there";
  ExpectSays(
      "version: 1\ntasks: {a: {run: x}}\nfinally: {f: {run: x, when: needs.a.state == 'x'}}\n",
      "a task under finally sees run.outcome, run.reason and run.failed_tasks instead");
  ExpectSays(
      "version: 1\ntasks: {a: {run: x, when: needs.f.state == 'x'}}\nfinally: {f: {run: x}}\n",
      "that task runs elsewhere, so nothing of it is known here");
  ExpectSays(When("needs.upp.state == 'x'"), "did you mean 'up'?");
  ExpectSays(When("params.lst == []"), "did you mean 'list'?");
  ExpectSays(When("needs.a-b.state == 'x'"), "needs[\"a-b\"]");
  ExpectSays(When("${{ params.flag }}"), "leave out ${{ and }}");
  ExpectSays(When("params.n"), "this is int; compare it");
  ExpectSays(When("run.outcome == 'failed'"), "known to tasks under finally only");
  ExpectSays(When("run.reason == 'run_timeout'"), "known to tasks under finally only");
  ExpectSays("version: 1\nenv: {A: '${{ needs.a.state }}'}\ntasks: {a: {run: x}}\n",
             "needs is known in a task only");
  ExpectSays("version: 1\ntasks:\n  a:\n    run: x\n    when: !params.flag\n", "in quotes");
  ExpectSays("version: 1\ntasks: {a: {run: echo ${{ run.id }}}}\n", "needs quotes");
  ExpectSays(Exec("${{ params.s"), "the '${{' that opens here is never closed");
}

TEST(Expressions, NamesOfOtherProgramsAreKnown) {
  struct {
    const char *when, *says;
  } const cases[] = {
      {"always()",
       "'always' is not known here; what runs however others ended has trigger_rule: "
       "all_done, or stands under finally"},
      {"!failure()",
       "has trigger_rule: one_failed, or stands under finally with when: run.outcome"},
      {"success() && true", "unless its trigger_rule says otherwise; leave it out"},
      {"cancelled()", "stands under on_cancel"},
      {"[1].sum() > 0", "'sum' is not known here; a script adds up what it gets by env"},
      {"[1, 2].max() == 2",
       "'max' is not known here; the largest of a list of numbers is "
       "math.greatest(list)"},
      {"inputs.x == 1", "'inputs' is not known here; what a run is given is params.NAME"},
      {"github.ref == 'x'", "a run knows run.id"},
      {"steps.up.output == 1", "needs.ID.output.NAME"},
      {"run.status == 'failed'", "'status' is not known here; how the run went is run.outcome"},
      {"exists('x')", "'exists' goes over a list or a map, written list.exists(x, x == 1)"},
      {"params.flag and params.flag", "unexpected 'and'; write && for it"},
      {"params.flag or params.flag", "unexpected 'or'; write || for it"},
      {"not params.flag", "unexpected 'params'; write ! for 'not'"},
      {"params.s not in ['x']", "unexpected 'not'; write ! for it, e.g. !(x in list)"},
      {"needs.up.state == success", "text goes into quotes"},
  };
  for (const auto& [when, says] : cases) ExpectSays(When(when), says);
  EXPECT_EQ(MessageOf(When("needs.up.output.o.always == 1")).find("trigger_rule"),
            std::string::npos);
}

TEST(Expressions, ExecIsHeldToWhatProgramsReadAsCode) {
  const auto exec = [](std::string_view list) { return Task(fmt::format("    exec: {}\n", list)); };
  EXPECT_EQ(FaultsOf(exec("[sh, -c, 'echo ${{ params.s }}']")), Faults{"18:30 HW1305"});
  ExpectSays(exec("[sh, -c, 'echo ${{ params.s }}']"),
             "'${{ params.s }}' is read by sh as its program or the name of one; pass it as an "
             "argument (sh -c '... \"$1\"' sh VALUE, awk -v x=VALUE), or put it into env (env: "
             "{VALUE: \"...\"}) and let the program read VALUE there");
  EXPECT_EQ(FaultsOf(exec("['${{ params.s }}', x]")), Faults{"18:17 HW1305"});
  ExpectSays(exec("[timeout, 5, '${{ params.s }}']"),
             "names the program to run; write its name here, or choose");
  EXPECT_EQ(FaultsOf(exec("[python3, -c, '${{ params.s }}', '${{ nope }}']")),
            (Faults{"18:30 HW1305", "18:49 HW1302"}));
  for (const char* good :
       {"[sh, -c, 'echo \"$1\"', sh, '${{ params.s }}']", "[python3, x.py, '--n=${{ params.n }}']",
        "[echo, '${{ params.s }}']", "[./load, '${{ params.s }}']",
        "[sed, s/a/b/, --, '${{ params.s }}']", "[if, '${{ params.s }}']"})
    EXPECT_EQ(MessageOf(exec(good)), "") << good;
  const auto cc = [](std::string_view compilers) {
    return fmt::format(
        "version: 1\nparams: {{s: x}}\ntasks:\n  a:\n    matrix: {{cc: {}}}\n"
        "    exec: ['${{{{ matrix.cc }}}}', -c, '${{{{ params.s }}}}']\n",
        compilers);
  };
  EXPECT_EQ(MessageOf(cc("[gcc, clang]")), "");
  EXPECT_EQ(FaultsOf(cc("[gcc, sh]")), Faults{"6:41 HW1305"});
  ExpectSays(cc("[gcc, sh]"), "(matrix: {\"cc\":\"sh\"})");
}

TEST(Expressions, WhatIsNeverClosedIsToldWhereItWasOpened) {
  EXPECT_EQ(
      FaultsOf("version: 1\ntasks:\n  a:\n    run: |\n      echo ${{ run.id }\n      echo two\n"
               "      echo ${{ run.id }}\n"),
      Faults{"5:12 HW1301"});
  EXPECT_EQ(FaultsOf("version: 1\ntasks:\n  a:\n    run: |\n      echo ${{ run.id\n      it's; \n"),
            Faults{"5:12 HW1301"});
}

TEST(Expressions, DefaultsAreTriedOnARunThatMightBe) {
  const auto file = [](std::string_view param) {
    return fmt::format("version: 1\nparams:\n  p: {}\ntasks: {{a: {{run: x}}}}\n", param);
  };
  for (const std::string_view good :
       {"{type: date, default: '${{ run.date }}'}", "'${{ run.created_at }}'",
        "{type: datetime, default: '${{ run.created_at }}'}",
        "{type: date, default: '${{ slot }}'}", "{default: 'x-${{ slot }}'}",
        "{type: array, default: ['${{ run.date }}', [{k: '${{ slot }}'}]]}",
        "{type: object, default: {a: {b: 'to ${{ run.date }}'}}}", "['${{ run.date }}']",
        "{type: integer, default: '${{ size(run.id) }}', max: 36}"})
    EXPECT_EQ(MessageOf(file(good)), "") << good;
  for (const std::string_view bad : {"{type: date, default: '${{ run.created_at }}'}",
                                     "{type: integer, default: '${{ size(run.id) }}', max: 35}",
                                     "{type: integer, default: '${{ int(run.id) }}'}",
                                     "{type: object, default: ['${{ run.id }}']}",
                                     "{type: array, default: ['${{ int(run.id) }}']}"})
    EXPECT_NE(MessageOf(file(bad)).find("HW1306"), std::string::npos) << bad;
}

TEST(Expressions, TemplatesWithinDefaultsAreCheckedAtTheirPlace) {
  EXPECT_EQ(FaultsOf("version: 1\nparams:\n  l: {type: array, default: [a, '${{ run.nope }}']}\n"
                     "  o: {type: object, default: {k: ['${{ params.l }}']}}\n"
                     "  p: ['${{ nope }}']\n  q: {type: object, default: {'${{ run.id }}': 1}}\n"
                     "tasks: {a: {run: x}}\n"),
            (Faults{"3:42 HW1302", "4:40 HW1302", "5:12 HW1302", "6:31 HW1301"}));
}

TEST(Expressions, AParameterThatMayBeNullIsComparedWithNull) {
  const auto file = [](std::string_view param, std::string_view when) {
    return fmt::format("version: 1\nparams: {{p: {}}}\ntasks: {{a: {{run: x, when: \"{}\"}}}}\n",
                       param, when);
  };
  for (const char* param :
       {"{type: string}", "{type: date, default: '${{ slot }}'}", "{enum: [a, b]}",
        "{description: d}", "{type: string, default: null}", "null"})
    for (const char* when : {"params.p == null || params.p == 'a'",
                             "params.p != null && params.p > 'a'", "params.p.startsWith('a')"})
      EXPECT_EQ(MessageOf(file(param, when)), "") << param;
  for (const char* param : {"{type: string, required: true}", "{type: string, default: a}", "a"})
    EXPECT_EQ(FaultsOf(file(param, "params.p == null")).size(), 1U) << param;
}

TEST(Expressions, WhatSomeCombinationsLackIsReadUnderACondition) {
  const auto faults = [](std::string_view when) {
    return FaultsOf(
        fmt::format("version: 1\ntasks:\n  a:\n    matrix: {{os: [linux, mac], include: "
                    "[{{os: mac, x: 1}}]}}\n    run: y\n    when: \"{}\"\n",
                    when));
  };
  for (const char* good :
       {"has(matrix.x)", "has(matrix.x) && matrix.x == 1", "matrix.x == 1 && has(matrix.x)",
        "has(matrix.x) ? matrix.x == 1 : false", "matrix.os == 'mac' && matrix.x == 1",
        "!has(matrix.x) || matrix['x'] == 1", "'x' in matrix && matrix.x == 1"})
    EXPECT_EQ(faults(good), Faults{}) << good;
  EXPECT_EQ(faults("matrix.x == 1"), Faults{"6:19 HW1302"});
  EXPECT_EQ(faults("matrix['x'] == 1"), Faults{"6:19 HW1302"});
  EXPECT_EQ(faults("run.id != '' && matrix.x == 1"), Faults{"6:35 HW1302"});
  EXPECT_EQ(faults("matrix.x == 1 || matrix.x == 2"), (Faults{"6:19 HW1302", "6:36 HW1302"}));
  EXPECT_EQ(faults("(matrix.x == 1 ? 1 : 2) == 1"), Faults{"6:20 HW1302"});
  ExpectSays(
      "version: 1\ntasks:\n  a:\n    matrix: {include: [{os: mac, v: 1, x: 1}, {os: linux, v: "
      "2}]}\n"
      "    run: echo ${{ matrix.x }}\n",
      "'matrix' has no field 'x' with os = \"linux\", v = 2; give it a value there, or ask "
      "first: has(matrix.x) ? matrix.x : ...");
  EXPECT_EQ(
      FaultsOf("version: 1\ntasks:\n  a: {matrix: {os: [l, m], include: [{os: m, x: 1}]}, run: y}\n"
               "  b: {needs: a, run: y, when: 'needs.a.matrices.exists(m, m.x == 1)'}\n"
               "  c: {needs: a, run: y, when: 'needs.a.matrices.exists(m, has(m.x) && m.x == 1)'}\n"
               "  d: {needs: a, run: y, matrix: {os: [l, m]}, when: 'needs.a.matrix.x == 1'}\n"
               "  e: {needs: a, run: y, when: 'needs.a.matrices.filter(m, has(m.x)).all(m, m.x == "
               "1)'}\n"),
      (Faults{"4:61 HW1302", "6:69 HW1302"}));
}

TEST(Expressions, AConditionAboutTheCombinationDecidesForTheOtherTexts) {
  const auto faults = [](std::string_view when) {
    return FaultsOf(
        fmt::format("version: 1\ntasks:\n  a:\n    matrix: {{include: [{{v: 1, x: 1}}, "
                    "{{v: 2}}]}}\n    when: \"{}\"\n    run: echo ${{{{ matrix.x }}}}\n",
                    when));
  };
  EXPECT_EQ(faults("has(matrix.x)"), Faults{});
  EXPECT_EQ(faults("matrix.v == 1"), Faults{});
  EXPECT_EQ(faults("run.id != ''"), Faults{"6:26 HW1302"});
}

TEST(Expressions, NamesOfVariablesAreSharedByTasks) {
  WorkflowDraft draft;
  draft.definition.env = {{"A", "1"}};
  draft.definition.tasks.resize(3);
  draft.definition.tasks[1].env = {{"A", "2"}};
  draft.definition.tasks[2].env = {{"B", "2"}};
  const ExpressionTypes types(draft);
  const expr::Environment first = types.OfTask(0, true), second = types.OfTask(1, true);
  EXPECT_EQ(&first.Find("env")->fields(), &second.Find("env")->fields())
      << "100,000 tasks do not make 100,000 lists";
  EXPECT_EQ(types.OfTask(2, true).Find("env")->fields().size(), 2U);
}

TEST(Expressions, EachPlaceKnowsWhatItCanKnow) {
  EXPECT_EQ(FaultsOf(R"(version: 1
params:
  a: ${{ run.id }}
  b: {type: integer, default: "${{ params.a }}"}
env:
  A: ${{ params.a }}
  B: ${{ matrix.os }}
defaults:
  env: {C: "${{ env.A }}", D: "${{ needs.up.state }}"}
tasks:
  up:
    run: x
    cwd: ${{ params.a }}
    idempotency_key: ${{ run.id }}-${{ parms.a }}
    env_file: [a, "${{ nope }}"]
    env: {E: "${{ env.A }}"}
  m:
    matrix: {os: [a, b], include: [{os: a, extra: 1}]}
    when: matrix.os == 'a' && matrix.extra == 1
    exec: ["${{ matrix.so }}", "${{ env.C }}"]
finally:
  f: {run: x, when: "run.outcome == 'failed' || 'up' in run.failed_tasks"}
)"),
            (Faults{"4:36 HW1302", "7:10 HW1302", "9:36 HW1302", "14:40 HW1302", "15:24 HW1302",
                    "20:24 HW1302"}));
}

TEST(Expressions, ValuesOfTheMatrixCountAsTextOfTheScript) {
  const auto message = [](std::string_view values, std::string_view script) {
    return MessageOf(
        fmt::format("version: 1\nparams: {{s: x}}\ntasks:\n  t:\n    matrix: {{cc: [{}]}}\n"
                    "    run: |\n      {}\n",
                    values, script));
  };
  EXPECT_EQ(message("gcc, clang", "${{ matrix.cc }} -c x.c -o ${{ params.s }}"), "");
  EXPECT_NE(message("gcc", "${{ params.s }} x").find("names the program to run"),
            std::string::npos);
  const std::string refused = message("gcc, eval", "${{ matrix.cc }} -c ${{ params.s }}");
  EXPECT_NE(refused.find("is read by eval as code"), std::string::npos) << refused;
  EXPECT_NE(refused.find("(matrix: {\"cc\":\"eval\"})"), std::string::npos) << refused;
  EXPECT_EQ(message("x.sh, y.sh", "timeout 5 sh ${{ matrix.cc }} ${{ params.s }}"), "");
  EXPECT_NE(message("x.sh, -c", "timeout 5 sh ${{ matrix.cc }} ${{ params.s }}")
                .find("(matrix: {\"cc\":\"-c\"})"),
            std::string::npos);
}

TEST(Expressions, StatesThatNeverComeAreFaults) {
  const auto finally = [](std::string_view when) {
    return MessageOf(fmt::format(
        "version: 1\ntasks: {{t: {{run: x}}}}\nfinally: {{f: {{run: x, when: \"{}\"}}}}\n", when));
  };
  for (const char* good :
       {"run.outcome == 'failed'", "'cancelled' != run.outcome", "run.outcome in ['failed']",
        "run.outcome + 'x' == 'failedx'", "(true ? run.outcome : 'x') == 'x'",
        "run.outcome == run.id", "cel.bind(o, run.outcome, o == 'succeeded')"})
    EXPECT_EQ(finally(good), "") << good;
  for (const char* bad :
       {"run.outcome == 'failure'", "run.outcome != 'failure'", "'failure' == run.outcome",
        "run.outcome in ['failed', 'failure']", "['x'].exists(x, 'failure' == run.outcome)",
        "cel.bind(o, run.outcome, o == 'failure')"})
    EXPECT_NE(finally(bad).find("is never 'failure'; it is succeeded, failed or cancelled"),
              std::string::npos)
        << bad << "\n"
        << finally(bad);
  EXPECT_NE(finally("run.outcome == 'succeded'").find("did you mean 'succeeded'?"),
            std::string::npos);
  ExpectSays(When("needs.up.state == 'success'"),
             "'needs.up.state' is never 'success'; it is succeeded, failed, skipped, "
             "upstream_failed or cancelled");
  ExpectSays(When("'ok' in needs.m.states"), "is never 'ok'");
  ExpectSays(When("needs.m.states.all(s, s != 'ok')"), "is never 'ok'");
  ExpectSays(When("needs.up.state == 'running'"), "is never 'running'");
  EXPECT_EQ(MessageOf(Task("    trigger_rule: one_done\n    run: x\n"
                           "    when: needs.up.state == 'running'\n")),
            "");
}

TEST(Expressions, TextsThatAMatrixOrAParameterNeverHasAreFaults) {
  const auto says = [](std::string_view when) {
    return MessageOf(fmt::format(
        "version: 1\nparams: {{env: {{enum: [dev, prod], default: dev}}, n: {{enum: [1, 2], "
        "default: 1}}, maybe: {{enum: [a, b]}}}}\n"
        "tasks:\n"
        "  b: {{run: x, matrix: {{os: [linux, mac], py: [3, 4], mixed: [a, 1], include: [{{os: "
        "bsd, "
        "py: 3, mixed: c, cc: gcc}}]}}}}\n"
        "  t: {{run: x, needs: b, matrix: {{os: [linux, mac], py: [3, 4], mixed: [a, 1], "
        "include: [{{os: bsd, py: 3, mixed: c, cc: gcc}}]}}, when: \"{}\"}}\n",
        when));
  };
  for (const char* good :
       {"matrix.os == 'linux'", "matrix.os == 'bsd'", "matrix.os in ['mac', 'bsd']",
        "matrix.os + 'x' == 'y'", "matrix.mixed == 'z'", "matrix.py == 5",
        "matrix.os == params.env", "params.env != 'prod'",
        "params.maybe == null || params.maybe == 'a'", "params.n == 3",
        "has(matrix.cc) && matrix.cc == 'gcc'", "needs.b.matrices.exists(m, m.os == 'mac')"})
    EXPECT_EQ(says(good), "") << good;
  for (const char* bad : {"matrix.os == 'linx'", "matrix.os in ['mac', 'linx']",
                          "'linx' != matrix.os", "needs.b.matrices.exists(m, m.os == 'linx')"})
    EXPECT_NE(says(bad).find("is never 'linx'; it is bsd, linux or mac, did you mean 'linux'?"),
              std::string::npos)
        << bad << "\n"
        << says(bad);
  EXPECT_NE(says("has(matrix.cc) && matrix.cc == 'gc'").find("it is gcc, did"), std::string::npos);
  EXPECT_NE(says("params.env == 'prd'").find("it is dev or prod, did you mean 'prod'?"),
            std::string::npos);
  EXPECT_NE(says("params.maybe == 'c'").find("it is a or b"), std::string::npos);
}

TEST(Expressions, VeryManyTextsAreNotAllListed) {
  std::string list;
  for (int i = 10; i < 30; ++i) list += fmt::format("{}v{}", i == 10 ? "" : ", ", i);
  ExpectSays(
      fmt::format("version: 1\ntasks: {{t: {{run: x, matrix: {{v: [{}]}}, when: 'matrix.v == "
                  "\"release\"'}}}}\n",
                  list),
      "'matrix.v' is never 'release'; it is v10, v11, v12, v13, v14, v15, v16, v17, v18, "
      "v19, ...\n");
}

TEST(Expressions, ScriptsTakeOnlyWhatAShellSeesAsOneWord) {
  const auto run = [](std::string_view more, std::string_view script) {
    return FaultsOf(Task(fmt::format("{}    run: |\n      true\n      {}\n", more, script)));
  };
  for (const char* good : {"echo ${{ params.s }}", "echo \"a ${{ params.n }}\"",
                           "# ${{ nothing is looked at here", "echo '$${{'"}) {
    EXPECT_EQ(run("", good), Faults{}) << good;
    EXPECT_EQ(run("    shell: bash\n", good), Faults{}) << good;
    EXPECT_EQ(run("    shell: [/usr/bin/dash, -e]\n", good), Faults{}) << good;
  }
  EXPECT_EQ(run("", "echo '${{ params.s }}'"), Faults{"20:13 HW1305"});
  EXPECT_EQ(run("", "eval ${{ params.s }}").size(), 1U);
  EXPECT_EQ(run("", "echo ${{ params.list }}").size(), 1U);
  EXPECT_EQ(run("", "echo ${{ params.nope }}"), Faults{"20:23 HW1302"});
  EXPECT_EQ(run("    shell: [python3]\n", "print(${{ params.n }})").size(), 1U);
  ExpectSays(Task("    run: python3 -c 'print(${{ params.n }})'\n"), "env");
}

TEST(Expressions, OneOfSeveralInstancesIsSeenAsOne) {
  const auto faults = [](std::string_view when) {
    return FaultsOf(fmt::format(R"(version: 1
tasks:
  build: {{run: x, matrix: {{os: [a, b]}}, output: {{type: {{n: integer}}}}}}
  same: {{run: x, needs: build, matrix: {{os: [a, b]}}, when: "{0}"}}
)",
                                when));
  };
  EXPECT_EQ(faults("needs.build.output.n > 1 && needs.build.matrix.os == matrix.os"), Faults{});
  EXPECT_EQ(faults("needs.build.outputs[0].n > 1"), Faults{}) << "the lists are always there";
  EXPECT_EQ(faults("needs.build.outputs.n > 1").size(), 1U);
}

TEST(Expressions, PlacesWithinScalarsAreExact) {
  const auto place = [](std::string_view lines) {
    const Faults faults = FaultsOf(Task(lines));
    return faults.size() == 1 ? faults[0] : fmt::format("{} faults", faults.size());
  };
  // The fault is the name "nope"; line 18 is the first of `lines`.
  EXPECT_EQ(place("    exec: [x]\n    when: nope\n"), "19:11 HW1302");
  EXPECT_EQ(place("    exec: [x]\n    when: true && nope\n"), "19:19 HW1302");
  EXPECT_EQ(place("    exec: [x]\n    when: 'params.s == ''a'' && nope'\n"), "19:33 HW1302");
  EXPECT_EQ(place("    exec: [x]\n    when: \"params.s == \\\"\\u00e4\\\" && nope\"\n"),
            "19:38 HW1302");
  EXPECT_EQ(place("    exec: [x]\n    when: &anchor true && nope\n"), "19:27 HW1302");
  EXPECT_EQ(place("    exec: [x]\n    when: true &&\n      !params.flag\n      && nope\n"),
            "21:10 HW1302");
  EXPECT_EQ(place("    exec: [x]\n    when:\n      - true\n      -   nope\n"), "21:11 HW1302");
  EXPECT_EQ(place("    exec:\n      - |\n        one\n\n        two ${{ nope }}\n"),
            "22:17 HW1302");
  EXPECT_EQ(
      place("    exec:\n      - >-  # folded\n        one\n        two ${{ nope }}\n\n      - x\n"),
      "21:17 HW1302");
  EXPECT_EQ(place("    exec: [\"a\\tb\\\n      c ${{ nope }}\"]\n"), "19:13 HW1302");
  EXPECT_EQ(place("    exec: [x, \"\xC3\xA4 ${{ nope }}\"]\n"), "18:22 HW1302");
  EXPECT_EQ(place("    exec: [x]\n    env: {A: \"a ${{\", B: x}\n"), "19:17 HW1301");
}

TEST(Expressions, WhatAliasesMultiplyIsBounded) {
  // A text over the bound of templates is refused before it is looked at, but counts.
  const std::string large = "x-text: &t \"${{ run.id }}" + std::string(std::size_t{2} << 20, 'x');
  const auto message = [&](int uses) {
    std::string text = "version: 1\n" + large + "\"\ntasks:\n";
    for (int i = 0; i < uses; ++i) text += fmt::format("  t{}: {{exec: [x, *t]}}\n", i);
    return MessageOf(text);
  };
  EXPECT_EQ(message(15).find("share fewer of them"), std::string::npos);
  EXPECT_NE(message(16).find("share fewer of them"), std::string::npos);
}

}  // namespace
}  // namespace headworks::spec
