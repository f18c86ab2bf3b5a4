#include <fmt/format.h>

#include "headworks/store_conformance/harness.h"
#include "headworks/store_conformance/samples.h"

namespace headworks::store::conformance {
namespace {

using namespace std::chrono_literals;

WorkerRecord Sample(std::string name, std::string incarnation = "one") {
  return {.tenant = kTenant,
          .name = std::move(name),
          .incarnation = std::move(incarnation),
          .queues = {{"default", 4, 2, 1}, {"mail", 1, 0, 0}},
          .labels = {"gpu", "region=\"eu\""},
          .version = "1.2",
          .host = "höst",
          .protocol = 1,
          .connected_at = kT0,
          .heard_at = kT0 + 1s,
          .written_at = kT0 + 2s};
}

WorkerRecord Gone(WorkerRecord worker, Instant at) {
  worker.presence = WorkerPresence::kGone;
  worker.gone_at = at;
  worker.gone_why = "it left";
  return worker;
}

std::vector<std::string> Names(const Result<std::vector<WorkerRecord>>& workers) {
  std::vector<std::string> names;
  for (const WorkerRecord& worker : workers.value())
    names.push_back(worker.tenant.value + "/" + worker.name + "/" + worker.incarnation);
  return names;
}
using Listed = std::vector<std::string>;

TEST_P(Conformance, WorkerIsListedAsItWasWrittenLast) {
  WorkerRecord worker = Sample("w");
  EXPECT_OK(workers().WriteWorkers({&worker, 1}, kT0));
  EXPECT_EQ(*workers().ListWorkers(kTenant), std::vector{worker});
  worker.presence = WorkerPresence::kSilent;
  worker.queues = {{"other", 10'000, 10'000, 9'999}};
  worker.labels.clear();
  worker.version.clear();
  worker.connected_at += 1h;
  worker.heard_at += 2h;
  worker.written_at += 3h;
  EXPECT_OK(workers().WriteWorkers({&worker, 1}, kT0));
  harness_->CrashAndReopen();
  EXPECT_EQ(*workers().ListWorkers(kTenant), std::vector{worker});
  worker = Gone(worker, kT0 + 4h);
  EXPECT_OK(workers().WriteWorkers({&worker, 1}, kT0 + 4h));
  EXPECT_EQ(*workers().ListWorkers(kTenant), std::vector{worker});
  EXPECT_TRUE(workers().ListPresent()->empty());
}

TEST_P(Conformance, WorkersOfOneNameAreTwoAndThoseOfTenantsApart) {
  std::vector<WorkerRecord> some{Sample("b", "x"), Sample("b", "a"), Sample("a"), Sample("b", "x")};
  some[1].connected_at += 1s;
  some[3].tenant = kOtherTenant;
  EXPECT_OK(workers().WriteWorkers(some, kT0));
  EXPECT_EQ(Names(workers().ListWorkers(kTenant)), (Listed{"acme/a/one", "acme/b/x", "acme/b/a"}));
  EXPECT_EQ(Names(workers().ListWorkers(kOtherTenant)), (Listed{"zeta/b/x"}));
  EXPECT_EQ(Names(workers().ListPresent()),
            (Listed{"acme/a/one", "acme/b/a", "acme/b/x", "zeta/b/x"}));
  EXPECT_CODE(workers().ListWorkers(TenantId()), Code::kInvalidArgument);
}

TEST_P(Conformance, WorkersAreWrittenTogetherOrNotAtAll) {
  std::vector<WorkerRecord> some{Sample("a"), Sample("")};
  EXPECT_CODE(workers().WriteWorkers(some, kT0), Code::kInvalidArgument);
  some[1] = Sample("b", "");
  EXPECT_CODE(workers().WriteWorkers(some, kT0), Code::kInvalidArgument);
  some[1] = Sample("b");
  some[1].tenant = TenantId();
  EXPECT_CODE(workers().WriteWorkers(some, kT0), Code::kInvalidArgument);
  some[1] = Sample("b");
  some[1].presence = WorkerPresence::kGone;
  EXPECT_CODE(workers().WriteWorkers(some, kT0), Code::kInvalidArgument);
  some[1] = Sample("b");
  some[1].gone_at = kT0;
  EXPECT_CODE(workers().WriteWorkers(some, kT0), Code::kInvalidArgument);
  EXPECT_TRUE(workers().ListWorkers(kTenant)->empty());
}

TEST_P(Conformance, WorkerThatIsGoneIsForgottenInTime) {
  const std::vector some{Gone(Sample("a"), kT0), Gone(Sample("b"), kT0 + 1us), Sample("c")};
  EXPECT_OK(workers().WriteWorkers(some, kT0));
  EXPECT_OK(workers().WriteWorkers({}, kT0 + WorkerStore::kGoneTtl - 1us));
  EXPECT_EQ(workers().ListWorkers(kTenant)->size(), 3U);
  EXPECT_OK(workers().WriteWorkers({}, kT0 + WorkerStore::kGoneTtl));
  EXPECT_EQ(Names(workers().ListWorkers(kTenant)), (Listed{"acme/b/one", "acme/c/one"}));
  EXPECT_OK(workers().WriteWorkers({}, kT0 + 1000h));
  EXPECT_EQ(Names(workers().ListWorkers(kTenant)), (Listed{"acme/c/one"}));
}

TEST_P(Conformance, OfWorkersThatAreGoneTheLastAreRemembered) {
  std::vector<WorkerRecord> some{Sample("there")};
  const auto most = static_cast<int>(WorkerStore::kMaxGone);
  for (int i = 0; i < most; ++i)
    some.push_back(Gone(Sample(fmt::format("w{:04}", i)), kT0 + i * 1us));
  some.push_back(Gone(Sample("other"), kT0));
  some.back().tenant = kOtherTenant;
  EXPECT_OK(workers().WriteWorkers(some, kT0 + 1h));
  EXPECT_EQ(workers().ListWorkers(kTenant)->size(), WorkerStore::kMaxGone + 1);
  some = {Gone(Sample("x1"), kT0 + 1s), Gone(Sample("x2"), kT0 + 1s)};
  EXPECT_OK(workers().WriteWorkers(some, kT0 + 1h));
  const auto left = Names(workers().ListWorkers(kTenant));
  EXPECT_EQ(left.size(), WorkerStore::kMaxGone + 1);
  EXPECT_EQ(left[0], "acme/there/one");
  EXPECT_EQ(left[1], "acme/w0002/one");
  EXPECT_EQ(left.back(), "acme/x2/one");
  EXPECT_EQ(workers().ListWorkers(kOtherTenant)->size(), 1U);
}

WorkerOrder Cordon(std::string name, Instant at = kT0) {
  return {.tenant = kTenant, .name = std::move(name), .incarnation = "", .actor = "ann", .at = at};
}
WorkerOrder DrainOf(std::string name, std::string incarnation, Instant at = kT0) {
  WorkerOrder order = Cordon(std::move(name), at);
  order.incarnation = std::move(incarnation);
  return order;
}

TEST_P(Conformance, OrdersAreListedByTenantAndReplaced) {
  WorkerOrder other = Cordon("w");
  other.tenant = kOtherTenant;
  const std::vector some{DrainOf("w", "two"), Cordon("w"), Cordon("a"), other};
  EXPECT_OK(workers().Order(some));
  EXPECT_EQ(*workers().ListOrders(kTenant), (std::vector{some[2], some[1], some[0]}));
  EXPECT_EQ(*workers().ListAllOrders(), (std::vector{some[2], some[1], some[0], other}));
  WorkerOrder back = Cordon("w", kT0 + 1s);
  back.stands = false;
  back.actor = "bob";
  EXPECT_OK(workers().Order({&back, 1}));
  harness_->CrashAndReopen();
  EXPECT_EQ(*workers().ListOrders(kTenant), (std::vector{some[2], back, some[0]}));
  EXPECT_CODE(workers().ListOrders(TenantId()), Code::kInvalidArgument);
}

TEST_P(Conformance, OrderIsTakenUnlessItWasReplaced) {
  WorkerOrder first = Cordon("w"), drain = DrainOf("w", "one");
  EXPECT_OK(workers().Order(std::vector{first, drain}));
  WorkerOrder second = Cordon("w", kT0 + 1s);
  EXPECT_OK(workers().Order({&second, 1}));
  EXPECT_OK(workers().NoteTaken(std::vector{first, drain, Cordon("unknown")}));
  drain.taken = true;
  EXPECT_EQ(*workers().ListOrders(kTenant), (std::vector{second, drain}));
  EXPECT_OK(workers().NoteTaken({&second, 1}));
  second.taken = true;
  EXPECT_EQ(workers().ListOrders(kTenant)->at(0), second);
  second.taken = false;  // said once more, it is to be taken once more
  EXPECT_OK(workers().Order({&second, 1}));
  EXPECT_EQ(workers().ListOrders(kTenant)->at(0), second);
}

TEST_P(Conformance, OrdersAreForgottenWithTheirWorkers) {
  WorkerOrder lifted = Cordon("lifted", kT0);
  lifted.stands = false;
  WorkerRecord worker = Sample("w");
  EXPECT_OK(workers().WriteWorkers({&worker, 1}, kT0));
  EXPECT_OK(workers().Order(std::vector{Cordon("w"), lifted, DrainOf("w", "one"),
                                        DrainOf("w", "never seen"), Cordon("never seen")}));
  EXPECT_OK(workers().WriteWorkers({}, kT0 + WorkerStore::kGoneTtl - 1us));
  const std::vector left{lifted, Cordon("never seen"), Cordon("w"), DrainOf("w", "one")};
  EXPECT_EQ(*workers().ListOrders(kTenant), left);
  EXPECT_OK(workers().WriteWorkers({&worker, 1}, kT0 + WorkerStore::kGoneTtl));
  EXPECT_EQ(*workers().ListOrders(kTenant), left) << "nobody was forgotten, nor is it time to";
  worker = Gone(worker, kT0);
  EXPECT_OK(workers().WriteWorkers({&worker, 1}, kT0 + WorkerStore::kGoneTtl));
  EXPECT_EQ(*workers().ListOrders(kTenant), (std::vector{Cordon("never seen"), Cordon("w")}));
}

TEST_P(Conformance, NewOrdersAreThoseThatAreNotTaken) {
  WorkerOrder other = Cordon("w");
  other.tenant = kOtherTenant;
  const WorkerOrder drain = DrainOf("w", "one");
  EXPECT_OK(workers().Order(std::vector{other, Cordon("w"), drain}));
  EXPECT_EQ(*workers().ListNewOrders(), (std::vector{Cordon("w"), drain, other}));
  EXPECT_OK(workers().NoteTaken(std::vector{Cordon("w"), other}));
  EXPECT_EQ(*workers().ListNewOrders(), std::vector{drain});
  const WorkerOrder again = Cordon("w", kT0 + 1s);
  EXPECT_OK(workers().Order({&again, 1}));
  EXPECT_EQ(*workers().ListNewOrders(), (std::vector{again, drain}));
}

TEST_P(Conformance, OrdersThatWereTakenBackAreBounded) {
  std::vector<WorkerOrder> back;
  for (std::size_t i = 0; i < WorkerStore::kMaxOrders; ++i) {
    back.push_back(Cordon(fmt::format("w{:05}", i), kT0 + static_cast<int>(i) * 1us));
    back.back().stands = false;
  }
  EXPECT_OK(workers().Order(back));
  WorkerOrder last = Cordon("x", kT0 + 1h);
  last.stands = false;
  EXPECT_OK(workers().Order({&last, 1}));
  EXPECT_EQ(workers().ListOrders(kTenant)->size(), WorkerStore::kMaxOrders + 1)
      << "the engine has yet to go by them";
  EXPECT_OK(workers().NoteTaken(back));
  EXPECT_OK(workers().NoteTaken({&last, 1}));
  EXPECT_OK(workers().Order(std::vector{Cordon("y")}));
  const auto left = workers().ListOrders(kTenant);
  ASSERT_EQ(left->size(), WorkerStore::kMaxOrders + 1);
  EXPECT_EQ(left->front().name, "w00001") << "the oldest is forgotten";
}

TEST_P(Conformance, OrdersAreCheckedAndBounded) {
  WorkerOrder bad = Cordon("");
  EXPECT_CODE(workers().Order(std::vector{Cordon("w"), bad}), Code::kInvalidArgument);
  bad = Cordon("w");
  bad.actor.clear();
  EXPECT_CODE(workers().Order({&bad, 1}), Code::kInvalidArgument);
  bad = Cordon("w");
  bad.tenant = TenantId();
  EXPECT_CODE(workers().Order({&bad, 1}), Code::kInvalidArgument);
  EXPECT_TRUE(workers().ListAllOrders()->empty());

  std::vector<WorkerOrder> many;
  many.reserve(WorkerStore::kMaxOrders);
  for (std::size_t i = 0; i < WorkerStore::kMaxOrders; ++i)
    many.push_back(Cordon(fmt::format("w{}", i)));
  EXPECT_OK(workers().Order(many));
  many = {Cordon("w0"), Cordon("one more")};
  EXPECT_CODE(workers().Order(many), Code::kAtCapacity);
  EXPECT_EQ(workers().ListOrders(kTenant)->size(), WorkerStore::kMaxOrders);
  EXPECT_OK(workers().Order({many.data(), 1}));
  many[0].stands = false;
  EXPECT_OK(workers().Order({many.data(), 1}));
  EXPECT_OK(workers().Order({&many[1], 1}));  // one is taken back, so another is not too many
  many = {Cordon("yet one more")};
  EXPECT_CODE(workers().Order(many), Code::kAtCapacity);
  WorkerOrder other = Cordon("w");
  other.tenant = kOtherTenant;
  EXPECT_OK(workers().Order({&other, 1}));
}

}  // namespace
}  // namespace headworks::store::conformance
