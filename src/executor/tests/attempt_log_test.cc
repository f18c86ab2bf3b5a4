#include "headworks/executor/attempt_log.h"

#include <gtest/gtest.h>

namespace headworks::executor {
namespace {

class Kept final : public Logger {
 public:
  void Write(LogLevel, std::string_view, Fields fields) override {
    for (const auto& field : fields)
      text += std::string(field.first) + "=" + std::string(field.second) + " ";
  }
  std::string text;
};

TEST(AttemptLog, NamesATaskByItsNumberWhereNobodyKnowsItsWorkflow) {
  Kept kept;
  ForAttempt(kept, {.key = {.tenant = TenantId("t"),
                            .run = RunNo(7),
                            .task = TaskNo(2),
                            .map_index = -1,
                            .epoch = Epoch(9)}})
      .Info("what", {});
  EXPECT_EQ(kept.text, "tenant=t run=7 task=number 2 try=1 epoch=9 ");
}

}  // namespace
}  // namespace headworks::executor
