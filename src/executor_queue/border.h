#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headworks/executor/executor.h"
#include "headworks/log_store/log_store.h"
#include "headworks/worker_api/worker_service.h"

/// What comes from workers, who are not trusted, is checked here.
namespace headworks::executor_queue {

using worker_api::kMaxErrorBytes;
using worker_api::kMaxOutputBytes;
/// The holder that ends what has not begun: the engine itself, and no worker.
inline constexpr std::string_view kWithdrawer = "queue/withdrawn";
/// A snooze ends by then.
inline constexpr Duration kLongestSnooze = std::chrono::hours(24 * 365);

/// Errors name the field and its bound.
Status CheckIdentity(const worker_api::Identity& who);
/// kConflict: another protocol.
Status CheckRegistration(const worker_api::Registration& registration);
Status CheckPoll(const worker_api::Poll& poll, const worker_api::Registration& registration);

/// Lines of one Log.  Times beyond what a calendar has are brought there.  kInvalidArgument:
/// numbers that are below 1 or do not rise, or a newline.
Status AcceptLines(std::vector<log_store::Line>& lines);

/// "worker/incarnation": the holder of what this worker begins.
std::string HolderOf(const worker_api::Identity& who);
worker_api::Identity IdentityOf(const TenantId& tenant, std::string_view holder);

/// kInvalidArgument: a name or digest that is none.
Status CheckPut(const worker_api::ArtifactPut& put);
Status CheckGet(const worker_api::ArtifactGet& get);

/// What is made of a verdict.  Texts are cut, times are this clock's, and an output that is none,
/// or artifacts that are not those of the task, are a failure of the task's.  kInvalidArgument: no
/// verdict.
Result<model::Outcome> AcceptOutcome(const model::Task& task, model::Outcome said, Instant began,
                                     Instant now);

}  // namespace headworks::executor_queue
