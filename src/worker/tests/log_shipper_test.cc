#include "log_shipper.h"

#include <gtest/gtest.h>

#include <future>

namespace headworks::worker {
namespace {

const model::AttemptKey kOne{.tenant = TenantId("t"),
                             .run = RunNo(1),
                             .task = TaskNo(0),
                             .map_index = -1,
                             .epoch = Epoch(1)};
const model::AttemptKey kTwo{.tenant = TenantId("t"),
                             .run = RunNo(1),
                             .task = TaskNo(0),
                             .map_index = -1,
                             .epoch = Epoch(2)};

class Shipper : public testing::Test {
 protected:
  Shipper() {
    shipper.Open(kOne);
    shipper.Open(kTwo);
  }
  Status Add(const model::AttemptKey& key, std::size_t bytes, int lines = 1) {
    log_store::Batch batch{key, {}};
    for (int i = 0; i < lines; ++i)
      batch.lines.push_back({++number, log_store::Stream::kStdout, {}, std::string(bytes, 'x')});
    return static_cast<log_store::LogStore&>(shipper).Append({&batch, 1});
  }

  std::int64_t number = 0;
  std::vector<model::AttemptKey> told;
  LogShipper shipper{1'000, [this](const model::AttemptKey& key) { told.push_back(key); }};
};

TEST_F(Shipper, KeepsLinesInOrderUntilTheyAreStored) {
  ASSERT_TRUE(Add(kOne, 1, 3));
  EXPECT_EQ(told, std::vector{kOne});
  const auto lines = shipper.Peek(kOne);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines.front().number, 1);
  EXPECT_EQ(shipper.Peek(kOne), lines);
  shipper.Stored(kOne, 2);
  EXPECT_TRUE(shipper.HasLines(kOne));
  EXPECT_EQ(shipper.Peek(kOne).front().number, 3);
  shipper.Stored(kOne, 1);
  EXPECT_FALSE(shipper.HasLines(kOne));
}

TEST_F(Shipper, TellsOncePerPeek) {
  ASSERT_TRUE(Add(kOne, 1));
  ASSERT_TRUE(Add(kOne, 1));
  EXPECT_EQ(told.size(), 1U);
  shipper.Peek(kOne);
  ASSERT_TRUE(Add(kOne, 1));
  EXPECT_EQ(told.size(), 2U);
}

TEST_F(Shipper, IsFullForOneAttemptAtItsShare) {
  ASSERT_TRUE(Add(kOne, 484, 2));  // 1,000 with 16 a line
  const Status full = Add(kOne, 0);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kAtCapacity);
  EXPECT_TRUE(Add(kTwo, 900));
  shipper.Stored(kOne, 1);
  EXPECT_TRUE(Add(kOne, 0));
}

TEST_F(Shipper, TakesABatchThatIsLargerThanTheShareWhenNothingWaits) {
  EXPECT_TRUE(Add(kOne, 5'000));
  EXPECT_FALSE(Add(kOne, 1));
}

TEST_F(Shipper, TakesAllBatchesOrNone) {
  ASSERT_TRUE(Add(kOne, 900));
  const log_store::Batch batches[] = {{kTwo, {{1, log_store::Stream::kStdout, {}, "a"}}},
                                      {kOne,
                                       {{2,
                                         log_store::Stream::kStdout,
                                         {},
                                         "long enough"
                                         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                                         "xxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}}};
  EXPECT_FALSE(static_cast<log_store::LogStore&>(shipper).Append(batches));
  EXPECT_FALSE(shipper.HasLines(kTwo));
}

TEST_F(Shipper, PeekIsBounded) {
  ASSERT_TRUE(Add(kOne, 65'520, 65));
  EXPECT_EQ(shipper.Peek(kOne).size(), 64U);
}

TEST_F(Shipper, DropsLinesOfWhatIsClosed) {
  ASSERT_TRUE(Add(kOne, 1));
  shipper.Close(kOne);
  EXPECT_FALSE(shipper.HasLines(kOne));
  EXPECT_TRUE(Add(kOne, 1));
  EXPECT_FALSE(shipper.HasLines(kOne));
  shipper.Stored(kOne, 1);  // an answer that came late
}

TEST_F(Shipper, AFunctionThatIsToStopWaitsNoLonger) {
  ASSERT_TRUE(Add(kOne, 984));
  std::stop_source stop;
  const auto append = [&] {
    return static_cast<executor_inline::LineSink&>(shipper).Append(kOne, 2, {}, "line",
                                                                   stop.get_token());
  };
  auto waits = std::async(std::launch::async, append);
  stop.request_stop();
  EXPECT_EQ(waits.get().error().code, Code::kCancelled);
  EXPECT_EQ(shipper.Peek(kOne).size(), 1U);
  shipper.Stored(kOne, 1);
  EXPECT_TRUE(append()) << "what has room is taken all the same";
}

TEST_F(Shipper, AFunctionWhoseLinesAreWorthNothingWaitsNoLonger) {
  ASSERT_TRUE(Add(kOne, 984));
  auto waits = std::async(std::launch::async, [&] {
    return static_cast<executor_inline::LineSink&>(shipper).Append(kOne, 2, {}, "line", {});
  });
  shipper.Close(kOne);
  EXPECT_TRUE(waits.get());
}

TEST_F(Shipper, DropsWhatHasNoRoomWithANote) {
  ASSERT_TRUE(Add(kOne, 484));
  shipper.DropRest(kOne);
  ASSERT_TRUE(Add(kOne, 234, 4));  // two fit
  ASSERT_TRUE(Add(kOne, 1));
  auto lines = shipper.Peek(kOne);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[2].stream, log_store::Stream::kStdout);
  EXPECT_EQ(lines[3].number, 4);
  EXPECT_EQ(lines[3].stream, log_store::Stream::kNote);
  EXPECT_NE(lines[3].bytes.find("the rest is not kept"), std::string::npos);
  // Nothing comes after the gap.
  shipper.Stored(kOne, 4);
  ASSERT_TRUE(Add(kOne, 1));
  EXPECT_FALSE(shipper.HasLines(kOne));
  EXPECT_TRUE(Add(kTwo, 900));
  EXPECT_FALSE(Add(kTwo, 100)) << "only what was asked for";
}

TEST_F(Shipper, ANoteStandsForLinesThatTheEngineRefuses) {
  ASSERT_TRUE(Add(kOne, 200, 3));
  shipper.Refused(kOne, 2);
  auto lines = shipper.Peek(kOne);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].number, 2);
  EXPECT_EQ(lines[0].stream, log_store::Stream::kNote);
  EXPECT_NE(lines[0].bytes.find("lines are missing here"), std::string::npos);
  EXPECT_EQ(lines[1].number, 3);
  EXPECT_TRUE(Add(kOne, 600)) << "they use no room any more";
  // The note is refused with what follows it, and then alone: it is not said for ever.
  shipper.Refused(kOne, 3);
  lines = shipper.Peek(kOne);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].number, 4);
  shipper.Refused(kOne, 1);
  EXPECT_FALSE(shipper.HasLines(kOne));
  shipper.Close(kTwo);
  shipper.Refused(kTwo, 1);  // an answer that came late
}

TEST_F(Shipper, AFunctionWaitsForRoom) {
  ASSERT_TRUE(Add(kOne, 984));
  auto waits = std::async(std::launch::async, [&] {
    return static_cast<executor_inline::LineSink&>(shipper).Append(kOne, 2, {}, "line", {});
  });
  shipper.Stored(kOne, 1);
  EXPECT_TRUE(waits.get());
  EXPECT_EQ(shipper.Peek(kOne).front().bytes, "line");
  ASSERT_TRUE(Add(kOne, 964));
  auto ends = std::async(std::launch::async, [&] {
    return static_cast<executor_inline::LineSink&>(shipper).Append(kOne, 3, {}, "line", {});
  });
  shipper.Shut();
  EXPECT_EQ(ends.get().error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace headworks::worker
