#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "follow.h"
#include "output.h"

namespace headworks::cli {
namespace {

class PlainPresenter final : public Presenter {
 public:
  PlainPresenter(Outlet& outlet, const Terminal& terminal) : outlet_(outlet), terminal_(terminal) {}

  Result<bool> Update(const RunView& view, LineReader& lines, Instant now) override {
    if (!outlet_.Pump() && !outlet_.HasRoom()) return false;
    if (outlet_.is_broken()) return true;
    if (view.tasks.empty()) {
      ShowCounts(view, now);
      return true;
    }
    if (states_.empty()) FirstStates(view);
    HEADWORKS_ASSIGN(const bool ends_are_told, ShowEnds(view, lines));
    if (!ends_are_told) return false;
    HEADWORKS_ASSIGN(const bool all_told, ShowUnderWay(view, lines));
    ShowSettled(view, kNever);
    return all_told;
  }

  bool ShowsPicked() const override { return false; }

  void Skip(const RunView& before) override {
    before_ = before;
    for (const model::AttemptRecord& attempt : before.attempts) ended_.insert(attempt.epoch.value);
    started_ = ended_;
  }

  void Say(std::string_view text) override {
    Write(text);
    outlet_.Pump();
  }

 private:
  void Write(std::string_view text) {
    outlet_.Write(text);
    outlet_.Write("\n");
  }

  /// Attempts that are over, each as a whole; false: the outlet is full.
  Result<bool> ShowEnds(const RunView& view, LineReader& lines) {
    for (const model::AttemptRecord& attempt : view.attempts) {
      if (ended_.contains(attempt.epoch.value)) continue;
      if (!CameTooLate(attempt) && !NeverBegan(view, attempt))
        Started(view, attempt.task, attempt.epoch, attempt.queued_at);
      for (bool more = true; more;) {
        HEADWORKS_ASSIGN(more, ShowPage(view, attempt.task, attempt.epoch, lines));
        outlet_.Pump();
        if (!outlet_.HasRoom()) return false;
      }
      lines.Forget(attempt.epoch);
      Ended(view, attempt);
    }
    return true;
  }

  /// What the others have printed, of each at most a page; false: there is more.
  Result<bool> ShowUnderWay(const RunView& view, LineReader& lines) {
    bool all = true;
    for (std::uint32_t no = 0; no < view.tasks.size(); ++no) {
      const model::TaskRun& task = view.tasks[no];
      if (task.epoch.value == 0 || ended_.contains(task.epoch.value)) continue;
      if (task.state == model::TaskState::kRunning)
        Started(view, TaskNo(no), task.epoch, task.since);
      if (!outlet_.HasRoom()) return false;
      HEADWORKS_ASSIGN(const bool more, ShowPage(view, TaskNo(no), task.epoch, lines));
      outlet_.Pump();
      all = all && !more;
    }
    return all;
  }

  /// Whether there is more.
  Result<bool> ShowPage(const RunView& view, TaskNo task, Epoch epoch, LineReader& lines) {
    HEADWORKS_ASSIGN(const log_store::Page page, lines.Next(task, epoch));
    if (!page.entries.empty()) Started(view, task, epoch, view.tasks[task.value].since);
    for (const log_store::Entry& entry : page.entries)
      Write(fmt::format("{} | {}", view.id(task), LineText(entry.line, terminal_)));
    return page.more;
  }

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

  void Ended(const RunView& view, const model::AttemptRecord& attempt) {
    ended_.insert(attempt.epoch.value);
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
        Write(fmt::format("task {} {} after {}{}", id,
                          terminal_.Paint(model::TaskState::kCancelled, "cancelled"), took,
                          view.tasks[attempt.task.value].reason == model::Reason::kRunTimeout
                              ? ": " + DescribeReason(view, attempt.task)
                              : ""));
        return;
      case kRetry:
      case kFailed:
      case kLost:
        break;
    }
    const model::TaskRun& task = view.tasks[attempt.task.value];
    const bool again = task.state == model::TaskState::kParked && task.epoch == attempt.epoch;
    const std::string fault = FaultOf(outcome);
    Write(fmt::format(
        "task {} {}{} in {}{}: {}{}{}{}", id,
        terminal_.Paint(model::TaskState::kFailed, outcome.verdict == kLost ? "lost" : "failed"),
        IsAllowedFailure(view, attempt.task) && task.epoch == attempt.epoch ? " (allowed)" : "",
        took, DescribeTry(view, attempt), DescribeEnd(view, attempt), fault.empty() ? "" : ": ",
        fault,
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
  }

  Outlet& outlet_;
  Terminal terminal_;
  std::unordered_set<std::int64_t> started_;  // epochs
  std::unordered_set<std::int64_t> ended_;    // epochs
  std::vector<model::TaskState> states_;
  RunView before_;  // as Skip was told
  std::array<std::uint32_t, model::kTaskStateCount> counts_{};
  Instant counted_at_{};
};

}  // namespace

std::unique_ptr<Presenter> NewPlainPresenter(Outlet& outlet, const Terminal& terminal) {
  return std::make_unique<PlainPresenter>(outlet, terminal);
}

}  // namespace headworks::cli
