#include "headworks/executor_conformance/harness.h"
#include "tests/harness.h"

namespace headworks::executor::conformance {
namespace {

using executor_process::ProcessExecutor;
using namespace executor_process::testing;  // NOLINT(*-using-namespace)

class ProcessHarness final : public Harness {
 public:
  ProcessHarness() {
    auto options = OptionsOf(folder_.path());
    options.max_concurrent = 4;
    auto opened = ProcessExecutor::Open(
        options, {.resolver = resolver_, .log_store = *logs_, .clock = clock_, .log = log_});
    EXPECT_TRUE(opened) << opened.error().message;
    executor_ = *std::move(opened);
  }
  Executor& executor() override { return *executor_; }
  model::Task Succeeds() override { return Exec({"true"}); }
  model::Task Fails() override { return Exec({"false"}); }
  model::Task Waits() override { return Exec({"sleep", "600"}); }

 private:
  TemporaryFolder folder_;
  SystemClock clock_;
  NullLogger log_;
  FixedResolver resolver_;
  std::unique_ptr<log_store::LogStore> logs_ = log_store::NewMemoryLogStore();
  std::unique_ptr<ProcessExecutor> executor_;
};

INSTANTIATE_TEST_SUITE_P(Process, Conformance,
                         testing::Values(Kind{"Process",
                                              [] { return std::make_unique<ProcessHarness>(); }}));

}  // namespace
}  // namespace headworks::executor::conformance
