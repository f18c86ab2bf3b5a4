#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "headworks/artifact_store_files/file_artifact_store.h"
#include "headworks/dispatch/default_dispatcher.h"
#include "headworks/engine/engine.h"
#include "headworks/store_memory/memory_store.h"
#include "tests/rig.h"

// With a real engine: who gets work while others have no workers (I11).
namespace headworks::executor_queue {
namespace {

class NoQuestions final : public engine::Evaluator {
 public:
  void Evaluate(engine::Question, Answer) override {}
};

class CreditTest : public testing::Test {
 protected:
  void Open(std::uint32_t max_waiting) {
    queue_ = *NewQueueExecutor(
        {.max_waiting = max_waiting, .threads = 0},
        {given_, *logs_, *tokens_, clock_, clock_, warnings_, nullptr, files_.get()});
    ASSERT_TRUE(dispatcher_.RegisterExecutor("queue", *queue_));
    ASSERT_TRUE(engine_.Open());
    ASSERT_TRUE(dispatcher_.Start(engine_));
    Tick();
  }
  ~CreditTest() override {
    EXPECT_TRUE(dispatcher_.Close(0s));
    std::filesystem::remove_all(folder_);
  }

  void Tick(int times = 1) {
    for (; times > 0; --times) {
      engine_.Tick();
      clock_.Advance(10ms);
    }
  }
  static model::Task Doing(const std::string& id, const std::string& queue) {
    model::Task task{.id = id, .action = model::ExecAction{{"work"}}};
    task.queue = queue;
    return task;
  }
  /// A run of `count` tasks of this queue.
  void Start(const std::string& tenant, const std::string& queue, int count,
             const std::vector<std::string>& required = {}) {
    model::WorkflowDefinition definition;
    definition.name = {.tenant = tenant, .workflow = queue + std::to_string(required.size())};
    for (int t = 0; t < count; ++t) {
      definition.tasks.push_back(Doing("t" + std::to_string(t), queue));
      definition.tasks.back().required = required;
    }
    Start(tenant, std::move(definition));
  }
  /// A run of `count` tasks that do not wait for the one whose artifact they need, in a queue
  /// "none" that has no workers.
  void StartNeedy(const std::string& tenant, const std::string& queue, int count) {
    model::WorkflowDefinition definition;
    definition.name = {.tenant = tenant, .workflow = "needy"};
    definition.tasks.push_back(Doing("leaves", "none"));
    definition.tasks.back().artifacts = {{"f", "f"}};
    for (int t = 0; t < count; ++t) {
      definition.tasks.push_back(Doing("t" + std::to_string(t), queue));
      definition.tasks.back().needs = {"leaves"};
      definition.tasks.back().trigger_rule = model::TriggerRule::kAlways;
    }
    Start(tenant, std::move(definition));
  }
  void Start(const std::string& tenant, model::WorkflowDefinition definition) {
    const auto workflow = *model::Workflow::Create(std::move(definition));
    ASSERT_TRUE(store_->workflows().PutVersion(TenantId(tenant), workflow->version(),
                                               workflow->canonical_json(), clock_.Now()));
    engine_.Start({.tenant = TenantId(tenant),
                   .name = workflow->name(),
                   .version = workflow->version(),
                   .input = "{}"},
                  [](const Result<control::Started>& started) { EXPECT_TRUE(started); });
    Tick(3);
  }
  worker_api::Identity Hire(const std::string& tenant, const std::string& queue,
                            std::vector<std::string> labels = {}, std::string artifact_dir = "") {
    const worker_api::Identity who{TenantId(tenant), "worker", queue};
    Answer<worker_api::Welcome> welcome;
    queue_->Register({.who = who,
                      .slots = {{queue, 3}},
                      .labels = std::move(labels),
                      .artifact_dir = std::move(artifact_dir)},
                     welcome.Done());
    EXPECT_TRUE(*welcome);
    return who;
  }
  /// It takes what there is, and says how much that was; it waits for a second where there is none.
  int Work(const worker_api::Identity& who) {
    for (int done = 0;;) {
      Answer<worker_api::Polled> polled;
      queue_->PollFor({.who = who, .free = {{who.incarnation, 3}}, .wait = 10s}, polled.Done());
      for (int n = 0; n < 100 && !polled.came(); ++n) Tick();
      if (!polled.came()) return done;
      for (const auto& assignment : polled->assignments) {
        Answer<worker_api::Started> started;
        queue_->Start(who, assignment.start_token, started.Done());
        Tick();
        EXPECT_TRUE(queue_->RunNext());
        Answer<Reply> reply;
        queue_->Complete(started->work_token, {}, reply.Done());
        Tick();
        EXPECT_EQ(**reply, Reply::kGoOn);
        ++done;
      }
    }
  }
  std::map<std::string, std::uint64_t> Waiting() { return queue_->Figures().waiting; }

  ManualClock clock_;
  SeededRandom random_{1};
  NullLogger logger_;
  Given given_;
  Warnings warnings_;
  NoQuestions evaluator_;
  const std::unique_ptr<Shelf> logs_ = std::make_unique<Shelf>();
  std::unique_ptr<token::JwtIssuer> tokens_ =
      *token::JwtIssuer::Create({}, token::TokenKeys::Generate(random_), clock_);
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("credit-{:x}", SystemRandom().Next());
  const std::unique_ptr<artifact_store::ArtifactStore> files_ =
      artifact_store_files::NewFileArtifactStore(folder_);
  const std::unique_ptr<store::Database> store_ =
      store_memory::Open(store_memory::NewStorage(), clock_);
  dispatch::DefaultDispatcher dispatcher_{{.functions = "queue", .commands = "queue"}};
  engine::Engine engine_{
      {.owner = "engine"}, *store_, dispatcher_, evaluator_, clock_, random_, logger_, nullptr};
  std::unique_ptr<QueueExecutor> queue_;
};

TEST_F(CreditTest, AQueueWithoutWorkersHoldsUpNoOther) {
  Open(10);
  Start("public", "dead", 100);
  EXPECT_EQ(engine_.stats().live_attempts, 5U) << "half of the room; the rest have no row";
  Start("public", "live", 50);
  EXPECT_EQ(Work(Hire("public", "live")), 50);
  EXPECT_EQ(Waiting(), (std::map<std::string, std::uint64_t>{{"dead", 5}}));
  EXPECT_EQ(engine_.stats().attempts, 55U);
  EXPECT_EQ(Work(Hire("public", "dead")), 100);
  EXPECT_EQ(engine_.stats().runs_finished, 2U);
}

TEST_F(CreditTest, NeitherDoesOneWithoutSuchWorkers) {
  Open(10);
  Start("public", "live", 100, {"gpu"});
  Start("public", "live", 50);
  EXPECT_EQ(Work(Hire("public", "live")), 50);
  EXPECT_EQ(Waiting(), (std::map<std::string, std::uint64_t>{{"live", 5}}));
  EXPECT_EQ(Work(Hire("public", "live", {"gpu"})), 100);
}

TEST_F(CreditTest, NorDoTasksThatOnlyNeedArtifactsWhereNobodyPassesThemOn) {
  Open(10);
  StartNeedy("public", "live", 100);
  EXPECT_EQ(Waiting()["live"], 5U) << "half of the room";
  Start("public", "live", 50);
  EXPECT_EQ(Work(Hire("public", "live")), 50);
  EXPECT_EQ(Work(Hire("public", "live", {}, "/var/needs")), 100);
}

TEST_F(CreditTest, ATenantWithoutWorkersHoldsUpNoOther) {
  Open(10);
  for (const char* queue : {"default", "b", "c"}) Start("x", queue, 100);
  EXPECT_EQ(engine_.stats().live_attempts, 8U) << "three quarters of the room";
  Start("y", "default", 50);
  EXPECT_EQ(Work(Hire("y", "default")), 50);
  EXPECT_EQ(engine_.stats().live_attempts, 8U);
  for (const char* queue : {"default", "b", "c"}) EXPECT_EQ(Work(Hire("x", queue)), 100) << queue;
}

TEST_F(CreditTest, WhoeverWaitsForWorkGetsItWhereNoRoomIsLeft) {
  Open(10);
  for (const char* queue : {"a", "b", "c"}) Start("x", queue, 100);
  Start("y", "a", 100);
  Start("z", "a", 100);
  EXPECT_EQ(engine_.stats().live_attempts, 10U);
  Start("x", "live", 50);
  Start("z", "live", 50);
  EXPECT_EQ(Waiting().count("live"), 0U);
  EXPECT_EQ(Work(Hire("x", "live")), 50) << "though its tenant has used up its share";
  EXPECT_EQ(Work(Hire("z", "live")), 50);
  EXPECT_EQ(engine_.stats().live_attempts, 10U);
  EXPECT_EQ(engine_.stats().attempts, 110U);
}

}  // namespace
}  // namespace headworks::executor_queue
