#include "headworks/control/control.h"

#include <gtest/gtest.h>

namespace headworks::control {
namespace {

using model::TaskState;
using Reset = model::ResetCursor::Kind;

StartRequest FullStart() {
  StartRequest start;
  start.tenant = TenantId("acme");
  start.name = {.tenant = "acme", .package = "etl", .workflow = "nightly"};
  start.version = std::string(64, 'a');
  start.input = R"({"input":{"day":"2026-01-02"},"params":{"n":3}})";
  start.start_key = "2026-01-02 \"quoted\"\n\xc3\xa9";
  start.priority = -7;
  start.actor = "ann";
  start.rerun_of = RunNo(41);
  start.concurrency_key = "";
  return start;
}

Command FullCommand() {
  Command command;
  command.tenant = TenantId("acme");
  command.kind = CommandKind::kMark;
  command.run = RunNo(9'000'000'000);
  command.rerun = Reset::kAll;
  command.task = "load";
  command.mark = TaskState::kSkipped;
  command.actor = "ann";
  return command;
}

/// `text` with the first `from` replaced.
std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return text.replace(at, from.size(), to);
}

TEST(Control, StartIsReadBackWhole) {
  const StartRequest start = FullStart();
  const auto read = DecodeStart(EncodeStart(start));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->tenant, start.tenant);
  EXPECT_EQ(read->name, start.name);
  EXPECT_EQ(read->version, start.version);
  EXPECT_EQ(read->input, start.input);
  EXPECT_EQ(read->start_key, start.start_key);
  EXPECT_EQ(read->priority, start.priority);
  EXPECT_EQ(read->actor, start.actor);
  EXPECT_EQ(read->rerun_of, start.rerun_of);
  EXPECT_EQ(read->concurrency_key, start.concurrency_key);
  StartRequest without = start;
  without.concurrency_key.reset();
  EXPECT_EQ(DecodeStart(EncodeStart(without))->concurrency_key, std::nullopt);
}

TEST(Control, CommandIsReadBackWhole) {
  const Command command = FullCommand();
  const auto read = DecodeCommand(EncodeCommand(command));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->tenant, command.tenant);
  EXPECT_EQ(read->kind, command.kind);
  EXPECT_EQ(read->run, command.run);
  EXPECT_EQ(read->rerun, command.rerun);
  EXPECT_EQ(read->task, command.task);
  EXPECT_EQ(read->mark, command.mark);
  EXPECT_EQ(read->actor, command.actor);
}

TEST(Control, EveryKindIsReadBackAndHasItsOwnName) {
  std::vector<std::string_view> names;
  for (int kind = 1; kind <= 7; ++kind) {
    Command command = FullCommand();
    command.kind = static_cast<CommandKind>(kind);
    const auto read = DecodeCommand(EncodeCommand(command));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->kind, command.kind);
    names.push_back(CommandKindName(command.kind));
  }
  EXPECT_EQ(names, (std::vector<std::string_view>{"cancel", "pause", "resume", "rerun", "mark",
                                                  "unstick", "delete"}));
}

TEST(Control, DamagedPayloadIsCorruptAndNamesTheField) {
  const auto start = [](std::string_view from, std::string_view to) {
    return DecodeStart(Replaced(EncodeStart(FullStart()), from, to));
  };
  const auto command = [](std::string_view from, std::string_view to) {
    return DecodeCommand(Replaced(EncodeCommand(FullCommand()), from, to));
  };
  const auto expect = [](const auto& result, std::string_view field) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kCorrupt);
    EXPECT_NE(result.error().message.find(field), std::string::npos) << result.error().message;
  };
  expect(DecodeStart(""), "start request");
  expect(DecodeStart("[]"), "start request");
  expect(DecodeStart("{}"), "format");
  expect(start(R"("format":1)", R"("format":0)"), "format");
  expect(start(R"("tenant":"acme")", R"("tenant":"")"), "'tenant'");
  expect(start(R"("workflow":"nightly",)", ""), "'workflow'");
  expect(start(R"("priority":-7)", R"("priority":2147483648)"), "'priority'");
  expect(start(R"("priority":-7)", R"("priority":1001)"), "'priority'");
  expect(start(R"("priority":-7)", R"("priority":-1001)"), "from -1000 to 1000");
  EXPECT_EQ(start(R"("priority":-7)", R"("priority":1000)")->priority, 1'000);
  EXPECT_EQ(start(R"("priority":-7)", R"("priority":-1000)")->priority, -1'000);
  expect(start(R"("rerun_of":41)", R"("rerun_of":-1)"), "'rerun_of'");
  expect(start(R"("actor":"ann")", R"("actor":1)"), "'actor'");
  expect(command(R"("kind":5)", R"("kind":0)"), "'kind'");
  expect(command(R"("kind":5)", R"("kind":8)"), "'kind'");
  expect(command(R"("run":9000000000)", R"("run":0)"), "'run'");
  expect(command(R"("mark":7)", R"("mark":9)"), "'mark'");
  expect(command(R"("task":"load")", R"("task":"")"), "'task'");
}

TEST(Control, RerunNeedsAKindAndFromNeedsATask) {
  Command command = FullCommand();
  command.kind = CommandKind::kRerun;
  command.rerun = Reset::kMark;
  EXPECT_FALSE(DecodeCommand(EncodeCommand(command)));
  command.rerun = Reset::kFrom;
  EXPECT_TRUE(DecodeCommand(EncodeCommand(command)));
  command.task.clear();
  EXPECT_FALSE(DecodeCommand(EncodeCommand(command)));
  command.rerun = Reset::kFailed;
  EXPECT_TRUE(DecodeCommand(EncodeCommand(command)));
}

TEST(Control, NewerFormatSaysUpgrade) {
  const auto read =
      DecodeStart(Replaced(EncodeStart(FullStart()), R"("format":1)", R"("format":2)"));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kUnavailable);
  EXPECT_NE(read.error().message.find("upgrade"), std::string::npos);
}

}  // namespace
}  // namespace headworks::control
