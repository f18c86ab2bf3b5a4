#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "headworks/executor_process/process_executor.h"

// One task writes BYTES of lines.  Prints time, memory and lines as one JSON object; exits with 1
// if the task did not succeed, its log was not cut, or memory grew with what was written.
namespace headworks::executor_process {
namespace {

class OneEnd final : public executor::AttemptSink {
 public:
  void Started(const model::AttemptKey&) override {}
  void Ended(const model::AttemptKey&, model::Outcome outcome) override {
    verdict = outcome.verdict;
    ended = true;
    ended.notify_one();
  }
  void Hear(executor::Word, std::function<void(executor::Heard)> reply) override {
    reply(executor::Reply::kStop);
  }
  void CapacityChanged() override {}
  model::Verdict verdict{};
  std::atomic<bool> ended = false;
};

class NoInput final : public executor::Resolver {
 public:
  Result<executor::Resolved> Resolve(const executor::Attempt&) override {
    return executor::Resolved{.context_json = "{}", .merged_json = "{}"};
  }
};

/// Counts, so that the memory measured is the executor's.
class CountingLogStore final : public log_store::LogStore {
 public:
  Status Append(std::span<const log_store::Batch> batches) override {
    for (const log_store::Batch& batch : batches) {
      lines += batch.lines.size();
      for (const log_store::Line& line : batch.lines) {
        if (line.stream == log_store::Stream::kNote) cut = true;
      }
    }
    return {};
  }
  Result<log_store::Page> Read(const log_store::Query&) override { return log_store::Page{}; }
  Result<log_store::Page> Tail(const log_store::Query&) override { return log_store::Page{}; }
  Status DeleteRun(const TenantId&, RunNo) override { return {}; }
  std::atomic<std::size_t> lines = 0;
  std::atomic<bool> cut = false;
};

long MaxRssMib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1'024;
}

int Flood(const std::string& bytes) {
  std::string folder = (std::filesystem::temp_directory_path() / "headworks-flood-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  SystemClock clock;
  NullLogger log;
  NoInput resolver;
  OneEnd sink;
  CountingLogStore logs;
  ProcessExecutorOptions options;
  options.state_dir = folder + "/state";
  options.store_id = "flood";
  auto executor = ProcessExecutor::Open(
      options, {.resolver = resolver, .log_store = logs, .clock = clock, .log = log});
  if (!executor || !(*executor)->Start(sink)) return 1;
  model::Task task;
  task.id = "flood";
  task.action = model::ShellAction{.script = "yes " + std::string(99, 'x') + " | head -c " + bytes};
  model::WorkflowDefinition definition;
  definition.name.workflow = "flood";
  definition.tasks = {task};
  executor::Attempt attempt;
  attempt.key.tenant = TenantId("public");
  attempt.key.epoch = Epoch(1);
  attempt.run_id = RunId("flood");
  attempt.workflow = *model::Workflow::Create(std::move(definition));
  const Duration before = clock.Monotonic();
  (*executor)->Offer(attempt);
  sink.ended.wait(false);
  const Duration took = clock.Monotonic() - before;
  executor->reset();
  std::filesystem::remove_all(folder);
  fmt::print("{{\"seconds\": {:.2f}, \"max_rss_mib\": {}, \"lines\": {}, \"cut\": {}}}\n",
             static_cast<double>(took.count()) / 1e6, MaxRssMib(), logs.lines.load(),
             logs.cut.load());
  return sink.verdict == model::Verdict::kSucceeded && logs.cut && MaxRssMib() < 200 ? 0 : 1;
}

}  // namespace
}  // namespace headworks::executor_process

int main(int argc, char** argv) {
  return headworks::executor_process::Flood(argc > 1 ? argv[1] : "1000000000");
}
