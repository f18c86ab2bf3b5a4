#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "headworks/author/author.h"
#include "headworks/executor_conformance/harness.h"
#include "headworks/executor_inline/inline_executor.h"

namespace headworks::executor::conformance {
namespace {

class NoInputs final : public Resolver {
 public:
  Result<Resolved> Resolve(const Attempt&) override { return Resolved{"{}", "{}", {}}; }
};

class NoLines final : public executor_inline::LineSink {
 public:
  Status Append(const model::AttemptKey&, std::int64_t, Instant, std::string_view,
                const std::stop_token&) override {
    return {};
  }
};

class InlineHarness final : public Harness {
 public:
  InlineHarness() {
    Register("succeeds", [] {});
    Register("fails", [] { throw std::runtime_error("as it was told to"); });
    Register("waits", [](TaskContext& context) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any never;
      never.wait(lock, context.stop_token(), [] { return false; });
      throw Cancelled();
    });
  }
  Executor& executor() override { return *executor_; }
  model::Task Succeeds() override { return Calls("succeeds"); }
  model::Task Fails() override { return Calls("fails"); }
  model::Task Waits() override { return Calls("waits"); }

 private:
  template <typename F>
  void Register(const std::string& name, F function) {
    const Status done = registry_.Register({.task = name}, MakeTask(std::move(function)), "here");
    EXPECT_TRUE(done) << done.error().message;
  }
  static model::Task Calls(std::string function) {
    model::Task task;
    task.action = model::FunctionAction{std::move(function)};
    return task;
  }

  TaskRegistry registry_;
  NoInputs inputs_;
  NoLines lines_;
  SystemClock clock_;
  NullLogger log_;
  const std::unique_ptr<Executor> executor_ = executor_inline::NewInlineExecutor(
      {.threads = 4, .queue_depth = 2},
      {.registry = registry_, .resolver = inputs_, .lines = lines_, .clock = clock_, .log = log_});
};

INSTANTIATE_TEST_SUITE_P(Inline, Conformance,
                         testing::Values(Kind{"Inline",
                                              [] { return std::make_unique<InlineHarness>(); }}));

}  // namespace
}  // namespace headworks::executor::conformance
