#include "tests/harness.h"

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "supervisor/proc.h"

namespace headworks::executor_process::testing {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  path_ = (fs::temp_directory_path() / "headworks-process-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) std::abort();
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

bool WaitUntil(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

bool Alive(pid_t pid) {
  supervisor::Process process;
  return pid > 0 && supervisor::ReadProcess(pid, process) && process.state != 'Z';
}

std::vector<pid_t> ProcessesWith(const std::string& text) {
  std::vector<pid_t> pids;
  for (const supervisor::Process& p : supervisor::ListProcesses()) {
    const std::string line = ReadText("/proc/" + std::to_string(p.pid) + "/cmdline");
    if (p.state != 'Z' && p.pid != getpid() && line.find(text) != std::string::npos) {
      pids.push_back(p.pid);
    }
  }
  return pids;
}

std::string ReadText(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

pid_t PidFrom(const std::string& file) {
  WaitUntil([&] { return ReadText(file).ends_with('\n'); });
  return std::atoi(ReadText(file).c_str());
}

bool CanMakeGroup(const std::vector<supervisor::CgroupPlace>& places) {
  const std::string group = supervisor::MakeGroup(places, "test-" + std::to_string(getpid()));
  supervisor::RemoveGroup(group);
  return !group.empty();
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void RecordingSink::Started(const model::AttemptKey& key) {
  const std::scoped_lock lock(mutex_);
  ++started_[key];
  changed_.notify_all();
}
void RecordingSink::Ended(const model::AttemptKey& key, model::Outcome outcome) {
  std::unique_lock lock(mutex_);
  const auto call = on_ended_;
  lock.unlock();
  if (call) call(key);
  lock.lock();
  ended_[key] = std::move(outcome);
  ++ends_;
  changed_.notify_all();
}
void RecordingSink::CapacityChanged() { changed_.notify_all(); }

void RecordingSink::OnEnded(std::function<void(const model::AttemptKey&)> call) {
  const std::scoped_lock lock(mutex_);
  on_ended_ = std::move(call);
}
bool RecordingSink::AwaitStarted(const model::AttemptKey& key) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return started_.contains(key); });
}
model::Outcome RecordingSink::Await(const model::AttemptKey& key) {
  std::unique_lock lock(mutex_);
  const bool came = changed_.wait_for(lock, kPatience, [&] { return ended_.contains(key); });
  EXPECT_TRUE(came) << "no verdict came for epoch " << key.epoch.value;
  return came ? ended_[key] : model::Outcome{};
}
std::size_t RecordingSink::starts() const {
  const std::scoped_lock lock(mutex_);
  return started_.size();
}
std::size_t RecordingSink::ends() const {
  const std::scoped_lock lock(mutex_);
  return ends_;
}

std::string SupervisorPath() {
  return (fs::read_symlink("/proc/self/exe").parent_path() / "headworks-supervisor").string();
}

executor::Attempt AttemptOf(std::int64_t run, std::int64_t epoch, model::Task task,
                            const std::string& base_dir,
                            std::map<std::string, std::string> workflow_env) {
  if (task.id.empty()) task.id = "t";
  model::WorkflowDefinition definition;
  definition.name.workflow = "w";
  definition.base_dir = base_dir;
  definition.env = std::move(workflow_env);
  definition.tasks = {std::move(task)};
  auto workflow = model::Workflow::Create(std::move(definition));
  EXPECT_TRUE(workflow) << workflow.error().message;
  executor::Attempt attempt;
  attempt.key.tenant = TenantId("public");
  attempt.key.run = RunNo(run);
  attempt.key.epoch = Epoch(epoch);
  attempt.run_id = RunId("run-" + std::to_string(run));
  attempt.timeout = (*workflow)->task(TaskNo(0)).timeout;
  attempt.workflow = *workflow;
  return attempt;
}

ProcessExecutorOptions OptionsOf(const std::string& folder) {
  ProcessExecutorOptions options;
  options.supervisor_path = SupervisorPath();
  options.state_dir = folder + "/state";
  // Tests run side by side: each has marks of its own.
  options.store_id = fs::path(folder).filename().string();
  return options;
}

model::Task Shell(std::string script) {
  model::Task task;
  task.action = model::ShellAction{.script = std::move(script)};
  return task;
}
model::Task Exec(std::vector<std::string> argv) {
  model::Task task;
  task.action = model::ExecAction{std::move(argv)};
  return task;
}

void ExecutorTest::Open() {
  auto ledger = executor::StartLedger::Open(folder_.path() + "/started", "boot",
                                            LedgerCapacity(Options()), RunNo(1));
  ASSERT_TRUE(ledger) << ledger.error().message;
  ledger_ = *std::move(ledger);
  auto opened = ProcessExecutor::Open(Options(), {.resolver = resolver_,
                                                  .log_store = *logs_,
                                                  .clock = clock_,
                                                  .log = log_,
                                                  .ledger = ledger_.get(),
                                                  .artifacts = artifacts_.get()});
  ASSERT_TRUE(opened) << opened.error().message;
  executor_ = *std::move(opened);
  ASSERT_TRUE(executor_->Start(sink_));
}

executor::Attempt ExecutorTest::Next(model::Task task,
                                     std::map<std::string, std::string> workflow_env) {
  return AttemptOf(1, ++last_epoch_, std::move(task), folder_.path(), std::move(workflow_env));
}

model::Outcome ExecutorTest::Run(const executor::Attempt& attempt) {
  const executor::OfferResult offered = executor_->Offer(attempt);
  EXPECT_EQ(offered.disposition, model::Disposition::kDispatched) << offered.cause;
  return sink_.Await(attempt.key);
}

std::vector<log_store::Line> ExecutorTest::Lines(const executor::Attempt& attempt) {
  log_store::Query query;
  query.tenant = attempt.key.tenant;
  query.run = attempt.key.run;
  query.epoch = attempt.key.epoch;
  query.max_lines = log_store::kMaxPageLines;
  std::vector<log_store::Line> lines;
  for (bool more = true; more;) {
    const auto page = logs_->Read(query);
    EXPECT_TRUE(page) << page.error().message;
    if (!page) break;
    for (const log_store::Entry& entry : page->entries) lines.push_back(entry.line);
    query.after = page->next;
    more = page->more;
  }
  return lines;
}

std::vector<std::string> ExecutorTest::Texts(const executor::Attempt& attempt) {
  std::vector<std::string> texts;
  for (const log_store::Line& line : Lines(attempt)) texts.push_back(line.bytes);
  return texts;
}

}  // namespace headworks::executor_process::testing
