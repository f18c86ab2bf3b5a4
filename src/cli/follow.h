#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "exit_code.h"
#include "headworks/log_store/log_store.h"
#include "headworks/runner/runner.h"
#include "other_runs.h"
#include "run_view.h"
#include "session.h"
#include "signals.h"

namespace headworks::cli {

/// Runs with more tasks are shown as counts, and on a terminal what runs and what failed.
inline constexpr std::uint32_t kMostListedTasks = 500;

/// Shows a run while it goes on.  Called from one thread.
class Presenter {
 public:
  virtual ~Presenter() = default;
  /// The run as it is now, and log lines that are new.  Without tasks if it has too many.
  virtual void Update(const RunView& view, std::span<const log_store::Entry> lines,
                      Instant now) = 0;
  /// Whether it shows single tasks of a run with too many (RunView::picked).
  virtual bool ShowsPicked() const = 0;
  /// What happened up to `before` is known: only what is new is told.
  virtual void Skip(const RunView& before) = 0;
  /// Something that must be seen.
  virtual void Say(std::string_view text) = 0;
};

/// One line per event.
std::unique_ptr<Presenter> NewPlainPresenter(std::FILE* stream, const Terminal& terminal);
/// The whole run, redrawn in place.
std::unique_ptr<Presenter> NewLivePresenter(std::FILE* stream, const Terminal& terminal);

enum class FollowEnd : unsigned char {
  kEnded,
  /// Parked as stuck: it will not go on by itself.
  kStuck,
  /// Second Ctrl-C.
  kLeft,
  /// SIGTERM.
  kTerminated,
};

struct FollowResult {
  FollowEnd end = FollowEnd::kEnded;
  RunView view;
};

/// Shows `run` until it ends.  The first Ctrl-C cancels it.  If the process that is the engine
/// goes away, `runner` is replaced by one that is the engine itself and continues the run.
Result<FollowResult> Follow(const Context& context, std::unique_ptr<Runner>& runner, RunNo run,
                            Presenter& presenter, SignalWatch& signals, OtherRuns& others);

/// Follow with the presenter that fits, then the report: how the run ended and, if it failed, the
/// last lines of what failed and the command that retries.  Shuts the runner down.  On the second
/// Ctrl-C it ends the process.  Of a rerun, `before` is the run as it was: what it keeps is
/// counted, and not told again.
Result<Exit> FollowToEnd(const Context& context, std::unique_ptr<Runner> runner, RunNo run,
                         SignalWatch& signals, OtherRuns& others, const RunView* before = nullptr);

/// "headworks ARGUMENTS", with the store if it was named on the command line.
std::string CommandLine(const Context& context, std::string_view arguments);

}  // namespace headworks::cli
