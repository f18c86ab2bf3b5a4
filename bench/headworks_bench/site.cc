#include "site.h"

#include <fmt/format.h>

#include <utility>

#include "headworks/author/author.h"

namespace headworks::bench {
namespace {

/// No workload takes longer; one that does hangs.
constexpr auto kPatience = std::chrono::minutes(9);
/// Below the engine's bound of starts that wait for their round.
constexpr std::int64_t kStartsAtOnce = 20'000;

template <typename T>
T Must(Result<T> result) {
  if (!result) Die(result.error().message);
  return *std::move(result);
}
void Must(const Status& status) {
  if (!status) Die(status.error().message);
}

void Hold(TaskContext& context) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait(lock, context.stop_token(), [] { return false; });
  throw Cancelled();
}

}  // namespace

Site::Site(fs::path database) : database_(std::move(database)) {
  options.database_url = "sqlite:" + database_.string();
  options.registry = &registry_;
  options.drain_timeout = std::chrono::milliseconds(100);
  options.on_event = [this](const RunEvent& event) { OnEvent(event); };
  Must(registry_.Register({.task = "nothing"}, MakeTask([] {}), "bench"));
  Must(registry_.Register({.task = "hold"}, MakeTask(Hold), "bench"));
}

Site::~Site() { Close(); }

void Site::Open() { runner_ = Must(Runner::Open(options)); }

void Site::Close() {
  if (!runner_) return;
  Must(runner_->Shutdown());
  runner_.reset();
}

void Site::OnEvent(const RunEvent& event) {
  if (watch) watch(event);
  const bool end = !event.task && model::IsTerminal(event.run_state);
  const std::scoped_lock lock(mutex_);
  if (end) {
    ++ended_;
    if (event.run_state != model::RunState::kSucceeded) ++failed_;
  }
  if (awaited_ != nullptr && (*awaited_)()) {
    awaited_ = nullptr;
    changed_.notify_one();
  }
}

void Site::Register(const std::shared_ptr<const model::Workflow>& workflow) {
  Must(runner_->Register(workflow));
}

void Site::StartMany(const std::string& workflow, std::int64_t count) {
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t answered = 0;
  const auto done = [&](const Result<RunHandle>& handle) {
    if (!handle) Die(handle.error().message);
    const std::scoped_lock lock(mutex);
    ++answered;
    changed.notify_one();
  };
  for (std::int64_t started = 0; started < count; ++started) {
    if (std::unique_lock lock(mutex); started - answered >= kStartsAtOnce)
      changed.wait(lock, [&] { return started - answered < kStartsAtOnce / 2; });
    runner_->StartAsync(workflow, {}, done);
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return answered == count; });
}

void Site::AwaitEnds(std::int64_t count) {
  Await([&] { return ended_ >= count; });
  if (failed_ > 0) Die(fmt::format("{} runs did not succeed", failed_));
}

void Site::Await(const std::function<bool()>& condition) {
  std::unique_lock lock(mutex_);
  if (condition()) return;
  awaited_ = &condition;
  if (!changed_.wait_for(lock, kPatience, [&] { return awaited_ == nullptr; }))
    Die(fmt::format("waited for too long; {} runs ended", ended_));
}

std::shared_ptr<const model::Workflow> SingleTask(const std::string& name, model::Action action) {
  model::WorkflowDefinition definition;
  definition.name.workflow = name;
  definition.tasks.emplace_back();
  definition.tasks[0].id = "only";
  definition.tasks[0].action = std::move(action);
  return Must(model::Workflow::Create(std::move(definition)));
}

}  // namespace headworks::bench
