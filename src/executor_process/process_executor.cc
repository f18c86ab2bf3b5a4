#include "headworks/executor_process/process_executor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "impl.h"

namespace headworks::executor_process {

Result<std::string> FindSupervisor(const std::string& given) {
  std::error_code error;
  if (!given.empty()) {
    const auto path = std::filesystem::absolute(given, error);
    if (!error && access(path.c_str(), X_OK) == 0) return path.string();
    return Error{Code::kInvalidArgument,
                 fmt::format("supervisor_path {} is not an executable file", given)};
  }
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"headworks-supervisor", "../libexec/headworks/headworks-supervisor"}) {
    std::string path = (folder / place).string();
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return Error{Code::kNotFound,
               fmt::format("headworks-supervisor is neither in {} nor in ../libexec/headworks from "
                           "there; install it, or set supervisor_path",
                           folder.string())};
}

ProcessExecutor::ProcessExecutor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ProcessExecutor::~ProcessExecutor() = default;

std::size_t LedgerCapacity(const ProcessExecutorOptions& options) {
  return options.max_concurrent + options.max_unsettled;
}

Result<std::unique_ptr<ProcessExecutor>> ProcessExecutor::Open(ProcessExecutorOptions options,
                                                               const ProcessPorts& ports) {
  if (options.max_concurrent == 0 || options.max_unsettled == 0 || options.store_id.empty() ||
      options.state_dir.empty()) {
    return Error{
        Code::kInvalidArgument,
        "the process executor needs max_concurrent, max_unsettled, store_id and state_dir"};
  }
  if (ports.ledger != nullptr && ports.ledger->capacity() < LedgerCapacity(options)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("process executor: the start ledger has room for {} marks; open it "
                             "with at least {}",
                             ports.ledger->capacity(), LedgerCapacity(options))};
  }
  HEADWORKS_ASSIGN(options.supervisor_path, FindSupervisor(options.supervisor_path));
  HEADWORKS_ASSIGN(auto folder, StateFolder::Open(options.state_dir));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(folder), ports);
  HEADWORKS_TRY(impl->Open());
  return std::unique_ptr<ProcessExecutor>(new ProcessExecutor(std::move(impl)));
}

Status ProcessExecutor::Start(executor::AttemptSink& sink) { return impl_->Start(sink); }
executor::OfferResult ProcessExecutor::Offer(const executor::Attempt& attempt) {
  return impl_->Offer(attempt, std::nullopt);
}
executor::OfferResult ProcessExecutor::OfferUntil(const executor::Attempt& attempt,
                                                  Duration kill_at) {
  return impl_->Offer(attempt, kill_at);
}
void ProcessExecutor::Cancel(const model::AttemptKey& key) { impl_->Cancel(key); }
executor::Capacity ProcessExecutor::GetCapacity() const { return impl_->GetCapacity(); }
Result<std::vector<executor::Inspection>> ProcessExecutor::Inspect(
    std::span<const executor::Attempt> attempts) {
  return impl_->Inspect(attempts);
}
std::vector<model::AttemptKey> ProcessExecutor::List() const { return impl_->List(); }
executor::Metrics ProcessExecutor::GetMetrics() const { return impl_->GetMetrics(); }
void ProcessExecutor::Settled(std::span<const model::AttemptKey> keys) { impl_->Settled(keys); }
Status ProcessExecutor::Drain(Duration timeout) { return impl_->Drain(timeout); }
void ProcessExecutor::KillAt(const model::AttemptKey& key, Duration at) { impl_->KillAt(key, at); }
void ProcessExecutor::KillAllAt(Duration at) { impl_->KillAllAt(at); }
std::string ProcessExecutor::ArtifactRoot() const { return impl_->ArtifactRoot(); }
std::string ProcessExecutor::ScratchOf(const std::string& state_dir, const RunId& run_id) {
  return ScratchFolders(StateFolder::ScratchRoot(state_dir)).PathOf(run_id);
}
Status ProcessExecutor::RemoveScratch(const RunId& run_id) { return impl_->RemoveScratch(run_id); }

}  // namespace headworks::executor_process
