#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "follow.h"
#include "output.h"

namespace headworks::cli {
namespace {

class PlainPresenter final : public Presenter {
 public:
  PlainPresenter(std::FILE* stream, const Terminal& terminal)
      : stream_(stream), terminal_(terminal) {}

  void Update(const RunView& view, std::span<const log_store::Entry> fresh, Instant now) override {
    if (view.tasks.empty()) {
      ShowCounts(view, now);
      return;
    }
    std::vector<log_store::Entry> lines = std::exchange(held_, {});
    lines.insert(lines.end(), fresh.begin(), fresh.end());
    if (states_.empty()) FirstStates(view);
    for (const model::AttemptRecord& attempt : view.attempts)
      if (!ended_.contains(attempt.epoch.value)) {
        if (!CameTooLate(attempt) && !NeverBegan(view, attempt))
          Started(view, attempt.task, attempt.epoch, attempt.queued_at);
        for (const log_store::Entry& line : lines)
          if (line.attempt.epoch == attempt.epoch) ShowLine(view, line);
        Ended(view, attempt);
      }
    for (std::uint32_t no = 0; no < view.tasks.size(); ++no)
      if (view.tasks[no].state == model::TaskState::kRunning)
        Started(view, TaskNo(no), view.tasks[no].epoch, view.tasks[no].since);
    for (const log_store::Entry& line : lines) {
      const std::int64_t epoch = line.attempt.epoch.value;
      if (printed_with_end_.contains(epoch) || skipped_.contains(epoch)) continue;
      const model::TaskRun& task = view.tasks[line.attempt.task.value];
      // Read after the view: what came before its attempt is not known yet.
      if (task.epoch < line.attempt.epoch) {
        held_.push_back(line);
        continue;
      }
      Started(view, line.attempt.task, line.attempt.epoch, task.since);
      ShowLine(view, line);
    }
    printed_with_end_.clear();
    ShowSettled(view, kNever);
    std::fflush(stream_);
  }

  bool ShowsPicked() const override { return false; }

  void Skip(const RunView& before) override {
    before_ = before;
    for (const model::AttemptRecord& attempt : before.attempts)
      skipped_.insert(attempt.epoch.value);
    ended_ = started_ = skipped_;
  }

  void Say(std::string_view text) override {
    Write(text);
    std::fflush(stream_);
  }

 private:
  void Write(std::string_view text) { fmt::print(stream_, "{}\n", text); }

  void FirstStates(const RunView& view) {
    states_.resize(view.tasks.size(), model::TaskState::kWaiting);
    if (before_.tasks.size() != view.tasks.size()) return;
    for (std::uint32_t no = 0; no < view.tasks.size(); ++no)
      if (IsKept(before_, view, TaskNo(no))) states_[no] = view.tasks[no].state;
  }

  /// What settled until `since` comes before it.
  void Started(const RunView& view, TaskNo task, Epoch epoch, Instant since) {
    if (!started_.insert(epoch.value).second) return;
    ShowSettled(view, since);
    Write(fmt::format("task {} started", view.id(task)));
  }

  void ShowLine(const RunView& view, const log_store::Entry& entry) {
    Write(fmt::format("{} | {}", view.id(entry.attempt.task), terminal_.Foreign(entry.line.bytes)));
  }

  void Ended(const RunView& view, const model::AttemptRecord& attempt) {
    ended_.insert(attempt.epoch.value);
    printed_with_end_.insert(attempt.epoch.value);
    if (CameTooLate(attempt)) return;
    const model::Outcome& outcome = attempt.outcome;
    const std::string took = FormatDuration(
        std::max(outcome.ended_at - std::max(outcome.started_at, attempt.queued_at), Duration(0)));
    const std::string& id = view.id(attempt.task);
    using enum model::Verdict;
    switch (outcome.verdict) {
      case kSucceeded:
        Write(fmt::format("task {} {} in {}", id,
                          terminal_.Paint(model::TaskState::kSucceeded, "succeeded"), took));
        return;
      case kSkipped:
        Write(fmt::format("task {} skipped itself after {}", id, took));
        return;
      case kSnoozed:
        Write(fmt::format("task {} snoozes until {}", id, FormatInstant(outcome.not_before)));
        return;
      case kInterrupted:
        Write(fmt::format("task {} interrupted after {}; it runs again, no try is used", id, took));
        return;
      case kCancelled:
        if (StoppedByDeadline(view, attempt)) break;
        Write(fmt::format("task {} {} after {}", id,
                          terminal_.Paint(model::TaskState::kCancelled, "cancelled"), took));
        return;
      case kRetry:
      case kFailed:
      case kLost:
        break;
    }
    const model::TaskRun& task = view.tasks[attempt.task.value];
    const bool again = task.state == model::TaskState::kParked && task.epoch == attempt.epoch;
    Write(fmt::format(
        "task {} {}{} in {}{}: {}{}", id,
        terminal_.Paint(model::TaskState::kFailed, outcome.verdict == kLost ? "lost" : "failed"),
        IsAllowedFailure(view, attempt.task) && task.epoch == attempt.epoch ? " (allowed)" : "",
        took, DescribeTry(view, attempt), DescribeEnd(view, attempt),
        again ? fmt::format("; next try at {}", FormatInstant(task.not_before)) : std::string()));
  }

  /// Tasks that settled otherwise than by the end of an attempt.
  void ShowSettled(const RunView& view, TaskNo no, Instant until) {
    const model::TaskRun& task = view.tasks[no.value];
    if (states_[no.value] == task.state || task.since > until) return;
    states_[no.value] = task.state;
    if (!model::IsTerminal(task.state)) return;
    const model::AttemptRecord* last = view.LastAttempt(no);
    const bool between_tries = task.reason == model::Reason::kDeadline && last != nullptr &&
                               !StoppedByDeadline(view, *last);
    const bool before_end =
        last != nullptr && last->epoch == task.epoch && CameTooLate(*last);  // and not told by it
    if (ended_.contains(task.epoch.value) && !between_tries && !before_end &&
        task.reason != model::Reason::kMarked)
      return;
    const std::string why = DescribeReason(view, no);
    Write(fmt::format("task {} {}{}", view.id(no),
                      terminal_.Paint(task.state, model::TaskStateName(task.state)),
                      why.empty()                 ? std::string()
                      : why.find(' ') == why.npos ? fmt::format(" ({})", why)
                                                  : ": " + why));
  }

  void ShowSettled(const RunView& view, Instant until) {
    for (std::uint32_t no = 0; no < view.tasks.size(); ++no) ShowSettled(view, TaskNo(no), until);
  }

  /// For large runs: at most a line a second, when something changed.
  void ShowCounts(const RunView& view, Instant now) {
    const bool over = model::IsTerminal(view.header.state);
    if (view.header.counts == counts_ || (!over && now - counted_at_ < std::chrono::seconds(1)))
      return;
    counts_ = view.header.counts;
    counted_at_ = now;
    Write(fmt::format("{} of {} tasks over, {} running, {} failed, after {}", view.settled(),
                      view.workflow->size(), view.count(model::TaskState::kRunning),
                      view.count(model::TaskState::kFailed), FormatDuration(view.Elapsed(now))));
    std::fflush(stream_);
  }

  std::FILE* stream_;
  Terminal terminal_;
  std::unordered_set<std::int64_t> started_;           // epochs
  std::unordered_set<std::int64_t> ended_;             // epochs
  std::unordered_set<std::int64_t> printed_with_end_;  // epochs, within one Update
  std::vector<log_store::Entry> held_;                 // for the next Update
  std::vector<model::TaskState> states_;
  RunView before_;                            // as Skip was told
  std::unordered_set<std::int64_t> skipped_;  // epochs
  std::array<std::uint32_t, model::kTaskStateCount> counts_{};
  Instant counted_at_{};
};

}  // namespace

std::unique_ptr<Presenter> NewPlainPresenter(std::FILE* stream, const Terminal& terminal) {
  return std::make_unique<PlainPresenter>(stream, terminal);
}

}  // namespace headworks::cli
