#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "headworks/engine/engine.h"

#include "tests/rig.h"

namespace headworks::engine {
namespace {

using std::chrono::seconds;

/// An engine with little memory, runs of several tenants.
class AdmissionTest : public EngineTest {
 protected:
  AdmissionTest() { EXPECT_TRUE(engine_.Close()); }

  void Open(EngineOptions options) {
    options.owner = "small-" + std::to_string(++opened_);
    small_ = std::make_unique<Engine>(std::move(options), store_, dispatcher_, evaluator_, clock_,
                                      random_, logger_, nullptr);
    ASSERT_TRUE(small_->Open());
    TickSmall();
  }
  void TickSmall(int times = 1) {
    for (; times > 0; --times) {
      small_->Tick();
      clock_.Advance(std::chrono::milliseconds(10));
    }
  }
  /// Started, and stored by the next tick.
  void StartRuns(const std::string& tenant, int count, int priority = 0, std::uint32_t tasks = 1) {
    auto definition = Tasks("w" + std::to_string(tasks), tasks);
    definition.name.tenant = tenant;
    const auto workflow = *model::Workflow::Create(std::move(definition));
    EXPECT_TRUE(store_.workflows().PutVersion(TenantId(tenant), workflow->version(),
                                              workflow->canonical_json(), clock_.Now()));
    for (int i = 0; i < count; ++i)
      small_->Start({.tenant = TenantId(tenant),
                     .name = workflow->name(),
                     .version = workflow->version(),
                     .input = "{}",
                     .priority = priority},
                    [](const auto& started) { EXPECT_TRUE(started); });
  }
  /// Ends one attempt of another tenant than `but`, the oldest.
  bool EndOne(const std::string& but = "") {
    const auto next = std::ranges::find_if(
        dispatcher_.taken, [&](const auto& attempt) { return attempt.key.tenant.value != but; });
    if (next == dispatcher_.taken.end()) return false;
    small_->Ended(next->key, {.verdict = model::Verdict::kSucceeded});
    dispatcher_.taken.erase(next);
    TickSmall(2);
    return true;
  }
  std::map<std::string, int> Taken() const {
    std::map<std::string, int> taken;
    for (const auto& attempt : dispatcher_.taken) ++taken[attempt.key.tenant.value];
    return taken;
  }

  static std::string NameOf(std::uint64_t seed, std::size_t tenant) {
    return "t" + std::to_string(seed) + "-" + std::to_string(tenant);
  }

  std::set<std::pair<RunNo, Epoch>> seen_;
  int opened_ = 0;
  std::unique_ptr<Engine> small_;
};

TEST_F(AdmissionTest, OneRunIsAdmittedWhileAnotherTenantFloods) {
  Open({.max_runs = 4});
  StartRuns("flood", 300);
  TickSmall(5);
  ASSERT_EQ(Taken(), (std::map<std::string, int>{{"flood", 4}}));
  StartRuns("small", 1);
  TickSmall(2);
  int places = 0;
  while (Taken()["small"] == 0 && EndOne()) {
    StartRuns("flood", 2);  // it goes on
    ++places;
  }
  EXPECT_EQ(Taken()["small"], 1);
  EXPECT_LE(places, 2);
}

TEST_F(AdmissionTest, TheNextEngineTakesTenantsInTurn) {
  Open({.max_runs = 1});
  StartRuns("flood", 300);
  TickSmall(2);
  StartRuns("small", 3);
  TickSmall(2);
  ASSERT_TRUE(small_->Close());
  dispatcher_.taken.clear();
  Open({.max_runs = 4});
  TickSmall(3);
  EXPECT_EQ(Taken(), (std::map<std::string, int>{{"flood", 2}, {"small", 2}}));
  while (EndOne()) {
  }
  EXPECT_EQ(small_->stats().runs_in_memory, 0U);
  const auto left = store_.runs().ListDueTenants(std::array{Shard(0)}, clock_.Now(), TenantId(), 9);
  EXPECT_TRUE(left && left->empty());
}

TEST_F(AdmissionTest, TurnsAreAsLongAsTenantsWeigh) {
  Open({.max_runs = 1, .ready_order = {.tenant_weights = {{"heavy", 3}}}});
  StartRuns("light", 60);
  TickSmall(2);
  StartRuns("heavy", 60);
  TickSmall(2);
  std::map<std::string, int> admitted;
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(EndOne());
    ASSERT_EQ(dispatcher_.taken.size(), 1U) << i;
    ++admitted[dispatcher_.taken.front().key.tenant.value];
  }
  EXPECT_EQ(admitted, (std::map<std::string, int>{{"heavy", 30}, {"light", 10}}));
}

TEST_F(AdmissionTest, NoMoreIsReadThanThereIsRoomFor) {
  constexpr int kRuns = 400;
  Open({.max_runs = 2});
  StartRuns("a", kRuns);
  StartRuns("b", kRuns);
  TickSmall(5);
  store_.listed = 0;
  int ended = 0;
  while (EndOne()) ++ended;
  EXPECT_EQ(ended, 2 * kRuns);
  EXPECT_LE(store_.listed, 2U * kRuns + 20U);
}

TEST_F(AdmissionTest, TheCommitThatMakesATaskReadyQueuesItHoweverMuchThereIsToDo) {
  constexpr std::size_t kRuns = 3'000;
  for (const std::uint32_t places : {100U, 1'000'000U}) {
    dispatcher_.max = places;
    Open({.start_tasks = false});
    StartRuns("a", kRuns);
    TickSmall(5);
    ASSERT_TRUE(small_->Close());
    store_.sent.clear();
    Open({});
    std::size_t ended = 0;
    for (int i = 0; i < 200 && ended < kRuns; ++i) {
      ended += dispatcher_.taken.size();
      for (; !dispatcher_.taken.empty(); dispatcher_.taken.pop_front())
        small_->Ended(dispatcher_.taken.front().key, {.verdict = model::Verdict::kSucceeded});
      TickSmall();
    }
    EXPECT_EQ(ended, kRuns);
    std::map<RunNo, int> writes;
    for (const auto& round : store_.sent)
      for (const auto& write : round.runs) ++writes[write.header.run_no];
    const auto thrice = static_cast<std::size_t>(
        std::ranges::count_if(writes, [](const auto& w) { return w.second > 2; }));
    // By the step that fills its round.
    EXPECT_LE(thrice, store_.sent.size()) << "with " << places << " places";
    ASSERT_TRUE(small_->Close());
  }
}

TEST_F(AdmissionTest, NoMoreRunsAreAdmittedThanThereIsCreditForButForAFew) {
  dispatcher_.max = 200;
  Open({.start_tasks = false});
  StartRuns("a", 1'000);
  TickSmall(3);
  ASSERT_TRUE(small_->Close());
  store_.listed = 0;
  Open({});
  EXPECT_EQ(store_.listed, 200U);
  EXPECT_EQ(dispatcher_.taken.size(), 200U);
  // Without credit some come in all the same: their tasks may go elsewhere.
  TickSmall();
  EXPECT_EQ(store_.listed, 264U);
  TickSmall(40);
  EXPECT_EQ(store_.listed, 1'000U);
  EXPECT_EQ(dispatcher_.taken.size(), 200U);
}

TEST_F(AdmissionTest, ALargeRunWaitsForMemoryButNotForOthersThatComeLater) {
  Open({.max_task_states = 10});
  StartRuns("light", 5, 0, 2);
  TickSmall(2);
  StartRuns("heavy", 1, 0, 10);
  TickSmall(2);
  ASSERT_EQ(Taken(), (std::map<std::string, int>{{"light", 10}}));
  for (int i = 0; i < 10; ++i) {
    StartRuns("light", 1, 0, 2);
    EXPECT_TRUE(EndOne("heavy"));
  }
  EXPECT_EQ(Taken(), (std::map<std::string, int>{{"heavy", 10}}));
}

TEST_F(AdmissionTest, AStoreThatDoesNotAnswerIsAskedAgainFromThereOn) {
  Open({.max_runs = 2});
  StartRuns("a", 5);
  StartRuns("b", 5);
  TickSmall(3);
  store_.refuse_due = true;
  EXPECT_TRUE(EndOne());
  EXPECT_TRUE(EndOne());
  EXPECT_EQ(dispatcher_.taken.size(), 0U);
  store_.refuse_due = false;
  TickSmall();
  EXPECT_EQ(dispatcher_.taken.size(), 0U);  // not at once
  clock_.Advance(seconds(1));
  TickSmall(2);
  EXPECT_EQ(dispatcher_.taken.size(), 2U);
  int ended = 0;
  while (EndOne()) ++ended;
  EXPECT_EQ(ended, 8);
}

// Whatever comes when, and however often the engine starts anew: nobody waits for more than the
// turns of all others, and no run is forgotten.
TEST_F(AdmissionTest, UnderRandomFloodsEachTenantHasItsTurn) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SeededRandom random(seed);
    const auto below = [&](std::uint64_t bound) { return random.Next() % bound; };
    EngineOptions options{.max_runs = static_cast<std::uint32_t>(1 + below(4)),
                          .admit_batch = 1 + below(8)};
    const std::size_t tenants = 2 + below(3);
    std::size_t weights = 0;
    for (std::size_t t = 0; t < tenants; ++t) {
      const auto weight = static_cast<std::uint32_t>(1 + below(3));
      options.ready_order.tenant_weights[NameOf(seed, t)] = weight;
      weights += weight;
    }
    const std::size_t most = (weights + 1) * options.max_runs;
    Open(options);
    std::vector<std::size_t> started(tenants), begun(tenants), overtaken(tenants);
    std::size_t ended = 0;
    const auto note = [&] {
      for (auto& attempt : dispatcher_.taken) {
        if (!seen_.insert({attempt.key.run, attempt.key.epoch}).second) continue;
        for (std::size_t t = 0; t < tenants; ++t)
          if (attempt.key.tenant.value == NameOf(seed, t))
            ++begun[t], overtaken[t] = 0;
          else if (started[t] > begun[t])
            ++overtaken[t];
      }
      for (std::size_t t = 0; t < tenants; ++t) EXPECT_LE(overtaken[t], most) << "seed " << seed;
    };
    for (int step = 0; step < 300; ++step) {
      const std::uint64_t draw = below(100);
      if (draw < 15) {
        const std::size_t t = below(3) == 0 ? below(tenants) : 0;  // the first one floods
        const int count = t == 0 ? 1 + static_cast<int>(below(30)) : 1;
        StartRuns(NameOf(seed, t), count, static_cast<int>(below(3)));
        started[t] += static_cast<std::size_t>(count);
      } else if (draw < 85) {
        ended += EndOne() ? 1 : 0;
      } else if (draw < 90) {
        store_.refuse_due = below(2) == 0;
        clock_.Advance(seconds(1));
      } else if (draw < 93) {
        // What an earlier engine handed out is told to the next one, which has it offered again.
        ASSERT_TRUE(small_->Close());
        dispatcher_.taken.clear();
        store_.refuse_due = false;
        Open(options);
        for (std::size_t& count : overtaken) count = 0;
      }
      TickSmall();
      note();
    }
    store_.refuse_due = false;
    clock_.Advance(seconds(2));
    TickSmall(3);
    note();  // before any of them ends
    while (EndOne()) {
      ++ended;
      note();
    }
    EXPECT_EQ(ended, std::accumulate(started.begin(), started.end(), std::size_t{0}))
        << "seed " << seed;
    ASSERT_TRUE(small_->Close());
    if (HasFailure()) return;
  }
}

TEST_F(AdmissionTest, AnUrgentRunBehindTheCursorIsNotForgotten) {
  Open({.max_runs = 1});
  StartRuns("a", 20);
  TickSmall(3);
  EXPECT_TRUE(EndOne());
  StartRuns("a", 1, 50);
  TickSmall(2);
  int ended = 0;
  while (EndOne()) ++ended;
  EXPECT_EQ(ended, 20);
}

}  // namespace
}  // namespace headworks::engine
