#include "worker_roster.h"

#include <algorithm>
#include <functional>
#include <set>

#include "controls.h"
#include "headworks/store_memory/memory_store.h"
#include "rig.h"

namespace headworks {
namespace {

using executor_queue::Answer;
using model::Verdict;
using store::WorkerPresence;
using store::WorkerRecord;
using namespace std::chrono_literals;

const TenantId kTenant("public");

/// A store of workers that counts what is written, and that can be unplugged.
class CountingStore final : public store::WorkerStore {
 public:
  explicit CountingStore(store::WorkerStore& inner) : inner_(inner) {}
  bool unplugged = false, no_orders = false;
  std::size_t rows = 0, commits = 0, largest = 0, order_lists = 0, order_rows = 0;
  std::function<void()> on_list = [] {};  // before the orders of a tenant are
  std::string fault;                      // of whoever is present

  Status WriteWorkers(std::span<const WorkerRecord> workers, Instant now) override {
    if (unplugged) return Error{Code::kUnavailable, "the disk is gone"};
    rows += workers.size();
    largest = std::max(largest, workers.size());
    ++commits;
    return inner_.WriteWorkers(workers, now);
  }
  Result<std::vector<WorkerRecord>> ListWorkers(const TenantId& tenant) override {
    return inner_.ListWorkers(tenant);
  }
  Result<std::vector<WorkerRecord>> ListPresent() override {
    auto present = inner_.ListPresent();
    for (WorkerRecord& row : *present) row.fault = fault;
    return present;
  }
  Status Order(std::span<const store::WorkerOrder> orders) override { return inner_.Order(orders); }
  Result<std::vector<store::WorkerOrder>> ListOrders(const TenantId& tenant) override {
    on_list();
    return inner_.ListOrders(tenant);
  }
  Result<std::vector<store::WorkerOrder>> ListAllOrders() override {
    ++order_lists;
    if (no_orders) return Error{Code::kUnavailable, "no orders"};
    auto orders = inner_.ListAllOrders();
    order_rows += orders->size();
    return orders;
  }
  Result<std::vector<store::WorkerOrder>> ListNewOrders() override {
    ++order_lists;
    if (no_orders) return Error{Code::kUnavailable, "no orders"};
    auto orders = inner_.ListNewOrders();
    order_rows += orders->size();
    return orders;
  }
  Status NoteTaken(std::span<const store::WorkerOrder> orders) override {
    return inner_.NoteTaken(orders);
  }

 private:
  store::WorkerStore& inner_;
};

class RosterTest : public executor_queue::QueueTest {
 protected:
  static constexpr Duration kLease = 60s, kBeat = 15s;

  /// An engine starts, after what was there before.
  void Engine() {
    roster_.reset();
    if (queue_) EXPECT_TRUE(queue_->Drain(0s));
    queue_.reset();
    Make({.lease = kLease, .heartbeat_every = kBeat});
    roster_.emplace(WorkerRoster::Options{kLease, kBeat}, *queue_, store_, database_->inbox(),
                    clock_, warnings_);
    EXPECT_TRUE(roster_->Open());
  }
  ~RosterTest() override { roster_.reset(); }
  /// As the threads of queue and roster do, each second.
  void Pass(Duration time) {
    for (const Duration end = clock_.Monotonic() + time; clock_.Monotonic() < end;) {
      clock_.Advance(1s);
      queue_->Tick();
      roster_->Tick();
    }
  }
  /// The same, as often as the roster wants it; returns what it said was wrong, each once.
  std::set<std::string> Troubles(Duration time) {
    std::set<std::string> troubles;
    for (const Duration end = clock_.Monotonic() + time; clock_.Monotonic() < end;) {
      clock_.Advance(WorkerRoster::kOrders);
      queue_->Tick();
      EXPECT_EQ(roster_->Tick(), WorkerRoster::kOrders);
      troubles.insert(roster_->trouble());
    }
    return troubles;
  }
  /// The same, and whoever is there polls as often as it is to.
  void PassWith(const std::vector<worker_api::Identity>& all, Duration time) {
    for (const Duration end = clock_.Monotonic() + time; clock_.Monotonic() < end;) {
      for (const auto& who : all) Poll(who);
      Pass(kBeat);
    }
  }
  std::vector<WorkerRecord> Rows() { return *store_.ListWorkers(kTenant); }
  WorkerRecord Row() {
    const auto rows = Rows();
    EXPECT_EQ(rows.size(), 1U);
    return rows.empty() ? WorkerRecord() : rows[0];
  }

  std::unique_ptr<store_memory::Database> database_ =
      store_memory::Open(store_memory::NewStorage(), clock_);
  CountingStore store_{database_->workers()};
  std::optional<WorkerRoster> roster_;
};

TEST_F(RosterTest, WhoRegistersIsWrittenDownWithinALook) {
  Engine();
  const Instant came = clock_.Now();
  const auto who = Hire("w", {"gpu", "big"}, {{"mail", 2}, {"default", 4}});
  Pass(WorkerRoster::kLook);
  const WorkerRecord row = Row();
  EXPECT_EQ(row.name, "w");
  EXPECT_EQ(row.incarnation, who.incarnation);
  EXPECT_EQ(row.presence, WorkerPresence::kHeard);
  EXPECT_EQ(row.connected_at, came);
  EXPECT_EQ(row.heard_at, came);
  EXPECT_EQ(row.written_at, clock_.Now());
  EXPECT_EQ(row.labels, (std::vector<std::string>{"gpu", "big"}));
  EXPECT_EQ(row.protocol, worker_api::kProtocol);
  EXPECT_EQ(row.queues,
            (std::vector<WorkerRecord::Queue>{{"default", 4, 0, 0}, {"mail", 2, 0, 0}}));
}

TEST_F(RosterTest, WhatAWorkerHoldsAndRunsIsCountedByQueue) {
  Engine();
  const auto who = Hire("w", {}, {{"default", 4}, {"mail", 2}});
  Run(who, Next(Plain()));
  const std::string second = Run(who, Next(Plain()));
  Offer(Plain());
  EXPECT_EQ(Poll(who)->assignments.size(), 1U);  // and is not begun
  Pass(1s);
  EXPECT_EQ(Row().queues[0], (WorkerRecord::Queue{"default", 4, 3, 2}));
  EXPECT_TRUE((*Complete(second, {.verdict = Verdict::kSucceeded})).has_value());
  Pass(WorkerRoster::kLoad);
  EXPECT_EQ(Row().queues[0], (WorkerRecord::Queue{"default", 4, 2, 1}));
  EXPECT_EQ(Row().queues[1], (WorkerRecord::Queue{"mail", 2, 0, 0}));
}

TEST_F(RosterTest, WhoIsSilentIsShownSoAndThenGone) {
  Engine();
  Hire("w");
  Pass(2 * kBeat - 1s);
  EXPECT_EQ(Row().presence, WorkerPresence::kHeard);
  Pass(1s);
  EXPECT_EQ(Row().presence, WorkerPresence::kSilent);
  Pass(kLease - 2 * kBeat);
  const WorkerRecord row = Row();
  EXPECT_EQ(row.presence, WorkerPresence::kGone);
  EXPECT_EQ(row.gone_at, clock_.Now());
  EXPECT_EQ(row.gone_why, "nothing was heard of it for a lease of 1m00s");
}

TEST_F(RosterTest, WhoLeavesIsGoneAndWhoComesAgainIsThere) {
  Engine();
  const auto who = Hire("w");
  Pass(1s);
  Answer<bool> left;
  queue_->Leave(who, left.Done());
  Pass(1s);
  EXPECT_EQ(Row().presence, WorkerPresence::kGone);
  EXPECT_EQ(Row().gone_why, "it left");
  Hire("w");
  Pass(1s);
  EXPECT_EQ(Row().presence, WorkerPresence::kHeard);
  EXPECT_EQ(Row().gone_at, Instant{});
}

TEST_F(RosterTest, WorkersOfAnEarlierEngineAreSilentAndThenThereOrGone) {
  Engine();
  Hire("comes");
  Hire("stays-away");
  Pass(1s);
  Engine();
  for (const WorkerRecord& row : Rows()) EXPECT_EQ(row.presence, WorkerPresence::kSilent);
  const auto who = Hire("comes");
  PassWith({who}, kLease);
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].presence, WorkerPresence::kHeard);
  EXPECT_EQ(rows[1].presence, WorkerPresence::kGone);
  EXPECT_EQ(rows[1].gone_why,
            "it did not come back within a lease of 1m00s after the engine had started");
}

TEST_F(RosterTest, WhoIsOnlyHeardCostsTwoRowsAMinute) {
  Engine();
  std::vector<worker_api::Identity> all;
  all.reserve(1'000);
  for (int i = 0; i < 1'000; ++i) all.push_back(Hire("w" + std::to_string(i)));
  Pass(1s);
  EXPECT_EQ(store_.rows, all.size());
  store_.rows = store_.commits = 0;
  PassWith(all, 3min);
  EXPECT_EQ(store_.rows, std::size_t{2} * 3 * all.size());
  EXPECT_EQ(store_.commits, store_.rows / WorkerRoster::kBatch);
  EXPECT_EQ(store_.largest, WorkerRoster::kBatch);
  for (const WorkerRecord& row : Rows()) EXPECT_EQ(row.presence, WorkerPresence::kHeard);
}

TEST_F(RosterTest, WhoseAttemptsChangeAllTheTimeCostsAtMostSixRowsAMinute) {
  Engine();
  const auto who = Hire("w");
  Pass(1s);
  store_.rows = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string token = Run(who, Next(Plain()));
    Pass(1s);
    EXPECT_TRUE((*Complete(token, {.verdict = Verdict::kSucceeded})).has_value());
    Pass(1s);
  }
  EXPECT_LE(store_.rows, 6U * 10U);
  EXPECT_GE(store_.rows, 5U * 10U);
}

TEST_F(RosterTest, WhoRegistersAllTheTimeCostsARowALook) {
  Engine();
  for (std::uint32_t i = 1; i <= 100; ++i) {
    Hire("w", {}, {{"default", i}});
    Hire("w", {}, {{"default", i + 1}});
    Pass(1s);
  }
  EXPECT_EQ(store_.rows, 100U);
}

TEST_F(RosterTest, TroubleIsToldOnceAndWhatWasMissedIsWrittenThen) {
  Engine();
  store_.unplugged = true;
  const auto who = Hire("w");
  EXPECT_EQ(Troubles(5s), std::set<std::string>{"the disk is gone"});
  EXPECT_EQ(warnings_.lines, std::vector<std::string>{"workers are not looked after"});
  store_.unplugged = false;
  Pass(1s);
  EXPECT_EQ(roster_->trouble(), "");
  EXPECT_EQ(Row().presence, WorkerPresence::kHeard);
  store_.unplugged = true;
  Answer<bool> left;
  queue_->Leave(who, left.Done());
  Pass(90s);
  store_.unplugged = false;
  Pass(1s);
  EXPECT_EQ(Row().presence, WorkerPresence::kGone);
  EXPECT_EQ(Row().gone_why, "it left");
  EXPECT_EQ(Row().gone_at, clock_.Now() - 90s);
}

TEST_F(RosterTest, WhoCameBackAndLeftBetweenTwoLooksHasLeft) {
  Engine();
  const auto who = Hire("w");
  Pass(1s);
  Engine();
  Hire("w");
  Answer<bool> left;
  queue_->Leave(who, left.Done());
  Pass(1s);
  EXPECT_EQ(Row().presence, WorkerPresence::kGone);
  EXPECT_EQ(Row().gone_why, "it left");
}

TEST_F(RosterTest, WhoHadToMakeRoomForAnotherDidNotLeave) {
  Engine();
  const auto hire = [&](int incarnation) {
    Answer<worker_api::Welcome> welcome;
    queue_->Register(
        {.who = {kTenant, "w", std::to_string(incarnation)}, .slots = {{"default", 1}}},
        welcome.Done());
    EXPECT_TRUE(*welcome) << (*welcome).error().message;
  };
  constexpr int kOfOneName = 1'000;
  for (int n = 0; n < kOfOneName; ++n) hire(n);
  Pass(1s);
  hire(kOfOneName);
  Pass(1s);
  int displaced = 0;
  for (const WorkerRecord& row : Rows()) {
    if (row.presence != WorkerPresence::kGone) continue;
    ++displaced;
    EXPECT_EQ(row.gone_why, "another of its name took its place");
  }
  EXPECT_EQ(displaced, 1);
}

TEST_F(RosterTest, OrdersThatCannotBeReadAreTroubleThoughLooksAreWritten) {
  Engine();
  Hire("w");
  Pass(1s);
  const store::WorkerOrder cordon{
      .tenant = kTenant, .name = "w", .incarnation = "", .actor = "ann", .at = clock_.Now()};
  EXPECT_TRUE(store_.Order({&cordon, 1}));
  store_.no_orders = true;
  EXPECT_EQ(Troubles(5s), std::set<std::string>{"no orders"});
  EXPECT_EQ(warnings_.lines.size(), 1U);
  store_.no_orders = false;
  EXPECT_EQ(Troubles(1s), std::set<std::string>{""});
  EXPECT_TRUE(store_.ListOrders(kTenant)->at(0).taken);
}

TEST_F(RosterTest, CloseWritesWhatWasLeftForLater) {
  Engine();
  const auto who = Hire("w");
  Pass(1s);
  Pass(5s);
  Poll(who);
  roster_->Close();
  EXPECT_EQ(Row().heard_at, clock_.Now());
  const std::size_t rows = store_.rows;
  roster_->Close();
  EXPECT_EQ(store_.rows, rows);
}

TEST_F(RosterTest, WhoIsGoneIsForgottenThoughNothingElseHappens) {
  Engine();
  Hire("w");
  Pass(kLease + 1s);
  EXPECT_EQ(Row().presence, WorkerPresence::kGone);
  clock_.Advance(store::WorkerStore::kGoneTtl - WorkerRoster::kForget);
  Pass(2 * WorkerRoster::kForget);
  EXPECT_TRUE(Rows().empty());
}

TEST_F(RosterTest, OrdersAreTakenSoonAndByTheNextEngineFromTheStart) {
  Engine();
  const auto who = Hire("w");
  Offer(Plain());
  const store::WorkerOrder cordon{
      .tenant = kTenant, .name = "w", .incarnation = "", .actor = "ann", .at = clock_.Now()};
  EXPECT_TRUE(store_.Order({&cordon, 1}));
  clock_.Advance(WorkerRoster::kOrders);
  roster_->Tick();
  EXPECT_TRUE(store_.ListOrders(kTenant)->at(0).taken);
  EXPECT_TRUE(Poll(who)->assignments.empty());
  Engine();
  Offer(Plain());
  EXPECT_TRUE(Poll(Hire("w"))->assignments.empty());
  store::WorkerOrder back = cordon;
  back.stands = false;
  EXPECT_TRUE(store_.Order({&back, 1}));
  roster_->Tick();
  EXPECT_EQ(Poll(who)->assignments.size(), 1U);
}

TEST_F(RosterTest, OrdersThatAreTakenAreNotReadAgainWithEachCommit) {
  std::vector<store::WorkerOrder> many;
  many.reserve(100);
  for (int i = 0; i < 100; ++i)
    many.push_back({.tenant = kTenant,
                    .name = "w" + std::to_string(i),
                    .incarnation = "",
                    .actor = "ann",
                    .at = clock_.Now()});
  EXPECT_TRUE(store_.Order(many));
  Engine();
  const auto who = Hire("w7");
  Offer(Plain());
  roster_->Tick();
  store_.order_rows = 0;
  const auto commit = [&] {
    EXPECT_TRUE(store_.WriteWorkers({}, clock_.Now()));
    clock_.Advance(WorkerRoster::kOrders);
    roster_->Tick();
  };
  for (int i = 0; i < 50; ++i) commit();
  EXPECT_EQ(store_.order_rows, 0U);
  EXPECT_TRUE(Poll(who)->assignments.empty());
  many[7].stands = false;
  EXPECT_TRUE(store_.Order({&many[7], 1}));
  commit();
  EXPECT_EQ(store_.order_rows, 1U);
  EXPECT_EQ(Poll(who)->assignments.size(), 1U);
  EXPECT_TRUE(Poll(Hire("w8"))->drain) << "the others stand";
}

TEST_F(RosterTest, WhoCommandsDoesNotWaitForAnOrderThatWasReplaced) {
  Engine();
  Hire("w");
  Pass(1s);
  InboxControl control(*database_, {store_, database_->queues(), clock_, random_, {}});
  int lists = 0;
  store_.on_list = [&] {
    clock_.Advance(1s);
    if (++lists != 2) return;  // once it was written
    const store::WorkerOrder back{.tenant = kTenant,
                                  .name = "w",
                                  .incarnation = "",
                                  .stands = false,
                                  .actor = "bob",
                                  .at = clock_.Now()};
    EXPECT_TRUE(store_.Order({&back, 1}));
  };
  const auto done =
      control.CommandWorkers({kTenant, control::WorkerCommandKind::kCordon, "w", "ann"}, 10s);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(done->taken);
  EXPECT_EQ(lists, 2);
  store_.on_list = [] {};
}

TEST_F(RosterTest, WhoIsNotCordonedNeedsNoOrderToBeUncordoned) {
  using enum control::WorkerCommandKind;
  Engine();
  Hire("a");
  Hire("b");
  Pass(1s);
  InboxControl control(*database_, {store_, database_->queues(), clock_, random_, {}});
  EXPECT_FALSE(control.CommandWorkers({kTenant, kCordon, "a", "ann"}, 0s)->taken);
  roster_->Tick();
  const auto uncordon = [&] {
    const auto done = control.CommandWorkers({kTenant, kUncordon, "*", "ann"}, 0s);
    EXPECT_EQ(done->names, (std::vector<std::string>{"a", "b"}));
    return done->taken;
  };
  EXPECT_FALSE(uncordon());
  const auto orders = store_.ListOrders(kTenant);
  ASSERT_EQ(orders->size(), 1U);
  EXPECT_EQ(orders->at(0).name, "a");
  EXPECT_FALSE(uncordon()) << "no engine goes by that yet";
  roster_->Tick();
  EXPECT_TRUE(uncordon());
  EXPECT_EQ(control.CommandWorkers({kTenant, kUncordon, "c", "ann"}, 0s).error().code,
            Code::kNotFound);
}

TEST_F(RosterTest, AWorkerWhoseRowIsDamagedKeepsNoEngineFromStarting) {
  Engine();
  Hire("w");
  Pass(1s);
  store_.fault = "worker w: its queues cannot be read";
  Engine();
  EXPECT_NE(std::ranges::find(warnings_.lines,
                              "what is known of a worker is damaged; it is "
                              "written anew"),
            warnings_.lines.end());
  EXPECT_EQ(Row().presence, WorkerPresence::kSilent);
  EXPECT_EQ(Row().fault, "");
  Pass(kLease + 1s);
  EXPECT_EQ(Row().presence, WorkerPresence::kGone);
}

TEST_F(RosterTest, OrdersAreReadOnlyAfterSomethingWasCommitted) {
  Engine();
  Hire("w");
  Pass(1s);
  roster_->Tick();
  const std::size_t lists = store_.order_lists;
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(WorkerRoster::kOrders);
    queue_->Tick();
    roster_->Tick();
  }
  EXPECT_EQ(store_.order_lists, lists);
}

}  // namespace
}  // namespace headworks
