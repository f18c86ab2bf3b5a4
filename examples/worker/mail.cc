// A program that does what a queue of an engine elsewhere holds: `mail SERVER TOKEN_FILE` sends
// mails until Ctrl-C or SIGTERM.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

#include "headworks/base/random.h"
#include "headworks/job_worker/job_worker.h"
#include "headworks/rpc/rpc_items.h"

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

/// The token is read again for each call, so that the file may be replaced.
std::string ReadToken(const std::string& file) {
  std::ifstream in(file);
  std::string token;
  std::getline(in, token);
  return token;
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

headworks::Status Serve(const std::string& server, const std::string& token_file,
                        const sigset_t& ends) {
  headworks::SystemClock clock;
  headworks::SystemRandom random;
  headworks::StderrLogger log(headworks::StderrLogger::Format::kText,
                              headworks::LogLevel::kWarning);
  headworks::rpc::RpcClientOptions connection;
  connection.target = server;
  connection.credential = [&] { return ReadToken(token_file); };
  const headworks::TenantId tenant("public");
  HEADWORKS_ASSIGN(const auto items,
                   headworks::rpc::RpcItems::Open(connection, tenant, "mail", random));
  HEADWORKS_ASSIGN(
      const auto worker,
      headworks::JobWorker::OpenRemote({.tenant = tenant, .name = "mail"}, {*items, clock, log}));
  HEADWORKS_TRY(worker->Handle<Mail>("mail", Send, {.slots = 8}));
  return RunUntil(ends, *worker);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: mail SERVER TOKEN_FILE\n";
    return 2;
  }
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before any thread begins
  const headworks::Status ended = Serve(argv[1], argv[2], ends);
  if (!ended) std::cerr << ended.error().message << '\n';
  return ended ? 0 : 1;
}
