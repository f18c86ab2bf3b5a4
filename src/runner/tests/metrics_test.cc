#include "headworks/runner/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <tuple>

#include "headworks/dispatch/buffered_dispatcher.h"
#include "headworks/dispatch/default_dispatcher.h"
#include "headworks/dispatcher_conformance/harness.h"

#include "metrics_table.h"

namespace headworks {
namespace {

// Of that library only what scripts an executor is used here: its suite is for dispatchers.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);

Figures SomeFigures() {
  Figures figures{.engine = engine::EngineStats{}, .process = ReadProcessFigures()};
  figures.engine->lanes.push_back({.executor = "process"});
  figures.engine->pools.push_back({.tenant = "acme", .pool = "gpu"});
  figures.executors.emplace_back("process", executor::Metrics{.active = 3});
  figures.workers = {.waiting = {{"gpu", 2}}, .workers = 1};
  figures.store_files = {{"database", 4'096}};
  figures.queues.push_back({.name = "mail", .settings = {}});
  figures.alerts.emplace();
  return figures;
}

const metrics::Family& Named(const std::vector<metrics::Family>& families, std::string_view name) {
  return *std::ranges::find(families, name, &metrics::Family::name);
}

TEST(MetricsPage, IsTheOneInTheDocumentation) {
  const std::string path = HEADWORKS_SOURCE_DIR "/docs/metrics.md";
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  EXPECT_TRUE(text.str() == MetricsPage())
      << "the table of metrics has changed: write the page anew with\n  bin/metrics_page > "
      << path;
}

TEST(MetricsTable, NamesFollowTheConventions) {
  std::set<std::string_view> names;
  for (const auto& family : MakeFamilies(SomeFigures())) {
    const std::string_view name = family.name;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string_view::npos);
    EXPECT_TRUE(name.starts_with("headworks_") || name.starts_with("process_")) << name;
    EXPECT_EQ(name.ends_with("_total"), family.type == metrics::Type::kCounter) << name;
    for (const char* scaled : {"_ms", "_us", "_ns", "_minutes", "_kib", "_mib"})
      EXPECT_EQ(name.find(scaled), std::string_view::npos) << name << ": base units only";
    EXPECT_TRUE(family.help.ends_with('.')) << name;
  }
}

TEST(MetricsTable, EveryRowHasSamplesWhereThereIsAnEngine) {
  for (const auto& family : MakeFamilies(SomeFigures())) {
    EXPECT_FALSE(family.samples.empty()) << family.name;
    for (const auto& sample : family.samples)
      EXPECT_EQ(sample.histogram.has_value(), family.type == metrics::Type::kHistogram);
  }
}

TEST(MetricsTable, LabelsAreThoseOfThePage) {
  std::istringstream page(MetricsPage());
  const auto families = MakeFamilies(SomeFigures());
  std::size_t rows = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) continue;
    ++rows;
    const auto& family = Named(families, line.substr(3, line.find('`', 3) - 3));
    for (const auto& sample : family.samples)
      for (const auto& [key, value] : sample.labels) {
        EXPECT_NE(line.find("`" + key + "`"), std::string::npos) << line;
        const bool listed = line.find("`" + key + "`:") != std::string::npos;
        if (listed) EXPECT_NE(line.find(value), std::string::npos) << value << " in " << line;
      }
  }
  EXPECT_EQ(rows, families.size());
}

/// The one sample of a row, or that with this label value.
double ValueOf(const Figures& figures, std::string_view name, std::string_view label = "") {
  const auto families = MakeFamilies(figures);
  for (const auto& sample : Named(families, name).samples)
    if (label.empty() || sample.labels.back().second == label) return sample.value;
  return -1;
}

TEST(MetricsTable, RowsThatNoWorkflowOfCommandsMovesReadTheFigureThatTheyName) {
  Figures figures = SomeFigures();
  engine::EngineStats& engine = *figures.engine;
  engine.superseded = 101;
  engine.fenced = 102;
  engine.permits_astray = 103;
  engine.tasks_above_limit = 104;
  engine.attempts_pending = 105;
  engine.attempts_unknown = 106;
  engine.tasks_for_permits = 107;
  engine.permits_held = 108;
  engine.runs_for_workflow = 109;
  engine.runs_for_key = 110;
  engine.runs_for_rate = 111;
  engine.lanes[0].held_up = std::chrono::milliseconds(112'500);
  engine.pools[0] = {.tenant = "acme", .pool = "gpu", .limit = 113, .held = 114, .waiting = 115};
  figures.workers->lost = 116;
  figures.workers->returned = 117;
  figures.workers->workers = 118;
  figures.workers->waiting = {{"gpu", 119}};
  figures.workers->stale_words = 120;
  figures.alerts->given_up = 121;
  figures.dispatch.depth = 122;
  figures.dispatch.at_capacity = 123;
  for (const auto& [name, label, wanted] :
       std::initializer_list<std::tuple<const char*, const char*, double>>{
           {"headworks_attempts_superseded_total", "", 101},
           {"headworks_words_refused_total", "", 102},
           {"headworks_permits_astray_total", "", 103},
           {"headworks_tasks_above_pool_limit", "", 104},
           {"headworks_attempts_overdue", "pending", 105},
           {"headworks_attempts_overdue", "unknown", 106},
           {"headworks_tasks_waiting_for_permits", "", 107},
           {"headworks_permits_held", "", 108},
           {"headworks_runs_waiting", "max_active_runs", 109},
           {"headworks_runs_waiting", "concurrency", 110},
           {"headworks_runs_waiting", "rate", 111},
           {"headworks_attempts_held_up_seconds", "process", 112.5},
           {"headworks_pool_limit", "gpu", 113},
           {"headworks_pool_permits_held", "gpu", 114},
           {"headworks_pool_tasks_waiting", "gpu", 115},
           {"headworks_worker_attempts_lost_total", "", 116},
           {"headworks_worker_attempts_returned_total", "", 117},
           {"headworks_workers", "", 118},
           {"headworks_worker_attempts_waiting", "gpu", 119},
           {"headworks_worker_words_stale_total", "", 120},
           {"headworks_alerts_given_up_total", "", 121},
           {"headworks_dispatch_buffer_depth", "", 122},
           {"headworks_dispatch_at_capacity_total", "", 123}})
    EXPECT_EQ(ValueOf(figures, name, label), wanted) << name << " " << label;
}

TEST(MetricsTable, WithoutAnEngineThereAreFiguresOfTheProcessOnly) {
  for (const auto& family : MakeFamilies({.engine = std::nullopt, .process = ReadProcessFigures()}))
    EXPECT_EQ(!family.samples.empty(),
              family.name.starts_with("process_") || family.name == "headworks_build_info")
        << family.name;
}

TEST(MetricsTable, TroubleAndLossAreUnhealthy) {
  const auto healthy = [](const Figures& figures) {
    return Named(MakeFamilies(figures), "headworks_engine_healthy").samples.at(0).value;
  };
  Figures figures = SomeFigures();
  EXPECT_EQ(healthy(figures), 1);
  figures.engine->trouble = "disk full";
  EXPECT_EQ(healthy(figures), 0);
  figures.engine->trouble.clear();
  figures.engine->lost = true;
  EXPECT_EQ(healthy(figures), 0);
}

/// Offers three attempts by a buffer of `size`; the platform has the first and is unwell then.
void ExpectOffers(std::size_t size) {
  namespace conformance = dispatcher::conformance;
  conformance::Sink sink;
  conformance::ScriptedExecutor platform("platform");
  platform.answer = [](const executor::Attempt& attempt) {
    return attempt.key.epoch == Epoch(1)
               ? executor::OfferResult{}
               : executor::NotTaken(executor::DispatchError::kStore, "timeout");
  };
  dispatch::DefaultDispatcher inner({.functions = "platform", .commands = "platform"});
  ASSERT_TRUE(inner.RegisterExecutor("platform", platform));
  ASSERT_TRUE(inner.Start(sink));
  dispatch::DispatchMetrics metrics;
  SystemClock clock;  // tidy-allow(clock): how long the platform takes is measured
  NullLogger log;
  dispatch::BufferedDispatcher buffer({.buffer_size = size}, {inner, metrics, clock, log});
  ASSERT_TRUE(buffer.StartWithoutThreads(sink, sink));
  Figures figures = SomeFigures();
  const auto value = [&](std::string_view name, std::string_view disposition = "") {
    figures.dispatch = metrics.Read();
    const auto families = MakeFamilies(figures);
    for (const auto& sample : Named(families, name).samples)
      if (disposition.empty() || sample.labels.at(0).second == disposition) return sample.value;
    return -1.0;
  };
  for (const int epoch : {1, 2, 3})
    static_cast<void>(buffer.Dispatch(conformance::AttemptOf(conformance::kCommand, epoch)));
  const bool full = size == 2;
  EXPECT_EQ(value("headworks_dispatch_buffer_depth"), full ? 2 : 0);
  EXPECT_EQ(value("headworks_dispatch_at_capacity_total"), full ? 1 : 0);
  if (full) EXPECT_EQ(value("headworks_offers_total", "dispatched"), 0) << "nobody has them yet";
  while (buffer.SendNext()) {
  }
  EXPECT_EQ(value("headworks_dispatch_buffer_depth"), 0);
  EXPECT_EQ(value("headworks_offers_total", "dispatched"), 1);
  EXPECT_EQ(value("headworks_offers_total", "transient"), full ? 1 : 2);
  EXPECT_EQ(value("headworks_offers_total", "deferred"), 0) << "no executor said so";
  EXPECT_GT(value("headworks_dispatch_answer_seconds_total"), 0);
}

TEST(MetricsTable, OffersAreWhatExecutorsAnswered) { ExpectOffers(0); }

TEST(MetricsTable, BufferHasADepthAndABoundAndCountsNoOfferTwice) { ExpectOffers(2); }

TEST(ProcessFigures, AreThoseOfThisProcess) {
  const ProcessFigures before = ReadProcessFigures();
  EXPECT_GT(before.start_seconds, 1.6e9);
  EXPECT_GE(before.threads, 1U);
  EXPECT_GT(before.resident_bytes, std::uint64_t{1} << 20);
  EXPECT_GE(before.virtual_bytes, before.resident_bytes);
  EXPECT_GT(before.max_files, before.open_files);
  const std::ifstream one("/proc/self/stat");
  const std::ifstream two("/proc/self/stat");
  EXPECT_EQ(ReadProcessFigures().open_files, before.open_files + 2);
}

}  // namespace
}  // namespace headworks
