// The suite that every executor must pass, over the printer.
#include <filesystem>

#include "headworks/executor_conformance/harness.h"
#include "printer.h"

namespace headworks::executor::conformance {
namespace {

class PrinterHarness final : public Harness {
 public:
  ~PrinterHarness() override { std::filesystem::remove(paper_); }
  Executor& executor() override { return printer_; }
  model::Task Succeeds() override { return Exec({"print", "a line"}); }
  model::Task Fails() override { return Exec({"fold"}); }
  model::Task Waits() override { return Exec({"hold"}); }

 private:
  static model::Task Exec(std::vector<std::string> argv) {
    model::Task task;
    task.action = model::ExecAction{std::move(argv)};
    return task;
  }
  static std::string NewPaper() {
    std::string name = testing::TempDir() + "/paper-XXXXXX";
    EXPECT_GE(mkstemp(name.data()), 0);
    return name;
  }

  const std::string paper_ = NewPaper();
  Printer printer_{paper_};
};

INSTANTIATE_TEST_SUITE_P(Printer, Conformance,
                         testing::Values(Kind{"Printer",
                                              [] { return std::make_unique<PrinterHarness>(); }}));

TEST(Printer, TakesNoTextThatForgesTheMarkOfAnother) {
  PrinterHarness harness;
  Sink sink;
  ASSERT_TRUE(harness.executor().Start(sink));
  std::int64_t epoch = 0;
  for (const char* text : {"a\n7/3 x", "a\r", "\n"}) {
    model::Task task;
    task.action = model::ExecAction{{"print", text}};
    const OfferResult refused = harness.executor().Offer(AttemptOf(task, ++epoch));
    EXPECT_EQ(refused.disposition, model::Disposition::kRefused);
    EXPECT_EQ(refused.error, DispatchError::kValidation);
    EXPECT_EQ(refused.cause, "the printer takes TEXT without line breaks");
  }
  EXPECT_TRUE(harness.executor().List().empty());
  EXPECT_TRUE(harness.executor().Drain(Duration(0)));
}

}  // namespace
}  // namespace headworks::executor::conformance
