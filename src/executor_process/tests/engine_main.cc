#include <unistd.h>

#include <cstdlib>

#include "tests/harness.h"

// An engine to be killed: `executor_process_engine FOLDER GRACE_MS SCRIPT...` starts one attempt
// per script (epochs 1, 2, ...) on the executor of FOLDER, and another (epoch + 100) when it ends,
// then waits for its own end by force.
namespace headworks::executor_process::testing {
namespace {

constexpr std::int64_t kAgain = 100;

int RunEngine(int argc, char** argv) {
  SystemClock clock;
  StderrLogger log(StderrLogger::Format::kText, LogLevel::kWarning);
  FixedResolver resolver;
  RecordingSink sink;
  const auto logs = log_store::NewMemoryLogStore();
  const std::string folder = argv[1];
  const ProcessExecutorOptions options = OptionsOf(folder);
  const auto ledger =
      executor::StartLedger::Open(folder + "/started", "boot", LedgerCapacity(options), RunNo(1));
  if (!ledger) return 1;
  const auto executor = ProcessExecutor::Open(options, {.resolver = resolver,
                                                        .log_store = *logs,
                                                        .clock = clock,
                                                        .log = log,
                                                        .ledger = ledger->get()});
  if (!executor || !(*executor)->Start(sink)) return 1;
  const auto offer = [&](int script, std::int64_t epoch) {
    model::Task task = Shell(argv[script]);
    task.grace = std::chrono::milliseconds(std::atoi(argv[2]));
    (*executor)->Offer(AttemptOf(1, epoch, task, folder));
  };
  sink.OnEnded([&](const model::AttemptKey& key) {
    offer(static_cast<int>(key.epoch.value % kAgain) + 2, key.epoch.value + kAgain);
  });
  for (int i = 3; i < argc; ++i) offer(i, i - 2);
  while (true) pause();
}

}  // namespace
}  // namespace headworks::executor_process::testing

int main(int argc, char** argv) {
  return headworks::executor_process::testing::RunEngine(argc, argv);
}
