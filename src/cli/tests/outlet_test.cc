#include "outlet.h"

#include <gtest/gtest.h>

#include "reader_pipe.h"

namespace headworks::cli {
namespace {

TEST(Outlet, WaitsForNoReaderAndLosesNothing) {
  ReaderPipe pipe;
  Outlet outlet(pipe.to());
  std::string all;
  for (int i = 0; all.size() < 3 * Outlet::kRoom; ++i) all += std::to_string(i) + "\n";
  EXPECT_TRUE(outlet.HasRoom());
  outlet.Write(all);
  EXPECT_FALSE(outlet.HasRoom());
  EXPECT_FALSE(outlet.Pump());
  EXPECT_FALSE(outlet.Pump()) << "the pipe is full";
  EXPECT_GT(outlet.taken(), 0U);
  EXPECT_EQ(outlet.taken() + outlet.held(), all.size());
  EXPECT_FALSE(outlet.Drain(Duration(0)));
  outlet.Write("the end");
  std::string read;
  while (!outlet.Pump()) read += pipe.Take();
  EXPECT_EQ(read + pipe.Take(), all + "the end");
  EXPECT_EQ(outlet.held(), 0U);
}

TEST(Outlet, HasRoomUpToTheBound) {
  ReaderPipe pipe;
  Outlet outlet(pipe.to());
  outlet.Write(std::string(Outlet::kRoom - 1, 'x'));
  EXPECT_TRUE(outlet.HasRoom());
  outlet.Write("x");
  EXPECT_FALSE(outlet.HasRoom());
}

TEST(Outlet, ReaderThatLeftTakesNoMoreAndIsNotStandardOutput) {
  ReaderPipe pipe;
  Outlet outlet(pipe.to());
  pipe.Leave();
  outlet.Write("text");
  EXPECT_TRUE(outlet.Pump());
  EXPECT_TRUE(outlet.is_broken());
  outlet.Write(std::string(Outlet::kRoom, 'x'));
  EXPECT_EQ(outlet.held(), 0U);
  EXPECT_EQ(OutputError(), 0);
}

TEST(Outlet, OthersWithThePipeStillWait) {
  ReaderPipe pipe;
  Outlet outlet(pipe.to());
  outlet.Write(std::string(Outlet::kRoom, 'x'));
  EXPECT_FALSE(outlet.Pump());
  EXPECT_EQ(fcntl(pipe.to(), F_GETFL) & O_NONBLOCK, 0);
}

}  // namespace
}  // namespace headworks::cli
