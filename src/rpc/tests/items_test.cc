#include <future>
#include <thread>

#include "harness.h"
#include "headworks/rpc/rpc_items.h"
#include "headworks/store_memory/memory_store.h"
#include "headworks/worker/v1/queue.grpc.pb.h"

#include <grpcpp/grpcpp.h>

// Items of queues over gRPC: who gets them, and what holds for a wait.  What a worker of jobs does
// with them is in job_worker_remote_test.
namespace headworks::rpc {
namespace {

using task_queue::ItemState;
using task_queue::Polled;
using task_queue::Settlement;
using namespace std::chrono_literals;

const TenantId kAcme("acme");

/// The queues of a store; what is asked of them can be counted and held up.
class Watched final : public task_queue::Queues, task_queue::TaskQueue {
 public:
  explicit Watched(task_queue::Queues& inner) : inner_(inner) {}
  std::atomic<int> polls = 0, settles = 0;

  task_queue::TaskQueue& tasks() override { return *this; }
  task_queue::QueueAdmin& admin() override { return inner_.admin(); }
  task_queue::QueueSurvey& survey() override { return inner_.survey(); }
  task_queue::Bell& bell() override { return inner_.bell(); }

 private:
  Result<std::vector<task_queue::Enqueued>> Enqueue(
      const TenantId& tenant, std::string_view queue,
      std::span<const task_queue::NewItem> items) override {
    return inner_.tasks().Enqueue(tenant, queue, items);
  }
  Result<Polled> Poll(const task_queue::PollRequest& request) override {
    auto polled = inner_.tasks().Poll(request);
    ++polls;
    polls.notify_all();
    return polled;
  }
  Result<std::vector<Result<ItemState>>> Settle(const TenantId& tenant, std::string_view queue,
                                                std::span<const Settlement> all) override {
    auto settled = inner_.tasks().Settle(tenant, queue, all);
    ++settles;
    settles.notify_all();
    return settled;
  }
  Result<std::vector<Status>> Extend(const TenantId& tenant, std::string_view queue,
                                     std::span<const task_queue::Claim> claims,
                                     Duration visibility) override {
    return inner_.tasks().Extend(tenant, queue, claims, visibility);
  }
  Result<ItemState> Cancel(const TenantId& tenant, std::string_view queue,
                           std::string_view id) override {
    return inner_.tasks().Cancel(tenant, queue, id);
  }

  task_queue::Queues& inner_;
};

class Items : public RpcTest {
 protected:
  std::unique_ptr<RpcServer> ServeItems(RpcServerOptions options = {.address = "127.0.0.1:0"}) {
    auto opened = RpcServer::Open(std::move(options), {engine, words, clock, log, &queues});
    EXPECT_TRUE(opened) << opened.error().message;
    return *std::move(opened);
  }
  std::unique_ptr<RpcItems> Reach(const std::string& target, std::string word = "good",
                                  const std::string& worker = "w-1",
                                  const TenantId& tenant = kAcme) {
    RpcClientOptions options{.target = target,
                             .credential = [word = std::move(word)] { return word; }};
    auto opened = RpcItems::Open(std::move(options), tenant, worker, random);
    EXPECT_TRUE(opened) << opened.error().message;
    return *std::move(opened);
  }
  void Push(const std::string& queue, const std::string& id, const std::string& payload = "1",
            const TenantId& tenant = kAcme) {
    const task_queue::NewItem item{.id = id, .payload = payload};
    const auto pushed = queues.tasks().Enqueue(tenant, queue, {&item, 1});
    ASSERT_TRUE(pushed) << pushed.error().message;
  }
  task_queue::ItemRecord Item(const std::string& queue, const std::string& id) {
    const auto item = queues.admin().GetItem(kAcme, queue, id);
    EXPECT_TRUE(item) << item.error().message;
    return item->item;
  }
  static Result<Polled> Take(RpcItems& from, const std::string& queue, Duration wait = 0s,
                             std::size_t most = 10, const TenantId& tenant = kAcme,
                             const std::stop_token& stop = {}) {
    return from.Await({.tenant = tenant, .queue = queue, .max_items = most}, wait, stop);
  }
  static Result<ItemState> Say(RpcItems& to, const std::string& queue, Settlement settlement) {
    const auto answers = to.Settle(kAcme, queue, {&settlement, 1});
    return answers ? answers->front() : answers.error();
  }
  /// Until so many looked for items and found none.
  void AwaitPolls(int count) {
    for (int seen = queues.polls; seen < count; seen = queues.polls) queues.polls.wait(seen);
  }

  SystemRandom random;
  std::unique_ptr<store_memory::Database> database =
      store_memory::Open(store_memory::NewStorage(), clock);
  Watched queues{database->queues()};
};

TEST_F(Items, AnItemCrossesWithAllThatIsKnownOfIt) {
  const auto server = ServeItems();
  const auto items = Reach(server->address());
  const task_queue::NewItem item{
      .id = "m\xc3\xa4rz", .payload = R"({"to":"ann"})", .priority = -7, .max_attempts = 4};
  ASSERT_TRUE(queues.tasks().Enqueue(kAcme, "mail", {&item, 1}));
  const auto polled =
      items->Await({.tenant = kAcme, .queue = "mail", .max_items = 3, .visibility = 90s}, 10s, {});
  ASSERT_TRUE(polled) << polled.error().message;
  ASSERT_EQ(polled->items.size(), 1U);
  const auto& got = polled->items[0];
  EXPECT_EQ(got.id, item.id);
  EXPECT_EQ(got.payload, item.payload);
  EXPECT_EQ(got.priority, -7);
  EXPECT_EQ(got.attempt, 1);
  EXPECT_EQ(got.max_attempts, 4);
  EXPECT_EQ(got.lease, 90s);
  EXPECT_EQ(got.enqueued_at, Item("mail", item.id).enqueued_at);
  EXPECT_EQ(Item("mail", item.id).holder, "w-1");
  const auto extended = items->Extend(kAcme, "mail", {&got.claim, 1}, 100s);
  ASSERT_TRUE(extended) << extended.error().message;
  EXPECT_TRUE(extended->at(0));
  EXPECT_EQ(Say(*items, "mail",
                {.claim = got.claim,
                 .kind = Settlement::Kind::kNack,
                 .reason = "password=secret " + std::string(6'000, 'x'),
                 .delay = 1h}),
            ItemState::kPending);
  const auto after = Item("mail", item.id);
  EXPECT_TRUE(after.reason.starts_with("password=*** xxx")) << after.reason;
  EXPECT_EQ(after.reason.size(), task_queue::kMaxReasonBytes);
  EXPECT_GT(after.available_at, clock.Now() + 50min);
  ASSERT_TRUE(queues.admin().SetPaused(kAcme, "mail", true));
  EXPECT_TRUE(Take(*items, "mail")->paused);
}

TEST_F(Items, EachKindOfSettlementIsHeardAsWhatItIs) {
  const auto server = ServeItems();
  const auto items = Reach(server->address());
  for (const char* const id : {"ack", "back", "dead"}) Push("q", id);
  const auto polled = Take(*items, "q");
  ASSERT_EQ(polled->items.size(), 3U);
  const auto say = [&](int i, Settlement::Kind kind) {
    return Say(*items, "q",
               {.claim = polled->items[static_cast<std::size_t>(i)].claim, .kind = kind});
  };
  EXPECT_EQ(say(0, Settlement::Kind::kAck), ItemState::kCompleted);
  EXPECT_EQ(say(0, Settlement::Kind::kAck), ItemState::kCompleted) << "said again";
  EXPECT_EQ(say(1, Settlement::Kind::kHandBack), ItemState::kPending);
  EXPECT_EQ(Item("q", "back").attempts, 0);
  EXPECT_EQ(say(2, Settlement::Kind::kReject), ItemState::kDead);
  // What comes too late, by its fault.
  EXPECT_EQ(say(0, Settlement::Kind::kNack).error().code, Code::kConflict);
  EXPECT_EQ(say(1, Settlement::Kind::kAck).error().code, Code::kConflict);
  EXPECT_EQ(Take(*items, "q")->items.size(), 1U);
  EXPECT_EQ(say(1, Settlement::Kind::kAck).error().code, Code::kLeaseLost) << "it is another's";
  EXPECT_EQ(
      Say(*items, "q", {.claim = {task_queue::ItemNo(99), task_queue::ClaimNo(1)}}).error().code,
      Code::kNotFound);
  Push("q", "late");
  const auto late = items->Await({.tenant = kAcme, .queue = "q", .visibility = 1ms}, 10s, {});
  ASSERT_TRUE(late && !late->items.empty());
  const Duration until = clock.Monotonic() + 5ms;
  while (clock.Monotonic() < until) std::this_thread::yield();
  const auto claim = late->items[0].claim;
  EXPECT_EQ(Say(*items, "q", {.claim = claim}).error().code, Code::kLeaseLost);
  EXPECT_EQ(items->Extend(kAcme, "q", {&claim, 1}, 1s)->at(0).error().code, Code::kLeaseLost);
}

TEST_F(Items, AnItemThatIsToBeCancelledIsSaidByExtend) {
  const auto server = ServeItems();
  const auto items = Reach(server->address());
  Push("q", "a");
  const auto claim = Take(*items, "q")->items.at(0).claim;
  ASSERT_TRUE(queues.tasks().Cancel(kAcme, "q", "a"));
  EXPECT_EQ(items->Extend(kAcme, "q", {&claim, 1}, 1s)->at(0).error().code, Code::kCancelled);
  EXPECT_EQ(Say(*items, "q", {.claim = claim, .kind = Settlement::Kind::kNack}),
            ItemState::kCancelled);
}

TEST_F(Items, ACredentialIsForItsTenantNameAndQueues) {
  const auto server = ServeItems();
  Push("mail", "m");
  Push("other", "o");
  Push("mail", "theirs", "1", TenantId("zeta"));
  EXPECT_EQ(Take(*Reach(server->address(), "bad"), "mail").error(),
            (Error{Code::kPermissionDenied, "worker token: bad_signature"}));
  const auto zeta = Reach(server->address(), "good", "w-1", TenantId("zeta"));
  EXPECT_TRUE(
      Take(*zeta, "mail", 0s, 1, TenantId("zeta")).error().message.starts_with("wrong_tenant"));
  const auto misnamed = Reach(server->address(), "narrow", "cpu-1");
  EXPECT_TRUE(Take(*misnamed, "mail").error().message.starts_with("wrong_name"));
  const auto narrow = Reach(server->address(), "narrow", "gpu-1");
  const auto refused = Take(*narrow, "other");
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_TRUE(refused.error().message.starts_with("wrong_queue")) << refused.error().message;
  const auto mine = Take(*narrow, "mail");
  ASSERT_TRUE(mine) << mine.error().message;
  EXPECT_EQ(mine->items.size(), 1U) << "and not the other tenant's";
  // Nor may it speak of what another holds; no item is over by that.
  const auto good = Reach(server->address());
  const auto theirs = Take(*good, "other")->items.at(0).claim;
  EXPECT_EQ(Say(*narrow, "other", {.claim = theirs}).error().code, Code::kUnavailable);
  EXPECT_EQ(CodeOf(narrow->Extend(kAcme, "other", {&theirs, 1}, 1s)), Code::kUnavailable);
  EXPECT_EQ(CodeOf(misnamed->Extend(kAcme, "mail", {&mine->items[0].claim, 1}, 1s)),
            Code::kUnavailable);
  EXPECT_EQ(Item("other", "o").state, ItemState::kProcessing);
  EXPECT_EQ(CodeOf(good->Extend(TenantId("zeta"), "other", {&theirs, 1}, 1s)),
            Code::kInvalidArgument)
      << "a connection has one tenant";
}

TEST_F(Items, QueuesOfTheEngineAreGivenToNobody) {
  const auto server = ServeItems();
  const auto items = Reach(server->address());
  Push("headworks-alerts", "a");
  const auto refused = Take(*items, "headworks-alerts");
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_TRUE(refused.error().message.find("the engine's own") != std::string::npos);
  const task_queue::Claim claim{Item("headworks-alerts", "a").no, task_queue::ClaimNo(1)};
  EXPECT_EQ(Say(*items, "headworks-alerts", {.claim = claim}).error().code, Code::kConflict);
  EXPECT_EQ(CodeOf(items->Extend(kAcme, "headworks-alerts", {&claim, 1}, 1s)), Code::kConflict);
  EXPECT_EQ(Item("headworks-alerts", "a").attempts, 0);
  // A whole run is handed back, and so is what came with it.
  Push("nightly", "plain", R"({"text": "headworks.run", "type": "mine"})");
  EXPECT_EQ(Take(*items, "nightly", 0s, 1)->items.at(0).id, "plain");
  Push("nightly", "run", R"({ "type" : "headworks.run", "version": 1})");
  Push("nightly", "next");
  const auto runs = Take(*items, "nightly");
  EXPECT_EQ(runs.error().code, Code::kConflict);
  EXPECT_TRUE(runs.error().message.find("holds whole runs, as item 'run'") != std::string::npos)
      << runs.error().message;
  queues.settles.wait(0);  // they go back once the refusal is said
  for (const char* const id : {"run", "next"}) {
    EXPECT_EQ(Item("nightly", id).state, ItemState::kPending);
    EXPECT_EQ(Item("nightly", id).attempts, 0);
  }
}

TEST_F(Items, AWaitHearsOfANewItemAndHowLongItWas) {
  const auto server = ServeItems();
  const auto items = Reach(server->address());
  const Duration began = clock.Monotonic();
  auto waits = std::async(std::launch::async, [&] { return Take(*items, "q", 60s); });
  AwaitPolls(1);
  const Duration until = clock.Monotonic() + 50ms;
  while (clock.Monotonic() < until) std::this_thread::yield();
  Push("q", "a");
  const auto polled = waits.get();
  ASSERT_TRUE(polled) << polled.error().message;
  EXPECT_EQ(polled->items.at(0).id, "a");
  EXPECT_GE(polled->waited, 50ms);
  EXPECT_LE(polled->waited, clock.Monotonic() - began);
  EXPECT_EQ(queues.polls, 2) << "nothing is asked in between";
  EXPECT_TRUE(Take(*items, "q", 20ms)->items.empty());
}

TEST_F(Items, WhoIsAskedToStopLosesNothing) {
  const auto server = ServeItems();
  const auto items = Reach(server->address());
  std::stop_source stop;
  auto waits = std::async(std::launch::async,
                          [&] { return Take(*items, "q", 60s, 10, kAcme, stop.get_token()); });
  AwaitPolls(1);
  const Duration began = clock.Monotonic();
  stop.request_stop();
  const auto polled = waits.get();
  ASSERT_TRUE(polled) << polled.error().message;
  EXPECT_TRUE(polled->items.empty());
  EXPECT_LT(clock.Monotonic() - began, 9s) << "the wait was ended, and the call not given up";
  EXPECT_EQ(Take(*items, "q", 60s, 10, kAcme, stop.get_token())->items.size(), 0U);
  Push("q", "a");
  EXPECT_EQ(Take(*items, "q")->items.size(), 1U) << "nobody waits for it any more";
}

TEST_F(Items, WhoIsGoneWaitsNoMoreAndWhatItWasGivenIsHandedBack) {
  const auto server = ServeItems();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel =
      grpc::CreateCustomChannel(server->address(), grpc::InsecureChannelCredentials(), arguments);
  const auto stub = headworks::worker::v1::Queues::NewStub(channel);
  headworks::worker::v1::ClaimRequest request;
  request.mutable_who()->set_tenant("acme");
  request.mutable_who()->set_worker("w-1");
  request.mutable_who()->set_incarnation("gone");
  request.set_queue("q");
  request.set_max_items(1);
  request.set_wait_us(60'000'000);
  headworks::worker::v1::ClaimResponse response;
  {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer good");
    auto waits =
        std::async(std::launch::async, [&] { return stub->Claim(&context, request, &response); });
    AwaitPolls(1);
    context.TryCancel();
    EXPECT_EQ(waits.get().error_code(), grpc::CANCELLED);
  }
  const Duration until = clock.Monotonic() + 20s;
  while (!queues.bell().Waited().empty() && clock.Monotonic() < until) std::this_thread::yield();
  EXPECT_TRUE(queues.bell().Waited().empty()) << "its wait is over";
  Push("q", "a");
  EXPECT_EQ(Take(*Reach(server->address()), "q", 10s)->items.size(), 1U);
  EXPECT_EQ(Item("q", "a").attempts, 1);
}

TEST_F(Items, OfOneQueueOneWaits) {
  const auto server = ServeItems();
  const auto items = Reach(server->address());
  auto first = std::async(std::launch::async, [&] { return Take(*items, "q", 60s); });
  AwaitPolls(1);
  auto elsewhere = std::async(std::launch::async, [&] { return Take(*items, "r", 60s); });
  AwaitPolls(2);
  auto second = std::async(std::launch::async, [&] { return Take(*items, "q", 60s); });
  EXPECT_TRUE(first.get()->items.empty());
  Push("q", "a");
  Push("r", "b");
  EXPECT_EQ(second.get()->items.at(0).id, "a");
  EXPECT_EQ(elsewhere.get()->items.at(0).id, "b");
}

TEST_F(Items, EightMebibytesPassAndAnAnswerHasSixteen) {
  const auto server = ServeItems();
  const auto items = Reach(server->address());
  const std::string large = '"' + std::string(task_queue::kMaxPayloadBytes - 2, 'x') + '"';
  for (const char* const id : {"a", "b", "c"}) Push("q", id, large);
  const auto two = Take(*items, "q");
  ASSERT_TRUE(two) << two.error().message;
  ASSERT_EQ(two->items.size(), 2U);
  EXPECT_EQ(two->items[1].payload, large);
  EXPECT_EQ(Take(*items, "q")->items.size(), 1U);
}

TEST_F(Items, BoundsAreChecked) {
  const auto server = ServeItems();
  const auto items = Reach(server->address());
  const auto code = [&](const task_queue::PollRequest& request, Duration wait = 0s) {
    return CodeOf(items->Await(request, wait, {}));
  };
  EXPECT_EQ(code({.tenant = kAcme, .queue = "q", .max_items = 1'000}), std::nullopt);
  EXPECT_EQ(code({.tenant = kAcme, .queue = "q", .max_items = 1'001}), Code::kInvalidArgument);
  EXPECT_EQ(code({.tenant = kAcme, .queue = "no name"}), Code::kInvalidArgument);
  EXPECT_EQ(code({.tenant = kAcme, .queue = "q", .visibility = 25h}), Code::kInvalidArgument);
  EXPECT_EQ(code({.tenant = kAcme, .queue = "q"}, -1s), Code::kInvalidArgument);
  Push("q", "a");
  const task_queue::Claim claim{Item("q", "a").no, task_queue::ClaimNo(1)};
  const std::vector<task_queue::Claim> many(1'001, claim);
  EXPECT_EQ(CodeOf(items->Extend(kAcme, "q", many, 1s)), Code::kInvalidArgument);
  EXPECT_EQ(CodeOf(items->Extend(kAcme, "q", std::span(many).subspan(1), 1s)), std::nullopt);
  const std::vector<Settlement> reasons(
      1'000, {.claim = claim, .kind = Settlement::Kind::kNack, .reason = std::string(9'000, 'x')});
  EXPECT_EQ(CodeOf(items->Settle(kAcme, "q", reasons)), std::nullopt) << "reasons are cut";
  EXPECT_FALSE(RpcItems::Open({.target = "127.0.0.1:1", .credential = [] { return ""; }}, kAcme,
                              "no name", random));
}

TEST_F(Items, WaitsOfATenantLeaveRoomForOthers) {
  const auto server = ServeItems({.address = "127.0.0.1:0", .max_calls = 4});
  std::vector<std::unique_ptr<RpcItems>> all;
  std::vector<std::future<Result<Polled>>> waits;
  for (int i = 0; i < 3; ++i) {
    all.push_back(Reach(server->address()));
    waits.push_back(
        std::async(std::launch::async, [&from = *all.back()] { return Take(from, "q", 60s, 1); }));
    AwaitPolls(i + 1);
  }
  const auto own = Reach(server->address());
  EXPECT_EQ(Take(*own, "q", 60s).error().code, Code::kUnavailable) << "to be asked again";
  const auto other = Reach(server->address(), "other", "w-1", TenantId("other"));
  auto others =
      std::async(std::launch::async, [&] { return Take(*other, "q", 60s, 1, TenantId("other")); });
  AwaitPolls(4);
  Push("q", "theirs", "1", TenantId("other"));
  EXPECT_EQ(others.get()->items.size(), 1U);
  for (int i = 0; i < 3; ++i) Push("q", std::to_string(i));
  for (auto& each : waits) EXPECT_EQ(each.get()->items.size(), 1U);
}

TEST_F(Items, PayloadsThatAreNotSentHaveABound) {
  const auto server = ServeItems({.address = "127.0.0.1:0", .max_piece_bytes = 8});
  const auto items = Reach(server->address());
  Push("q", "fits", "123456");
  EXPECT_EQ(Take(*items, "q")->items.size(), 1U);
  Push("q", "large", "1234567");
  EXPECT_EQ(Take(*items, "q").error().code, Code::kUnavailable);
  queues.settles.wait(0);  // it goes back once the refusal is said
  EXPECT_EQ(Item("q", "large").state, ItemState::kPending);
  EXPECT_EQ(Item("q", "large").attempts, 0) << "handed back";
}

TEST_F(Items, AnEngineThatGivesNoneSaysSo) {
  const auto server = Serve();  // as one that is older
  const auto items = Reach(server->address());
  const auto none = Take(*items, "q", 10s);
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  EXPECT_TRUE(none.error().message.find("older than this program") != std::string::npos)
      << none.error().message;
}

TEST_F(Items, ShutdownAnswersWhoeverWaitsAndAClientFindsTheNextServer) {
  auto server = ServeItems();
  const std::string address = server->address();
  const auto items = Reach(address);
  Push("held", "h");
  const auto held = Take(*items, "held")->items.at(0).claim;
  auto waits = std::async(std::launch::async, [&] { return Take(*items, "q", 60s); });
  AwaitPolls(2);
  server.reset();
  EXPECT_EQ(waits.get().error().code, Code::kUnavailable);
  EXPECT_EQ(Say(*items, "held", {.claim = held}).error().code, Code::kUnavailable);
  server = ServeItems({.address = address});
  Result<ItemState> settled = Error{Code::kUnavailable, ""};
  for (const Duration until = clock.Monotonic() + 30s;
       !settled && settled.error().code == Code::kUnavailable && clock.Monotonic() < until;)
    settled = Say(*items, "held", {.claim = held});
  EXPECT_EQ(settled, ItemState::kCompleted) << "its lease is the store's";
}

}  // namespace
}  // namespace headworks::rpc
