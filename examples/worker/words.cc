// A worker with C++ tasks of its own: `words SERVER TOKEN_FILE STATE_DIR` runs them for the engine
// at SERVER until Ctrl-C or SIGTERM.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>

#include "headworks/author/author.h"
#include "headworks/base/random.h"
#include "headworks/rpc/rpc_client.h"
#include "headworks/worker/worker.h"

namespace {

struct Text {
  std::string text;
};
HEADWORKS_FIELDS(Text, text);

struct Count {
  int words = 0;
};
HEADWORKS_FIELDS(Count, words);

Count CountWords(const Text& input, headworks::TaskContext& context) {
  std::istringstream in(input.text);
  Count count;
  for (std::string word; in >> word;) ++count.words;
  context.Log("counted " + std::to_string(count.words) + " words");
  return count;
}
HEADWORKS_TASK("count_words", CountWords);

/// Runs until a signal of `ends` comes, or Run ends by itself; a second signal stops what runs.
headworks::Status RunUntil(const sigset_t& ends, headworks::worker::Worker& worker) {
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

/// The token is read again for each call, so that the file may be replaced.
std::string ReadToken(const std::string& file) {
  std::ifstream in(file);
  std::string token;
  std::getline(in, token);
  return token;
}

headworks::Status Serve(const std::string& server, const std::string& token_file,
                        const std::string& state_dir, const sigset_t& ends) {
  headworks::TaskRegistry registry;
  HEADWORKS_TRY(registry.RegisterLinked());
  headworks::SystemClock clock;
  headworks::SystemRandom random;
  headworks::StderrLogger log(headworks::StderrLogger::Format::kText,
                              headworks::LogLevel::kWarning);
  headworks::rpc::RpcClientOptions connection;
  connection.target = server;
  connection.credential = [&] { return ReadToken(token_file); };
  HEADWORKS_ASSIGN(const auto client, headworks::rpc::RpcClient::Open(connection));
  headworks::worker::WorkerOptions options;
  options.tenant = headworks::TenantId("public");
  options.name = "words";
  options.slots = {{"default", 2}};
  options.state_dir = state_dir;
  headworks::worker::WorkerPorts ports{*client, registry, clock, random, log};
  ports.tell = [](const std::string& line) { std::cout << line << std::endl; };
  HEADWORKS_ASSIGN(const auto worker, headworks::worker::Worker::Open(options, ports));
  return RunUntil(ends, *worker);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: words SERVER TOKEN_FILE STATE_DIR\n";
    return 2;
  }
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before any thread begins
  const headworks::Status ended = Serve(argv[1], argv[2], argv[3], ends);
  if (!ended) std::cerr << ended.error().message << '\n';
  return ended ? 0 : 1;
}
