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

}  // namespace
}  // namespace headworks::executor::conformance
