#include "headworks/run_queue/task.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "headworks/base/json.h"

namespace headworks::run_queue {
namespace {

using namespace std::chrono_literals;

std::string Blob(std::size_t extra = 0) {
  model::WorkflowDefinition definition;
  definition.name = {"public", "embedded", "daily"};
  definition.tasks = {{.id = "a", .action = model::ExecAction{{"true"}}}};
  if (extra > 0) definition.env = {{"A", std::string(extra, 'y')}};
  definition.params = {{"n", model::Param::Plain("1")}};
  const auto workflow = model::Workflow::Create(std::move(definition));
  EXPECT_TRUE(workflow) << workflow.error().message;
  return (*workflow)->canonical_json();
}

TaskFields Good() {
  return {.schedule_id = "nightly",
          .workflow_blob = Blob(),
          .planned_fire_time =
              task_queue::PlannedTime{.local = std::chrono::local_days{2026y / 5 / 6} + 12h,
                                      .utc_offset = 0s},
          .kwargs = R"({"n":3})"};
}

void ExpectRefused(TaskFields fields, std::string_view why) {
  const auto task = Task::Create(std::move(fields));
  ASSERT_FALSE(task) << why;
  EXPECT_EQ(task.error().code, Code::kInvalidArgument);
  EXPECT_NE(task.error().message.find(why), std::string::npos) << task.error().message;
}

TEST(Task, ItsIdIsThatOfItsSlot) {
  const auto task = Task::Create(Good());
  ASSERT_TRUE(task) << task.error().message;
  EXPECT_EQ(task->fields().task_id, *task_queue::SlotTaskId("nightly", *Good().planned_fire_time));
  EXPECT_EQ(task->fields().task_id, Sha256Hex("nightly|2026-05-06T12:00:00+00:00").substr(0, 32));
  EXPECT_EQ(task->fields().queue_name, "default");
  auto own = Good();
  own.task_id = "mine";
  EXPECT_EQ(Task::Create(own)->fields().task_id, "mine");
}

TEST(Task, ReadsWhatItWrote) {
  auto fields = Good();
  fields.input = R"({"day":"today"})";
  fields.queue_name = "q";
  const auto task = Task::Create(fields);
  ASSERT_TRUE(task) << task.error().message;
  const auto again = Task::FromPayload("q", task->fields().task_id, task->payload());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->payload(), task->payload());
  EXPECT_EQ(again->fields().workflow_blob, Blob());
  EXPECT_EQ(again->fields().planned_fire_time, fields.planned_fire_time);
  EXPECT_EQ(again->fields().schedule_id, "nightly");
  EXPECT_EQ(again->fields().input, R"({"day":"today"})");
  EXPECT_EQ(again->params(), std::vector<std::string>{"n=3"});
  EXPECT_EQ(again->workflow().name().workflow, "daily");
}

TEST(Task, EachFieldIsChecked) {
  const auto with = [](auto change) {
    auto fields = Good();
    change(fields);
    return fields;
  };
  ExpectRefused(with([](TaskFields& f) { f.schedule_id.clear(); }),
                "planned_fire_time: is a slot's");
  ExpectRefused(with([](TaskFields& f) { f.planned_fire_time.reset(); }),
                "planned_fire_time: is needed");
  ExpectRefused({.workflow_blob = Blob()}, "task_id: is needed");
  ExpectRefused(with([](TaskFields& f) { f.task_id = std::string(257, 'x'); }), "task_id: ");
  ExpectRefused(with([](TaskFields& f) { f.schedule_id = std::string(257, 'x'); }),
                "give 1 to 256 bytes");
  EXPECT_TRUE(Task::Create(with([](TaskFields& f) { f.schedule_id = std::string(256, 'x'); })));
  ExpectRefused(with([](TaskFields& f) { f.queue_name = "no queue"; }), "no queue");
  ExpectRefused(with([](TaskFields& f) { f.workflow_blob = "{}"; }), "workflow_blob: ");
  ExpectRefused(with([](TaskFields& f) { f.workflow_blob += " "; }), "workflow_blob: ");
  ExpectRefused(with([](TaskFields& f) { f.planned_fire_time->utc_offset = 24h; }),
                "planned_fire_time: ");
  ExpectRefused(with([](TaskFields& f) { f.kwargs = "[]"; }), "kwargs");
  ExpectRefused(with([](TaskFields& f) { f.kwargs = R"({"m":1})"; }), "no parameter \"m\"");
  ExpectRefused(with([](TaskFields& f) { f.kwargs = R"({"n":"x"})"; }), "HW1203");
  ExpectRefused(with([](TaskFields& f) { f.input = "1"; }), "input");
}

TEST(Task, HasAtMostWhatAnItemTakes) {
  auto fields = Good();
  fields.workflow_blob = Blob(1);
  const std::size_t more = task_queue::kMaxPayloadBytes - Task::Create(fields)->payload().size();
  fields.workflow_blob = Blob(1 + more);
  const auto largest = Task::Create(fields);
  ASSERT_TRUE(largest) << largest.error().message;
  EXPECT_EQ(largest->payload().size(), task_queue::kMaxPayloadBytes);
  fields.workflow_blob = Blob(2 + more);
  ExpectRefused(fields, "have 8388609 bytes together");
}

TEST(Task, WhatIsNoTaskIsRefused) {
  for (const auto& [payload, why] : std::vector<std::pair<std::string, std::string>>{
           {"[1]", "the payload"},
           {"{}", "is no run to take up"},
           {R"({"type":"headworks.run","version":2})", "has a version that is not 1"},
           {R"({"type":"headworks.run","version":1})", "schedule_id: is missing"}}) {
    const auto task = Task::FromPayload("default", "id", payload);
    ASSERT_FALSE(task);
    EXPECT_NE(task.error().message.find(why), std::string::npos) << task.error().message;
  }
}

}  // namespace
}  // namespace headworks::run_queue
