/// What a worker over gRPC costs, engine and worker in one process on loopback: from a committed
/// start to the first instruction of the code, tasks a second by slots, and 100 idle workers.
///
///   bench_worker_rpc [tasks] [seconds of idling]

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "headworks/author/author.h"
#include "headworks/base/random.h"
#include "headworks/rpc/rpc_client.h"
#include "headworks/rpc/rpc_server.h"
#include "headworks/runner/runner.h"
#include "headworks/worker/worker.h"

namespace headworks {
namespace {

using namespace std::chrono_literals;

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void Check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "bench_worker_rpc: %s\n", what);
  std::exit(1);
}

/// Lets everybody in.
class Anyone final : public rpc::Authenticator {
 public:
  Result<rpc::Grant> Check(std::string_view) override {
    return rpc::Grant{.tenant = TenantId("public")};
  }
};

/// An engine whose functions run with workers, on a folder of its own.
class Site {
 public:
  Site() {
    std::string folder = (std::filesystem::temp_directory_path() / "bench-XXXXXX").string();
    Check(mkdtemp(folder.data()) != nullptr, "no temporary folder");
    folder_ = folder;
    const auto noop = [this](TaskContext&) -> TaskResult<Json> {
      last_began_ = clock_.Monotonic().count();
      if (++ended_ == want_) {
        const std::scoped_lock lock(mutex_);
        all_.notify_all();
      }
      return Json();
    };
    Check(registry_.Register({.task = "noop"}, noop, "bench").has_value(), "register");
    RunnerOptions options{.database_url = "sqlite:" + folder_ + "/db",
                          .function_executor = "queue"};
    options.registry = &registry_;
    auto opened = Runner::Open(options);
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
  ~Site() {
    server_.reset();
    runner_.reset();
    std::filesystem::remove_all(folder_);
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
                                        .state_dir = folder_ + "/worker"},
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
  std::string folder_;
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

void MeasureHops(Site& site, int count) {
  site.WithWorker(1, [&] {
    site.OneHop();
    std::vector<std::int64_t> hops;
    hops.reserve(count);
    for (int i = 0; i < count; ++i) hops.push_back(site.OneHop());
    std::ranges::sort(hops);
    std::printf("committed start -> code begins, one at a time: p50 %lld us, p99 %lld us (%d)\n",
                static_cast<long long>(hops[hops.size() / 2]),
                static_cast<long long>(hops[hops.size() * 99 / 100]), count);
  });
}

void MeasureRate(Site& site, std::uint32_t slots, int tasks) {
  site.WithWorker(slots, [&] {
    site.OneHop();
    const Duration begin = site.clock().Monotonic();
    const double cpu = CpuSeconds();
    site.Begin(tasks);
    site.Await();
    const double took = std::chrono::duration<double>(site.clock().Monotonic() - begin).count();
    std::printf("%2u slots: %.0f tasks/s, %.0f us of processor each (engine and worker)\n", slots,
                tasks / took, 1e6 * (CpuSeconds() - cpu) / tasks);
  });
}

/// Registered workers that wait for work.
void MeasureIdle(Site& site, int workers, Duration span) {
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
  all.reserve(workers);
  for (int i = 0; i < workers; ++i)
    all.push_back({site.Connect(), {TenantId("public"), "idle-" + std::to_string(i), "one"}});
  for (Idle& idle : all)
    idle.client->Register({.who = idle.who, .slots = {{"default", 1}}},
                          [&](const Result<worker_api::Welcome>& welcome) {
                            Check(welcome.has_value(), "a registration is refused");
                            poll(idle);
                          });
  std::this_thread::sleep_for(1s);
  const double cpu = CpuSeconds();
  std::this_thread::sleep_for(span);
  const double used = CpuSeconds() - cpu;
  std::printf("%d idle workers: %.2f %% of a processor (both sides)\n", workers,
              100 * used / std::chrono::duration<double>(span).count());
  over = true;
  all.clear();
}

}  // namespace
}  // namespace headworks

int main(int argc, char** argv) {
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  const int tasks = argc > 1 ? std::atoi(argv[1]) : 5'000;
  const int seconds = argc > 2 ? std::atoi(argv[2]) : 10;
  headworks::Site site;
  headworks::MeasureHops(site, std::max(10, tasks / 10));
  for (const std::uint32_t slots : {1U, 8U, 64U})
    headworks::MeasureRate(site, slots, slots == 1 ? std::max(10, tasks / 5) : tasks);
  headworks::MeasureIdle(site, 100, std::chrono::seconds(seconds));
}
