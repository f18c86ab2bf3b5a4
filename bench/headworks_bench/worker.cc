/// What a worker over gRPC costs, engine and worker in one process on loopback.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench.h"
#include "headworks/author/author.h"
#include "headworks/base/random.h"
#include "headworks/rpc/rpc_client.h"
#include "headworks/rpc/rpc_server.h"
#include "headworks/runner/runner.h"
#include "headworks/worker/worker.h"

namespace headworks::bench {
namespace {

using namespace std::chrono_literals;

void Check(bool good, std::string_view what) {
  if (!good) Die(what);
}

/// Lets everybody in.
class Anyone final : public rpc::Authenticator {
 public:
  Result<rpc::Grant> Check(std::string_view) override {
    return rpc::Grant{.tenant = TenantId("public")};
  }
};

/// An engine whose functions run with workers, on a folder of its own.
class Hub {
 public:
  explicit Hub(const Options& options) : scratch_(options) {
    const auto noop = [this](TaskContext&) -> TaskResult<Json> {
      last_began_ = clock_.Monotonic().count();
      if (++ended_ == want_) {
        const std::scoped_lock lock(mutex_);
        all_.notify_all();
      }
      return Json();
    };
    Check(registry_.Register({.task = "noop"}, noop, "bench").has_value(), "register");
    RunnerOptions runner_options{.database_url = "sqlite:" + Folder("db"),
                                 .function_executor = "queue"};
    runner_options.registry = &registry_;
    auto opened = Runner::Open(runner_options);
    Check(opened.has_value(), "the engine does not open");
    runner_ = *std::move(opened);
    WorkflowBuilder flow("noop");
    flow.Task("a").Function("noop");
    Check(runner_->Register(*flow.Build()).has_value(), "register");
    auto server = rpc::RpcServer::Open({.address = "127.0.0.1:0"},
                                       {*runner_->worker_service(), authenticator_, clock_, log_});
    Check(server.has_value(), "the server does not open");
    server_ = *std::move(server);
  }

  std::unique_ptr<rpc::RpcClient> Connect() {
    auto client = rpc::RpcClient::Open(
        {.target = server_->address(), .credential = [] { return std::string("x"); }});
    Check(client.has_value(), "the client does not open");
    return *std::move(client);
  }

  /// One worker with so many slots, for as long as `work` takes.
  template <typename Work>
  void WithWorker(std::uint32_t slots, const Work& work) {
    const auto client = Connect();
    auto opened = worker::Worker::Open({.tenant = TenantId("public"),
                                        .name = "bench",
                                        .slots = {{"default", slots}},
                                        .state_dir = Folder("worker")},
                                       {.service = *client,
                                        .registry = registry_,
                                        .clock = clock_,
                                        .random = random_,
                                        .log = log_});
    Check(opened.has_value(), opened ? "" : opened.error().message.c_str());
    std::jthread runs([&] { Check((*opened)->Run().has_value(), "the worker ends badly"); });
    work();
    (*opened)->Drain();
  }

  void Begin(int count) {
    want_ = ended_ + count;
    for (int i = 0; i < count; ++i)
      runner_->StartAsync("noop", {}, [](const Result<RunHandle>& run) {
        Check(run.has_value(), "a start is refused");
      });
  }
  void Await() {
    std::unique_lock lock(mutex_);
    all_.wait(lock, [this] { return ended_ >= want_; });
  }
  /// From a committed start to the first instruction, microseconds.
  std::int64_t OneHop() {
    want_ = ended_ + 1;
    const auto run = runner_->Start("noop");
    Check(run.has_value(), "a start is refused");
    const Duration committed = clock_.Monotonic();
    Await();
    const std::int64_t hop = last_began_ - committed.count();
    Check(run->Wait(60s).has_value(), "a run does not end");
    return hop;
  }
  Clock& clock() { return clock_; }

 private:
  std::string Folder(const char* name) const { return (scratch_.path() / name).string(); }

  const Scratch scratch_;
  SystemClock clock_;
  SystemRandom random_;
  NullLogger log_;
  Anyone authenticator_;
  TaskRegistry registry_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<rpc::RpcServer> server_;
  std::atomic<std::int64_t> last_began_ = 0;
  std::atomic<int> ended_ = 0, want_ = 0;
  std::mutex mutex_;
  std::condition_variable all_;
};

Figure Line(const Options& options, std::string what, std::string unit, double value,
            std::string aim) {
  return {.workload = "worker",
          .what = std::move(what),
          .unit = std::move(unit),
          .engine = value,
          .smaller_is_better = true,
          .aim = std::move(aim),
          .flush_us = FlushMicros(options.folder)};
}

/// One task at a time, so that none waits for another.
Figures MeasureHops(const Options& options, Hub& hub) {
  std::vector<std::int64_t> hops;
  hub.WithWorker(1, [&] {
    hub.OneHop();
    for (int i = 0; i < (options.quick ? 10 : 1'000); ++i) hops.push_back(hub.OneHop());
  });
  std::ranges::sort(hops);
  const auto at = [&](std::size_t percent) {
    return static_cast<double>(hops[hops.size() * percent / 100]) / 1e3;
  };
  constexpr std::string_view kWhat = "from a committed start to the first instruction";
  return {Line(options, fmt::format("{}, p50", kWhat), "ms", at(50), ""),
          Line(options, fmt::format("{}, p99", kWhat), "ms", at(99), "")};
}

Figure MeasureRate(const Options& options, Hub& hub, std::uint32_t slots) {
  const int tasks = options.quick ? 20 : slots == 1 ? 1'000 : 5'000;
  Figure figure = Line(options, fmt::format("tasks over {} slots", slots), "tasks/s", 0, "");
  figure.smaller_is_better = false;
  hub.WithWorker(slots, [&] {
    hub.OneHop();
    const Stopwatch watch;
    hub.Begin(tasks);
    hub.Await();
    figure.engine = tasks / watch.Seconds();
    figure.engine_cpu_us = 1e6 * watch.Cpu() / tasks;
  });
  return figure;
}

/// Registered workers that wait for work.
Figure MeasureIdle(const Options& options, Hub& hub, int workers) {
  struct Idle {
    std::unique_ptr<rpc::RpcClient> client;
    worker_api::Identity who;
  };
  std::vector<Idle> all;
  std::atomic<bool> over = false;
  std::function<void(Idle&)> poll = [&](Idle& idle) {
    idle.client->PollFor({.who = idle.who, .free = {{"default", 1}}, .wait = 30s},
                         [&](const Result<worker_api::Polled>&) {
                           if (!over) poll(idle);
                         });
  };
  all.reserve(static_cast<std::size_t>(workers));
  for (int i = 0; i < workers; ++i)
    all.push_back({hub.Connect(), {TenantId("public"), fmt::format("idle-{}", i), "one"}});
  for (Idle& idle : all)
    idle.client->Register({.who = idle.who, .slots = {{"default", 1}}},
                          [&](const Result<worker_api::Welcome>& welcome) {
                            Check(welcome.has_value(), "a registration is refused");
                            poll(idle);
                          });
  const auto span = options.quick ? 100ms : 10'000ms;
  std::this_thread::sleep_for(options.quick ? 100ms : 1'000ms);
  const Stopwatch watch;
  std::this_thread::sleep_for(span);
  const double used = watch.Cpu() / watch.Seconds();
  over = true;
  all.clear();
  return Line(options, fmt::format("{} idle workers, both sides", workers), "% of a CPU",
              100 * used, "");
}

}  // namespace

Figures RemoteWorkers(const Options& options) {
  Hub hub(options);
  Figures figures = MeasureHops(options, hub);
  for (const std::uint32_t slots : {1U, 8U, 64U})
    figures.push_back(MeasureRate(options, hub, slots));
  figures.push_back(MeasureIdle(options, hub, options.quick ? 10 : 100));
  return figures;
}

}  // namespace headworks::bench
