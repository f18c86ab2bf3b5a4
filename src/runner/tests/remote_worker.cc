// A worker that lives elsewhere: a process that runs attempts it is sent over standard input, and
// speaks for each of them by words on standard output.
//
//   in:  offer RUN TASK EPOCH TOKEN | finish RUN EPOCH | reply SEQ REPLY [TOKEN]
//   out: say SEQ KIND RUN EPOCH TOKEN VERDICT | began RUN EPOCH | stopped RUN EPOCH
//
// Each attempt says once in a tick what it has to say: that it would start, that it lives, or how
// it ended.  Task 1 is poison: it ends its process the moment it begins.

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <utility>

namespace {

constexpr int kTickMs = 20;
// As executor::Word::Kind and executor::Reply.
constexpr int kStarted = 1, kHeartbeat = 2, kVerdict = 6;
constexpr int kGoOn = 1, kCancel = 2, kStop = 3;

using Id = std::pair<long, long>;  // run, epoch
struct Attempt {
  long task = 0;
  std::string token;
  int says = kStarted;
  std::string verdict = "succeeded";
};

std::map<Id, Attempt> attempts;
std::map<long, std::pair<Id, int>> said;  // by sequence number: who, and which kind
long sequence = 0;

void Tell(const char* what, const Id& id) {
  std::printf("%s %ld %ld\n", what, id.first, id.second);
  std::fflush(stdout);
}

void Speak() {
  for (const auto& [id, attempt] : attempts) {
    said[++sequence] = {id, attempt.says};
    std::printf("say %ld %d %ld %ld %s %s\n", sequence, attempt.says, id.first, id.second,
                attempt.token.c_str(), attempt.verdict.c_str());
  }
  std::fflush(stdout);
}

void Heard(long number, int reply, const std::string& token) {
  const auto [id, kind] = said[number];
  said.erase(number);
  const auto at = attempts.find(id);
  if (at == attempts.end()) return;
  if (!token.empty()) at->second.token = token;
  if (reply == kStop || (kind == kVerdict && reply == kGoOn)) {
    if (reply == kStop) Tell("stopped", id);
    attempts.erase(at);
  } else if (reply == kCancel) {
    at->second.says = kVerdict;
    at->second.verdict = "cancelled";
  } else if (reply == kGoOn && at->second.says == kStarted) {
    Tell("began", id);
    if (at->second.task == 1) _exit(1);
    at->second.says = kHeartbeat;
  }
}

void Obey(const std::string& line) {
  std::istringstream words(line);
  std::string what, token;
  long a = 0, b = 0, c = 0;
  words >> what >> a >> b;
  if (what == "offer" && words >> c >> token) attempts[{a, c}] = {.task = b, .token = token};
  if (what == "reply") {
    words >> token;
    Heard(a, static_cast<int>(b), token);
  }
  if (what == "finish")
    if (const auto at = attempts.find({a, b}); at != attempts.end()) at->second.says = kVerdict;
}

}  // namespace

int main() {
  std::string input;
  for (;;) {
    pollfd in{STDIN_FILENO, POLLIN, 0};
    const int ready = poll(&in, 1, kTickMs);
    if (ready == 0) Speak();
    if (ready <= 0) continue;
    char buffer[4'096];
    const ssize_t bytes = read(STDIN_FILENO, buffer, sizeof buffer);
    if (bytes <= 0) return 0;
    input.append(buffer, static_cast<std::size_t>(bytes));
    for (std::size_t end = 0; (end = input.find('\n')) != std::string::npos;
         input.erase(0, end + 1))
      Obey(input.substr(0, end));
  }
}
