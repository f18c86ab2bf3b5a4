/// How many trivial attempts a second go through an inline executor, from Offer to Settled, and
/// what a mark in the start ledger costs.
///
///   bench_inline_executor [attempts] [threads]

#include <malloc.h>
#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "headworks/author/author.h"
#include "headworks/executor_inline/inline_executor.h"

namespace headworks {
namespace {

using model::AttemptKey;
using BenchClock = std::chrono::steady_clock;

/// Elapsed and processor time since it was made: on a busy machine only the second says much.
class Stopwatch {
 public:
  double Elapsed() const {
    return std::chrono::duration<double>(BenchClock::now() - start_).count();
  }
  double Cpu() const { return CpuNow() - cpu_; }

 private:
  static double CpuNow() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }

  BenchClock::time_point start_ = BenchClock::now();
  double cpu_ = CpuNow();
};

/// Gathers verdicts like an engine: they wait until the control thread takes them all.
class Verdicts final : public executor::AttemptSink {
 public:
  void Started(const AttemptKey&) override {}
  void Ended(const AttemptKey& key, model::Outcome outcome) override {
    const std::scoped_lock lock(mutex_);
    if (outcome.verdict != model::Verdict::kSucceeded) std::abort();
    ended_.push_back(key);
    if (ended_.size() == 1) changed_.notify_one();
  }
  void Hear(executor::Word, std::function<void(executor::Heard)> reply) override {
    reply(executor::Reply::kStop);
  }
  void CapacityChanged() override { changed_.notify_one(); }

  std::vector<AttemptKey> Take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(ended_, {});
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(1), [&] { return !ended_.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<AttemptKey> ended_;
};

class ConstantInput final : public executor::Resolver {
 public:
  Result<executor::Resolved> Resolve(const executor::Attempt&) override {
    return executor::Resolved{.context_json = "{}", .merged_json = R"({"n":1})"};
  }
};

class NoLines final : public executor_inline::LineSink {
 public:
  Status Append(const AttemptKey&, std::int64_t, Instant, std::string_view,
                const std::stop_token&) override {
    return {};
  }
};

struct Number {
  int n = 0;
};
HEADWORKS_FIELDS(Number, n);

struct Setup {
  std::size_t threads = 2;
  std::int64_t attempts = 0;
  std::string function;
};

/// Elapsed and processor nanoseconds for one attempt.
std::pair<double, double> Measure(const Setup& setup, executor::StartLedger& ledger) {
  TaskRegistry registry;
  if (!registry.Register({.task = "nothing"}, MakeTask([] {}), "bench") ||
      !registry.Register({.task = "typed"}, MakeTask([](const Number& in) { return in; }), "bench"))
    std::abort();
  WorkflowBuilder builder("bench");
  builder.Task("t").Function(setup.function);
  ConstantInput inputs;
  NoLines lines;
  SystemClock clock;
  NullLogger log;
  Verdicts verdicts;
  const auto executor = executor_inline::NewInlineExecutor(
      {.threads = setup.threads, .queue_depth = 1024}, {.registry = registry,
                                                        .resolver = inputs,
                                                        .lines = lines,
                                                        .clock = clock,
                                                        .log = log,
                                                        .ledger = &ledger});
  if (!executor->Start(verdicts)) std::abort();
  executor::Attempt attempt{.key = {.tenant = TenantId("public"), .run = RunNo(1)},
                            .run_id = RunId("0190a1b2-0000-7000-8000-000000000001"),
                            .workflow = *builder.Build()};
  const Stopwatch watch;
  std::int64_t offered = 0;
  for (std::int64_t settled = 0; settled < setup.attempts;) {
    for (std::uint32_t credit = executor->GetCapacity().free();
         credit > 0 && offered < setup.attempts; --credit) {
      attempt.key.epoch = Epoch(++offered);
      if (executor->Offer(attempt).disposition != model::Disposition::kDispatched) std::abort();
    }
    const std::vector<AttemptKey> ended = verdicts.Take();
    if (ended.empty()) verdicts.Wait();
    executor->Settled(ended);
    settled += static_cast<std::int64_t>(ended.size());
  }
  const auto count = static_cast<double>(setup.attempts) / 1e9;
  return {watch.Elapsed() / count, watch.Cpu() / count};
}

/// Processor nanoseconds for one mark and its clearing.
double MeasureLedger(executor::StartLedger& ledger) {
  constexpr std::int64_t kMarks = 2'000'000;
  constexpr std::int64_t kLive = 1000;
  AttemptKey key{.tenant = TenantId("public"), .run = RunNo(2)};
  AttemptKey old = key;
  const Stopwatch watch;
  for (std::int64_t epoch = 1; epoch <= kMarks; ++epoch) {
    key.epoch = Epoch(epoch);
    if (!ledger.MarkStarted(key)) std::abort();
    old.epoch = Epoch(epoch - kLive);
    if (epoch > kLive) ledger.Clear({&old, 1});
  }
  return watch.Cpu() * 1e9 / static_cast<double>(kMarks);
}

int Main(int argc, char** argv) {
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
  ::mallopt(M_MMAP_THRESHOLD, 64 << 20);
  const std::int64_t attempts = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
  const std::size_t threads = argc > 2 ? static_cast<std::size_t>(std::atoi(argv[2])) : 2;
  const auto path = std::filesystem::temp_directory_path() / "headworks-bench.started";
  auto ledger = executor::StartLedger::Open(path, "bench", 100'000, RunNo(1));
  if (!ledger) std::abort();
  std::printf("%-24s %12s %16s\n", "inline executor", "attempts/s", "cpu ns/attempt");
  for (const char* function : {"nothing", "typed"}) {
    const auto [elapsed, cpu] =
        Measure({.threads = threads, .attempts = attempts, .function = function}, **ledger);
    std::printf("  %-22s %12.0f %16.0f\n", function, 1e9 / elapsed, cpu);
  }
  std::printf("%-24s %12s %16.0f\n", "ledger: mark and clear", "", MeasureLedger(**ledger));
  std::filesystem::remove(path);
  return 0;
}

}  // namespace
}  // namespace headworks

int main(int argc, char** argv) { return headworks::Main(argc, argv); }
