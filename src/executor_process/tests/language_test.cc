#include <signal.h>

#include <algorithm>
#include <fstream>

#include "output_file.h"
#include "shell.h"
#include "tests/harness.h"

// What a task may say of the way it is run: shell, env_file, output, retry conditions.
namespace headworks::executor_process::testing {
namespace {

using model::OutputMode;
using model::Reason;
using model::Verdict;
using Strings = std::vector<std::string>;

class LanguageTest : public ExecutorTest {
 protected:
  static model::Task In(Strings shell, std::string script) {
    model::Task task = Shell(std::move(script));
    std::get<model::ShellAction>(task.action).shell = std::move(shell);
    return task;
  }
  static model::Task Taking(OutputMode mode, std::string script) {
    model::Task task = Shell(std::move(script));
    task.output.mode = mode;
    return task;
  }
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string OutputOf(model::Task task) {
    const model::Outcome outcome = Run(std::move(task));
    EXPECT_EQ(outcome.verdict, Verdict::kSucceeded) << outcome.error;
    return outcome.output;
  }
  std::string Refused(OutputMode mode, std::string script) {
    const model::Outcome outcome = Run(Taking(mode, std::move(script)));
    EXPECT_EQ(outcome.verdict, Verdict::kFailed);
    EXPECT_EQ(outcome.reason, Reason::kOutput);
    EXPECT_EQ(outcome.output, "");
    return outcome.error;
  }
};

// ---- shell

TEST(ShellCommandTest, AScriptIsAnArgumentOrTheFileAfterThem) {
  const auto argv = [](Strings shell) { return CommandOf({"x", std::move(shell)}, "/f").argv; };
  EXPECT_EQ(argv({}), (Strings{"/bin/sh", "-e", "-c", "x"}));
  EXPECT_EQ(argv({"python3"}), (Strings{"python3", "/f"}));
  EXPECT_EQ(argv({"bash", "-x"}), (Strings{"bash", "-x", "/f"}));
  EXPECT_EQ(CommandOf({"x", {"sh"}}, "/f").script, "x");
  EXPECT_EQ(CommandOf({"x", {}}, "/f").script, "");
  const std::string longest(std::size_t{96} << 10, 'x');
  EXPECT_EQ(CommandOf({longest, {}}, "/f").script, "");
  EXPECT_EQ(CommandOf({longest + "x", {}}, "/f").argv, (Strings{"/bin/sh", "-e", "/f"}));
}

TEST_F(LanguageTest, ShRunsWithE) {
  const model::Outcome outcome = Run(In({"sh", "-e"}, "false\necho not reached"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(OutputOf(In({"sh", "-e"}, "echo a=$0 > $HEADWORKS_OUTPUT")),
            R"({"a":")" + File("state/attempts/1/script") + R"("})");
}

TEST_F(LanguageTest, BashFailsWithinAPipeAndKnowsItsOwnLanguage) {
  EXPECT_EQ(Run(In({"bash", "-e", "-o", "pipefail"}, "false | true\necho not reached")).exit_code,
            1);
  EXPECT_EQ(Run(In({"bash"}, "false | true\ntrue")).verdict, Verdict::kSucceeded);
  EXPECT_EQ(OutputOf(In({"bash"}, "a=(x y); echo n=${#a[@]} > $HEADWORKS_OUTPUT")), R"({"n":"2"})");
}

TEST_F(LanguageTest, PythonIsGivenTheScriptAsItStands) {
  EXPECT_EQ(OutputOf(In({"/usr/bin/python3"},
                        "import json, os\n"
                        "text = '''it's \"quoted\" $HOME `x`'''\n"
                        "with open(os.environ['HEADWORKS_OUTPUT'], 'w') as f:\n"
                        "    json.dump({'text': text}, f)\n")),
            R"({"text":"it's \"quoted\" $HOME `x`"})");
  const auto attempt = Next(In({"/usr/bin/python3", "-u"}, "raise SystemExit(3)"));
  EXPECT_EQ(Run(attempt).exit_code, 3);
}

TEST_F(LanguageTest, AShellThatIsNotThereIsNamed) {
  const model::Outcome outcome = Run(In({"no-such-shell"}, "x"));
  EXPECT_EQ(outcome.reason, Reason::kSpawn);
  EXPECT_NE(outcome.error.find("no-such-shell"), std::string::npos) << outcome.error;
}

// ---- env_file

TEST_F(LanguageTest, EnvFilesStandBetweenTheWorkflowsEnvironmentAndTheTasks) {
  std::ofstream(File("one.env")) << "A=one\nB=one\nC=one\nHEADWORKS_TRY=9\nLANG=X\n";
  std::ofstream(File("two.env")) << "B=two\nC=two\n";
  auto task = Shell("echo $A $B $C $W $LANG $HEADWORKS_TRY");
  task.env_file = {"one.env", File("two.env")};
  task.env = {{"C", "task"}};
  const auto attempt = Next(task, {{"A", "workflow"}, {"W", "workflow"}});
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Texts(attempt), Strings{"one two task workflow X 1"});
}

TEST_F(LanguageTest, AnEnvFileIsReadAtEachTryAndItsFaultIsTheTasks) {
  auto task = Shell("echo $A");
  task.env_file = {"late.env"};
  const model::Outcome absent = Run(task);
  EXPECT_EQ(absent.verdict, Verdict::kRetry);
  EXPECT_EQ(absent.reason, Reason::kSpawn);
  EXPECT_NE(absent.error.find(File("late.env")), std::string::npos) << absent.error;
  std::ofstream(File("late.env")) << "A=1\nB\n";
  const model::Outcome bad = Run(task);
  EXPECT_EQ(bad.verdict, Verdict::kRetry);
  EXPECT_NE(bad.error.find(File("late.env") + ":2: "), std::string::npos) << bad.error;
  std::ofstream(File("late.env")) << "A=1\n";
  const auto good = Next(task);
  EXPECT_EQ(Run(good).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Texts(good), Strings{"1"});
}

// ---- output

TEST_F(LanguageTest, StdoutAsJson) {
  EXPECT_EQ(OutputOf(Taking(OutputMode::kStdoutJson, "echo '{\"b\": 1.0, \"a\": [true]}'")),
            R"({"a":[true],"b":1})");
  EXPECT_EQ(OutputOf(Taking(OutputMode::kStdoutJson, "echo '[1, 2]'")), R"({"result":[1,2]})");
  EXPECT_EQ(OutputOf(Taking(OutputMode::kStdoutJson, "printf null")), R"({"result":null})");
  EXPECT_NE(Refused(OutputMode::kStdoutJson, "echo hello").find("not one JSON value"),
            std::string::npos);
  EXPECT_NE(Refused(OutputMode::kStdoutJson, "echo 1; echo 2").find("not one JSON value"),
            std::string::npos);
  EXPECT_NE(Refused(OutputMode::kStdoutJson, "true").find("not one JSON value"), std::string::npos);
  const auto is_told = [&](const std::string& script) {
    return Refused(OutputMode::kStdoutJson, script).find("JSON has no NaN or Infinity") !=
           std::string::npos;
  };
  EXPECT_TRUE(is_told("echo '{\"loss\": NaN}'"));
  EXPECT_TRUE(is_told("echo '{\"a\": \"x\\\"\", \"loss\": -Infinity}'"));
  EXPECT_FALSE(is_told("echo '{\"loss\": \"NaN\",}'"));
}

TEST_F(LanguageTest, StdoutAsLinesAndAsText) {
  EXPECT_EQ(OutputOf(Taking(OutputMode::kStdoutLines, "echo a; echo; echo 'b\"'; printf c")),
            R"({"lines":["a","","b\"","c"]})");
  EXPECT_EQ(OutputOf(Taking(OutputMode::kStdoutLines, "true")), R"({"lines":[]})");
  EXPECT_EQ(OutputOf(Taking(OutputMode::kStdout, "echo a; echo b")), R"({"text":"a\nb"})");
  EXPECT_EQ(OutputOf(Taking(OutputMode::kStdout, "printf 'a\\n\\n'")), R"({"text":"a\n"})");
  EXPECT_EQ(OutputOf(Taking(OutputMode::kStdout, "true")), R"({"text":""})");
}

TEST_F(LanguageTest, AnOutputIsWhatItIsDeclaredToBe) {
  const auto declared = [](std::string type, OutputMode mode, std::string script) {
    model::Task task = Taking(mode, std::move(script));
    task.output.type_json = std::move(type);
    return task;
  };
  const std::string rows = R"({"rows":"integer"})";
  EXPECT_EQ(OutputOf(declared(rows, OutputMode::kStdoutJson, "echo '{\"rows\": 3.0}'")),
            R"({"rows":3})");
  EXPECT_EQ(OutputOf(declared(rows, OutputMode::kFile, "echo rows=3 > $HEADWORKS_OUTPUT")),
            R"({"rows":3})");
  const auto error = [&](OutputMode mode, std::string script) {
    const model::Outcome outcome = Run(declared(rows, mode, std::move(script)));
    EXPECT_EQ(outcome.verdict, Verdict::kFailed);
    EXPECT_EQ(outcome.reason, Reason::kOutput);
    EXPECT_EQ(outcome.output, "");
    return outcome.error;
  };
  EXPECT_EQ(
      error(OutputMode::kStdoutJson, "echo '{\"rows\": \"3\"}'"),
      "output.rows is \"3\", but is declared as \"integer\"; correct what the task gives, or the "
      "type of its output");
  EXPECT_NE(error(OutputMode::kFile, "echo rows=many > $HEADWORKS_OUTPUT").find("rows is \"many\""),
            std::string::npos);
  EXPECT_NE(error(OutputMode::kFile, "true").find("output.rows is missing"), std::string::npos);
}

TEST_F(LanguageTest, StdoutIsInTheLogToo) {
  const auto attempt = Next(Taking(OutputMode::kStdout, "echo told; echo aside >&2"));
  EXPECT_EQ(Run(attempt).output, R"({"text":"told"})");
  Strings texts = Texts(attempt);
  std::ranges::sort(texts);
  EXPECT_EQ(texts, (Strings{"aside", "told"}));
}

TEST_F(LanguageTest, StdoutIsTakenUpToItsBoundAndOnlyAsText) {
  const std::string size = std::to_string(kMaxOutputBytes);
  const std::string all =
      OutputOf(Taking(OutputMode::kStdout, "head -c " + size + " /dev/zero | tr '\\0' x"));
  EXPECT_EQ(all.size(), kMaxOutputBytes + std::string(R"({"text":""})").size());
  const std::string above = "head -c " + std::to_string(kMaxOutputBytes + 1) + " /dev/zero";
  EXPECT_NE(Refused(OutputMode::kStdout, above + " | tr '\\0' x").find("more than " + size),
            std::string::npos);
  EXPECT_NE(Refused(OutputMode::kStdoutLines, "printf 'ab\\377'").find("not UTF-8 at byte 2"),
            std::string::npos);
}

TEST_F(LanguageTest, WhereStdoutIsTheOutputThereIsNoFileForIt) {
  EXPECT_EQ(OutputOf(Taking(OutputMode::kStdout, "echo ${HEADWORKS_OUTPUT-none}")),
            R"({"text":"none"})");
}

TEST_F(LanguageTest, StdoutOfAFailedTaskIsNoOutput) {
  const model::Outcome outcome = Run(Taking(OutputMode::kStdoutJson, "echo nonsense; exit 4"));
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_EQ(outcome.reason, Reason::kExitCode);
}

// ---- retry.when and retry.unless

class RetryTest : public LanguageTest {
 protected:
  static model::Task Trying(std::string script, std::optional<model::RetryCondition> when,
                            std::optional<model::RetryCondition> unless = std::nullopt) {
    model::Task task = Shell(std::move(script));
    task.retry.max_attempts = 3;
    task.retry.when = std::move(when);
    task.retry.unless = std::move(unless);
    return task;
  }
  void Expect(model::Task task, Verdict verdict, const std::string& why = "") {
    const model::Outcome outcome = Run(std::move(task));
    EXPECT_EQ(outcome.verdict, verdict) << outcome.error;
    EXPECT_NE(outcome.error.find(why), std::string::npos) << outcome.error;
  }
};

TEST_F(RetryTest, OnlyListedExitCodesAreTriedAgain) {
  const model::RetryCondition codes{.exit_codes = {7, 75}};
  Expect(Trying("exit 75", codes), Verdict::kRetry);
  Expect(Trying("exit 1", codes), Verdict::kFailed,
         "exit code 1; not tried again: it is nothing that retry.when lists");
  Expect(Trying("exit 7", {}, codes), Verdict::kFailed, "retry.unless lists it");
  Expect(Trying("exit 1", {}, codes), Verdict::kRetry);
  Expect(Trying("exit 7", codes, codes), Verdict::kFailed, "retry.unless lists it");
  Expect(Trying("true", codes, codes), Verdict::kSucceeded);
}

TEST_F(RetryTest, ASignalCountsAsAShellTellsOfIt) {
  const model::RetryCondition killed{.exit_codes = {128 + SIGKILL}};
  Expect(Trying("kill -KILL $$", killed), Verdict::kRetry);
  Expect(Trying("kill -TERM $$", killed), Verdict::kFailed, "retry.when");
}

TEST_F(RetryTest, ALineOfTheOutputMayDecide) {
  const model::RetryCondition network{.output_matches = "(?i)connection (refused|reset)"};
  Expect(Trying("echo 'x: Connection refused' >&2; exit 1", network), Verdict::kRetry);
  Expect(Trying("printf 'connection reset'; exit 1", network), Verdict::kRetry);
  Expect(Trying("echo connection; echo refused; exit 1", network), Verdict::kFailed, "retry.when");
  Expect(Trying("echo Connection reset; exit 1", {}, network), Verdict::kFailed,
         "its output matches retry.unless");
  Expect(Trying("printf '\\377\\000 connection reset\\n'; exit 1", network), Verdict::kRetry);
  const model::RetryCondition either{.exit_codes = {9}, .output_matches = "busy"};
  Expect(Trying("exit 9", either), Verdict::kRetry);
  Expect(Trying("echo busy; exit 1", either), Verdict::kRetry);
  Expect(Trying("exit 1", either), Verdict::kFailed);
}

TEST_F(RetryTest, ATimeoutIsTriedAgainUnlessTheOutputExcludesIt) {
  const model::RetryCondition codes{.exit_codes = {75}}, hopeless{.output_matches = "hopeless"};
  auto slow = Trying("echo begun; sleep 1000", codes);
  slow.timeout = std::chrono::milliseconds(200);
  Expect(slow, Verdict::kRetry, "timed out");
  auto excluded = Trying("echo hopeless; sleep 1000", codes, hopeless);
  excluded.timeout = std::chrono::milliseconds(200);
  Expect(excluded, Verdict::kFailed, "retry.unless");
}

TEST_F(RetryTest, WhatCannotStartIsNothingThatWhenLists) {
  auto task = Trying("true", model::RetryCondition{.exit_codes = {75}});
  task.cwd = "absent";
  Expect(task, Verdict::kFailed, "cannot enter");
  task.cwd = "";
  task.env_file = {"absent.env"};
  Expect(task, Verdict::kFailed, "absent.env");
}

TEST_F(RetryTest, APatternThatIsNoneIsNamed) {
  Expect(Trying("exit 1", model::RetryCondition{.output_matches = "("}), Verdict::kFailed,
         "retry.when.output_matches is no RE2 pattern: missing )");
}

TEST_F(LanguageTest, TheTasksOwnIdempotencyKeyIsHandedOn) {
  auto task = Shell("echo $HEADWORKS_IDEMPOTENCY_KEY");
  task.idempotency_key = "order-7";
  const auto attempt = Next(task);
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Texts(attempt), Strings{"order-7"});
}

}  // namespace
}  // namespace headworks::executor_process::testing
