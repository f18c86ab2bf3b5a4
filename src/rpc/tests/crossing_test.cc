#include "harness.h"

// Every field of every word crosses both ways.
namespace headworks::rpc {
namespace {

using executor::Reply;
using namespace std::chrono_literals;

class Crossing : public RpcTest {
 protected:
  std::unique_ptr<RpcServer> server = Serve();
  std::unique_ptr<RpcClient> client = Connect(server->address());
};

const model::AttemptKey kAttempt{.tenant = TenantId("acme"),
                                 .run = RunNo(12),
                                 .task = TaskNo(3),
                                 .map_index = 4,
                                 .epoch = Epoch(56)};

TEST_F(Crossing, Register) {
  Answered<worker_api::Welcome> answer;
  client->Register({.who = who,
                    .slots = {{"mail", 2}, {"default", 8}},
                    .labels = {"gpu", "region=eu"},
                    .version = "1.2",
                    .host = "host-1",
                    .protocol = 7},
                   answer.done());
  const auto [heard, done] = engine.registered.Take();
  EXPECT_EQ(heard.who, who);
  EXPECT_EQ(heard.slots, (std::map<std::string, std::uint32_t>{{"mail", 2}, {"default", 8}}));
  EXPECT_EQ(heard.labels, (std::vector<std::string>{"gpu", "region=eu"}));
  EXPECT_EQ(heard.version, "1.2");
  EXPECT_EQ(heard.host, "host-1");
  EXPECT_EQ(heard.protocol, 7);
  done(worker_api::Welcome{.lease = 61s, .heartbeat_every = 1501us});
  const auto welcome = answer.Get();
  ASSERT_TRUE(welcome) << welcome.error().message;
  EXPECT_EQ(welcome->lease, 61s);
  EXPECT_EQ(welcome->heartbeat_every, 1501us);
}

TEST_F(Crossing, Poll) {
  Answered<worker_api::Polled> answer;
  client->PollFor({.who = who, .free = {{"mail", 1}}, .wait = 2500ms}, answer.done());
  const auto [heard, done] = engine.polled.Take();
  EXPECT_EQ(heard.who, who);
  EXPECT_EQ(heard.free, (std::map<std::string, std::uint32_t>{{"mail", 1}}));
  EXPECT_EQ(heard.wait, 2500ms);
  worker_api::Polled polled{.assignments = {}, .drain = true};
  polled.assignments.push_back({.attempt = kAttempt, .queue = "mail", .start_token = "st"});
  polled.assignments.push_back({.attempt = {}, .queue = "default", .start_token = "st2"});
  done(polled);
  const auto got = answer.Get();
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(got->drain);
  EXPECT_FALSE(got->leave);
  ASSERT_EQ(got->assignments.size(), 2U);
  EXPECT_EQ(got->assignments[0].attempt, kAttempt);
  EXPECT_EQ(got->assignments[0].queue, "mail");
  EXPECT_EQ(got->assignments[0].start_token, "st");
  EXPECT_EQ(got->assignments[1].start_token, "st2");
}

worker_api::Job TheJob() {
  return {.attempt = kAttempt,
          .run_id = RunId("01890000-0000-7000-8000-000000000000"),
          .workflow = "etl",
          .task = "load",
          .version = "abc",
          .try_no = 2,
          .generation = 3,
          .timeout = 90s,
          .idempotency_key = "key",
          .definition_json = "{\"a\":1}",
          .resolved = {.context_json = "{\"c\":2}", .merged_json = "{\"m\":3}", .rendered = {}}};
}

void ExpectSame(const worker_api::Job& got, const worker_api::Job& sent) {
  EXPECT_EQ(got.attempt, sent.attempt);
  EXPECT_EQ(got.run_id, sent.run_id);
  EXPECT_EQ(got.workflow, sent.workflow);
  EXPECT_EQ(got.task, sent.task);
  EXPECT_EQ(got.version, sent.version);
  EXPECT_EQ(got.try_no, sent.try_no);
  EXPECT_EQ(got.generation, sent.generation);
  EXPECT_EQ(got.timeout, sent.timeout);
  EXPECT_EQ(got.idempotency_key, sent.idempotency_key);
  EXPECT_EQ(got.definition_json, sent.definition_json);
  EXPECT_EQ(got.resolved.context_json, sent.resolved.context_json);
  EXPECT_EQ(got.resolved.merged_json, sent.resolved.merged_json);
  ASSERT_EQ(got.resolved.rendered.has_value(), sent.resolved.rendered.has_value());
  if (!sent.resolved.rendered) return;
  EXPECT_EQ(got.resolved.rendered->action, sent.resolved.rendered->action);
  EXPECT_EQ(got.resolved.rendered->bound, sent.resolved.rendered->bound);
  EXPECT_EQ(got.resolved.rendered->workflow_env, sent.resolved.rendered->workflow_env);
  EXPECT_EQ(got.resolved.rendered->env, sent.resolved.rendered->env);
  EXPECT_EQ(got.resolved.rendered->env_file, sent.resolved.rendered->env_file);
  EXPECT_EQ(got.resolved.rendered->cwd, sent.resolved.rendered->cwd);
  EXPECT_EQ(got.resolved.rendered->idempotency_key, sent.resolved.rendered->idempotency_key);
}

TEST_F(Crossing, StartWithEachKindOfJob) {
  std::vector<worker_api::Job> jobs(4, TheJob());
  const executor::Rendered rendered{
      .action = model::ShellAction{.script = "echo \"$X\"\n", .shell = {"/bin/bash", "-eu"}},
      .bound = {{"X", std::string("a\0b", 3)}},
      .workflow_env = {{"W", "1"}},
      .env = {{"E", "\xff"}},
      .env_file = {"a.env", "b.env"},
      .cwd = "below",
      .idempotency_key = "own"};
  jobs[1].resolved.rendered = rendered;
  jobs[2].resolved.rendered = rendered;
  jobs[2].resolved.rendered->action = model::ExecAction{.argv = {"ls", "-l", ""}};
  jobs[3].resolved.rendered = rendered;
  jobs[3].resolved.rendered->action = model::FunctionAction{.function = "resize"};
  for (const worker_api::Job& job : jobs) {
    Answered<worker_api::Started> answer;
    client->Start(who, "start-token", answer.done());
    const auto [heard, done] = engine.started.Take();
    EXPECT_EQ(heard, (Engine::Start_{who, "start-token"}));
    done(worker_api::Started{.reply = Reply::kGoOn, .work_token = "work", .job = job});
    const auto started = answer.Get();
    ASSERT_TRUE(started) << started.error().message;
    EXPECT_EQ(started->reply, Reply::kGoOn);
    EXPECT_EQ(started->work_token, "work");
    ExpectSame(started->job, job);
  }
}

TEST_F(Crossing, Heartbeat) {
  Answered<worker_api::Beaten> answer;
  client->Beat({.who = who, .work_tokens = {"a", "b", "c", "d"}, .wait = 15s}, answer.done());
  const auto [heard, done] = engine.beaten.Take();
  EXPECT_EQ(heard.who, who);
  EXPECT_EQ(heard.work_tokens, (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(heard.wait, 15s);
  done(worker_api::Beaten{.pulses = {{Reply::kGoOn, "new"},
                                     {Reply::kCancel, ""},
                                     {Reply::kStop, ""},
                                     {Reply::kAskAgain, ""}}});
  const auto beaten = answer.Get();
  ASSERT_TRUE(beaten) << beaten.error().message;
  EXPECT_FALSE(beaten->leave);
  const auto& pulses = beaten->pulses;
  ASSERT_EQ(pulses.size(), 4U);
  EXPECT_EQ(pulses[0].reply, Reply::kGoOn);
  EXPECT_EQ(pulses[0].work_token, "new");
  EXPECT_EQ(pulses[1].reply, Reply::kCancel);
  EXPECT_EQ(pulses[2].reply, Reply::kStop);
  EXPECT_EQ(pulses[3].reply, Reply::kAskAgain);
}

TEST_F(Crossing, OrderToLeave) {
  for (const std::size_t tokens : {0U, 2U}) {
    Answered<worker_api::Beaten> answer;
    client->Beat({.who = who, .work_tokens = std::vector<std::string>(tokens, "a"), .wait = 15s},
                 answer.done());
    engine.beaten.Take().second(worker_api::Beaten{
        .pulses = std::vector<worker_api::Pulse>(tokens, {Reply::kGoOn, ""}), .leave = true});
    const auto beaten = answer.Get();
    ASSERT_TRUE(beaten) << beaten.error().message;
    EXPECT_EQ(beaten->pulses.size(), tokens);
    EXPECT_TRUE(beaten->leave);
  }
  Answered<worker_api::Polled> polled;
  client->PollFor({.who = who, .free = {{"q", 1}}, .wait = 1s}, polled.done());
  engine.polled.Take().second(worker_api::Polled{.assignments = {}, .drain = true, .leave = true});
  const auto got = polled.Get();
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(got->leave);
}

TEST_F(Crossing, Log) {
  Answered<Reply> answer;
  const std::vector<log_store::Line> lines = {
      {1, log_store::Stream::kStdout, Instant(5us), "plain"},
      {2, log_store::Stream::kStderr, Instant(6us), std::string("\0\xff\n", 3)},
      {9, log_store::Stream::kNote, Instant(-7us), ""}};
  client->Log("work", lines, answer.done());
  const auto [heard, done] = engine.logged.Take();
  EXPECT_EQ(heard, (Engine::Log_{"work", lines}));
  done(Reply::kCancel);
  const auto reply = answer.Get();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(*reply, Reply::kCancel);
}

TEST_F(Crossing, Complete) {
  const model::Outcome outcomes[] = {
      {.verdict = model::Verdict::kSucceeded, .output = "{\"x\":1}"},
      {.verdict = model::Verdict::kRetry,
       .reason = model::Reason::kExitCode,
       .error = "no\xff",
       .output = {},
       .exit_code = 0,
       .signal = 9,
       .not_before = Instant(11us),
       .started_at = Instant(12us),
       .ended_at = Instant(13us)},
      {.verdict = model::Verdict::kLost, .reason = model::Reason::kCredentialCeiling}};
  for (const model::Outcome& sent : outcomes) {
    Answered<Reply> answer;
    client->Complete("work", sent, answer.done());
    const auto [heard, done] = engine.completed.Take();
    EXPECT_EQ(heard.first, "work");
    const model::Outcome& got = heard.second;
    EXPECT_EQ(got.verdict, sent.verdict);
    EXPECT_EQ(got.reason, sent.reason);
    EXPECT_EQ(got.error, sent.error);
    EXPECT_EQ(got.output, sent.output);
    EXPECT_EQ(got.exit_code, sent.exit_code);
    EXPECT_EQ(got.signal, sent.signal);
    EXPECT_EQ(got.not_before, sent.not_before);
    EXPECT_EQ(got.started_at, sent.started_at);
    EXPECT_EQ(got.ended_at, sent.ended_at);
    done(Reply::kStop);
    const auto reply = answer.Get();
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(*reply, Reply::kStop);
  }
}

TEST_F(Crossing, PutArtifact) {
  const auto cross = [&](const worker_api::ArtifactTaken& said) {
    Answered<worker_api::ArtifactTaken> answer;
    client->PutArtifact({.work_token = "wt",
                         .upload = "u-1",
                         .offset = std::uint64_t{1} << 33,
                         .bytes = std::string("\0\xff", 2),
                         .sha256 = "abc"},
                        answer.done());
    const auto [heard, done] = engine.given.Take();
    EXPECT_EQ(heard.work_token, "wt");
    EXPECT_EQ(heard.upload, "u-1");
    EXPECT_EQ(heard.offset, std::uint64_t{1} << 33);
    EXPECT_EQ(heard.bytes, std::string("\0\xff", 2));
    EXPECT_EQ(heard.sha256, "abc");
    done(said);
    const auto taken = answer.Value();
    EXPECT_EQ(taken.reply, said.reply);
    EXPECT_EQ(taken.have, said.have);
    EXPECT_EQ(taken.stored, said.stored);
    EXPECT_EQ(taken.failure, said.failure);
  };
  cross({.reply = Reply::kGoOn, .have = std::uint64_t{1} << 34, .stored = true});
  cross({.reply = Reply::kAskAgain});
  for (const Code code : {Code::kUnavailable, Code::kCorrupt, Code::kInvalidArgument})
    cross({.reply = Reply::kCancel, .failure = Error{code, "why"}});
}

TEST_F(Crossing, GetArtifact) {
  const auto cross = [&](const worker_api::ArtifactPiece& said) {
    Answered<worker_api::ArtifactPiece> answer;
    client->GetArtifact({.work_token = "wt", .sha256 = "abc", .offset = 7, .max_bytes = 9},
                        answer.done());
    const auto [heard, done] = engine.got.Take();
    EXPECT_EQ(heard.work_token, "wt");
    EXPECT_EQ(heard.sha256, "abc");
    EXPECT_EQ(heard.offset, 7U);
    EXPECT_EQ(heard.max_bytes, 9U);
    done(said);
    const auto piece = answer.Value();
    EXPECT_EQ(piece.reply, said.reply);
    EXPECT_EQ(piece.bytes, said.bytes);
    EXPECT_EQ(piece.last, said.last);
    EXPECT_EQ(piece.failure, said.failure);
  };
  cross({.reply = Reply::kGoOn, .bytes = std::string("\0\xff", 2), .last = true});
  for (const Code code : {Code::kUnavailable, Code::kNotFound, Code::kCorrupt})
    cross({.reply = Reply::kStop, .failure = Error{code, "why"}});
}

TEST_F(Crossing, ArtifactsOfARegistrationAJobAndAnEnd) {
  Answered<worker_api::Welcome> welcome;
  client->Register({.who = who, .slots = {{"mail", 2}}, .artifact_dir = "/var/needs"},
                   welcome.done());
  const auto [registration, registered] = engine.registered.Take();
  EXPECT_EQ(registration.artifact_dir, "/var/needs");
  registered(worker_api::Welcome{.lease = 61s, .heartbeat_every = 1s});
  EXPECT_TRUE(welcome.Get());

  const model::Artifact artifact{
      .file = "f.txt", .sha256 = std::string(64, 'a'), .size = 5, .executable = true};
  Answered<worker_api::Started> started;
  client->Start(who, "st", started.done());
  const auto [start, answer_start] = engine.started.Take();
  worker_api::Started with{.reply = Reply::kGoOn, .work_token = "wt", .job = TheJob()};
  with.job.resolved.artifacts = {{artifact, "build.f", "/var/needs/12-56/build/f/f.txt"}};
  with.job.resolved.rendered =
      executor::Rendered{.action = model::ExecAction{{"x"}}, .artifacts = {{"out", "o.txt"}}};
  answer_start(with);
  const auto job = started.Value().job;
  ASSERT_EQ(job.resolved.artifacts.size(), 1U);
  EXPECT_EQ(job.resolved.artifacts[0].artifact, artifact);
  EXPECT_EQ(job.resolved.artifacts[0].name, "build.f");
  EXPECT_EQ(job.resolved.artifacts[0].path, "/var/needs/12-56/build/f/f.txt");
  EXPECT_EQ(job.resolved.rendered->artifacts, with.job.resolved.rendered->artifacts);

  const model::TaskResult result{.output = R"({"n":1})", .artifacts = {{"f", artifact}}};
  Answered<Reply> reply;
  client->Complete("wt", {.output = model::WriteResult(result)}, reply.done());
  const auto [complete, completed] = engine.completed.Take();
  EXPECT_EQ(model::ReadResult(complete.second.output).value(), result);
  completed(Reply::kGoOn);
  EXPECT_EQ(reply.Value(), Reply::kGoOn);
}

TEST_F(Crossing, HandBackAndLeave) {
  Answered<bool> back;
  client->HandBack(who, {"s1", "s2"}, back.done());
  const auto [heard, done] = engine.handed_back.Take();
  EXPECT_EQ(heard, (Engine::HandBack_{who, {"s1", "s2"}}));
  done(true);
  EXPECT_EQ(back.Value(), true);

  Answered<bool> left;
  client->Leave(who, left.done());
  const auto [leaver, bye] = engine.left.Take();
  EXPECT_EQ(leaver, who);
  bye(false);
  EXPECT_EQ(left.Value(), false);
}

}  // namespace
}  // namespace headworks::rpc
