#include "headworks/executor_queue/queue_executor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/rig.h"

// Who is given what, and what it keeps; with an engine that says what a test tells it to.  With a
// real one: runner/tests/workers_test.cc.
namespace headworks::executor_queue {
namespace {

TEST_F(QueueTest, OptionsHaveBounds) {
  const auto refuses = [&](QueueOptions options) {
    const auto made =
        NewQueueExecutor(options, {given_, *logs_, *tokens_, clock_, clock_, warnings_});
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(refuses({.lease = 100ms, .heartbeat_every = 33ms}), "");
  EXPECT_NE(refuses({.lease = 99ms, .heartbeat_every = 1ms}).find("lease"), std::string::npos);
  EXPECT_EQ(refuses({.lease = 24h}), "");
  EXPECT_NE(refuses({.lease = 24h + 1us}).find("lease"), std::string::npos);
  EXPECT_EQ(refuses({.lease = 30s, .heartbeat_every = 10s}), "");
  EXPECT_NE(refuses({.lease = 30s, .heartbeat_every = 10s + 1us}).find("heartbeat_every"),
            std::string::npos);
  EXPECT_NE(refuses({.heartbeat_every = 0s}).find("heartbeat_every"), std::string::npos);
  EXPECT_NE(refuses({.max_waiting = 1}).find("max_waiting"), std::string::npos);
  EXPECT_NE(refuses({.max_waiting = 1'000'001}).find("max_waiting"), std::string::npos);
  EXPECT_NE(refuses({.max_workers = 0}).find("max_workers"), std::string::npos);
  EXPECT_NE(refuses({.threads = 1'025}).find("threads"), std::string::npos);
}

TEST_F(QueueTest, OneQueueTakesHalfOfTheRoomAndAllOfThemAllOfIt) {
  Make({.max_waiting = 4});
  EXPECT_EQ(queue_->GetCapacity().free(), 4U);
  const auto first = Offer(Plain("dead"));
  Offer(Plain("dead"));
  const auto third = Next(Plain("dead"));
  const auto full = queue_->Offer(third);
  EXPECT_EQ(full.error, DispatchError::kNoCapacity) << "for others there is room";
  EXPECT_EQ(full.cause, "2 attempts wait for workers of queue 'dead' already");
  EXPECT_TRUE(std::holds_alternative<executor::Absent>(Inspect(third)));
  Offer(Plain("b"));
  EXPECT_EQ(queue_->Offer(Next(Plain("c"))).cause,
            "3 attempts wait for workers of tenant 'public' already");
  EXPECT_EQ(queue_->GetCapacity().free(), 1U);
  auto other = Next(Plain("dead"));
  other.key.tenant = TenantId("other");
  EXPECT_EQ(queue_->Offer(other).disposition, Disposition::kDispatched)
      << "what waits of one tenant is nothing to another (I11, I13)";
  EXPECT_EQ(queue_->Figures().waiting,
            (std::map<std::string, std::uint64_t>{{"b", 1}, {"dead", 3}}));
  const auto all = queue_->Offer(Next(Plain("d")));
  EXPECT_EQ(all.error, DispatchError::kNoCapacity);
  EXPECT_EQ(all.cause, "4 attempts wait for workers already");
  EXPECT_EQ(queue_->GetCapacity().free(), 0U);
  EXPECT_EQ(judge_.capacity_changes, 0);
  queue_->Settled({&first.key, 1});
  EXPECT_EQ(judge_.capacity_changes, 1);
  EXPECT_EQ(queue_->Offer(third).disposition, Disposition::kDispatched);
  // What runs takes no room from what waits.
  const auto who = Hire("w", {}, {{"b", 1}});
  const auto polled = Poll(who, 0s, {{"b", 1}});
  EXPECT_EQ(queue_->GetCapacity().free(), 0U);
  Begin(who, polled->assignments.at(0).start_token);
  EXPECT_EQ(queue_->GetCapacity().free(), 1U);
  EXPECT_EQ(queue_->GetCapacity().used, 4U);
  EXPECT_EQ(judge_.capacity_changes, 2);
}

TEST_F(QueueTest, EachLineOfEachTenantHasCreditOfItsOwn) {
  Make({.max_waiting = 8});
  const auto credit = [&](const model::Task& task, const char* tenant = "public") {
    const auto now = queue_->GetCredit(TenantId(tenant), LineOf(task));
    return std::vector{now.all, now.tenant, now.line};
  };
  const auto plain = Plain("q"), labelled = Plain("q", {"b", "a", "b"});
  EXPECT_EQ(LineOf(labelled), LineOf(Plain("q", {"a", "b"})));
  EXPECT_EQ(LineOf(Plain("")), LineOf(Plain("default")));
  EXPECT_EQ(credit(plain), (std::vector{8U, 6U, 4U}));
  for (int i = 0; i < 4; ++i) Offer(labelled);
  EXPECT_EQ(queue_->Offer(Next(labelled)).cause,
            "4 attempts wait for workers of queue 'q' with a, b already");
  EXPECT_EQ(credit(labelled), (std::vector{4U, 2U, 0U}));
  EXPECT_EQ(credit(plain), (std::vector{4U, 2U, 4U}))
      << "a label that no worker has holds up nothing beside it (I11)";
  for (int i = 0; i < 2; ++i) Offer(plain);
  EXPECT_EQ(credit(plain), (std::vector{2U, 0U, 2U}));
  EXPECT_EQ(credit(plain, "other"), (std::vector{2U, 6U, 4U}));
  EXPECT_EQ(queue_->Figures().waiting, (std::map<std::string, std::uint64_t>{{"q", 6}}));
}

TEST_F(QueueTest, WhoeverWaitsForWorkGetsItHoweverFullItIs) {
  Make({.max_waiting = 4});
  for (const char* queue : {"dead", "dead", "b"}) Offer(Plain(queue));
  auto other = Next(Plain("dead"));
  other.key.tenant = TenantId("other");
  EXPECT_EQ(queue_->Offer(other).disposition, Disposition::kDispatched);
  const auto live = Next(Plain("live")), next = Next(Plain("live"));
  EXPECT_EQ(queue_->Offer(live).error, DispatchError::kNoCapacity);
  EXPECT_EQ(judge_.capacity_changes, 0);
  EXPECT_FALSE(queue_->GetCredit(TenantId("public"), "b").others);
  const auto who = Hire("w", {}, {{"live", 9}});
  const auto polled = Poll(who, 10s, {{"live", 9}});
  EXPECT_EQ(judge_.capacity_changes, 1) << "who saw no room is told";
  EXPECT_EQ(queue_->GetCredit(TenantId("public"), "live").least(), 1U);
  EXPECT_EQ(queue_->GetCredit(TenantId("other"), "live").least(), 0U);
  EXPECT_TRUE(queue_->GetCredit(TenantId("public"), "b").others) << "that one, namely";
  EXPECT_FALSE(queue_->GetCredit(TenantId("other"), "b").others);
  EXPECT_EQ(queue_->GetCredit(TenantId("public"), "dead").least(), 0U);
  EXPECT_EQ(queue_->GetCredit(TenantId("public"), LineOf(Plain("live", {"gpu"}))).least(), 0U);
  EXPECT_EQ(queue_->Offer(live).disposition, Disposition::kDispatched);
  ASSERT_TRUE(polled.came());
  EXPECT_EQ(polled->assignments.at(0).attempt, live.key);
  EXPECT_EQ(queue_->Offer(next).error, DispatchError::kNoCapacity);
  EXPECT_EQ(queue_->GetCredit(TenantId("public"), "live").least(), 0U);
  EXPECT_FALSE(queue_->GetCredit(TenantId("public"), "b").others);
  Poll(who, 10s, {{"live", 8}});
  EXPECT_EQ(judge_.capacity_changes, 2);
  EXPECT_EQ(queue_->Offer(next).disposition, Disposition::kDispatched);
}

TEST_F(QueueTest, WhatReliesOnThisHostIsRefused) {
  Make();
  const auto cause = [&](model::Task task) {
    const auto result = queue_->Offer(Next(std::move(task)));
    EXPECT_EQ(result.disposition,
              result.cause.empty() ? Disposition::kDispatched : Disposition::kRefused);
    return result.cause;
  };
  model::Task task = Plain();
  task.cwd = "sub";
  EXPECT_NE(cause(task).find("cwd 'sub' is below the folder"), std::string::npos);
  task.cwd = "/srv";
  task.env_file = {"/etc/env", "my.env"};
  EXPECT_NE(cause(task).find("env_file 'my.env'"), std::string::npos);
  task.env_file = {"/etc/env"};
  EXPECT_EQ(cause(task), "");
  task.action = model::ShellAction{.script = "cp x $HEADWORKS_SCRATCH", .shell = {}};
  EXPECT_NE(cause(task).find("HEADWORKS_SCRATCH"), std::string::npos);
  task = Plain();
  task.artifacts = {{"report", "report.txt"}};
  EXPECT_NE(cause(task).find("leaves or needs artifacts"), std::string::npos);
}

TEST_F(QueueTest, LabelsAndQueuesSayWhoGetsWhat) {
  Make();
  const auto gpu = Hire("gpu", {"region=eu", "gpu"}, {{"default", 9}, {"big", 1}});
  const auto cpu = Hire("cpu");
  Offer(Plain("", {"gpu"}));
  Offer(Plain("", {"gpu", "region=us"}));
  const auto plain = Offer(Plain());
  Offer(Plain("big"));
  const auto got = Poll(cpu, 0s, {{"default", 9}});
  ASSERT_EQ(got->assignments.size(), 1U) << "what it may not have is no hindrance (I11)";
  EXPECT_EQ(got->assignments[0].attempt, plain.key);
  EXPECT_EQ(Poll(gpu, 0s, {{"default", 9}, {"big", 1}})->assignments.size(), 2U);
  EXPECT_EQ(queue_->Figures().waiting.at("default"), 3U);
}

TEST_F(QueueTest, APollWaitsForWhatComesOrForItsEnd) {
  Make({.lease = 60s, .heartbeat_every = 15s});
  const auto who = Hire("w");
  const auto early = Poll(who, 10s);
  Pass(10s - 1us);
  EXPECT_FALSE(early.came());
  Pass(1us);
  ASSERT_TRUE(early.came());
  EXPECT_TRUE(early->assignments.empty());
  const auto late = Poll(who, 60s);
  const auto later = Poll(who, 60s);
  Offer(Plain());
  ASSERT_TRUE(late.came());
  EXPECT_EQ(late->assignments.size(), 1U);
  EXPECT_FALSE(later.came()) << "only one gets it";
  Pass(15s);
  EXPECT_TRUE(later.came()) << "no poll waits longer than a heartbeat";
}

TEST_F(QueueTest, WhatIsHandedBackGoesToAnotherWhoWaits) {
  Make();
  const auto first = Hire("first"), second = Hire("second");
  const auto attempt = Offer(Plain());
  const auto token = Token(first);
  const auto own = Poll(first, 10s);  // it waits longer
  const auto others = Poll(second, 10s);
  // Whoever is answered may say more at once.
  Answer<worker_api::Welcome> welcome;
  Answer<bool> back;
  queue_->HandBack(first, {token}, [&](Result<bool> done) {
    queue_->Register({.who = first, .slots = {{"default", 100}}}, welcome.Done());
    back.Done()(std::move(done));
  });
  EXPECT_TRUE(*back && welcome.came());
  ASSERT_TRUE(own.came());
  EXPECT_TRUE(own->assignments.empty());
  ASSERT_TRUE(others.came());
  EXPECT_EQ(others->assignments.at(0).attempt, attempt.key);
  // The same of one that does not begin it.
  Pass(55s);
  EXPECT_TRUE(*Beat(first, {}) && *Beat(second, {}));
  const auto slow = Poll(second, 10s);
  const auto quick = Poll(first, 10s);
  Pass(5s);
  ASSERT_TRUE(slow.came() && quick.came());
  EXPECT_TRUE(slow->assignments.empty());
  EXPECT_EQ(quick->assignments.at(0).attempt, attempt.key);
}

TEST_F(QueueTest, WhoeverIsToldThatItIsUnknownMayRegisterAtOnce) {
  Make();
  const worker_api::Identity who{TenantId("public"), "w", "one"};
  Answer<worker_api::Welcome> welcome;
  queue_->HandBack(who, {}, [&](const Result<bool>& done) {
    EXPECT_EQ(done.error().code, Code::kNotFound);
    queue_->Register({.who = who, .slots = {{"default", 1}}}, welcome.Done());
  });
  EXPECT_TRUE(welcome.came() && *welcome);
}

TEST_F(QueueTest, AWorkerIsGivenNoMoreThanItsSlots) {
  Make();
  const auto who = Hire("w", {}, {{"default", 2}});
  std::vector<executor::Attempt> attempts;
  attempts.reserve(4);
  for (int i = 0; i < 4; ++i) attempts.push_back(Offer(Plain()));
  const auto first = Poll(who, 0s, {{"default", 2}});
  ASSERT_EQ(first->assignments.size(), 2U);
  // Its answer was lost: the same again, not the next.
  const auto again = Poll(who, 10s, {{"default", 2}});
  ASSERT_TRUE(again.came());
  ASSERT_EQ(again->assignments.size(), 2U);
  EXPECT_EQ(again->assignments[0].attempt, attempts[0].key);
  EXPECT_EQ(again->assignments[1].attempt, attempts[1].key);
  // It begins one, and asks as if it had not: the other one, and nothing beside.
  const auto token = Begin(who, first->assignments[0].start_token)->work_token;
  const auto other = Poll(who, 0s, {{"default", 2}});
  ASSERT_EQ(other->assignments.size(), 1U);
  EXPECT_EQ(other->assignments[0].attempt, attempts[1].key);
  EXPECT_EQ(Begin(who, other->assignments[0].start_token)->reply, Reply::kGoOn);
  const auto full = Poll(who, 10s, {{"default", 1}});
  EXPECT_FALSE(full.came());
  EXPECT_EQ(queue_->Figures().waiting.at("default"), 2U);
  // A verdict makes room before its worker hears so.
  EXPECT_EQ(**Complete(token, {}), Reply::kGoOn);
  ASSERT_TRUE(full.came());
  EXPECT_TRUE(full->assignments.empty());
  EXPECT_EQ(Poll(who)->assignments.at(0).attempt, attempts[2].key);
}

TEST_F(QueueTest, WhoeverIsRefusedAStartHasRoomForAnother) {
  Make();
  const auto who = Hire("w", {}, {{"default", 1}});
  Offer(Plain());
  const auto token = Token(who);
  judge_.reply = Reply::kStop;
  EXPECT_EQ(Begin(who, token)->reply, Reply::kStop);
  judge_.reply = Reply::kGoOn;
  const auto next = Offer(Plain());
  EXPECT_EQ(Poll(who)->assignments.at(0).attempt, next.key);
}

TEST_F(QueueTest, PollsOfAWorkerWithOneSlotGetOneAttempt) {
  Make();
  const auto who = Hire("w", {}, {{"default", 1}});
  const auto first = Poll(who, 10s), second = Poll(who, 10s);
  Offer(Plain());
  Offer(Plain());
  ASSERT_TRUE(first.came() && second.came());
  EXPECT_EQ(first->assignments.size(), 1U);
  EXPECT_TRUE(second->assignments.empty());
}

TEST_F(QueueTest, WhoeverRegistersAnewIsAskedForNothingOld) {
  Make();
  const auto who = Hire("w", {"gpu"});
  const auto old = Poll(who, 10s);
  Hire("w");
  ASSERT_TRUE(old.came());
  EXPECT_TRUE(old->assignments.empty());
  const auto next = Poll(who, 10s);
  Offer(Plain("", {"gpu"}));
  EXPECT_FALSE(next.came());
}

TEST_F(QueueTest, PollsOfAWorkerHaveABound) {
  Make();
  const auto who = Hire("w");
  std::vector<Answer<worker_api::Polled>> polls;
  polls.reserve(64);
  for (int i = 0; i < 64; ++i) polls.push_back(Poll(who, 10s));
  EXPECT_FALSE(polls[0].came());
  const auto last = Poll(who, 10s);
  ASSERT_TRUE(polls[0].came());
  EXPECT_TRUE(polls[0]->assignments.empty());
  EXPECT_FALSE(polls[1].came());
  EXPECT_FALSE(last.came());
}

TEST_F(QueueTest, WhatWorkersSayOfThemselvesHasBounds) {
  Make({.max_workers = 3});
  const auto refuses = [&](worker_api::Registration registration) {
    if (registration.who.tenant.value.empty()) registration.who.tenant = TenantId("public");
    if (registration.who.worker.empty()) registration.who.worker = "w";
    registration.who.incarnation = "one";
    if (registration.slots.empty()) registration.slots = {{"default", 1}};
    Answer<worker_api::Welcome> welcome;
    queue_->Register(std::move(registration), welcome.Done());
    return *welcome ? std::string() : (*welcome).error().message;
  };
  EXPECT_EQ(refuses({.who = {.worker = std::string(64, 'w')}}), "");
  EXPECT_NE(refuses({.who = {.worker = std::string(65, 'w')}}).find("no name"), std::string::npos);
  EXPECT_NE(refuses({.who = {.worker = "a/b"}}).find("\"a/b\" is no name"), std::string::npos);
  EXPECT_NE(refuses({.who = {.tenant = TenantId("a b")}}).find("\"a b\" is no name of a tenant"),
            std::string::npos);
  EXPECT_EQ(refuses({.slots = {{"q", 10'000}}}), "");
  EXPECT_NE(refuses({.slots = {{"q", 10'000}, {"r", 1}}}).find("10001 slots"), std::string::npos);
  EXPECT_NE(refuses({.slots = {{"q", 0}}}).find("no slots"), std::string::npos);
  std::map<std::string, std::uint32_t> queues;
  for (int i = 0; i < 64; ++i) queues[fmt::format("q{}", i)] = 1;
  EXPECT_EQ(refuses({.slots = queues}), "");
  queues["one-more"] = 1;
  EXPECT_NE(refuses({.slots = queues}).find("65 queues"), std::string::npos);
  EXPECT_EQ(refuses({.labels = std::vector<std::string>(64, std::string(128, 'l'))}), "");
  EXPECT_NE(refuses({.labels = {std::string(129, 'l')}}).find("128 bytes"), std::string::npos);
  EXPECT_NE(refuses({.labels = std::vector<std::string>(65, "l")}).find("65 labels"),
            std::string::npos);
  EXPECT_NE(refuses({.version = std::string(257, 'v')}).find("version"), std::string::npos);
  EXPECT_NE(refuses({.protocol = 2}).find("protocol 2, this engine 1"), std::string::npos);
  EXPECT_EQ(refuses({.who = {.worker = "third"}}), "");
  EXPECT_NE(refuses({.who = {.worker = "fourth"}}).find("3 workers are registered"),
            std::string::npos);
  EXPECT_EQ(refuses({.who = {.worker = "third"}}), "") << "who is there may say it again";
  const worker_api::Identity third{TenantId("public"), "third", "one"};
  EXPECT_EQ((*Poll(third, 60s + 1us)).error().code, Code::kInvalidArgument);
  EXPECT_EQ((*Poll(third, 0s, {{"default", 2}})).error().code, Code::kInvalidArgument);
  EXPECT_EQ((*Poll(third, 0s, {{"other", 1}})).error().code, Code::kInvalidArgument);
  EXPECT_EQ((*Poll(third, 0s, {{"default", 0}})).error().code, Code::kInvalidArgument);
  EXPECT_EQ((*Poll({TenantId("public"), "third", "two"})).error().code, Code::kNotFound);
  EXPECT_EQ((*Beat(third, std::vector<std::string>(10'001))).error().code, Code::kInvalidArgument);
}

TEST_F(QueueTest, TwoWorkersOfOneNameAreTwoAndOneWarning) {
  Make();
  Hire("twin");
  EXPECT_TRUE(warnings_.lines.empty());
  Answer<worker_api::Welcome> welcome;
  queue_->Register({.who = {TenantId("public"), "twin", "two"}, .slots = {{"default", 1}}},
                   welcome.Done());
  queue_->Register({.who = {TenantId("public"), "twin", "two"}, .slots = {{"default", 1}}},
                   Answer<worker_api::Welcome>().Done());
  EXPECT_TRUE(*welcome);
  EXPECT_EQ(warnings_.lines.size(), 1U);
  EXPECT_EQ(queue_->Roster().size(), 2U);
}

TEST_F(QueueTest, OneNameIsWarnedOfOnceAMinute) {
  Make();
  const auto register_one = [&](const std::string& name, int incarnation) {
    Answer<worker_api::Welcome> welcome;
    queue_->Register(
        {.who = {TenantId("public"), name, std::to_string(incarnation)}, .slots = {{"default", 1}}},
        welcome.Done());
    return *welcome;
  };
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(register_one("twin", i));
  EXPECT_EQ(warnings_.lines.size(), 1U);
  EXPECT_TRUE(register_one("other", 1));
  EXPECT_TRUE(register_one("other", 2));
  EXPECT_EQ(warnings_.lines.size(), 2U);
  Pass(59s);
  EXPECT_TRUE(register_one("twin", 10));
  EXPECT_EQ(warnings_.lines.size(), 2U);
  Pass(2s);
  warnings_.lines.clear();
  EXPECT_TRUE(register_one("twin", 11));
  EXPECT_EQ(warnings_.lines.size(), 1U);
}

TEST_F(QueueTest, ATenantAndANameLeaveRoomForTheWorkersOfOthers) {
  const auto register_one = [&](std::string tenant, std::string name, int incarnation) {
    Answer<worker_api::Welcome> welcome;
    queue_->Register(
        {.who = {TenantId(std::move(tenant)), std::move(name), std::to_string(incarnation)},
         .slots = {{"default", 1}}},
        welcome.Done());
    return *welcome;
  };
  Make({.max_workers = 4});
  const auto holder = Hire("evil");
  Run(holder, Next(Plain()));
  EXPECT_TRUE(register_one("public", "evil", 1));
  clock_.Advance(1s);
  EXPECT_TRUE(register_one("public", "evil", 2));
  EXPECT_TRUE(register_one("public", "evil", 3)) << "in the place of the one heard longest ago";
  const auto names = [&] {
    std::vector<std::string> all;
    for (const auto& each : queue_->Roster()) all.push_back(each.registration->who.incarnation);
    return all;
  };
  EXPECT_EQ(names(), (std::vector<std::string>{"2", "3", "one"})) << "that holds nothing";
  const auto third = register_one("public", "good", 1);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kUnavailable);
  EXPECT_NE(third.error().message.find("3 workers of tenant 'public'"), std::string::npos);
  EXPECT_TRUE(register_one("other", "good", 1)) << "which is nothing to another tenant";
  EXPECT_FALSE(register_one("third", "good", 1)) << "of all tenants";
  EXPECT_TRUE(register_one("public", "evil", 2)) << "whoever is known has its place";

  Make();
  for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(register_one("public", "evil", i));
  EXPECT_EQ(queue_->Figures().workers, 1'000U);
  EXPECT_TRUE(register_one("public", "evil", 1'000));
  EXPECT_EQ(queue_->Figures().workers, 1'000U);
  EXPECT_TRUE(register_one("public", "good", 1));
}

TEST_F(QueueTest, TheEnginesOwnHolderIsNoWorkersName) {
  Make();
  Answer<worker_api::Welcome> welcome;
  queue_->Register({.who = {TenantId("public"), "queue", "withdrawn"}, .slots = {{"default", 1}}},
                   welcome.Done());
  EXPECT_EQ((*welcome).error().code, Code::kInvalidArgument);
  EXPECT_NE((*welcome).error().message.find("queue/withdrawn"), std::string::npos);
}

TEST_F(QueueTest, WhatIsOfAnotherQueueIsNotStarted) {
  Make();
  const auto attempt = Offer(Plain("mail"));
  const auto token =
      Poll(Hire("mail", {}, {{"mail", 1}}), 0s, {{"mail", 1}})->assignments.at(0).start_token;
  EXPECT_EQ((*Begin(Hire("other"), token)).error().code, Code::kPermissionDenied);
  EXPECT_TRUE(judge_.heard.empty()) << "the gate was not asked";
  EXPECT_EQ(Begin({TenantId("public"), "mail", "one"}, token)->reply, Reply::kGoOn);
}

TEST_F(QueueTest, ALeaseEndsWhenItEndsAndAnyWordExtendsIt) {
  Make();
  const auto who = Hire("w");
  const auto attempt = Next(Plain());
  const auto token = Run(who, attempt);
  Pass(60s - 1us);
  EXPECT_TRUE(judge_.ended.empty());
  EXPECT_EQ(Beat(who, {token})->pulses.at(0).reply, Reply::kGoOn);
  Pass(60s - 1us);
  EXPECT_TRUE(judge_.ended.empty());
  Log(token, {{.number = 1, .bytes = "x"}});
  Pass(60s - 1us);
  EXPECT_TRUE(judge_.ended.empty());
  EXPECT_TRUE(std::holds_alternative<executor::Running>(Inspect(attempt)));
  Pass(1us);
  ASSERT_EQ(judge_.ended.size(), 1U);
  EXPECT_EQ(judge_.ended[0].second.verdict, Verdict::kLost);
  EXPECT_TRUE(std::holds_alternative<executor::Ended>(Inspect(attempt))) << "until it is settled";
  queue_->Settled({&attempt.key, 1});
  EXPECT_TRUE(std::holds_alternative<executor::Absent>(Inspect(attempt)));
  EXPECT_EQ(queue_->Figures().lost, 1U);
}

TEST_F(QueueTest, AHolderOfALongLeaseAlwaysHasATokenThatCounts) {
  const Duration longest = 12h - 150s;
  EXPECT_EQ(WorkTokenValid(100ms), 24h);
  EXPECT_EQ(WorkTokenValid(longest), 24h);
  EXPECT_EQ(WorkTokenValid(longest + 1us), 24h + 1s);
  for (const Duration lease : {Duration(45min), Duration(6h)}) {
    tokens_ = *token::JwtIssuer::Create({.work_valid = WorkTokenValid(lease)},
                                        token::TokenKeys::Generate(random_), clock_);
    Make({.lease = lease, .heartbeat_every = lease / 3});
    const auto who = Hire("w");
    std::string token = Run(who, Next(Plain()));
    const Instant ceiling = tokens_->Ceiling(clock_.Now());
    for (Reply reply = Reply::kGoOn; reply == Reply::kGoOn;) {
      clock_.Advance(lease / 3 - 1s);
      ASSERT_LT(clock_.Now(), ceiling) << "it was told to stop before";
      const auto beat = Beat(who, {token});
      reply = beat->pulses.at(0).reply;
      if (!beat->pulses.at(0).work_token.empty()) token = beat->pulses.at(0).work_token;
      EXPECT_EQ(reply == Reply::kGoOn, ceiling - clock_.Now() > 2 * (lease / 3));
    }
    EXPECT_EQ(**Complete(token, {.verdict = Verdict::kCancelled}), Reply::kGoOn);
    EXPECT_EQ(judge_.heard.back().outcome.reason, model::Reason::kCredentialCeiling);
  }
}

TEST_F(QueueTest, AnEndIsHeardAfterAnOutageOfHours) {
  tokens_ = *token::JwtIssuer::Create({.work_valid = WorkTokenValid(60s)},
                                      token::TokenKeys::Generate(random_), clock_);
  Make();
  const auto who = Hire("w");
  const auto token = Run(who, Next(Plain()));
  clock_.Advance(23h);
  EXPECT_EQ(**Complete(token, {.verdict = Verdict::kInterrupted}), Reply::kGoOn);
  EXPECT_EQ(judge_.heard.back().outcome.verdict, Verdict::kInterrupted);
}

TEST_F(QueueTest, WhoeverSleptItselfDeclaresNobodyLost) {
  Make();
  const auto who = Hire("w");
  const auto token = Run(who, Next(Plain()));
  clock_.Advance(5min);  // the machine was suspended
  queue_->Tick();
  EXPECT_TRUE(judge_.ended.empty());
  Pass(59s);
  EXPECT_TRUE(judge_.ended.empty());
  EXPECT_TRUE(Beat(who, {token})->pulses.at(0).reply == Reply::kGoOn) << "nor forgot it";
  Pass(60s);
  EXPECT_EQ(judge_.ended.size(), 1U) << "awake for a lease";
}

TEST_F(QueueTest, AShortSleepIsOneWhereLeasesAreShort) {
  Make({.lease = 1s, .heartbeat_every = 300ms});
  const auto who = Hire("w");
  Run(who, Next(Plain()));
  queue_->Tick();
  clock_.Advance(1500ms);
  queue_->Tick();
  EXPECT_TRUE(judge_.ended.empty());
  for (int i = 0; i < 4; ++i) {
    clock_.Advance(250ms);
    queue_->Tick();
  }
  EXPECT_EQ(judge_.ended.size(), 1U) << "awake for a lease";
}

TEST_F(QueueTest, WhatTheEngineSaysIsHeldHasALeaseFromThen) {
  Make();
  Pass(1h);
  auto attempt = Next(Plain());
  attempt.holder = "w/one";
  EXPECT_TRUE(std::holds_alternative<executor::Running>(Inspect(attempt)));
  EXPECT_EQ(queue_->GetMetrics().active, 1U);
  EXPECT_TRUE(queue_->Roster().empty()) << "it has not registered here";
  Pass(60s - 1us);
  EXPECT_TRUE(judge_.ended.empty());
  Pass(1us);
  EXPECT_EQ(judge_.ended.size(), 1U);
}

TEST_F(QueueTest, WhatWasPromisedALongerLeaseHasItThroughRestarts) {
  const QueueOptions shorter{.lease = 2s, .heartbeat_every = 500ms};
  Make({.lease = 30s, .heartbeat_every = 10s});
  EXPECT_EQ(*promises_.longest, 30s);
  auto attempt = Next(Plain());
  Run(Hire("w"), attempt);
  attempt.holder = "w/one";
  Make(shorter);
  Pass(10s);
  Make(shorter);  // and it was not forgotten by then
  EXPECT_TRUE(std::holds_alternative<executor::Running>(Inspect(attempt)));
  Pass(29s);
  clock_.Advance(900ms);  // a pause of this process makes it no shorter
  queue_->Tick();
  EXPECT_TRUE(judge_.ended.empty());
  EXPECT_EQ(*promises_.longest, 30s);
  Pass(100ms);
  EXPECT_EQ(judge_.ended.size(), 1U);
  EXPECT_EQ(*promises_.longest, 2s) << "nobody counts on the longer one any more";
  attempt.key.epoch = Epoch(++epochs_);
  Make(shorter);
  EXPECT_TRUE(std::holds_alternative<executor::Running>(Inspect(attempt)));
  Pass(2s);
  EXPECT_EQ(judge_.ended.size(), 2U);
  Make({.lease = 4s, .heartbeat_every = 1s});
  EXPECT_EQ(*promises_.longest, 4s);
}

TEST_F(QueueTest, AnEarlierLongerLeaseIsOfThoseAloneWhoMayCountOnIt) {
  Make({.lease = 1h, .heartbeat_every = 10s});
  auto before = Next(Plain());
  Run(Hire("old"), before);
  before.holder = "old/one";
  Make({.lease = 2s, .heartbeat_every = 500ms});
  EXPECT_TRUE(std::holds_alternative<executor::Running>(Inspect(before)));
  const auto who = Hire("new");
  const auto begun = Next(Plain());
  Run(who, begun);
  const auto assigned = Next(Plain());
  EXPECT_EQ(queue_->Offer(assigned).disposition, Disposition::kDispatched);
  EXPECT_EQ(Poll(who)->assignments.at(0).attempt, assigned.key);
  Pass(2s - 1us);
  EXPECT_TRUE(judge_.ended.empty());
  Pass(1us);
  ASSERT_EQ(judge_.ended.size(), 1U) << "it was promised no more";
  EXPECT_EQ(judge_.ended[0].first, begun.key);
  EXPECT_TRUE(std::get<executor::Pending>(Inspect(assigned)).in_line) << "back in its place";
  Pass(500ms);
  EXPECT_TRUE(queue_->Roster().empty()) << "the other is forgotten";
  EXPECT_EQ(queue_->GetMetrics().active, 1U) << "the old one's";
  Pass(1h - 2'500ms - 1us);
  EXPECT_EQ(judge_.ended.size(), 1U);
  Pass(1us);
  EXPECT_EQ(judge_.ended.size(), 2U);
}

/// Counts the start tokens that are made.
class CountingIssuer final : public executor::TokenIssuer {
 public:
  explicit CountingIssuer(executor::TokenIssuer& inner) : inner_(inner) {}
  int made = 0;

  Result<std::string> MintStart(const model::AttemptKey& attempt, int try_no,
                                Duration valid) override {
    ++made;
    return inner_.MintStart(attempt, try_no, valid);
  }
  Status CheckStart(const model::AttemptKey& attempt, int try_no, Duration valid) const override {
    return inner_.CheckStart(attempt, try_no, valid);
  }
  Result<std::string> MintWork(const executor::TokenClaims& start, std::string_view holder,
                               Instant opened_at) override {
    return inner_.MintWork(start, holder, opened_at);
  }
  tl::expected<std::string, executor::TokenFault> Renew(
      const executor::TokenClaims& work) override {
    return inner_.Renew(work);
  }
  tl::expected<executor::TokenClaims, executor::TokenFault> Verify(
      std::string_view token, executor::TokenUse use) override {
    return inner_.Verify(token, use);
  }
  Instant Ceiling(Instant opened_at) const override { return inner_.Ceiling(opened_at); }

 private:
  executor::TokenIssuer& inner_;
};

TEST_F(QueueTest, AStartTokenIsMadeForWhoeverGetsTheAttempt) {
  CountingIssuer issuer(*tokens_);
  queue_ = *NewQueueExecutor({.threads = 0},
                             {given_, *logs_, issuer, clock_, clock_, warnings_, &promises_});
  ASSERT_TRUE(queue_->Start(judge_));
  const auto attempt = Next(Plain());
  EXPECT_EQ(queue_->Offer(attempt).disposition, Disposition::kDispatched);
  EXPECT_EQ(issuer.made, 0);
  auto never = Next(Plain());
  never.try_no = 0;
  const auto refused = queue_->Offer(never);
  EXPECT_EQ(refused.disposition, Disposition::kRejected) << "none could be made";
  EXPECT_EQ(refused.error, DispatchError::kContext);
  EXPECT_NE(refused.cause.find("try"), std::string::npos) << refused.cause;
  const auto polled = Poll(Hire("w"));
  ASSERT_EQ(polled->assignments.size(), 1U);
  EXPECT_EQ(issuer.made, 1);
  queue_ = nullptr;  // it borrows the issuer
}

TEST_F(QueueTest, NoLeaseIsPromisedThatCouldBeForgotten) {
  const auto start = [&](Duration lease) {
    auto made = NewQueueExecutor({.lease = lease, .threads = 0},
                                 {given_, *logs_, *tokens_, clock_, clock_, warnings_, &promises_});
    return (*made)->Start(judge_);
  };
  promises_.writable = false;
  EXPECT_EQ(start(60s).error().code, Code::kUnavailable);
  promises_.longest = Duration(60s);
  EXPECT_TRUE(start(60s)) << "it is remembered already";
  promises_.longest = Error{Code::kCorrupt, "no duration"};
  EXPECT_EQ(start(60s).error().code, Code::kCorrupt);
}

TEST_F(QueueTest, WhatRanBeforeARestartBeganBeforeIt) {
  Make();
  const auto who = Hire("w");
  auto attempt = Next(Plain());
  std::string token = Run(who, attempt);
  const Instant began = clock_.Now();
  for (; clock_.Now() < began + 5h; clock_.Advance(5min))
    token = *tokens_->Renew(*tokens_->Verify(token, executor::TokenUse::kWork));
  Make();  // the next engine's
  attempt.holder = "w/one";
  EXPECT_TRUE(std::holds_alternative<executor::Running>(Inspect(attempt)));
  clock_.Advance(1min);
  EXPECT_EQ(**Complete(token, {}), Reply::kGoOn);
  EXPECT_EQ(judge_.heard.back().outcome.started_at, began);
  EXPECT_EQ(queue_->GetMetrics().mean_duration, 5h + 1min);
}

TEST_F(QueueTest, WhatTheEngineSaysIsHeldWaitsNoMore) {
  Make();
  auto attempt = Offer(Plain());
  const auto who = Hire("other");
  const auto token = Token(who);
  attempt.holder = "w/one";
  EXPECT_TRUE(std::holds_alternative<executor::Running>(Inspect(attempt)));
  EXPECT_EQ(queue_->Figures().waiting.size(), 0U);
  EXPECT_EQ(queue_->GetMetrics().active, 1U);
  EXPECT_TRUE(queue_->Roster().at(0).loads.empty()) << "and is nothing to the other any more";
  Pass(60s);
  ASSERT_EQ(judge_.ended.size(), 1U) << "and is lost once its holder is not heard";
  EXPECT_EQ(judge_.ended[0].second.verdict, Verdict::kLost);
}

TEST_F(QueueTest, WhatIsNotBegunWithinALeaseGoesBackToItsPlace) {
  Make();
  const auto slow = Hire("slow");
  const auto first = Offer(Plain());
  const auto second = Offer(Plain());
  EXPECT_EQ(Poll(slow)->assignments.at(0).attempt, first.key);
  EXPECT_TRUE(std::get<executor::Pending>(Inspect(second)).in_line);
  EXPECT_FALSE(std::get<executor::Pending>(Inspect(first)).in_line);
  Pass(60s);
  EXPECT_TRUE(std::get<executor::Pending>(Inspect(first)).in_line);
  const auto quick = Hire("quick");
  EXPECT_EQ(Poll(quick)->assignments.at(0).attempt, first.key) << "to the front";
  EXPECT_EQ(queue_->Figures().returned, 1U);
  EXPECT_TRUE(judge_.heard.empty()) << "and nobody is told";
}

TEST_F(QueueTest, WhatWaitsSaysForWhat) {
  Make();
  const auto attempt = Offer(Plain("big", {"gpu", "a"}));
  EXPECT_EQ(std::get<executor::Pending>(Inspect(attempt)).reason,
            "waits for a worker of queue 'big' with a, gpu since 2026-01-01T01:00:00.000000Z; 0 "
            "such workers are there");
  Hire("w", {"a", "b", "gpu"}, {{"big", 1}});
  EXPECT_NE(std::get<executor::Pending>(Inspect(attempt)).reason.find("; 1 such"),
            std::string::npos);
}

TEST_F(QueueTest, WhatIsCancelledBeforeItBeginsIsEndedByTheGate) {
  Make();
  const auto attempt = Offer(Plain());
  judge_.reply = Reply::kAskAgain;
  queue_->Cancel(attempt.key);
  ASSERT_EQ(judge_.heard.size(), 1U);
  EXPECT_EQ(judge_.heard[0].kind, Word::Kind::kStarted);
  EXPECT_EQ(Poll(Hire("w"))->assignments.size(), 0U) << "nobody gets it any more";
  queue_->Cancel(attempt.key);
  EXPECT_EQ(judge_.heard.size(), 1U);
  Pass(1s);
  EXPECT_EQ(judge_.heard.size(), 2U) << "it was not judged";
  EXPECT_TRUE(std::holds_alternative<executor::Pending>(Inspect(attempt)));
  // An engine that lets it in, because it knows of no cancel, hears that it is over.
  judge_.reply = Reply::kGoOn;
  Pass(1s);
  ASSERT_EQ(judge_.heard.size(), 4U);
  EXPECT_EQ(judge_.heard[3].kind, Word::Kind::kVerdict);
  EXPECT_EQ(judge_.heard[3].holder, judge_.heard[2].holder);
  EXPECT_EQ(judge_.heard[3].outcome.verdict, Verdict::kCancelled);
  EXPECT_TRUE(judge_.ended.empty()) << "never by its own word (I5)";
}

TEST_F(QueueTest, WhatAnEarlierEngineWithdrewIsEndedByTheNext) {
  Make();
  auto attempt = Next(Plain());
  attempt.holder = "queue/withdrawn";
  judge_.reply = Reply::kAskAgain;
  EXPECT_TRUE(std::holds_alternative<executor::Pending>(Inspect(attempt)));
  EXPECT_EQ(queue_->GetMetrics().active, 0U) << "it is no worker's";
  ASSERT_EQ(judge_.heard.size(), 1U);
  EXPECT_EQ(judge_.heard[0].kind, Word::Kind::kVerdict);
  EXPECT_EQ(judge_.heard[0].holder, "queue/withdrawn");
  EXPECT_EQ(judge_.heard[0].outcome.verdict, Verdict::kCancelled);
  Pass(1s);
  EXPECT_EQ(judge_.heard.size(), 2U) << "it was not judged";
  queue_->Settled({&attempt.key, 1});
  Pass(60s);
  EXPECT_EQ(judge_.heard.size(), 2U);
  EXPECT_TRUE(judge_.ended.empty());
}

TEST_F(QueueTest, AStartThatCameFirstIsCancelledAsWhatRuns) {
  Make();
  const auto who = Hire("w");
  const auto attempt = Offer(Plain());
  const auto token = Token(who);
  judge_.reply = Reply::kStop;  // somebody is in
  queue_->Cancel(attempt.key);
  judge_.reply = Reply::kGoOn;  // and it is this one
  const auto started = Begin(who, token);
  EXPECT_EQ(started->reply, Reply::kCancel);
  EXPECT_FALSE(started->work_token.empty());
}

TEST_F(QueueTest, FiguresFollowWhatHappens) {
  Make();
  const auto who = Hire("w");
  const auto attempt = Next(Plain());
  const auto token = Run(who, attempt);
  EXPECT_EQ(queue_->GetMetrics().active, 1U);
  EXPECT_EQ(queue_->GetMetrics().max, 100U);
  Pass(2s);
  Complete(token, {.verdict = Verdict::kRetry});
  queue_->Settled({&attempt.key, 1});
  const auto metrics = queue_->GetMetrics();
  EXPECT_EQ(metrics.active, 0U);
  EXPECT_EQ(metrics.executed, 1U);
  EXPECT_EQ(metrics.failed, 1U);
  EXPECT_EQ(metrics.mean_duration, 2s);
  EXPECT_EQ(queue_->Figures().workers, 1U);
  EXPECT_TRUE(queue_->List().empty());
}

TEST_F(QueueTest, AWorkerThatIsNotHeardForALeaseIsForgotten) {
  Make();
  const auto who = Hire("w");
  Pass(59s);
  EXPECT_TRUE(*Poll(who));
  Pass(59s);
  EXPECT_EQ(queue_->Roster().size(), 1U);
  Pass(2s);
  EXPECT_TRUE(queue_->Roster().empty());
  EXPECT_EQ((*Poll(who)).error().code, Code::kNotFound);
}

TEST_F(QueueTest, ADrainAnswersAllThatWaitsAndTakesNothing) {
  Make();
  const auto who = Hire("w");
  const auto token = Run(who, Next(Plain()));
  const auto poll = Poll(who, 10s);
  const auto beat = Beat(who, {token}, 10s);
  EXPECT_TRUE(queue_->Drain(1h));
  EXPECT_TRUE(poll.came() && poll->assignments.empty());
  EXPECT_TRUE(beat.came());
  EXPECT_TRUE(judge_.ended.empty());
  EXPECT_EQ(queue_->Offer(Next(Plain())).error, DispatchError::kNoCapacity);
  EXPECT_EQ((*Complete(token, {})).error().code, Code::kUnavailable);
  EXPECT_EQ((*Beat(who, {token})).error().code, Code::kUnavailable);
  EXPECT_EQ(queue_->GetCapacity().free(), 0U);
}

}  // namespace
}  // namespace headworks::executor_queue
