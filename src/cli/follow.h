#pragma once

#include <memory>
#include <string_view>

#include "exit_code.h"
#include "headworks/runner/runner.h"
#include "line_reader.h"
#include "other_runs.h"
#include "outlet.h"
#include "run_view.h"
#include "session.h"
#include "signals.h"

namespace headworks::cli {

/// A reader that takes nothing for so long has stalled; who wants to leave does not wait for it.
inline constexpr Duration kStalled = std::chrono::seconds(1);

/// Runs with more tasks are shown as counts, and on a terminal what runs and what failed.
inline constexpr std::uint32_t kMostListedTasks = 500;

/// Shows a run while it goes on, by an Outlet: never waits for who reads it.  Called from one
/// thread.
///
/// Bounds.  Reads log lines as the outlet has room for them, a page at a time.
class Presenter {
 public:
  virtual ~Presenter() = default;
  /// The run as it is now, and what it printed since.  Without tasks if it has too many.  False:
  /// there is more to show, once the outlet has room.
  virtual Result<bool> Update(const RunView& view, LineReader& lines, Instant now) = 0;
  /// Whether it shows single tasks of a run with too many (RunView::picked).
  virtual bool ShowsPicked() const = 0;
  /// What happened up to `before` is known: only what is new is told.
  virtual void Skip(const RunView& before) = 0;
  /// Something that must be seen.
  virtual void Say(std::string_view text) = 0;
};

/// One line per event.
std::unique_ptr<Presenter> NewPlainPresenter(Outlet& outlet, const Terminal& terminal);
/// The whole run, redrawn in place; `stream` is the screen behind `outlet`.
std::unique_ptr<Presenter> NewLivePresenter(Outlet& outlet, std::FILE* stream,
                                            const Terminal& terminal);

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

/// What following a run takes.  All is borrowed.
struct Following {
  const Context& context;
  /// If the process that is the engine goes away, it is replaced by one that is the engine itself
  /// and continues the run.
  std::unique_ptr<Runner>& runner;
  RunNo run;
  SignalWatch& signals;
  OtherRuns& others;
  Outlet& outlet;
  Presenter& presenter;
};

/// Shows the run until it ends, and all of it is told.  The first Ctrl-C cancels it; from then on a
/// reader of the outlet that takes nothing is not waited for.
Result<FollowResult> Follow(const Following& following);

/// Follow with the presenter that fits, then the report: how the run ended and, if it failed, the
/// last lines of what failed and the command that retries.  Shuts the runner down.  On the second
/// Ctrl-C it ends the process.  Of a rerun, `before` is the run as it was: what it keeps is
/// counted, and not told again.
Result<Exit> FollowToEnd(const Context& context, std::unique_ptr<Runner> runner, RunNo run,
                         SignalWatch& signals, OtherRuns& others, const RunView* before = nullptr);

/// "headworks ARGUMENTS", with the store if it was named on the command line.
std::string CommandLine(const Context& context, std::string_view arguments);

}  // namespace headworks::cli
