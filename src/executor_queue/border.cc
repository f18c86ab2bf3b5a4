#include "border.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <set>

#include "headworks/base/json.h"
#include "headworks/base/tenant.h"
#include "headworks/base/text.h"
#include "headworks/model/declared_type.h"

namespace headworks::executor_queue {
namespace {

using model::Outcome;
using model::Reason;
using model::Verdict;

constexpr std::size_t kMaxPlainBytes = 256;  // of what is only shown
constexpr std::size_t kMaxFileNameBytes = 255;
constexpr std::size_t kDigestDigits = 64;
constexpr Instant kLastInstant =
    std::chrono::sys_days(std::chrono::year(10'000) / 1 / 1) - Duration(1);

Error Bad(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Status CheckName(std::string_view what, std::string_view name) {
  if (worker_api::IsName(name)) return {};
  return Bad(fmt::format("{} {} is no name; give 1 to {} letters, digits, '_' or '-'", what,
                         QuoteJson(name.substr(0, kMaxPlainBytes)), worker_api::kMaxNameBytes));
}

Status CheckPlain(std::string_view what, std::string_view text) {
  if (text.size() > kMaxPlainBytes || ValidUtf8Prefix(text) != text.size())
    return Bad(fmt::format("{} is longer than {} bytes, or no UTF-8", what, kMaxPlainBytes));
  return {};
}

Status CheckDigest(std::string_view text) {
  if (text.size() == kDigestDigits &&
      text.find_first_not_of("0123456789abcdef") == std::string_view::npos)
    return {};
  return Bad(fmt::format("{} is no SHA-256; give {} digits in lower-case hex",
                         QuoteJson(text.substr(0, kMaxPlainBytes)), kDigestDigits));
}

void Cut(std::string& text) {
  if (ValidUtf8Prefix(text) != text.size()) text = ReplaceInvalidUtf8(text);
  if (text.size() <= kMaxErrorBytes) return;
  text.resize(kMaxErrorBytes);
  text.resize(ValidUtf8Prefix(text));
}

/// Why the output is none.
Status CheckOutput(const model::OutputSpec& spec, Outcome& outcome) {
  if (outcome.output.size() > kMaxOutputBytes)
    return Bad(
        fmt::format("the task's output has more than {} bytes; write large data elsewhere, "
                    "and output its name",
                    kMaxOutputBytes));
  boost::json::object object;
  if (!outcome.output.empty()) {
    HEADWORKS_ASSIGN(object, ParseJsonObject(outcome.output, "the task's output",
                                             {.max_bytes = kMaxOutputBytes}));
    outcome.output = CanonicalJson(object);
  }
  return model::CheckOutput(spec, object);
}

/// Why these are not what the task is to leave; empty = they are.
std::string ProblemOf(const model::Task& task, const model::Artifacts& artifacts) {
  for (const auto& [name, path] : task.artifacts)
    if (!artifacts.contains(name))
      return fmt::format("artifact {} ({}) was not passed on by its worker", name, path);
  for (const auto& [name, artifact] : artifacts) {
    if (!task.artifacts.contains(name))
      return fmt::format("the task leaves no artifact {}",
                         QuoteJson(std::string_view(name).substr(0, kMaxPlainBytes)));
    if (artifact.file.size() > kMaxFileNameBytes ||
        ValidUtf8Prefix(artifact.file) != artifact.file.size())
      return fmt::format("artifact {}: its name is longer than {} bytes, or no UTF-8", name,
                         kMaxFileNameBytes);
  }
  return {};
}

/// The reasons that a holder may give for a verdict; others are the engine's.
Reason ReasonOf(Verdict verdict, Reason said) {
  switch (verdict) {
    case Verdict::kSucceeded:
    case Verdict::kSkipped:
    case Verdict::kInterrupted:
      return Reason::kNone;
    case Verdict::kLost:
      return Reason::kLost;
    case Verdict::kSnoozed:
      return Reason::kSnooze;
    case Verdict::kCancelled:
      return Reason::kCancelRequested;
    case Verdict::kRetry:
    case Verdict::kFailed:
      break;
  }
  switch (said) {
    case Reason::kExitCode:
    case Reason::kSignal:
    case Reason::kTimeout:
    case Reason::kOutput:
    case Reason::kSpawn:
    case Reason::kExpression:
    case Reason::kDispatchFailed:
    case Reason::kArtifact:
      return said;
    default:
      return Reason::kError;
  }
}

}  // namespace

Status CheckIdentity(const worker_api::Identity& who) {
  HEADWORKS_TRY(CheckTenantName(who.tenant.value));
  HEADWORKS_TRY(CheckName("worker", who.worker));
  HEADWORKS_TRY(CheckName("incarnation", who.incarnation));
  if (HolderOf(who) == kWithdrawer)
    return Bad(fmt::format("the engine itself goes by the name {}; choose another", kWithdrawer));
  return {};
}

Status CheckRegistration(const worker_api::Registration& registration) {
  if (registration.protocol != worker_api::kProtocol)
    return Error{Code::kConflict,
                 fmt::format("the worker speaks protocol {}, this engine {}; use the same version "
                             "of both",
                             registration.protocol, worker_api::kProtocol)};
  HEADWORKS_TRY(CheckIdentity(registration.who));
  if (registration.slots.empty() || registration.slots.size() > worker_api::kMaxQueues)
    return Bad(fmt::format("the worker serves {} queues; 1 to {}", registration.slots.size(),
                           worker_api::kMaxQueues));
  std::uint64_t slots = 0;
  for (const auto& [queue, count] : registration.slots) {
    HEADWORKS_TRY(CheckName("queue", queue));
    if (count == 0) return Bad(fmt::format("queue '{}' has no slots; give at least 1", queue));
    slots += count;
  }
  if (slots > worker_api::kMaxSlots)
    return Bad(fmt::format("the worker has {} slots over all its queues; at most {}", slots,
                           worker_api::kMaxSlots));
  if (registration.labels.size() > worker_api::kMaxLabels)
    return Bad(fmt::format("the worker has {} labels; at most {}", registration.labels.size(),
                           worker_api::kMaxLabels));
  for (const std::string& label : registration.labels)
    if (label.empty() || label.size() > worker_api::kMaxLabelBytes ||
        ValidUtf8Prefix(label) != label.size())
      return Bad(fmt::format("label {} is empty, longer than {} bytes, or no UTF-8",
                             QuoteJson(label.substr(0, kMaxPlainBytes)),
                             worker_api::kMaxLabelBytes));
  if (!registration.artifact_dir.empty() &&
      (registration.artifact_dir[0] != '/' ||
       registration.artifact_dir.size() > worker_api::kMaxPathBytes ||
       registration.artifact_dir.find('\0') != std::string::npos ||
       ValidUtf8Prefix(registration.artifact_dir) != registration.artifact_dir.size()))
    return Bad(fmt::format("artifact_dir {} is not absolute, longer than {} bytes, or no UTF-8",
                           QuoteJson(registration.artifact_dir.substr(0, kMaxPlainBytes)),
                           worker_api::kMaxPathBytes));
  HEADWORKS_TRY(CheckPlain("version", registration.version));
  return CheckPlain("host", registration.host);
}

Status CheckPoll(const worker_api::Poll& poll, const worker_api::Registration& registration) {
  std::uint64_t free = 0;
  for (const auto& [queue, count] : poll.free) {
    const auto slots = registration.slots.find(queue);
    if (slots == registration.slots.end())
      return Bad(fmt::format("queue {} is none that the worker registered for",
                             QuoteJson(std::string_view(queue).substr(0, kMaxPlainBytes))));
    if (count > slots->second)
      return Bad(fmt::format("the worker has room for {} attempts of queue '{}', and {} slots",
                             count, queue, slots->second));
    free += count;
  }
  if (free == 0) return Bad("the worker has no room; poll once it has");
  if (poll.wait < Duration(0) || poll.wait > worker_api::kMaxWait)
    return Bad(fmt::format("a poll that waits {}us; 0 to {}", poll.wait.count(),
                           FormatDuration(worker_api::kMaxWait)));
  return {};
}

Status AcceptLines(std::vector<log_store::Line>& lines) {
  std::int64_t last = 0;
  for (log_store::Line& line : lines) {
    if (line.number <= last)
      return Bad(fmt::format("line {} after line {}: numbers begin at 1 and rise from line to line",
                             line.number, last));
    last = line.number;
    if (line.bytes.find('\n') != std::string::npos)
      return Bad(fmt::format("line {} has a newline in it; say several lines", line.number));
    line.at = std::clamp(line.at, Instant{}, kLastInstant);
  }
  return {};
}

Status CheckPut(const worker_api::ArtifactPut& put) {
  HEADWORKS_TRY(CheckName("upload", put.upload));
  return put.sha256.empty() ? Status() : CheckDigest(put.sha256);
}

Status CheckGet(const worker_api::ArtifactGet& get) { return CheckDigest(get.sha256); }

std::string HolderOf(const worker_api::Identity& who) { return who.worker + "/" + who.incarnation; }

worker_api::Identity IdentityOf(const TenantId& tenant, std::string_view holder) {
  const std::size_t slash = std::min(holder.find('/'), holder.size());
  return {tenant, std::string(holder.substr(0, slash)),
          std::string(holder.substr(std::min(slash + 1, holder.size())))};
}

Result<Outcome> AcceptOutcome(const model::Task& task, Outcome said, Instant began, Instant now) {
  const auto number = static_cast<unsigned>(said.verdict);
  if (number < static_cast<unsigned>(Verdict::kSucceeded) ||
      number > static_cast<unsigned>(Verdict::kLost))
    return Bad(fmt::format("{} is no verdict", number));
  said.reason = ReasonOf(said.verdict, said.reason);
  Cut(said.error);
  // Its worker's clock may be anywhere: what is between two of its times is good, they are not.
  const Instant its_now = said.ended_at == Instant{}
                              ? now
                              : std::clamp(said.ended_at, Instant{}, kNever - kLongestSnooze);
  said.not_before =
      said.verdict == Verdict::kSnoozed
          ? now + (std::clamp(said.not_before, its_now, its_now + kLongestSnooze) - its_now)
          : Instant{};
  said.started_at = began;
  said.ended_at = now;
  // Only one that succeeded has to have the output that its task declares, and has artifacts.
  const bool succeeded = said.verdict == Verdict::kSucceeded;
  auto result = model::ReadResult(said.output);
  said.output = result ? std::move(result->output) : std::string();
  const auto failed = [&](Reason reason, std::string why) {
    said.output.clear();
    said.verdict = Verdict::kFailed;
    said.reason = reason;
    said.error = std::move(why);
    Cut(said.error);
    return said;
  };
  if (!result && succeeded) return failed(Reason::kOutput, result.error().message);
  const Status good = CheckOutput(succeeded ? task.output : model::OutputSpec{}, said);
  if (!good && succeeded) return failed(Reason::kOutput, good.error().message);
  if (!good) said.output.clear();
  if (!succeeded) return said;
  if (std::string problem = ProblemOf(task, result->artifacts); !problem.empty())
    return failed(Reason::kArtifact, std::move(problem));
  result->output = std::move(said.output);
  said.output = model::WriteResult(*result);
  return said;
}

}  // namespace headworks::executor_queue
