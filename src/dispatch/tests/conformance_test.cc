#include "headworks/base/log.h"
#include "headworks/dispatch/buffered_dispatcher.h"
#include "headworks/dispatch/default_dispatcher.h"
#include "headworks/dispatch/dispatch_metrics.h"
#include "headworks/dispatcher_conformance/harness.h"

namespace headworks::dispatcher::conformance {
namespace {

class DefaultHarness : public Harness {
 public:
  DefaultHarness(executor::Executor& functions, executor::Executor& commands, Sink& sink) {
    EXPECT_TRUE(default_.RegisterExecutor("functions", functions));
    EXPECT_TRUE(default_.RegisterExecutor("commands", commands));
    EXPECT_TRUE(default_.Start(sink));
  }
  Dispatcher& dispatcher() override { return default_; }

 protected:
  dispatch::DefaultDispatcher default_{{.functions = "functions", .commands = "commands"}};
};

class BufferedHarness final : public DefaultHarness {
 public:
  BufferedHarness(executor::Executor& functions, executor::Executor& commands, Sink& sink,
                  std::size_t size, std::size_t workers)
      : DefaultHarness(functions, commands, sink),
        buffered_({.buffer_size = size, .workers = workers}, {default_, metrics_, clock_, log_}) {
    EXPECT_TRUE(buffered_.Start(sink, sink));
  }
  Dispatcher& dispatcher() override { return buffered_; }

 private:
  dispatch::DispatchMetrics metrics_;
  SystemClock clock_;
  NullLogger log_;
  dispatch::BufferedDispatcher buffered_;
};

Kind Buffered(std::string name, std::size_t size, std::size_t workers) {
  return {std::move(name), [=](auto& functions, auto& commands, auto& sink) {
            return std::make_unique<BufferedHarness>(functions, commands, sink, size, workers);
          }};
}

INSTANTIATE_TEST_SUITE_P(Dispatchers, Conformance,
                         testing::Values(Kind{"Default",
                                              [](auto& functions, auto& commands, auto& sink) {
                                                return std::make_unique<DefaultHarness>(
                                                    functions, commands, sink);
                                              }},
                                         Buffered("Inline", 0, 4), Buffered("OneWorker", 8, 0),
                                         Buffered("FourWorkers", 8, 4),
                                         Buffered("OnePlace", 1, 4)));

}  // namespace
}  // namespace headworks::dispatcher::conformance
