#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headworks/base/random.h"
#include "headworks/executor_queue/queue_executor.h"
#include "headworks/log_store/memory_log_store.h"
#include "headworks/token/jwt_issuer.h"

namespace headworks::executor_queue {

using executor::DispatchError;
using executor::Heard;
using executor::Reply;
using executor::Word;
using model::Disposition;
using model::Verdict;
using namespace std::chrono_literals;

class ManualClock final : public Clock {
 public:
  Instant Now() override { return Instant(1'767'225'600s) + mono_; }
  Duration Monotonic() override { return mono_; }
  void Advance(Duration by) { mono_ += by; }

 private:
  Duration mono_ = 1h;
};

/// Keeps what it is told, and answers as the test says.
class Judge final : public executor::AttemptSink {
 public:
  explicit Judge(Clock& clock) : clock_(clock) {}
  std::deque<Word> heard;
  std::vector<std::pair<model::AttemptKey, model::Outcome>> ended;
  int capacity_changes = 0;
  Reply reply = Reply::kGoOn;
  /// Answers wait here while it keeps them, as those of a round that cannot be committed.
  bool keeps = false;
  std::vector<std::function<void()>> kept;

  void Started(const model::AttemptKey&) override {}
  void Ended(const model::AttemptKey& key, model::Outcome outcome) override {
    ended.emplace_back(key, std::move(outcome));
  }
  void CapacityChanged() override { ++capacity_changes; }
  void Hear(Word word, std::function<void(Heard)> done) override {
    heard.push_back(std::move(word));
    if (keeps)
      kept.emplace_back(
          [done = std::move(done), said = Heard{reply, clock_.Now()}] { done(said); });
    else
      done({reply, clock_.Now()});
  }

 private:
  Clock& clock_;
};

/// Gives what a test says.
class Given final : public executor::Resolver {
 public:
  Result<executor::Resolved> answer = executor::Resolved{.context_json = "{}"};
  int asked = 0;
  std::string artifact_dir;  // of the last one
  Result<executor::Resolved> Resolve(const executor::Attempt& attempt) override {
    ++asked;
    artifact_dir = attempt.artifact_dir;
    return answer;
  }
};

/// Keeps lines, where the test lets it.
class Shelf final : public log_store::LogStore {
 public:
  /// Asked about each attempt before it is read or written.
  std::function<Status(const model::AttemptKey&)> before = [](const auto&) { return Status(); };

  Status Append(std::span<const log_store::Batch> batches) override {
    for (const auto& batch : batches) HEADWORKS_TRY(before(batch.attempt));
    return inner_->Append(batches);
  }
  Result<log_store::Page> Read(const log_store::Query& query) override {
    return inner_->Read(query);
  }
  Result<log_store::Page> Tail(const log_store::Query& query) override {
    return inner_->Tail(query);
  }
  Status DeleteRun(const TenantId& tenant, RunNo run) override {
    return inner_->DeleteRun(tenant, run);
  }

 private:
  const std::unique_ptr<log_store::LogStore> inner_ = log_store::NewMemoryLogStore();
};

class Warnings final : public Logger {
 public:
  std::vector<std::string> lines;
  void Write(LogLevel level, std::string_view message, Fields) override {
    if (level >= LogLevel::kWarning) lines.emplace_back(message);
  }
};

/// What outlives a process.
class Promises final : public LeaseRecord {
 public:
  Result<Duration> longest = Duration(0);
  bool writable = true;
  Result<Duration> Longest() override { return longest; }
  Status SetLongest(Duration lease) override {
    if (!writable) return Error{Code::kUnavailable, "read-only"};
    longest = lease;
    return {};
  }
};

/// What a call was answered, once it was.
template <typename T>
class Answer {
 public:
  std::function<void(Result<T>)> Done() {
    return [said = said_](Result<T> answer) {
      EXPECT_FALSE(said->has_value()) << "answered twice";
      said->emplace(std::move(answer));
    };
  }
  bool came() const { return said_->has_value(); }
  const Result<T>& operator*() const { return said_->value(); }
  const T* operator->() const { return &*said_->value(); }

 private:
  std::shared_ptr<std::optional<Result<T>>> said_ = std::make_shared<std::optional<Result<T>>>();
};

/// Of an answer that is an error, which `error()` of a value is not; none of a value.
template <typename T>
std::optional<Code> CodeOf(const Result<T>& result) {
  return result ? std::nullopt : std::optional(result.error().code);
}

class QueueTest : public testing::Test {
 protected:
  void Make(QueueOptions options = {}) {
    options.threads = 0;
    auto made = NewQueueExecutor(
        options, {given_, *logs_, *tokens_, clock_, clock_, warnings_, &promises_, store_.get()});
    ASSERT_TRUE(made) << made.error().message;
    queue_ = *std::move(made);
    ASSERT_TRUE(queue_->Start(judge_));
  }
  ~QueueTest() override {
    if (queue_) EXPECT_TRUE(queue_->Drain(0s));
  }
  std::string LineOf(model::Task task) {
    model::WorkflowDefinition definition;
    definition.name.workflow = "w";
    definition.tasks = {std::move(task)};
    return queue_->LineOf(*model::Workflow::Create(std::move(definition)).value(), TaskNo(0));
  }
  static model::Task Plain(std::string queue = "", std::vector<std::string> required = {}) {
    model::Task task{.id = "a", .action = model::ExecAction{{"work"}}};
    task.queue = std::move(queue);
    task.required = std::move(required);
    return task;
  }
  executor::Attempt Next(model::Task task) {
    model::WorkflowDefinition definition;
    definition.name.workflow = "w";
    definition.tasks = {std::move(task)};
    const auto workflow = model::Workflow::Create(std::move(definition));
    EXPECT_TRUE(workflow) << workflow.error().message;
    executor::Attempt attempt;
    attempt.key = {TenantId("public"), RunNo(1), TaskNo(0), -1, Epoch(++epochs_)};
    attempt.run_id = RunId("run-1");
    attempt.workflow = *workflow;
    return attempt;
  }
  executor::Attempt Offer(model::Task task) {
    executor::Attempt attempt = Next(std::move(task));
    const auto result = queue_->Offer(attempt);
    EXPECT_EQ(result.disposition, Disposition::kDispatched) << result.cause;
    return attempt;
  }
  worker_api::Identity Hire(const std::string& name, std::vector<std::string> labels = {},
                            std::map<std::string, std::uint32_t> slots = {{"default", 100}}) {
    const worker_api::Identity who{TenantId("public"), name, "one"};
    Answer<worker_api::Welcome> welcome;
    queue_->Register({.who = who, .slots = std::move(slots), .labels = std::move(labels)},
                     welcome.Done());
    EXPECT_TRUE(*welcome) << (*welcome).error().message;
    return who;
  }
  Answer<worker_api::Polled> Poll(const worker_api::Identity& who, Duration wait = 0s,
                                  std::map<std::string, std::uint32_t> free = {{"default", 1}}) {
    Answer<worker_api::Polled> polled;
    queue_->PollFor({.who = who, .free = std::move(free), .wait = wait}, polled.Done());
    return polled;
  }
  std::string Token(const worker_api::Identity& who) {
    const auto polled = Poll(who);
    EXPECT_EQ(polled->assignments.size(), 1U);
    return polled->assignments.empty() ? "" : polled->assignments[0].start_token;
  }
  Answer<worker_api::Started> Begin(const worker_api::Identity& who, std::string start_token) {
    Answer<worker_api::Started> started;
    queue_->Start(who, std::move(start_token), started.Done());
    while (queue_->RunNext()) {
    }
    return started;
  }
  /// Offered, given and begun: its working token.
  std::string Run(const worker_api::Identity& who, const executor::Attempt& attempt) {
    EXPECT_EQ(queue_->Offer(attempt).disposition, Disposition::kDispatched);
    return Begin(who, Token(who))->work_token;
  }
  Answer<Reply> Complete(const std::string& token, model::Outcome outcome) {
    Answer<Reply> reply;
    queue_->Complete(token, std::move(outcome), reply.Done());
    return reply;
  }
  Answer<Reply> Log(const std::string& token, std::vector<log_store::Line> lines) {
    Answer<Reply> reply;
    queue_->Log(token, std::move(lines), reply.Done());
    return reply;
  }
  Answer<worker_api::Beaten> Beat(const worker_api::Identity& who, std::vector<std::string> tokens,
                                  Duration wait = 0s) {
    Answer<worker_api::Beaten> beaten;
    queue_->Beat({.who = who, .work_tokens = std::move(tokens), .wait = wait}, beaten.Done());
    return beaten;
  }
  executor::Inspection Inspect(const executor::Attempt& attempt) {
    return std::move(queue_->Inspect({&attempt, 1})->front());
  }
  /// As its own thread does, at least every second.
  void Pass(Duration time) {
    for (const Duration until = clock_.Monotonic() + time; clock_.Monotonic() < until;) {
      clock_.Advance(std::min<Duration>(until - clock_.Monotonic(), 1s));
      queue_->Tick();
    }
  }

  ManualClock clock_;
  SystemRandom random_;
  Judge judge_{clock_};
  Given given_;
  Warnings warnings_;
  Promises promises_;
  std::unique_ptr<artifact_store::ArtifactStore> store_;  // null: there is none
  const std::unique_ptr<Shelf> logs_ = std::make_unique<Shelf>();
  std::unique_ptr<token::JwtIssuer> tokens_ =
      *token::JwtIssuer::Create({}, token::TokenKeys::Generate(random_), clock_);
  std::unique_ptr<QueueExecutor> queue_;
  std::int64_t epochs_ = 0;
};

}  // namespace headworks::executor_queue
