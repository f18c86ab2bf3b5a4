// `shell_jobs SERVER NAME QUEUE LEASE_MS`: runs the payloads of a queue's items, texts, as shell
// commands, two at a time, until SIGTERM.  Its token is in HEADWORKS_WORKER_TOKEN.
#include <signal.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "headworks/base/random.h"
#include "headworks/job_worker/job_worker.h"
#include "headworks/rpc/rpc_items.h"

namespace {

using headworks::JobWorker;

headworks::JobResult RunShell(const std::string& command, headworks::JobContext& context) {
  std::cout << context.id() << " begun, attempt " << context.attempt() << std::endl;
  // The shell is the child of this program alone: what it began ends with it, or by itself.
  const int ended = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe)
  std::cout << context.id() << " ended " << ended << std::endl;
  if (ended == 0) return {};
  return headworks::Error{headworks::Code::kInternal, "exit " + std::to_string(ended)};
}

headworks::Status Serve(char** argv, const sigset_t& ends) {
  headworks::SystemClock clock;
  headworks::SystemRandom random;
  headworks::StderrLogger log(headworks::StderrLogger::Format::kText, headworks::LogLevel::kInfo);
  const headworks::TenantId tenant("public");
  const char* const token = std::getenv("HEADWORKS_WORKER_TOKEN");  // NOLINT(concurrency-mt-unsafe)
  headworks::rpc::RpcClientOptions connection;
  connection.target = argv[1];
  connection.credential = [token] { return std::string(token == nullptr ? "" : token); };
  HEADWORKS_ASSIGN(const auto items,
                   headworks::rpc::RpcItems::Open(connection, tenant, argv[2], random));
  HEADWORKS_ASSIGN(const auto worker, JobWorker::OpenRemote({.tenant = tenant, .name = argv[2]},
                                                            {*items, clock, log}));
  const std::chrono::milliseconds lease(std::stoi(argv[4]));
  HEADWORKS_TRY(worker->Handle<std::string>(argv[3], RunShell, {.slots = 2, .lease = lease}));
  headworks::Status ended;
  std::jthread running([&] {
    ended = worker->Run();
    kill(getpid(), SIGTERM);  // to the wait below
  });
  int signal = 0;
  sigwait(&ends, &signal);
  worker->Drain();
  running.join();
  return ended;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before any thread begins
  const headworks::Status ended = Serve(argv, ends);
  std::cout << (ended ? std::string("left") : "ended: " + ended.error().message) << std::endl;
  return ended ? 0 : 1;
}
