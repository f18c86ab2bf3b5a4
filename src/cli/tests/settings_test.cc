#include "settings.h"

#include <gtest/gtest.h>

#include <fstream>

namespace headworks::cli {
namespace {

class SettingsTest : public testing::Test {
 protected:
  std::string WriteFile(const std::string& text) {
    const std::string path = testing::TempDir() + "/settings_" +
                             testing::UnitTest::GetInstance()->current_test_info()->name() +
                             ".yaml";
    std::ofstream(path) << text;
    return path;
  }

  Result<LoadedSettings> Load() {
    return LoadSettings({.flags = flags_, .file = file_, .environment = [this](const char* name) {
                           const auto found = environment_.find(name);
                           return found == environment_.end() ? nullptr : found->second.c_str();
                         }});
  }

  static std::string OriginOf(const LoadedSettings& loaded, std::string_view key) {
    const auto all = AllSettings();
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].key == key) return loaded.origins[i];
    return "no such setting";
  }

  void ExpectRefused(std::string_view part) {
    const auto loaded = Load();
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Code::kInvalidArgument);
    EXPECT_NE(loaded.error().message.find(part), std::string::npos) << loaded.error().message;
  }

  std::map<std::string, std::string, std::less<>> flags_;
  std::map<std::string, std::string, std::less<>> environment_;
  std::string file_;
};

TEST_F(SettingsTest, FlagsWinOverEnvironmentOverFileOverDefaults) {
  file_ = WriteFile("max_concurrent_tasks: 3\ninline_threads: 4\n\ndrain_timeout: 20s\n");
  environment_["HEADWORKS_INLINE_THREADS"] = "5";
  environment_["HEADWORKS_DRAIN_TIMEOUT"] = "30s";
  flags_["drain_timeout"] = "40s";
  const auto loaded = Load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  const RunnerOptions& runner = loaded->settings.runner;
  EXPECT_EQ(runner.inline_queue_depth, RunnerOptions().inline_queue_depth);
  EXPECT_EQ(OriginOf(*loaded, "inline_queue_depth"), "default");
  EXPECT_EQ(runner.max_concurrent_tasks, 3U);
  EXPECT_EQ(OriginOf(*loaded, "max_concurrent_tasks"), file_ + ":1");
  EXPECT_EQ(runner.inline_threads, 5U);
  EXPECT_EQ(OriginOf(*loaded, "inline_threads"), "HEADWORKS_INLINE_THREADS");
  EXPECT_EQ(runner.drain_timeout, std::chrono::seconds(40));
  EXPECT_EQ(OriginOf(*loaded, "drain_timeout"), "--drain-timeout");
}

TEST_F(SettingsTest, UnknownKeyIsRefusedWithItsPlaceAndTheNearestKey) {
  file_ = WriteFile("tenant: a\nmax_concurent_tasks: 3\n");
  ExpectRefused(":2: unknown setting 'max_concurent_tasks'");
  ExpectRefused("'max_concurrent_tasks'?");
}

TEST_F(SettingsTest, FaultyFileIsRefusedWithItsPlace) {
  file_ = WriteFile("tenant: a\ntenant: b\n");
  ExpectRefused(":2: 'tenant' is set a second time");
  file_ = WriteFile("tenant: [a]\n");
  ExpectRefused(":1: 'tenant' takes one value");
  file_ = WriteFile("- a\n");
  ExpectRefused("a configuration is a list of");
  file_ = WriteFile("tenant: a: b\n");
  ExpectRefused(file_ + ":1:");
  file_ = testing::TempDir() + "/no_such_file.yaml";
  ExpectRefused("cannot read the configuration");
}

TEST_F(SettingsTest, BadValueNamesWhereItCameFrom) {
  environment_["HEADWORKS_INLINE_THREADS"] = "many";
  ExpectRefused("HEADWORKS_INLINE_THREADS: 'many' is not a number from 0 to 1024");
  environment_.clear();
  flags_["format"] = "jsn";
  ExpectRefused("--format: 'jsn' is none of table, json, yaml, did you mean 'json'?");
  flags_.clear();
  flags_["store"] = "sqlite:";
  ExpectRefused("--store: 'sqlite:' is not sqlite:PATH");
}

TEST_F(SettingsTest, NumbersAndSizesAreBounded) {
  for (const auto& [key, good, bad] : {std::tuple{"inline_threads", "1024", "1025"},
                                       {"inline_queue_depth", "1", "0"},
                                       {"dispatch_buffer_size", "1000000", "1000001"},
                                       {"dispatch_workers", "1024", "1025"},
                                       {"dispatch_workers", "1", "0"},
                                       {"dispatch_drain_timeout", "0s", "15"},
                                       {"max_log_bytes", "1024TiB", "1025TiB"},
                                       {"max_log_bytes", "1", "0"},
                                       {"max_log_bytes", "64MiB", "64MB"},
                                       {"lease_ttl", "1s", "999ms"},
                                       {"inbox_poll", "1ms", "0s"},
                                       {"task_timeout", "0s", "10"},
                                       {"task_start_timeout", "1ms", "0s"},
                                       {"pending_timeout", "0s", "1"},
                                       {"task_retry", "max_attempts=1000", "max_attempts=1001"},
                                       {"task_retry", "max_losses=1", "max_losses=0"},
                                       {"task_retry", "backoff=linear", "backoff=lineal"},
                                       {"task_retry", "initial=1s,max=1s", "initial=2s,max=1s"},
                                       {"task_retry", "jitter=1", "jitter=1.1"},
                                       {"task_retry", "jitter=0", "when=1"},
                                       {"task_resources", "cpu=0.001", "cpu=0.0009"},
                                       {"task_resources", "cpu=1024", "cpu=1025"},
                                       {"task_resources", "memory=1024TiB", "memory=1025TiB"},
                                       {"max_task_resources", "cpu=1,memory=1", "memory=0"},
                                       {"task_resources", "cpu=1", "cpu=0"},
                                       {"task_resources", "cpu=1", "cpu=-1"},
                                       {"task_resources", "cpu=1", "cpu=nan"},
                                       {"max_task_resources", "", "gpu=1"},
                                       {"max_task_resources", "cpu=0.001", "cpu=0.0009"},
                                       {"max_task_resources", "cpu=1024", "cpu=1025"},
                                       {"tenant_executors", "a=process", "a="},
                                       {"command_executor", "queue", "inline"},
                                       {"function_executor", "queue", "process"},
                                       {"worker_lease", "100ms", "99ms"},
                                       {"worker_heartbeat", "1ms", "0s"},
                                       {"max_waiting_for_workers", "2", "1"},
                                       {"max_waiting_for_workers", "1000000", "1000001"},
                                       {"tenant_executors", "", "a=x,a=y"},
                                       {"tenant_weights", "a=1,b=1000", "a=1001"},
                                       {"tenant_weights", "", "a=0"},
                                       {"tenant_weights", "a=2", "a=2,a=2"},
                                       {"tenant_weights", "a=2,", "=2"},
                                       {"tenant_weights", "a.b-c_1=2", "a b=2"},
                                       {"tenant_executors", "a.b-c_1=process", "a\n=process"},
                                       {"tenant", "a.b-c_1", ""},
                                       {"tenant", "a", "a b"},
                                       {"tenant", "a", "a\n"},
                                       {"pools", "gpu=1,db-1_x=1000000", "gpu=1000001"},
                                       {"pools", "", "=1"},
                                       {"pools", "gpu=0", "g pu=1"},
                                       {"pools", "gpu=2", "gpu=2,gpu=2"},
                                       {"pools", "gpu=2,", "gpu"},
                                       {"rpc_listen", "127.0.0.1:0", "nowhere"},
                                       {"rpc_listen", "", "127.0.0.1:65536"},
                                       {"priority_ageing", "0s", "-1s"}}) {
    flags_ = {{key, good}};
    EXPECT_TRUE(Load()) << key << " " << good;
    flags_ = {{key, bad}};
    EXPECT_FALSE(Load()) << key << " " << bad;
  }
}

TEST_F(SettingsTest, ACertificateAndItsKeyBelongTogether) {
  for (const char* key : {"rpc_tls_cert", "rpc_tls_key"}) {
    flags_ = {{key, "file.pem"}};
    const auto loaded = Load();
    ASSERT_FALSE(loaded);
    EXPECT_NE(loaded.error().message.find("rpc_tls_cert"), std::string::npos);
    EXPECT_NE(loaded.error().message.find("rpc_tls_key"), std::string::npos);
  }
  flags_ = {{"rpc_tls_cert", "cert.pem"}, {"rpc_tls_key", "key.pem"}};
  EXPECT_TRUE(Load());
}

TEST_F(SettingsTest, HeartbeatsFollowTheLeaseUnlessTheyAreSet) {
  flags_ = {{"worker_lease", "10s"}};
  ASSERT_TRUE(Load());
  EXPECT_EQ(Load()->settings.runner.worker_heartbeat, std::chrono::milliseconds(2500));
  flags_ = {{"worker_lease", "9s"}, {"worker_heartbeat", "3s"}};
  EXPECT_TRUE(Load());
  flags_["worker_heartbeat"] = "3001ms";
  const auto above = Load();
  ASSERT_FALSE(above);
  EXPECT_NE(above.error().message.find("worker_heartbeat (--worker-heartbeat)"), std::string::npos);
  EXPECT_NE(above.error().message.find("worker_lease (--worker-lease)"), std::string::npos);
}

TEST_F(SettingsTest, ListsOfNamesAndValuesAreReadFieldByField) {
  flags_ = {{"task_retry", "max_attempts=3,initial=10s"},
            {"task_resources", "memory=512MiB"},
            {"max_task_resources", "cpu=2.5,memory=8GiB"},
            {"tenant_executors", "acme=process,b=inline"}};
  const auto loaded = Load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  const RunnerOptions& runner = loaded->settings.runner;
  EXPECT_EQ(runner.defaults.retry.max_attempts, 3);
  EXPECT_EQ(runner.defaults.retry.initial, std::chrono::seconds(10));
  EXPECT_EQ(runner.defaults.retry.max, std::chrono::minutes(5)) << "as without a word";
  EXPECT_EQ(runner.defaults.resources, (model::Resources{.memory = std::uint64_t{512} << 20}));
  EXPECT_EQ(runner.max_resources, (model::Resources{2.5, std::uint64_t{8} << 30}));
  EXPECT_EQ(runner.tenant_executors.at("b"), "inline");
  flags_ = {{"task_retry", "max_attempt=3"}};
  ExpectRefused("--task-retry: 'max_attempt' is none of max_attempts, backoff, initial");
  ExpectRefused("did you mean 'max_attempts'?");
}

TEST_F(SettingsTest, WhatTasksAskForUnsaidIsAllowed) {
  flags_ = {{"task_resources", "cpu=2,memory=1GiB"}, {"max_task_resources", "cpu=2,memory=1GiB"}};
  EXPECT_TRUE(Load());
  flags_["max_task_resources"] = "memory=1GiB";
  EXPECT_TRUE(Load()) << "any amount of the other";
  flags_["max_task_resources"] = "cpu=1.999";
  ExpectRefused(
      "task_resources (--task-resources) is above max_task_resources (--max-task-resources): it "
      "asks for 2 processors, and at most 1.999 are allowed here; lower the one or raise the "
      "other");
  flags_["max_task_resources"] = "memory=1023MiB";
  ExpectRefused("it asks for 1GiB of memory, and at most 1023MiB is allowed here");
}

TEST_F(SettingsTest, StoreIsAPathOrAnUrlThatIsKnown) {
  flags_["store"] = "/var/lib/x/../state.db";
  EXPECT_EQ(Load()->settings.runner.database_url, "sqlite:/var/lib/state.db");
  EXPECT_EQ(StoreName(Load()->settings.runner), "/var/lib/state.db");
  flags_["store"] = "sqlite:/state.db";
  EXPECT_EQ(Load()->settings.runner.database_url, "sqlite:/state.db");
  flags_["store"] = "memory:";
  EXPECT_EQ(Load()->settings.runner.database_url, "memory:");
  flags_["store"] = "mysql://x/y";
  ExpectRefused("--store: 'mysql://x/y' is not a store that this program knows");
  flags_["store"] = "";
  ExpectRefused("--store");
}

TEST_F(SettingsTest, EmptyVariableCountsAsUnset) {
  environment_["HEADWORKS_TENANT"] = "";
  const auto loaded = Load();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->settings.runner.tenant, "public");
  EXPECT_EQ(OriginOf(*loaded, "tenant"), "default");
}

TEST_F(SettingsTest, EveryDefaultIsReadBackAsItIsShown) {
  const auto loaded = Load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (const Setting& setting : AllSettings()) {
    const std::string shown = setting.get(loaded->settings);
    Settings again;
    EXPECT_TRUE(setting.set(again, shown)) << setting.key << " " << shown;
    EXPECT_EQ(setting.get(again), shown) << setting.key;
  }
}

TEST_F(SettingsTest, VariablesThatMeanNothingAreFound) {
  const std::vector<std::string> variables = {
      "HEADWORKS_STORE=x", "HEADWORKS_TRY=1", "HEADWORKS_STOER=x", "PATH=/bin",
      "HEADWORKS_V12=x",   "HEADWORKS_V=x",   "HEADWORKS_VERY=x"};
  EXPECT_EQ(UnknownVariables(variables),
            (std::vector<std::string>{"HEADWORKS_STOER", "HEADWORKS_V", "HEADWORKS_VERY"}));
}

TEST(Settings, NoneReadsWhatTasksAreGiven) {
  for (const Setting& setting : AllSettings())
    for (const char* variable :
         {"HEADWORKS_INPUT", "HEADWORKS_OUTPUT", "HEADWORKS_EPOCH", "HEADWORKS_TRY",
          "HEADWORKS_SCRATCH", "HEADWORKS_IDEMPOTENCY_KEY", "HEADWORKS_TASK", "HEADWORKS_RUN_ID",
          "HEADWORKS_ATTEMPT", "HEADWORKS_MAP_INDEX"})
      EXPECT_NE(setting.EnvironmentName(), variable) << "a task could not call headworks";
}

TEST(Settings, ReferencePageHasEveryKey) {
  const std::string page = SettingsMarkdown();
  for (const Setting& setting : AllSettings()) {
    EXPECT_NE(page.find("`" + setting.EnvironmentName() + "`"), std::string::npos);
    EXPECT_NE(page.find("`" + setting.FlagName() + "`"), std::string::npos);
  }
}

}  // namespace
}  // namespace headworks::cli
