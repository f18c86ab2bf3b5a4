#include "controls.h"

#include <fmt/format.h>

#include <future>
#include <thread>

namespace headworks {
namespace {

constexpr Duration kAskInterval = std::chrono::milliseconds(10);

/// Waits for an answer that the engine gives on its own thread.
template <typename T>
T WaitFor(std::future<T>& answer, Duration timeout) {
  if (answer.wait_for(timeout) == std::future_status::ready) return answer.get();
  return Error{Code::kUnavailable, fmt::format("no answer from the engine within {}; what was "
                                               "asked is still under way",
                                               FormatDuration(timeout))};
}

}  // namespace

Result<control::Started> EngineControl::Start(const control::StartRequest& request,
                                              Duration timeout) {
  // Shared with the callback, which may come after this call gave up.
  auto promise = std::make_shared<std::promise<Result<control::Started>>>();
  auto answer = promise->get_future();
  engine_.Start(request, [promise](Result<control::Started> started) {
    promise->set_value(std::move(started));
  });
  return WaitFor(answer, timeout);
}

Status EngineControl::Execute(const control::Command& command, Duration timeout) {
  auto promise = std::make_shared<std::promise<Status>>();
  auto answer = promise->get_future();
  engine_.Execute(command, [promise](Status status) { promise->set_value(std::move(status)); });
  return WaitFor(answer, timeout);
}

Result<control::Started> InboxControl::Start(const control::StartRequest& request,
                                             Duration timeout) {
  HEADWORKS_TRY(control::CheckStart(request));
  HEADWORKS_ASSIGN(const auto answer, Ask({.tenant = request.tenant,
                                           .shard = model::ShardOf(request.name),
                                           .kind = "start",
                                           .payload = control::EncodeStart(request)},
                                          timeout));
  return control::Started{answer.run, answer.run_id, false};
}

Status InboxControl::Execute(const control::Command& command, Duration timeout) {
  HEADWORKS_ASSIGN(const auto run,
                   database_.query().GetRun(command.tenant, std::to_string(command.run.value)));
  HEADWORKS_ASSIGN(const auto answer,
                   Ask({.tenant = command.tenant,
                        .shard = run.header.shard,
                        .kind = std::string(control::CommandKindName(command.kind)),
                        .run = command.run,
                        .payload = control::EncodeCommand(command)},
                       timeout));
  return {};
}

Result<store::Answer> InboxControl::Ask(store::InboxRow row, Duration timeout) {
  row.dedupe_key = NewUuidV7(clock_.Now(), random_);
  row.appended_at = clock_.Now();
  HEADWORKS_TRY(database_.inbox().Append({&row, 1}));
  const Duration deadline = clock_.Monotonic() + timeout;
  for (;;) {
    HEADWORKS_ASSIGN(auto answer, database_.inbox().GetAnswer(row.tenant, row.dedupe_key));
    if (answer && answer->error) return *answer->error;
    if (answer) return *std::move(answer);
    if (clock_.Monotonic() >= deadline)
      return Error{Code::kUnavailable,
                   fmt::format("no engine answered within {}; what was asked is stored and will "
                               "happen when one runs (headworks up)",
                               FormatDuration(timeout))};
    std::this_thread::sleep_for(kAskInterval);  // tidy-allow(sleep): another process answers
  }
}

}  // namespace headworks
