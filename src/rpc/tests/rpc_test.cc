#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <thread>
#include <tuple>

#include <grpcpp/grpcpp.h>

#include "harness.h"
#include "headworks/worker/v1/worker.grpc.pb.h"
#include "wire.h"

namespace headworks::rpc {
namespace {

using executor::Reply;
using namespace std::chrono_literals;

class Rpc : public RpcTest {};

worker_api::Poll Waiting(const worker_api::Identity& who, Duration wait) {
  return {.who = who, .free = {{"mail", 1}}, .wait = wait};
}

TEST_F(Rpc, ErrorsOfTheServiceComeAcross) {
  const auto server = Serve();
  const auto client = Connect(server->address());
  for (const Code code : {Code::kNotFound, Code::kPermissionDenied, Code::kInvalidArgument,
                          Code::kConflict, Code::kAtCapacity}) {
    Answered<Reply> answer;
    client->Log("t", {}, answer.done());
    engine.logged.Take().second(Error{code, "because"});
    const auto reply = answer.Get();
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error(), (Error{code, "because"}));
  }
}

TEST_F(Rpc, ACredentialThatIsMissingOrBadIsRefusedWithItsFault) {
  const auto server = Serve();
  for (const auto& [word, fault] :
       {std::pair("", "worker token: missing"), {"bad", "worker token: bad_signature"}}) {
    const auto client = Connect(server->address(), word);
    Answered<worker_api::Welcome> answer;
    client->Register({.who = who}, answer.done());
    const auto welcome = answer.Get();
    ASSERT_FALSE(welcome);
    EXPECT_EQ(welcome.error(), (Error{Code::kPermissionDenied, fault}));
    // No attempt is over by it: whoever holds one says it again, with a better one.
    Answered<Reply> reply;
    client->Complete("t", {}, reply.done());
    const auto said = reply.Get();
    ASSERT_FALSE(said);
    EXPECT_EQ(said.error(), (Error{Code::kUnavailable, fault}));
  }
}

TEST_F(Rpc, WhatACredentialDoesNotAllowIsRefused) {
  const auto server = Serve();
  const auto refusal = [&](const std::string& word, worker_api::Registration registration) {
    const auto client = Connect(server->address(), word);
    Answered<worker_api::Welcome> answer;
    client->Register(std::move(registration), answer.done());
    const auto welcome = answer.Get();
    EXPECT_FALSE(welcome);
    EXPECT_EQ(welcome.error().code, Code::kPermissionDenied);
    return welcome.error().message;
  };
  worker_api::Identity other = who;
  other.tenant = TenantId("other");
  EXPECT_EQ(refusal("good", {.who = other}),
            "wrong_tenant: this worker token is for tenant 'acme', not 'other'");
  EXPECT_EQ(refusal("narrow", {.who = who}),
            "wrong_name: this worker token is for workers named 'gpu-*', not 'w-1'");
  worker_api::Identity gpu = who;
  gpu.worker = "gpu-1";
  EXPECT_EQ(refusal("narrow", {.who = gpu, .slots = {{"default", 1}}}),
            "wrong_queue: this worker token is for the queues mail, not 'default'");
  // Of each call that names who speaks.
  const auto client = Connect(server->address());
  Answered<worker_api::Polled> polled;
  client->PollFor(Waiting(other, 1s), polled.done());
  EXPECT_EQ(polled.Get().error().code, Code::kPermissionDenied);
  // No attempt is over by it: its gate may be open.
  Answered<worker_api::Started> started;
  client->Start(other, "t", started.done());
  EXPECT_EQ(started.Get().error().code, Code::kUnavailable);
  Answered<worker_api::Beaten> beaten;
  client->Beat({.who = other}, beaten.done());
  EXPECT_EQ(beaten.Get().error().code, Code::kUnavailable);
  Answered<bool> back, left;
  client->HandBack(other, {}, back.done());
  EXPECT_EQ(back.Get().error().code, Code::kUnavailable);
  client->Leave(other, left.done());
  EXPECT_EQ(left.Get().error().code, Code::kUnavailable);
  // And what it does allow passes.
  const auto narrow = Connect(server->address(), "narrow");
  Answered<worker_api::Welcome> welcome;
  narrow->Register({.who = gpu, .slots = {{"mail", 1}}}, welcome.done());
  engine.registered.Take().second(worker_api::Welcome{});
  EXPECT_TRUE(welcome.Get());
}

TEST_F(Rpc, WhatIsSaidOfAnAttemptIsItsHoldersWord) {
  const auto server = Serve();
  const auto answers = [&](const std::string& word, const std::string& token) {
    const auto client = Connect(server->address(), word);
    Answered<Reply> logged, completed;
    client->Log(token, {}, logged.done());
    client->Complete(token, {}, completed.done());
    Answered<worker_api::ArtifactTaken> taken;
    Answered<worker_api::ArtifactPiece> piece;
    client->PutArtifact({.work_token = token}, taken.done());
    client->GetArtifact({.work_token = token, .max_bytes = 1}, piece.done());
    const auto log = logged.Get(), complete = completed.Get();
    EXPECT_EQ(taken.Get().error(), log.error());
    EXPECT_EQ(piece.Get().error(), log.error());
    EXPECT_FALSE(log);
    EXPECT_FALSE(complete);
    EXPECT_EQ(log.error(), complete.error());
    return log.error();
  };
  // Whoever has another's token is not heard, and the attempt is not over by it.
  EXPECT_EQ(answers("narrow", "t"),
            (Error{Code::kUnavailable,
                   "wrong_name: this worker token is for workers named 'gpu-*', not 'w-1'"}));
  engine.speaker.tenant = TenantId("other");
  EXPECT_EQ(answers("good", "t"),
            (Error{Code::kUnavailable,
                   "wrong_tenant: this worker token is for tenant 'acme', not 'other'"}));
  EXPECT_EQ(answers("good", "expired"), (Error{Code::kPermissionDenied, "attempt token: expired"}));
  engine.speaker = {.tenant = TenantId("acme"), .worker = "gpu-7", .incarnation = "i"};
  const auto client = Connect(server->address(), "narrow");
  Answered<Reply> completed;
  client->Complete("t", {}, completed.done());
  engine.completed.Take().second(Reply::kGoOn);
  EXPECT_EQ(completed.Value(), Reply::kGoOn);
}

TEST_F(Rpc, ATokenThatNoHeaderTakesIsRefusedWithoutACall) {
  const auto server = Serve();
  for (const auto& [word, fault] : {std::pair(std::string("go\nod"), "a character at 3"),
                                    {std::string("go\x7fod"), "a character at 3"},
                                    {std::string("g\xc3\xb6od"), "a character at 2"},
                                    {std::string(8'193, 'x'), "8193 bytes; at most 8192"}}) {
    const auto client = Connect(server->address(), word);
    Answered<worker_api::Welcome> welcome;
    client->Register({.who = who}, welcome.done());
    const auto refused = welcome.Get();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
    EXPECT_NE(refused.error().message.find(fault), std::string::npos) << refused.error().message;
    Answered<Reply> completed;
    client->Complete("t", {}, completed.done());
    EXPECT_EQ(completed.Get().error().code, Code::kUnavailable);
  }
  const auto line_end = Connect(server->address(), "good\r\n");
  Answered<bool> left;
  line_end->Leave(who, left.done());
  engine.left.Take().second(true);
  EXPECT_TRUE(left.Get());
  // The longest is one that the server reads.
  const auto longest = Connect(server->address(), std::string(8'192, 'x'));
  Answered<worker_api::Welcome> read;
  longest->Register({.who = who}, read.done());
  EXPECT_EQ(read.Get().error().message, "worker token: bad_signature");
}

/// What stands in front of an engine, and answers for it.
class Front final : public v1::Worker::CallbackService {
 public:
  explicit Front(grpc::StatusCode code, const std::string& text = "403") : answer_(code, text) {}
  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context,
                                     const v1::CompleteRequest*, v1::CompleteResponse*) override {
    auto* const reactor = context->DefaultReactor();
    reactor->Finish(answer_);
    return reactor;
  }

 private:
  const grpc::Status answer_;
};

TEST_F(Rpc, WhatIsNotTheEnginesWordIsNoAnswer) {
  Front front(grpc::PERMISSION_DENIED);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&front);
  const auto server = builder.BuildAndStart();
  const auto client = Connect("127.0.0.1:" + std::to_string(port));
  Answered<Reply> completed;
  client->Complete("t", {}, completed.done());
  EXPECT_EQ(
      completed.Get().error(),
      (Error{Code::kUnavailable, "no answer from 127.0.0.1:" + std::to_string(port) + ": 403"}));
  Answered<worker_api::Started> started;
  client->Start(who, "s", started.done());
  EXPECT_EQ(started.Get().error().code, Code::kUnavailable);
}

TEST_F(Rpc, WhatIsTooLargeForAFrontIsNotToBeSaidAgain) {
  constexpr const char* kSize = "grpc: received message larger than max (9 vs. 1)";
  // What is small is refused for another reason, as a limit of rate; and what is large, too, by an
  // engine that is short of memory.
  for (const auto& [text, bytes, code] :
       {std::tuple(kSize, std::size_t{9}, Code::kUnavailable),
        {kSize, worker_api::kMaxOutputBytes, Code::kInvalidArgument},
        {"gRPC message exceeds maximum size 1: 9", worker_api::kMaxOutputBytes,
         Code::kInvalidArgument},
        {"RST_STREAM with error code 11", worker_api::kMaxOutputBytes, Code::kUnavailable}}) {
    Front front(grpc::RESOURCE_EXHAUSTED, text);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&front);
    const auto server = builder.BuildAndStart();
    const auto client = Connect("127.0.0.1:" + std::to_string(port));
    Answered<Reply> completed;
    client->Complete("t", {.output = std::string(bytes, 'o')}, completed.done());
    EXPECT_EQ(CodeOf(completed.Get()), code) << text << ", " << bytes;
  }
}

TEST_F(Rpc, ALogOfTheShortestLinesPasses) {
  const auto server = Serve();
  const auto client = Connect(server->address());
  for (const char* bytes : {"", "x"}) {
    std::vector<log_store::Line> lines;
    const std::size_t count =
        worker_api::kMaxLogBytes / (std::string_view(bytes).size() + worker_api::kLineOverhead);
    lines.reserve(count);
    for (std::size_t n = 0; n < count; ++n)
      lines.push_back({std::numeric_limits<std::int64_t>::max() - static_cast<std::int64_t>(n),
                       log_store::Stream::kStdout, Instant::max(), bytes});
    Answered<Reply> answer;
    client->Log(std::string(8'192, 't'), lines, answer.done());
    auto [heard, done] = engine.logged.Take();
    EXPECT_EQ(heard.second.size(), count);
    done(Reply::kGoOn);
    EXPECT_EQ(answer.Value(), Reply::kGoOn);
  }
}

TEST_F(Rpc, ALogOfFourMebibytesPassesAndOneByteMoreDoesNot) {
  const auto server = Serve();
  const auto client = Connect(server->address());
  constexpr std::size_t kLine = log_store::kMaxLineBytes - worker_api::kLineOverhead;
  std::vector<log_store::Line> lines;
  for (std::int64_t n = 1; n <= 64; ++n)
    lines.push_back({n, log_store::Stream::kStdout, {}, std::string(kLine, 'x')});
  Answered<Reply> whole, more, longer;
  client->Log("t", lines, whole.done());
  auto [heard, done] = engine.logged.Take();
  EXPECT_EQ(heard.second, lines);
  done(Reply::kGoOn);
  EXPECT_EQ(whole.Value(), Reply::kGoOn);
  lines.back().bytes += 'x';
  client->Log("t", lines, more.done());
  const auto refused = more.Get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message, "64 lines with 4194305 bytes; at most 4194304 at a time");
  client->Log("t",
              {{7, log_store::Stream::kStdout, {}, std::string(log_store::kMaxLineBytes + 1, 'x')}},
              longer.done());
  EXPECT_EQ(longer.Get().error().message, "line 7 has 65537 bytes; at most 65536, split it");
}

TEST_F(Rpc, APieceOfFourMebibytesPassesAndOneByteMoreDoesNot) {
  const auto server = Serve();
  const auto client = Connect(server->address());
  const std::string largest(worker_api::kMaxPieceBytes, 'x');
  Answered<worker_api::ArtifactTaken> taken, refused;
  client->PutArtifact({.work_token = "wt", .upload = "u", .bytes = largest}, taken.done());
  const auto [put, took] = engine.given.Take();
  EXPECT_EQ(put.bytes.size(), largest.size());
  took(worker_api::ArtifactTaken{.reply = executor::Reply::kGoOn, .have = largest.size()});
  EXPECT_EQ(taken.Value().have, largest.size());
  client->PutArtifact({.work_token = "wt", .upload = "u", .bytes = largest + 'x'}, refused.done());
  EXPECT_EQ(refused.Get().error().code, Code::kInvalidArgument);

  Answered<worker_api::ArtifactPiece> piece, none, more;
  client->GetArtifact({.work_token = "wt", .max_bytes = worker_api::kMaxPieceBytes}, piece.done());
  const auto [get, gave] = engine.got.Take();
  gave(worker_api::ArtifactPiece{.reply = executor::Reply::kGoOn, .bytes = largest});
  EXPECT_EQ(piece.Value().bytes, largest);
  client->GetArtifact({.work_token = "wt", .max_bytes = 0}, none.done());
  EXPECT_EQ(none.Get().error().code, Code::kInvalidArgument);
  client->GetArtifact({.work_token = "wt", .max_bytes = worker_api::kMaxPieceBytes + 1},
                      more.done());
  EXPECT_EQ(more.Get().error().code, Code::kInvalidArgument);
}

TEST_F(Rpc, AnOutputOfOneMebibytePassesAndOneByteMoreDoesNot) {
  const auto server = Serve();
  const auto client = Connect(server->address());
  model::Outcome outcome{.output = std::string(worker_api::kMaxOutputBytes, 'o')};
  Answered<Reply> whole, more;
  client->Complete("t", outcome, whole.done());
  auto [heard, done] = engine.completed.Take();
  EXPECT_EQ(heard.second.output, outcome.output);
  done(Reply::kGoOn);
  EXPECT_EQ(whole.Value(), Reply::kGoOn);
  outcome.output += 'o';
  client->Complete("t", outcome, more.done());
  EXPECT_EQ(more.Get().error(),
            (Error{Code::kInvalidArgument, "the output has 1048577 bytes; at most 1048576"}));
}

TEST_F(Rpc, AnErrorIsCutToWhatTheEngineKeeps) {
  const auto server = Serve();
  const auto client = Connect(server->address());
  for (const auto& [error, kept] : {std::pair(std::string(4'096, 'e'), std::size_t{4'096}),
                                    {std::string(std::size_t{8} << 20, 'e'), 4'096},
                                    {std::string(4'095, 'e') + "\xc3\xb6", 4'095}}) {
    Answered<Reply> answer;
    client->Complete("t", {.verdict = model::Verdict::kFailed, .error = error}, answer.done());
    auto [heard, done] = engine.completed.Take();
    EXPECT_EQ(heard.second.error, error.substr(0, kept));
    done(Reply::kGoOn);
    EXPECT_EQ(answer.Value(), Reply::kGoOn);
  }
}

TEST(Wire, AReasonOfANewerWorkerIsAnError) {
  v1::Outcome said;
  said.set_verdict(v1::VERDICT_FAILED);
  std::uint32_t known = 0;  // to this program: those that have a name
  for (;; ++known) {
    const auto reason = static_cast<model::Reason>(known);
    if (model::ReasonName(reason) == "unknown" && reason != model::Reason::kUnknown) break;
    said.set_reason(known);
    EXPECT_EQ(FromWire(said)->reason, reason);
  }
  EXPECT_GT(known, static_cast<std::uint32_t>(model::Reason::kArtifact));
  for (const std::uint32_t reason : {known, 255U, 256U, 4'294'967'295U}) {
    said.set_reason(reason);
    EXPECT_EQ(FromWire(said)->reason, model::Reason::kError) << reason;
  }
}

TEST_F(Rpc, AJobThatIsTooLargeEndsItsAttempt) {
  const auto server = Serve();
  const auto client = Connect(server->address());
  worker_api::Started started{.reply = Reply::kGoOn, .work_token = "w", .job = {}};
  started.job.resolved.context_json = std::string(kMaxJobBytes - 1'024, 'c');
  v1::StartResponse sent;
  ToWire(started, sent);
  started.job.resolved.context_json.append(kMaxJobBytes - sent.job().ByteSizeLong(), 'c');
  Answered<worker_api::Started> whole, more;
  client->Start(who, "s", whole.done());
  engine.started.Take().second(started);
  const auto got = whole.Get();
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->job.resolved.context_json, started.job.resolved.context_json);

  started.job.resolved.context_json += 'c';
  client->Start(who, "s", more.done());
  engine.started.Take().second(started);
  auto [heard, done] = engine.completed.Take();
  EXPECT_EQ(heard.first, "w");
  EXPECT_EQ(heard.second.verdict, model::Verdict::kFailed);
  EXPECT_EQ(heard.second.reason, model::Reason::kDispatchFailed);
  EXPECT_NE(heard.second.error.find("has 16777217 bytes; a worker is given at most 16777216"),
            std::string::npos)
      << heard.second.error;
  done(Reply::kGoOn);
  const auto stopped = more.Get();
  ASSERT_TRUE(stopped) << stopped.error().message;
  EXPECT_EQ(stopped->reply, Reply::kStop);
}

TEST_F(Rpc, AWaitEndsBeforeItsCallersDeadline) {
  const auto server = Serve();
  const auto client = Connect(server->address(), "good", {.patience = 0s});
  Answered<worker_api::Polled> answer;
  client->PollFor(Waiting(who, 30s), answer.done());
  const auto [poll, done] = engine.polled.Take();
  EXPECT_LE(poll.wait, 29'900ms);
  EXPECT_GT(poll.wait, 20s);
  done(worker_api::Polled{});
  EXPECT_TRUE(answer.Get());
}

TEST_F(Rpc, WhoIsNotAnsweredInTimeHearsSo) {
  const auto server = Serve();
  const auto client = Connect(server->address(), "good", {.patience = 200ms});
  Answered<Reply> answer;
  client->Log("t", {}, answer.done());
  const auto [heard, done] = engine.logged.Take();
  const auto reply = answer.Get();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kUnavailable);
  done(Reply::kGoOn);  // too late, and no harm
}

TEST_F(Rpc, WhatWasAssignedToOneWhoLeftIsHandedBack) {
  const auto server = Serve({.address = "127.0.0.1:0", .max_calls = 1});
  auto client = Connect(server->address());
  Answered<worker_api::Polled> answer;
  client->PollFor(Waiting(who, 30s), answer.done());
  const auto done = engine.polled.Take().second;
  client.reset();
  EXPECT_EQ(answer.Get().error().code, Code::kCancelled);
  // Once the server has heard of it, it has room for another call.
  const auto next = Connect(server->address());
  auto answerer =
      std::async(std::launch::async, [&] { engine.polled.Take().second(worker_api::Polled{}); });
  const Duration until = clock.Monotonic() + 30s;
  for (bool heard = false; !heard && clock.Monotonic() < until;) {
    Answered<worker_api::Polled> again;
    next->PollFor(Waiting(who, 0s), again.done());
    heard = again.Get().has_value();
  }
  answerer.get();
  worker_api::Polled polled;
  polled.assignments.push_back({.attempt = {}, .queue = "mail", .start_token = "s"});
  done(polled);
  const auto [heard, handed_back] = engine.handed_back.Take();
  EXPECT_EQ(heard, (Engine::HandBack_{who, {"s"}}));
  handed_back(true);
}

TEST_F(Rpc, ShutdownAnswersAllWhoWait) {
  auto server = Serve();
  const std::string address = server->address();
  const auto client = Connect(address);
  Answered<worker_api::Polled> polled;
  Answered<worker_api::Beaten> beaten;
  client->PollFor(Waiting(who, 60s), polled.done());
  client->Beat({.who = who, .work_tokens = {}, .wait = 60s}, beaten.done());
  const auto late = engine.polled.Take().second;
  const auto later = engine.beaten.Take().second;
  const Duration before = clock.Monotonic();
  server.reset();
  EXPECT_LT(clock.Monotonic() - before, 10s);
  const auto poll = polled.Get();
  ASSERT_FALSE(poll);
  EXPECT_EQ(poll.error(), (Error{Code::kUnavailable,
                                 "no answer from " + address + ": the engine is shutting down"}));
  EXPECT_EQ(beaten.Get().error().code, Code::kUnavailable);
  late(worker_api::Polled{});  // the service outlives the server
  later(Error{Code::kInternal, ""});
}

TEST_F(Rpc, AClientFindsAServerThatCameBack) {
  auto server = Serve();
  const std::string address = server->address();
  const auto client = Connect(address);
  Answered<bool> first;
  client->Leave(who, first.done());
  engine.left.Take().second(true);
  EXPECT_TRUE(first.Get());
  server.reset();
  Answered<bool> gone;
  client->Leave(who, gone.done());
  const auto missed = gone.Get();
  ASSERT_FALSE(missed);
  EXPECT_EQ(missed.error().code, Code::kUnavailable);
  EXPECT_NE(missed.error().message.find(address), std::string::npos);
  server = Serve({.address = address});
  const Duration until = clock.Monotonic() + 30s;
  std::future<void> answering =
      std::async(std::launch::async, [&] { engine.left.Take().second(true); });
  for (bool heard = false; !heard && clock.Monotonic() < until;) {
    Answered<bool> again;
    client->Leave(who, again.done());
    heard = again.Get().has_value();
  }
  answering.get();
}

/// Passes bytes on between one client and a server, until it is cut: then it holds the connection
/// and passes on nothing.
class Cable {
 public:
  /// Above 0: passes on so many each 10 ms.
  explicit Cable(const std::string& server, std::size_t slow = 0) : slow_(slow) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    const int port = std::stoi(server.substr(server.rfind(':') + 1));
    passer_ = std::jthread([this, port](const std::stop_token& stop) { Pass(port, stop); });
  }
  ~Cable() {
    passer_.request_stop();
    passer_.join();
    close(listener_);
  }
  const std::string& address() const { return address_; }
  void Cut() { cut_ = true; }

 private:
  static sockaddr_in Loopback(int port) {
    return {.sin_family = AF_INET,
            .sin_port = htons(static_cast<std::uint16_t>(port)),
            .sin_addr = {htonl(INADDR_LOOPBACK)},
            .sin_zero = {}};
  }
  void Pass(int port, const std::stop_token& stop) {
    const int client = accept(listener_, nullptr, nullptr);
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(port);
    EXPECT_EQ(connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    pollfd ends[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    char buffer[16'384];
    while (!stop.stop_requested()) {
      if (slow_ > 0) poll(nullptr, 0, 10);
      if (poll(ends, 2, 10) <= 0 || cut_) continue;
      for (int i = 0; i < 2; ++i) {
        if (ends[i].revents == 0) continue;
        const ssize_t bytes = read(ends[i].fd, buffer, slow_ > 0 ? slow_ : sizeof buffer);
        if (bytes <= 0) ends[i].fd = -1;
        if (bytes > 0)
          EXPECT_EQ(write(ends[1 - i].fd, buffer, static_cast<std::size_t>(bytes)), bytes);
      }
    }
    close(client);
    close(server);
  }

  const std::size_t slow_;
  int listener_ = -1;
  std::string address_;
  std::atomic<bool> cut_ = false;
  std::jthread passer_;
};

TEST_F(Rpc, ADeadConnectionIsNoticed) {
  const auto server = Serve();
  Cable wire(server->address());
  const auto client =
      Connect(wire.address(), "good",
              {.patience = 60s, .keepalive_every = 500ms, .keepalive_timeout = 500ms});
  Answered<worker_api::Polled> answer;
  client->PollFor(Waiting(who, 30s), answer.done());
  const auto done = engine.polled.Take().second;
  const Duration before = clock.Monotonic();
  wire.Cut();
  const auto polled = answer.Get();
  ASSERT_FALSE(polled);
  EXPECT_EQ(polled.error().code, Code::kUnavailable);
  EXPECT_LT(clock.Monotonic() - before, 15s);
  done(worker_api::Polled{});
}

TEST_F(Rpc, ALargeLogPassesASlowConnection) {
  const auto server = Serve();
  Cable wire(server->address(), 4'096);
  const auto client = Connect(wire.address(), "good", {.patience = 300ms});
  Answered<Reply> answer;
  client->Log(
      "t",
      std::vector<log_store::Line>(
          8, {1, log_store::Stream::kStdout, {}, std::string(log_store::kMaxLineBytes, 'x')}),
      answer.done());
  engine.logged.Take().second(Reply::kGoOn);
  EXPECT_EQ(answer.Value(), Reply::kGoOn);
}

TEST_F(Rpc, AServerThatTakesConnectionsAndSaysNothingIsNoAnswer) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto client =
      Connect("127.0.0.1:" + std::to_string(ntohs(address.sin_port)), "good", {.patience = 1s});
  Answered<bool> answer;
  client->Leave(who, answer.done());
  const auto left = answer.Get();
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code, Code::kUnavailable);
  close(listener);
}

TEST_F(Rpc, TooManyCallsAreRefused) {
  const auto server = Serve({.address = "127.0.0.1:0", .max_calls = 1});
  const auto client = Connect(server->address());
  Answered<worker_api::Polled> waits, refused;
  client->PollFor(Waiting(who, 30s), waits.done());
  const auto done = engine.polled.Take().second;
  client->PollFor(Waiting(who, 30s), refused.done());
  EXPECT_EQ(refused.Get().error().code, Code::kAtCapacity);
  // A heartbeat is heard without waiting, and words have a room of their own.
  Answered<worker_api::Beaten> beaten, too_many;
  client->Beat({.who = who, .work_tokens = {}, .wait = 10s}, beaten.done());
  const auto [beat, pulse] = engine.beaten.Take();
  EXPECT_EQ(beat.wait, 0s);
  client->Beat({.who = who, .work_tokens = {}, .wait = 10s}, too_many.done());
  EXPECT_EQ(too_many.Get().error().code, Code::kAtCapacity);
  pulse(worker_api::Beaten{});
  EXPECT_TRUE(beaten.Get());
  done(worker_api::Polled{});
  EXPECT_TRUE(waits.Get());
}

TEST_F(Rpc, PiecesThatAreNotSentHaveABoundAndATenantLeavesRoom) {
  const auto server = Serve({.address = "127.0.0.1:0", .max_piece_bytes = 8});
  const auto client = Connect(server->address()), other = Connect(server->address(), "other");
  const auto get = [](RpcClient& from, std::uint64_t bytes,
                      Answered<worker_api::ArtifactPiece>& piece) {
    from.GetArtifact({.work_token = "wt", .max_bytes = bytes}, piece.done());
  };
  Answered<worker_api::ArtifactPiece> first, own, others, whole;
  get(*client, 6, first);
  const auto gave = engine.got.Take().second;
  get(*client, 1, own);
  EXPECT_EQ(own.Get().error().code, Code::kAtCapacity);
  engine.speaker.tenant = TenantId("other");
  get(*other, 2, others);
  const auto gave_other = engine.got.Take().second;
  get(*other, 1, whole);
  EXPECT_EQ(whole.Get().error().code, Code::kAtCapacity);
  gave(worker_api::ArtifactPiece{.reply = Reply::kGoOn, .bytes = "123456"});
  gave_other(worker_api::ArtifactPiece{.reply = Reply::kGoOn, .bytes = "12"});
  EXPECT_TRUE(first.Get() && others.Get());
  // Once the server has heard that it is sent, there is room.
  auto answerer = std::async(std::launch::async, [&] {
    engine.got.Take().second(worker_api::ArtifactPiece{.reply = Reply::kGoOn});
  });
  const Duration until = clock.Monotonic() + 20s;
  for (bool heard = false; !heard && clock.Monotonic() < until;) {
    Answered<worker_api::ArtifactPiece> again;
    get(*other, 6, again);
    heard = again.Get().has_value();
  }
  answerer.get();
}

TEST(Lines, HaveTheirTimesByTheEnginesClockWhereTheWorkersIsFarOff) {
  const Instant now = Instant(24h * 365 * 50);
  const auto at = [&](Duration printed, Duration sent) {
    v1::LogRequest request;
    const auto us = [&](Duration from_now) { return (now + from_now).time_since_epoch().count(); };
    v1::Line& line = *request.add_lines();
    line.set_number(1);
    line.set_stream(v1::STREAM_STDOUT);
    line.set_at_us(us(printed));
    request.set_sent_at_us(us(sent));
    const auto lines = FromWire(request, now);
    EXPECT_TRUE(lines);
    return lines->front().at - now;
  };
  EXPECT_EQ(at(59s, 1min), 59s);  // within what a clock may be off
  EXPECT_EQ(at(59s, 1min + 1us), -1s - 1us);
  EXPECT_EQ(at(-61s, -1min), -61s);
  EXPECT_EQ(at(-61s, -1min - 1us), -1s + 1us);
  EXPECT_EQ(at(10min, 5min), 0s);  // none is still to come
  v1::LogRequest request;
  v1::Line& line = *request.add_lines();
  line.set_stream(v1::STREAM_NOTE);
  for (const auto most :
       {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    line.set_at_us(most);
    request.set_sent_at_us(most);
    EXPECT_LE(FromWire(request, now)->front().at, now);
    request.set_sent_at_us(0);  // it says nothing of its clock
    EXPECT_EQ(FromWire(request, now)->front().at, Instant(Duration(most)));
  }
}

TEST_F(Rpc, AClientTellsItsClock) {
  class Ahead final : public Clock {
   public:
    Instant Now() override { return system.Now() + 5min; }
    Duration Monotonic() override { return system.Monotonic(); }
    SystemClock system;
  } ahead;
  const auto server = Serve();
  RpcClientOptions options;
  options.clock = &ahead;
  const auto client = Connect(server->address(), "good", options);
  Answered<Reply> answer;
  const Instant began = clock.Now();
  client->Log("t", {{.number = 1, .at = ahead.Now(), .bytes = "x"}}, answer.done());
  const auto heard = engine.logged.Take();
  EXPECT_GE(heard.first.second.front().at, began - 1s);
  EXPECT_LE(heard.first.second.front().at, clock.Now());
  heard.second(Reply::kGoOn);
  EXPECT_TRUE(answer.Get());
}

TEST_F(Rpc, ARefusalOfWhatIsVeryLongIsHeardAsSuch) {
  const auto server = Serve();
  const auto client = Connect(server->address(), "narrow");
  const auto fault = [&](worker_api::Registration registration) {
    Answered<worker_api::Welcome> answer;
    client->Register(std::move(registration), answer.done());
    const auto welcome = answer.Get();
    EXPECT_FALSE(welcome);
    return welcome ? Error{} : welcome.error();
  };
  const std::string name(1 << 20, 'x');
  const Error tenant = fault({.who = {.tenant = TenantId(name), .worker = "gpu-1"}});
  EXPECT_EQ(tenant.code, Code::kPermissionDenied);
  EXPECT_TRUE(tenant.message.starts_with("wrong_tenant: ")) << tenant.message;
  const Error queue =
      fault({.who = {.tenant = TenantId("acme"), .worker = "gpu-1"}, .slots = {{name, 1}}});
  EXPECT_EQ(queue.code, Code::kPermissionDenied);
  EXPECT_TRUE(queue.message.starts_with("wrong_queue: ")) << queue.message;
}

TEST_F(Rpc, AnAddressThatIsTakenIsAConflict) {
  const auto server = Serve();
  const auto second = RpcServer::Open({.address = server->address()}, {engine, words, clock, log});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kConflict);
  EXPECT_NE(second.error().message.find(server->address()), std::string::npos);
}

TEST_F(Rpc, NeedsATargetWithAPort) {
  for (const char* target : {"", "host", ":70", "host:0"}) {
    const auto client = RpcClient::Open({.target = target, .credential = [] { return ""; }});
    ASSERT_FALSE(client) << target;
    EXPECT_EQ(client.error().code, Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace headworks::rpc
