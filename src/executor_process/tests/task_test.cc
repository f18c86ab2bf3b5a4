#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/harness.h"

// What a task is given, what it may write, and how its end is told.
namespace headworks::executor_process::testing {
namespace {

namespace fs = std::filesystem;
using log_store::Stream;
using model::Disposition;
using model::Reason;
using model::Verdict;
using Strings = std::vector<std::string>;

class TaskTest : public ExecutorTest {
 protected:
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string OutputOf(const std::string& script) {
    const model::Outcome outcome = Run(Shell(script));
    EXPECT_EQ(outcome.verdict, Verdict::kSucceeded) << outcome.error;
    return outcome.output;
  }
  /// The error of a task whose output is refused.
  std::string Refused(const std::string& script) {
    const model::Outcome outcome = Run(Shell(script));
    EXPECT_EQ(outcome.verdict, Verdict::kFailed);
    EXPECT_EQ(outcome.reason, Reason::kOutput);
    EXPECT_TRUE(outcome.output.empty());
    return outcome.error;
  }
};

TEST_F(TaskTest, SeesExactlyItsEnvironment) {
  setenv("HEADWORKS_TEST_INHERITED", "yes", 1);
  setenv("HEADWORKS_TEST_SECRET", "no", 1);
  setenv("HEADWORKS_TEST_TOKEN", "no", 1);
  setenv("LANG", "C.UTF-8", 1);
  unsetenv("TZ");
  executor_.reset();
  Open();
  auto task = Exec({"env", "-0"});
  task.inherit_env = {"HEADWORKS_TEST_INHERITED", "HEADWORKS_TEST_ABSENT", "HEADWORKS_TEST_TOKEN"};
  task.env = {{"FROM_TASK", "1"}, {"BOTH", "task"}, {"HEADWORKS_TRY", "99"}, {"SPACE", "a b\nc"}};
  auto attempt = Next(task, {{"FROM_WORKFLOW", "2"}, {"BOTH", "workflow"}, {"HOME", "/elsewhere"}});
  attempt.try_no = 3;
  attempt.key.epoch = Epoch(last_epoch_);
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  std::string all;
  for (const std::string& line : Texts(attempt)) all += line + "\n";
  std::map<std::string, std::string> seen;
  for (std::size_t at = 0; at + 1 < all.size();) {
    const std::string entry = all.c_str() + at;
    at += entry.size() + 1;
    seen[entry.substr(0, entry.find('='))] = entry.substr(entry.find('=') + 1);
  }
  const std::string state = folder_.path() + "/state";
  const std::string base = state + "/attempts/1";
  const std::map<std::string, std::string> expected{
      {"PATH", getenv("PATH")},
      {"HOME", "/elsewhere"},
      {"LANG", "C.UTF-8"},
      {"HEADWORKS_TEST_INHERITED", "yes"},
      {"FROM_WORKFLOW", "2"},
      {"FROM_TASK", "1"},
      {"BOTH", "task"},
      {"SPACE", "a b\nc"},
      {"HEADWORKS_INPUT", base + "/input.json"},
      {"HEADWORKS_OUTPUT", base + "/output"},
      {"HEADWORKS_SCRATCH", state + "/scratch/run-1"},
      {"HEADWORKS_RUN_ID", "run-1"},
      {"HEADWORKS_TASK", "t"},
      {"HEADWORKS_EPOCH", std::to_string(last_epoch_)},
      {"HEADWORKS_TRY", "3"},
      {"HEADWORKS_IDEMPOTENCY_KEY", attempt.IdempotencyKey()},
      {"HEADWORKS_ATTEMPT", Options().store_id + ":1:" + std::to_string(last_epoch_)}};
  EXPECT_EQ(seen, expected);
}

TEST_F(TaskTest, IsGivenItsInputAndTheRunsScratchFolder) {
  EXPECT_EQ(OutputOf("cat $HEADWORKS_INPUT > $HEADWORKS_OUTPUT; echo 7 > $HEADWORKS_SCRATCH/kept"),
            resolver_.context);
  EXPECT_EQ(OutputOf("echo n=$(cat $HEADWORKS_SCRATCH/kept) > $HEADWORKS_OUTPUT"), R"({"n":"7"})");
  ASSERT_TRUE(executor_->RemoveScratch(RunId("run-1")));
  EXPECT_FALSE(fs::exists(File("state/scratch/run-1")));
  executor_.reset();
  EXPECT_TRUE(fs::is_empty(File("state/attempts")));
}

TEST_F(TaskTest, FilesOfAnAttemptAreWrittenOverByTheNext) {
  // One after another: all in one slot.
  resolver_.context = R"({"input":{"long":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}})";
  ASSERT_EQ(Run(Shell("cat $HEADWORKS_INPUT")).verdict, Verdict::kSucceeded);
  const std::string input = File("state/attempts/1/input.json");
  struct stat before{}, after{};
  ASSERT_EQ(stat(input.c_str(), &before), 0);
  resolver_.context = R"({"input":{}})";
  EXPECT_EQ(OutputOf("cp $HEADWORKS_INPUT $HEADWORKS_OUTPUT"), resolver_.context);
  ASSERT_EQ(stat(input.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);  // to make a file anew is what costs
  EXPECT_EQ(OutputOf("true"), "");
}

TEST_F(TaskTest, WhatATaskPutInThePlaceOfItsFilesIsNeitherWrittenToNorKept) {
  std::ofstream(File("precious")) << "kept";
  const std::string precious = File("precious");
  for (const std::string& trick : Strings{
           "ln -sf " + precious + " $HEADWORKS_INPUT", "ln -f " + precious + " $HEADWORKS_INPUT",
           "rm $HEADWORKS_INPUT; mkfifo $HEADWORKS_INPUT", "chmod 0666 $HEADWORKS_INPUT",
           "rm $HEADWORKS_INPUT; mkdir -p $HEADWORKS_INPUT/deep",
           "ln -sf " + precious + " $HEADWORKS_OUTPUT; echo '{}' > /dev/null",
           "mkdir -p $HEADWORKS_OUTPUT/deep"}) {
    Run(Shell(trick));
    EXPECT_EQ(OutputOf("cp $HEADWORKS_INPUT $HEADWORKS_OUTPUT"), resolver_.context) << trick;
    EXPECT_EQ(OutputOf("stat -c mode=%a $HEADWORKS_INPUT > $HEADWORKS_OUTPUT"), R"({"mode":"600"})")
        << trick;
    EXPECT_EQ(ReadText(precious), "kept") << trick;
  }
}

TEST_F(TaskTest, SeesOnlyThreeFileDescriptors) {
  // A file of the embedding program that lacks O_CLOEXEC must not reach a task either.
  const int leaked = dup(0);
  executor_.reset();
  Open();
  const auto attempt = Next(Shell("ls -l /proc/self/fd/ | sed 's/.* \\([0-9]* ->\\)/\\1/' | sort"));
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  close(leaked);
  const Strings lines = Texts(attempt);
  Strings numbers;
  for (const std::string& line : lines) {
    // 3 is the folder that ls itself reads.
    if (line.find("->") != std::string::npos && line.find("/proc/") == std::string::npos) {
      numbers.push_back(line.substr(0, line.find(' ')));
    }
  }
  EXPECT_EQ(numbers, (Strings{"0", "1", "2"})) << ::testing::PrintToString(lines);
  EXPECT_EQ(lines[0].substr(0, 14), "0 -> /dev/null");
}

TEST_F(TaskTest, HasAnEmptySignalMaskAndDefaultDispositions) {
  const auto attempt = Next(Exec({"cat", "/proc/self/status"}));
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  Strings masks;
  for (const std::string& line : Texts(attempt)) {
    if (line.starts_with("SigBlk") || line.starts_with("SigIgn") || line.starts_with("SigCgt")) {
      masks.push_back(line);
    }
  }
  const std::string zero = ":\t0000000000000000";
  EXPECT_EQ(masks, (Strings{"SigBlk" + zero, "SigIgn" + zero, "SigCgt" + zero}));
}

TEST_F(TaskTest, RunsInItsFolder) {
  fs::create_directory(File("sub"));
  const auto here = Next(Shell("pwd -P"));
  ASSERT_EQ(Run(here).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Texts(here), Strings{fs::canonical(folder_.path()).string()});
  auto task = Shell("pwd -P");
  task.cwd = "sub";
  const auto below = Next(task);
  ASSERT_EQ(Run(below).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Texts(below), Strings{fs::canonical(File("sub")).string()});
}

TEST_F(TaskTest, TookIsWhatTheProcessTook) {
  // Start and end of a short task are often read together; its length must not suffer from that.
  for (int i = 0; i < 50; ++i) {
    const auto outcome = Run(Shell("i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done"));
    ASSERT_EQ(outcome.verdict, Verdict::kSucceeded);
    EXPECT_GE(outcome.ended_at - outcome.started_at, std::chrono::microseconds(200));
  }
}

TEST_F(TaskTest, AMissingFolderIsSaid) {
  auto task = Shell("true");
  task.cwd = "nowhere";
  const model::Outcome outcome = Run(task);
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.reason, Reason::kSpawn);
  EXPECT_EQ(outcome.error, "cannot enter the task's folder " + File("nowhere") +
                               ": No such file or directory; make it, or set cwd");
}

TEST_F(TaskTest, MayDeleteItsOwnFolder) {
  fs::create_directory(File("gone"));
  auto task = Shell("rmdir \"$PWD\"; echo a=1 > $HEADWORKS_OUTPUT");
  task.cwd = "gone";
  const model::Outcome outcome = Run(task);
  EXPECT_EQ(outcome.verdict, Verdict::kSucceeded) << outcome.error;
  EXPECT_EQ(outcome.output, R"({"a":"1"})");
}

TEST_F(TaskTest, AScriptStopsAtItsFirstFailure) {
  const auto attempt = Next(Shell("echo one\nfalse\necho two"));
  const model::Outcome outcome = Run(attempt);
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.reason, Reason::kExitCode);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(Texts(attempt), Strings{"one"});
}

TEST_F(TaskTest, ALongScriptRuns) {
  std::string script;
  while (script.size() < std::size_t{200} << 10)
    script += "# a line that makes the script longer\n";
  const auto attempt = Next(Shell(script + "echo end"));
  const model::Outcome outcome = Run(attempt);
  EXPECT_EQ(outcome.verdict, Verdict::kSucceeded) << outcome.error;
  EXPECT_EQ(Texts(attempt), Strings{"end"});
}

TEST_F(TaskTest, ALargeEnvironmentTravelsWhole) {
  auto task = Shell("echo ${#BIG}");
  task.env = {{"BIG", std::string(100'000, 'x')}};
  const auto attempt = Next(task);
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Texts(attempt), Strings{"100000"});
}

TEST_F(TaskTest, TooLargeAnEnvironmentIsSaid) {
  auto task = Shell("true");
  for (int i = 0; i < 40; ++i) task.env["BIG" + std::to_string(i)] = std::string(120'000, 'x');
  EXPECT_NE(Run(task).error.find("longer than the system takes"), std::string::npos);
}

TEST_F(TaskTest, SaysWhyACommandCannotBeStarted) {
  EXPECT_EQ(Run(Exec({"no-such-command"})).error,
            "command not found: no-such-command; check its name, the PATH of the task, and the "
            "interpreter in its first line");
  std::ofstream(File("plain")) << "#!/bin/sh\n";
  const model::Outcome plain = Run(Exec({"./plain"}));
  EXPECT_EQ(plain.reason, Reason::kSpawn);
  EXPECT_EQ(plain.error, "./plain is not executable; chmod +x it, or name its interpreter");
  std::ofstream(File("noformat")) << "echo hello\n";
  fs::permissions(File("noformat"), fs::perms::owner_all);
  EXPECT_NE(Run(Exec({"./noformat"})).error.find("no #! line"), std::string::npos);
  const model::Outcome shell = Run(Shell("no-such-command"));
  EXPECT_EQ(shell.exit_code, 127);
  EXPECT_NE(shell.error.find("not found"), std::string::npos);
  EXPECT_EQ(Run(Shell("./plain")).exit_code, 126);
}

TEST_F(TaskTest, FindsItsCommandInItsOwnPath) {
  std::ofstream(File("mine")) << "#!/bin/sh\necho mine $1\n";
  fs::permissions(File("mine"), fs::perms::owner_all);
  auto task = Exec({"mine", "a b; $HOME"});
  task.env = {{"PATH", "/nowhere:" + folder_.path() + ":/bin:/usr/bin"}};
  const auto attempt = Next(task);
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Texts(attempt), Strings{"mine a b; $HOME"});
}

TEST_F(TaskTest, OutputIsAnObjectOrLines) {
  EXPECT_EQ(OutputOf("true"), "");
  EXPECT_EQ(OutputOf("echo > $HEADWORKS_OUTPUT"), "");
  EXPECT_EQ(OutputOf("echo '{\"a\": [1, 2]}' > $HEADWORKS_OUTPUT"), R"({"a":[1,2]})");
  EXPECT_EQ(OutputOf("echo a=1 >> $HEADWORKS_OUTPUT; echo b=x=y >> $HEADWORKS_OUTPUT;"
                     "echo a=2 >> $HEADWORKS_OUTPUT"),
            R"({"a":"2","b":"x=y"})");
}

TEST_F(TaskTest, AWrongOutputSaysWhatIsWrong) {
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos ? ::testing::AssertionSuccess()
                                                : ::testing::AssertionFailure() << text;
  };
  EXPECT_TRUE(contains(Refused("echo '[1]' > $HEADWORKS_OUTPUT"), "JSON, but no object"));
  EXPECT_TRUE(contains(Refused("echo '{\"a\": NaN}' > $HEADWORKS_OUTPUT"), "HEADWORKS_OUTPUT"));
  EXPECT_TRUE(contains(Refused("echo hello > $HEADWORKS_OUTPUT"), "line 1 is not key=value"));
  EXPECT_TRUE(contains(Refused("printf 'a=\\000' > $HEADWORKS_OUTPUT"), "NUL"));
  EXPECT_TRUE(contains(Refused("printf 'a=\\377' > $HEADWORKS_OUTPUT"), "HEADWORKS_OUTPUT"));
  EXPECT_TRUE(contains(Refused("mkdir $HEADWORKS_OUTPUT"), "no regular file"));
  EXPECT_TRUE(contains(Refused("mkfifo $HEADWORKS_OUTPUT"), "no regular file"));
  EXPECT_TRUE(contains(Refused("ln -s /dev/zero $HEADWORKS_OUTPUT"), "no regular file"));
  // At the bound and one byte above it: {"a":"…"} is 8 bytes around its text.
  const std::string fill =
      "{ printf '{\"a\":\"'; head -c %d /dev/zero | tr '\\0' x; printf '\"}'; } "
      "> $HEADWORKS_OUTPUT";
  const auto sized = [&](int size) {
    std::string script = fill;
    return script.replace(script.find("%d"), 2, std::to_string(size - 8));
  };
  EXPECT_EQ(OutputOf(sized(1 << 20)).size(), std::size_t{1} << 20);
  EXPECT_TRUE(contains(Refused(sized((1 << 20) + 1)), "more than 1048576 bytes"));
}

TEST_F(TaskTest, LinesAreKeptByteForByteWithTheirStream) {
  const auto attempt =
      Next(Shell("printf 'out\\000\\377\\n'; sleep 0.05; echo err >&2; sleep 0.05;"
                 "printf 'no newline'"));
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  const auto lines = Lines(attempt);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].bytes, std::string("out\0\377", 5));
  EXPECT_EQ(lines[0].stream, Stream::kStdout);
  EXPECT_EQ(lines[1].bytes, "err");
  EXPECT_EQ(lines[1].stream, Stream::kStderr);
  EXPECT_EQ(lines[2].bytes, "no newline");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].number, static_cast<std::int64_t>(i) + 1);
  }
}

TEST_F(TaskTest, LongLinesAreWholeUpToTheirBound) {
  const std::size_t bound = log_store::kMaxLineBytes;
  const auto attempt =
      Next(Shell("head -c " + std::to_string(bound) + " /dev/zero; echo; head -c " +
                 std::to_string(bound + 1) + " /dev/zero; echo; echo end"));
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  std::vector<std::size_t> sizes;
  for (const std::string& text : Texts(attempt)) sizes.push_back(text.size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{bound, bound, 1, 3}));
}

TEST_F(TaskTest, MayCloseItsStreams) {
  const auto attempt = Next(Shell("echo before; exec >&- 2>&-; sleep 0.05"));
  EXPECT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Texts(attempt), Strings{"before"});
}

TEST_F(TaskTest, LinesAreReadableWhileItRuns) {
  const auto attempt =
      Next(Shell("echo first; while ! [ -e " + File("go") + " ]; do sleep 0.01; done"));
  ASSERT_EQ(executor_->Offer(attempt).disposition, Disposition::kDispatched);
  EXPECT_TRUE(WaitUntil([&] { return Texts(attempt) == Strings{"first"}; }));
  std::ofstream(File("go")) << "";
  EXPECT_EQ(sink_.Await(attempt.key).verdict, Verdict::kSucceeded);
}

TEST_F(TaskTest, LinesAreStoredBeforeTheVerdict) {
  for (int i = 0; i < 20; ++i) {
    const auto attempt = Next(Shell("echo a; echo b >&2; printf c"));
    std::size_t at_verdict = 0;
    sink_.OnEnded([&](const model::AttemptKey&) { at_verdict = Lines(attempt).size(); });
    ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
    ASSERT_EQ(at_verdict, 3U);
  }
}

TEST_F(TaskTest, AnOfferIsIdempotentUntilSettled) {
  const auto attempt = Next(Shell("echo ran >> " + File("count")));
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  ASSERT_EQ(executor_->Offer(attempt).disposition, Disposition::kDispatched);
  EXPECT_TRUE(WaitUntil([&] { return sink_.ends() == 2; }));
  EXPECT_EQ(ReadText(File("count")), "ran\n");
  auto inspected = executor_->Inspect({{attempt}});
  ASSERT_TRUE(inspected);
  EXPECT_TRUE(std::holds_alternative<executor::Ended>((*inspected)[0]));
  const std::vector<model::AttemptKey> keys{attempt.key};
  executor_->Settled(keys);
  EXPECT_TRUE(std::holds_alternative<executor::Absent>((*executor_->Inspect({{attempt}}))[0]));
}

class TwoSlots : public TaskTest {
 protected:
  ProcessExecutorOptions Options() const override {
    auto options = TaskTest::Options();
    options.max_concurrent = 2;
    options.max_log_bytes = 25'000;  // 1,000 lines of 9 bytes and 16 more each
    return options;
  }
};

TEST_F(TwoSlots, ItTakesWhatItHasSlotsForAndDefersTheRest) {
  const auto wait = [&] { return Shell("while ! [ -e " + File("go") + " ]; do sleep 0.01; done"); };
  const auto a = Next(wait()), b = Next(wait()), c = Next(wait());
  EXPECT_EQ(executor_->Offer(a).disposition, Disposition::kDispatched);
  EXPECT_EQ(executor_->Offer(b).disposition, Disposition::kDispatched);
  EXPECT_EQ(executor_->GetCapacity().free(), 0U);
  EXPECT_EQ(executor_->Offer(c).disposition, Disposition::kDeferred);
  EXPECT_EQ(executor_->Offer(a).disposition, Disposition::kDispatched);
  ASSERT_TRUE(sink_.AwaitStarted(a.key));
  EXPECT_TRUE(std::holds_alternative<executor::Running>((*executor_->Inspect({{a}}))[0]));
  EXPECT_EQ(executor_->List().size(), 2U);
  std::ofstream(File("go")) << "";
  EXPECT_EQ(sink_.Await(a.key).verdict, Verdict::kSucceeded);
  EXPECT_EQ(sink_.Await(b.key).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Run(c).verdict, Verdict::kSucceeded);
  const executor::Metrics metrics = executor_->GetMetrics();
  EXPECT_EQ(metrics.executed, 3U);
  EXPECT_EQ(metrics.failed, 0U);
  EXPECT_EQ(metrics.active, 0U);
  EXPECT_GT(metrics.p99_duration, Duration(0));
}

TEST_F(TwoSlots, OutputBeyondItsBoundIsCutWithANoteAndTheTaskGoesOn) {
  const auto at_bound = Next(Shell("yes 123456789 | head -n 1000"));
  ASSERT_EQ(Run(at_bound).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Lines(at_bound).size(), 1'000U);
  EXPECT_EQ(Lines(at_bound).back().stream, Stream::kStdout);
  const auto above = Next(Shell("yes 123456789 | head -n 100000; echo a=1 > $HEADWORKS_OUTPUT"));
  const model::Outcome outcome = Run(above);
  EXPECT_EQ(outcome.verdict, Verdict::kSucceeded);
  EXPECT_EQ(outcome.output, R"({"a":"1"})");
  const auto lines = Lines(above);
  ASSERT_EQ(lines.size(), 1'002U);
  EXPECT_EQ(lines[1'000].stream, Stream::kNote);
  EXPECT_NE(lines[1'000].bytes.find("25000 bytes"), std::string::npos);
  EXPECT_EQ(lines.back().stream, Stream::kNote);
  EXPECT_EQ(lines.back().bytes, "990000 bytes of output were dropped");
}

TEST_F(TwoSlots, WhatIsDroppedOfEitherStreamIsCountedToTheByte) {
  // Whichever stream is read first: 1,000 lines of 10 bytes fit.
  const auto attempt =
      Next(Shell("yes 123456789 | head -n 1000; yes 123456789 | head -n 5 >&2; printf last"));
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Lines(attempt).back().bytes, "54 bytes of output were dropped");
}

TEST_F(TaskTest, AFloodOfOutputEndsInBoundedTime) {
  const auto attempt = Next(Shell("yes " + std::string(99, 'x') + " | head -c 100000000"));
  const Duration before = clock_.Monotonic();
  EXPECT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  RecordProperty("milliseconds", std::to_string((clock_.Monotonic() - before).count() / 1'000));
}

TEST_F(TaskTest, ItsLimitOfOpenFilesIsTheEngines) {
  rlimit own{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &own), 0);
  const auto attempt = Next(Shell("ulimit -Sn; ulimit -Hn"));
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  const auto text = [](rlim_t limit) {
    return limit == RLIM_INFINITY ? std::string("unlimited") : std::to_string(limit);
  };
  EXPECT_EQ(Texts(attempt), (Strings{text(own.rlim_cur), text(own.rlim_max)}));
}

TEST_F(TaskTest, OfShortTasksOnlyTheEndIsSpoken) {
  constexpr std::size_t kTasks = 40;
  for (std::size_t i = 0; i < kTasks; ++i)
    ASSERT_EQ(Run(Exec({"/bin/true"})).verdict, Verdict::kSucceeded);
  // A busy machine may hold up some for longer, never all.
  EXPECT_LT(sink_.starts(), kTasks);
}

TEST_F(TaskTest, WhereTheLedgerCannotGrowNothingStartsAndNoTryIsUsed) {
  fs::create_directories(File("started.new"));  // as if the disk were full
  auto marks = Next(Shell("true")).key;
  marks.run = RunNo(2);
  while (ledger_->MarkStarted(marks)) ++marks.epoch.value;
  const auto attempt = Next(Shell("touch " + File("ran")));
  const model::Outcome outcome = Run(attempt);
  EXPECT_EQ(outcome.verdict, Verdict::kSnoozed) << outcome.error;
  EXPECT_GT(outcome.not_before, outcome.ended_at);
  EXPECT_FALSE(fs::exists(File("ran")));
  EXPECT_FALSE(ledger_->WasStarted(attempt.key));
}

TEST_F(TaskTest, AFunctionIsRefused) {
  model::Task task;
  task.action = model::FunctionAction{"f"};
  EXPECT_EQ(executor_->Offer(Next(task)).disposition, Disposition::kRefused);
}

}  // namespace
}  // namespace headworks::executor_process::testing
