#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "headworks/base/time.h"
#include "headworks/executor/executor.h"
#include "headworks/executor_process/process_executor.h"
#include "headworks/log_store/memory_log_store.h"
#include "supervisor/cgroup.h"

namespace headworks::executor_process::testing {

/// How long a test waits for what must come; far above what it takes.
inline constexpr auto kPatience = std::chrono::seconds(30);

/// A folder that is removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Polls until `condition` holds; false after kPatience.
bool WaitUntil(const std::function<bool()>& condition);

/// Whether a process exists and is no zombie.
bool Alive(pid_t pid);
/// Living processes of which `text` stands in the command line.
std::vector<pid_t> ProcessesWith(const std::string& text);
/// The pid in a file that a task writes, once it is there.
pid_t PidFrom(const std::string& file);
std::string ReadText(const std::string& file);

/// Whether a control group can be made in one of `places`.
bool CanMakeGroup(const std::vector<supervisor::CgroupPlace>& places);
std::vector<std::string> LinesOf(const std::string& text);

/// The engine's side: keeps what it is told.
class RecordingSink final : public executor::AttemptSink {
 public:
  void Started(const model::AttemptKey& key) override;
  void Ended(const model::AttemptKey& key, model::Outcome outcome) override;
  void Hear(executor::Word, std::function<void(executor::Heard)> reply) override {
    reply(executor::Reply::kStop);
  }
  void CapacityChanged() override;

  bool AwaitStarted(const model::AttemptKey& key);
  /// The verdict; a default Outcome and a test failure if none comes.
  model::Outcome Await(const model::AttemptKey& key);
  std::size_t starts() const;
  std::size_t ends() const;

  /// Called within Ended, before the verdict is recorded.
  void OnEnded(std::function<void(const model::AttemptKey&)> call);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<model::AttemptKey, int> started_;
  std::map<model::AttemptKey, model::Outcome> ended_;
  std::size_t ends_ = 0;
  std::function<void(const model::AttemptKey&)> on_ended_;
};

class FixedResolver final : public executor::Resolver {
 public:
  Result<executor::Resolved> Resolve(const executor::Attempt& attempt) override {
    executor::Resolved resolved{.context_json = context, .merged_json = "{}"};
    for (executor::NeededArtifact needed : artifacts) {
      needed.path = attempt.artifact_dir + "/" + needed.path;
      resolved.artifacts.push_back(std::move(needed));
    }
    return resolved;
  }
  /// With paths below Attempt::artifact_dir.
  std::vector<executor::NeededArtifact> artifacts;
  std::string context = R"({"input":{"x":1}})";
};

/// The supervisor that was built with this test.
std::string SupervisorPath();

/// Options of an executor whose state is below `folder`, with a mark of its own.
ProcessExecutorOptions OptionsOf(const std::string& folder);

/// An attempt of a workflow of one task; `edit` shapes the task.
executor::Attempt AttemptOf(std::int64_t run, std::int64_t epoch, model::Task task,
                            const std::string& base_dir,
                            std::map<std::string, std::string> workflow_env = {});
model::Task Shell(std::string script);
model::Task Exec(std::vector<std::string> argv);

/// An executor with everything that it needs, on a folder of its own.
class ExecutorTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void TearDown() override { executor_.reset(); }

  virtual ProcessExecutorOptions Options() const { return OptionsOf(folder_.path()); }
  void Open();

  executor::Attempt Next(model::Task task, std::map<std::string, std::string> workflow_env = {});
  /// Offers and waits for the verdict.
  model::Outcome Run(const executor::Attempt& attempt);
  model::Outcome Run(model::Task task) { return Run(Next(std::move(task))); }
  /// The log of an attempt, one string per line.
  std::vector<log_store::Line> Lines(const executor::Attempt& attempt);
  std::vector<std::string> Texts(const executor::Attempt& attempt);

  TemporaryFolder folder_;
  SystemClock clock_;
  NullLogger log_;
  FixedResolver resolver_;
  std::unique_ptr<log_store::LogStore> logs_ = log_store::NewMemoryLogStore();
  RecordingSink sink_;
  std::unique_ptr<executor::StartLedger> ledger_;
  std::unique_ptr<artifact_store::ArtifactStore> artifacts_;
  std::unique_ptr<ProcessExecutor> executor_;
  std::int64_t last_epoch_ = 0;
};

}  // namespace headworks::executor_process::testing
