// A program that does what a queue holds: `mail DATABASE` sends mails until Ctrl-C or SIGTERM.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <iostream>
#include <string>
#include <thread>

#include "headworks/job_worker/job_worker.h"
#include "headworks/runner/runner.h"

namespace {

struct Mail {
  std::string to;
  int copies = 1;
};
HEADWORKS_FIELDS(Mail, to, copies);

headworks::JobResult Send(const Mail& mail, headworks::JobContext& context) {
  if (mail.to.find('@') == std::string::npos) return headworks::Fail("no address: " + mail.to);
  for (int copy = 1; copy <= mail.copies; ++copy) {
    context.ThrowIfCancelled();
    std::cout << context.id() << ": copy " << copy << " to " << mail.to << std::endl;
  }
  return {};
}

/// Runs until a signal of `ends` comes, or Run ends by itself; a second signal stops the handlers.
headworks::Status RunUntil(const sigset_t& ends, headworks::JobWorker& worker) {
  headworks::Status ended;
  std::atomic<bool> is_over = false;
  std::thread running([&] {
    ended = worker.Run();
    is_over = true;
    kill(getpid(), SIGTERM);  // to the wait below
  });
  while (!is_over) {
    int signal = 0;
    sigwait(&ends, &signal);
    worker.Drain();
  }
  running.join();
  return ended;
}

int Serve(const std::string& database, const sigset_t& ends) {
  headworks::RunnerOptions options;
  options.database_url = "sqlite:" + database;
  const auto runner = headworks::Runner::Attach(options);
  if (!runner) {
    std::cerr << runner.error().message << '\n';
    return 1;
  }
  const auto worker = (*runner)->OpenJobWorker();
  if (!worker) {
    std::cerr << worker.error().message << '\n';
    return 1;
  }
  headworks::Status ended = (*worker)->Handle<Mail>("mail", Send, {.slots = 8});
  if (ended) ended = RunUntil(ends, **worker);
  if (!ended) std::cerr << ended.error().message << '\n';
  return ended ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: mail DATABASE\n";
    return 2;
  }
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before any thread begins
  return Serve(argv[1], ends);
}
