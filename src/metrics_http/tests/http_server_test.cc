#include "headworks/metrics_http/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace headworks::metrics_http {
namespace {

using namespace std::chrono_literals;

/// One connection, spoken to byte by byte.
class Client {
 public:
  Client() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit Client(const HttpServer& server) : Client() { Connect(server); }
  void Connect(const HttpServer& server) {
    const std::string address = server.address();
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void Send(std::string_view text) const {
    // The server may have hung up: what it said counts.
    static_cast<void>(send(fd_, text.data(), text.size(), MSG_NOSIGNAL));
  }
  /// Waits up to `time` for an answer, or for the connection to break.
  short Wait(std::chrono::milliseconds time) const {
    pollfd what = {.fd = fd_, .events = POLLIN, .revents = 0};
    static_cast<void>(poll(&what, 1, static_cast<int>(time.count())));
    return what.revents;
  }
  /// False: the server has no more ears.
  bool IsHeard(std::string_view text, std::chrono::milliseconds time) const {
    Send(text);
    pollfd what = {.fd = fd_, .events = 0, .revents = 0};  // errors alone
    return poll(&what, 1, static_cast<int>(time.count())) == 0;
  }
  void KeepSmallBuffer() const {
    const int bytes = 4'096;
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }
  int fd() const { return fd_; }
  /// All until the server closes.
  std::string ReadToEnd() const {
    std::string all;
    char buffer[4'096];
    for (ssize_t got = 0; (got = recv(fd_, buffer, sizeof buffer, 0)) > 0;)
      all.append(buffer, static_cast<std::size_t>(got));
    return all;
  }
  /// One answer: its head and as much body as that says.
  std::string ReadOne() const {
    std::string all;
    char c = 0;
    while (all.find("\r\n\r\n") == std::string::npos && recv(fd_, &c, 1, 0) == 1) all += c;
    const std::size_t at = all.find("Content-Length: ");
    if (at == std::string::npos) return all;
    for (std::size_t left = std::stoul(all.substr(at + 16)); left > 0; --left) {
      if (recv(fd_, &c, 1, 0) != 1) break;
      all += c;
    }
    return all;
  }

 private:
  int fd_ = -1;
  bool connected_ = false;
};

Response Handle(std::string_view path) {
  if (path == "/metrics") return {.content_type = "text/x", .body = "m 1\n"};
  if (path == "/large") return {.body = std::string(std::size_t{64} << 20, 'x')};
  if (path == "/throws") throw std::runtime_error("broken");
  return {.status = 404, .body = "no such page\n"};
}

/// Lines by their message; whoever waits for one is woken.
class LineLogger final : public Logger {
 public:
  void Write(LogLevel, std::string_view message, Fields) override {
    const std::scoped_lock lock(mutex_);
    ++lines_[std::string(message)];
    changed_.notify_all();
  }
  int Await(const std::string& message, int count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 30s, [&] { return lines_[message] >= count; });
    return lines_[message];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> lines_;
};

/// While it lives, this process can open no file.
class NoFiles {
 public:
  NoFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none = {.rlim_cur = 0, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoFiles(const NoFiles&) = delete;
  NoFiles& operator=(const NoFiles&) = delete;

 private:
  rlimit before_ = {};
};

class HttpServerTest : public testing::Test {
 protected:
  std::unique_ptr<HttpServer> Open(const ServerOptions& options = {}) {
    auto server = HttpServer::Listen("127.0.0.1:0", options, Handle, log_);
    EXPECT_TRUE(server) << server.error().message;
    return *std::move(server);
  }
  std::string Ask(std::string_view request) {
    const Client client(*server_);
    client.Send(request);
    return client.ReadToEnd();
  }
  /// One that has had its last answer.
  std::unique_ptr<Client> Answered() {
    auto client = std::make_unique<Client>(*server_);
    client->Send("nonsense\r\n\r\n");
    EXPECT_TRUE(client->ReadToEnd().starts_with("HTTP/1.1 400"));
    return client;
  }

  LineLogger log_;
  SystemClock clock_;  // tidy-allow(clock): how long sockets really stay open
  std::unique_ptr<HttpServer> server_ = Open();
};

TEST_F(HttpServerTest, AnswersWithWhatTheHandlerSays) {
  const std::string answer = Ask("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_NE(answer.find("Content-Type: text/x\r\n"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\nm 1\n")) << answer;
}

TEST_F(HttpServerTest, QueryIsNotPartOfThePath) {
  EXPECT_TRUE(Ask("GET /metrics?x=/y HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  const std::string answer = Ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_NE(answer.find("Content-Length: 4\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
}

TEST_F(HttpServerTest, ConnectionIsKept) {
  const Client client(*server_);
  for (int i = 0; i < 3; ++i) {
    client.Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(client.ReadOne().ends_with("m 1\n"));
  }
}

TEST_F(HttpServerTest, OtherMethodsPathsAndFaultsHaveTheirStatus) {
  for (const auto& [request, status] : std::vector<std::pair<std::string, std::string>>{
           {"GET / HTTP/1.0\r\n\r\n", "404"},
           {"GET /throws HTTP/1.0\r\n\r\n", "500"},
           {"POST /metrics HTTP/1.0\r\nContent-Length: 0\r\n\r\n", "405"},
           {"DELETE /metrics HTTP/1.0\r\n\r\n", "405"},
           {"POST /metrics HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", "405"},
           {"POST /metrics HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: "
            "3\r\n\r\n",
            "405"},
           {"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "200"},
           {"nonsense\r\n\r\n", "400"}})
    EXPECT_TRUE(Ask(request).starts_with("HTTP/1.1 " + status)) << request << Ask(request);
}

TEST_F(HttpServerTest, FieldsOfARequestHaveABound) {
  const std::string line = "GET /metrics HTTP/1.0\r\n";
  const auto fields = [](std::size_t size) {
    return "X: " + std::string(size - 7, 'x') + "\r\n\r\n";
  };
  const std::string most = fields(HttpServer::kLongestHead);
  ASSERT_EQ(most.size(), HttpServer::kLongestHead);
  EXPECT_TRUE(Ask(line + most).starts_with("HTTP/1.1 200"));
  const std::string refused = Ask(line + fields(HttpServer::kLongestHead + 1));
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 431")) << refused;
  // A request line without end, too.
  EXPECT_TRUE(
      Ask("GET /" + std::string(HttpServer::kLongestHead, 'x')).starts_with("HTTP/1.1 431"));
}

TEST_F(HttpServerTest, ConnectionsHaveABound) {
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t i = 0; i < HttpServer::kMostConnections; ++i) {
    clients.push_back(std::make_unique<Client>(*server_));
    clients.back()->Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    ASSERT_TRUE(clients.back()->ReadOne().ends_with("m 1\n")) << i;
  }
  EXPECT_EQ(Ask("GET /metrics HTTP/1.0\r\n\r\n"), "") << "one too many is closed unheard";
  clients.front()->Send("GET /metrics HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(clients.front()->ReadToEnd().ends_with("m 1\n"));
  clients.front().reset();
  std::string answer;
  // Its place is free a moment after its end is seen.
  for (int i = 0; i < 1'000 && answer.empty(); ++i) answer = Ask("GET /metrics HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(answer.ends_with("m 1\n"));
}

TEST_F(HttpServerTest, EndsWithConnectionsOpen) {
  const Client silent(*server_);
  const Client half(*server_);
  half.Send("GET /met");
  server_.reset();
  EXPECT_EQ(silent.ReadToEnd(), "");
  EXPECT_EQ(half.ReadToEnd(), "");
}

TEST_F(HttpServerTest, SilentClientIsLeftAfterAWhile) {
  server_ = Open({.patience = 50ms});
  const Client silent(*server_);
  const Duration since = clock_.Monotonic();
  EXPECT_EQ(silent.ReadToEnd(), "");
  EXPECT_GE(clock_.Monotonic() - since, 40ms);
  // So is one that was answered and asks nothing more.
  const Client idle(*server_);
  idle.Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(idle.ReadOne().ends_with("m 1\n"));
  EXPECT_EQ(idle.ReadToEnd(), "");
}

TEST_F(HttpServerTest, RequestThatDripsHasNoMoreTimeThanOthers) {
  server_ = Open({.patience = 50ms});
  const Client client(*server_);
  client.Send("GET /metrics HTTP/1.1\r\nX: ");
  int drops = 0;
  for (; drops < 3'000 && client.Wait(5ms) == 0; ++drops) client.Send("x");
  EXPECT_GT(drops, 0);
  EXPECT_LT(drops, 3'000) << "it was never silent for 50 ms, and yet is left";
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(HttpServerTest, AnswerThatIsReadDropByDropIsCutShort) {
  server_ = Open({.patience = 50ms});
  Client client;
  client.KeepSmallBuffer();
  client.Connect(*server_);
  client.Send("GET /large HTTP/1.0\r\n\r\n");
  std::vector<char> buffer(16'384);
  std::size_t all = 0;
  for (ssize_t got = 0; (got = recv(client.fd(), buffer.data(), buffer.size(), 0)) > 0;) {
    all += static_cast<std::size_t>(got);
    static_cast<void>(poll(nullptr, 0, 1));  // slow, as such a client is
  }
  EXPECT_GT(all, 0U);
  EXPECT_LT(all, std::size_t{64} << 20);
}

TEST_F(HttpServerTest, FarewellHasABoundInTime) {
  server_ = Open({.farewell = 50ms});
  const auto client = Answered();
  const Duration since = clock_.Monotonic();
  int drops = 0;
  while (drops < 3'000 && client->IsHeard("x", 5ms)) ++drops;
  EXPECT_LT(drops, 3'000);
  EXPECT_GE(clock_.Monotonic() - since, 40ms);
}

TEST_F(HttpServerTest, FarewellHasABoundInBytes) {
  server_ = Open({.farewell = 60s});
  const auto client = Answered();
  EXPECT_TRUE(client->IsHeard(std::string(ServerOptions().longest_farewell - 1, 'x'), 50ms));
  EXPECT_TRUE(client->IsHeard("x", 50ms)) << "the last that is read";
  EXPECT_FALSE(client->IsHeard("x", 30s));
}

TEST_F(HttpServerTest, OutageOfAcceptIsSaidOnceAndSoIsItsEnd) {
  const std::string begins = "no connections for monitoring can be accepted; will try again";
  const std::string ends = "connections for monitoring are accepted again";
#if __has_feature(undefined_behavior_sanitizer)
  GTEST_SKIP() << "UBSan needs files itself, to look at a class for the first time";
#endif
  server_ = Open({.accept_again = 1ms});
  for (int outage = 1; outage <= 2; ++outage) {
    Client client;
    {
      const NoFiles none;
      client.Connect(*server_);
      client.Send("GET /metrics HTTP/1.0\r\n\r\n");
      EXPECT_EQ(log_.Await(begins, outage), outage);
      EXPECT_EQ(client.Wait(50ms), 0) << "it is tried again and again meanwhile";
    }
    EXPECT_TRUE(client.ReadToEnd().ends_with("m 1\n"));
    EXPECT_EQ(log_.Await(ends, outage), outage);
    EXPECT_EQ(log_.Await(begins, outage), outage);
  }
}

TEST_F(HttpServerTest, AddressThatIsTakenIsNamed) {
  const auto second = HttpServer::Listen(server_->address(), {}, Handle, log_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kConflict);
  EXPECT_NE(second.error().message.find(server_->address()), std::string::npos);
  EXPECT_EQ(HttpServer::Listen("192.0.2.1:0", {}, Handle, log_).error().code,
            Code::kInvalidArgument);
}

TEST(HttpServer, ListensOnLoopbackWhereNoHostIsSaid) {
  for (const char* address : {":0", "localhost:0", "127.0.0.1:0"}) {
    NullLogger log;
    const auto server = HttpServer::Listen(address, {}, Handle, log);
    ASSERT_TRUE(server) << server.error().message;
    EXPECT_TRUE((*server)->address().starts_with("127.0.0.1:")) << (*server)->address();
    EXPECT_FALSE((*server)->address().ends_with(":0"));
  }
}

TEST(HttpServer, AddressIsChecked) {
  for (const char* good : {"127.0.0.1:0", "0.0.0.0:65535", "[::1]:9464", ":9464", "localhost:1"})
    EXPECT_TRUE(HttpServer::CheckAddress(good)) << good;
  for (const char* bad :
       {"", "9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:x",
        "127.0.0.1:80 ", "::1:9464", "[127.0.0.1]:9464", "example.org:80", "[::1]", "1.2.3:80"}) {
    const auto checked = HttpServer::CheckAddress(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().code, Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace headworks::metrics_http
