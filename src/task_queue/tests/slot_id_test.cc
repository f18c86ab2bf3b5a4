#include "headworks/task_queue/slot_id.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "headworks/base/json.h"

namespace headworks::task_queue {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

TEST(SlotTaskId, IsThatOfTheVectors) {
  std::stringstream text;
  text << std::ifstream(HEADWORKS_VECTORS "/task_id.json").rdbuf();
  const auto vectors = ParseJson(text.str(), {});
  ASSERT_TRUE(vectors) << vectors.error().message;
  const auto& all = vectors->as_object().at("vectors").as_array();
  EXPECT_EQ(all.size(), 15U);
  for (const auto& vector : all) {
    const auto at = [&](const char* key) {
      return std::string(vector.as_object().at(key).as_string());
    };
    const auto time = ParsePlannedTime(at("planned_fire_time"));
    ASSERT_TRUE(time) << time.error().message;
    EXPECT_EQ(FormatPlannedTime(*time).value(), at("planned_fire_time"));
    EXPECT_EQ(SlotTaskId(at("schedule_id"), *time).value(), at("task_id"));
  }
}

TEST(SlotTaskId, IsWhatPythonMakes) {
  constexpr char kProgram[] =
      "python3 -c \"\n"
      "import datetime as d, hashlib, random\n"
      "r = random.Random(7)\n"
      "for n in range(3000):\n"
      "    zone = r.choice([None, 0, r.randrange(-86399, 86400), 60 * r.randrange(-1439, 1440)])\n"
      "    t = d.datetime(1, 1, 1) + d.timedelta(seconds=r.randrange(315537897600),\n"
      "        microseconds=r.choice([0, 1, 999999, r.randrange(1000000)]))\n"
      "    if zone is not None:\n"
      "        t = t.replace(tzinfo=d.timezone(d.timedelta(seconds=zone)))\n"
      "    key = ('s%d|%s' % (n, t.isoformat())).encode()\n"
      "    print(t.isoformat(), hashlib.sha256(key).hexdigest()[:32])\n"
      "\"";
  FILE* const python = popen(kProgram, "r");
  ASSERT_NE(python, nullptr);
  char text[64] = {};
  char id[64] = {};
  int n = 0;
  for (; std::fscanf(python, "%63s %63s", text, id) == 2; ++n) {
    const auto time = ParsePlannedTime(text);
    ASSERT_TRUE(time) << time.error().message;
    ASSERT_EQ(FormatPlannedTime(*time).value(), text);
    ASSERT_EQ(SlotTaskId(fmt::format("s{}", n), *time).value(), id) << text;
  }
  EXPECT_EQ(pclose(python), 0);
  EXPECT_EQ(n, 3'000);
}

TEST(PlannedTime, OutOfRangeIsRefused) {
  const auto at = [](int year) {
    return std::chrono::local_days(std::chrono::year(year) / 1 / 1) + Duration();
  };
  EXPECT_TRUE(FormatPlannedTime({at(1), {}}));
  EXPECT_FALSE(FormatPlannedTime({at(0), {}}));
  EXPECT_TRUE(FormatPlannedTime({at(9999), {}}));
  EXPECT_FALSE(FormatPlannedTime({at(10'000), {}}));
  EXPECT_TRUE(FormatPlannedTime({at(2026), hours(24) - seconds(1)}));
  EXPECT_FALSE(FormatPlannedTime({at(2026), hours(24)}));
  EXPECT_FALSE(FormatPlannedTime({at(2026), -hours(24)}));
  EXPECT_EQ(SlotTaskId("s", {at(0), {}}).error().code, Code::kInvalidArgument);
}

TEST(PlannedTime, OnlyTheOneFormIsRead) {
  for (const char* const bad : {"",
                                "2026-05-06",
                                "2026-05-06T12:00",
                                "2026-05-06 12:00:00",
                                "2026-05-06T12:00:00Z",
                                "2026-05-06T12:00:00.5",
                                "2026-05-06T12:00:00.000000",
                                "2026-05-06T12:00:00+0000",
                                "2026-05-06T12:00:00-00:00",
                                "2026-05-06T12:00:00+05:30:00",
                                "2026-05-06T24:00:00",
                                "2026-02-30T00:00:00",
                                "2026-13-01T00:00:00",
                                "2026-05-06T12:60:00",
                                "2026-05-06T12:00:60",
                                "2026-05-06T12:00:00+24:00",
                                "0000-01-01T00:00:00",
                                "2026-05-06T12:00:00+00:60",
                                "2026-05-06T12:00:00+00:00 ",
                                "+026-05-06T12:00:00",
                                "2026-05--6T12:00:00"}) {
    EXPECT_FALSE(ParsePlannedTime(bad)) << bad;
  }
}

}  // namespace
}  // namespace headworks::task_queue
