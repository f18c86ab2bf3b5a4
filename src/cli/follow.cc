#include "follow.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "workflow_file.h"

namespace headworks::cli {
namespace {

/// At most 10 looks a second, and a tenth of the time, as long as that makes 2.
constexpr Duration kLook = std::chrono::milliseconds(100);
/// A screen shows how time passes, and a change that was missed is seen after this.
constexpr Duration kRefresh = std::chrono::milliseconds(500);

/// Runs beside its own that are named.
constexpr int kMostOthers = 10;
constexpr Duration kTold = Duration::max();

class Follower {
 public:
  Follower(const Context& context, std::unique_ptr<Runner>& runner, RunNo run, Presenter& presenter,
           SignalWatch& signals, OtherRuns& others)
      : context_(context),
        runner_(runner),
        run_(run),
        reference_(fmt::format("{}", run.value)),
        presenter_(presenter),
        signals_(signals),
        others_(others),
        began_(context.clock.Now()),
        reader_(context) {}

  Result<FollowResult> Run() {
    for (;;) {
      if (signals_.terminations() > 0) return Left(FollowEnd::kTerminated);
      if (signals_.interrupts() > 1) return Left(FollowEnd::kLeft);
      if (signals_.interrupts() > 0 && !cancel_asked_) HEADWORKS_TRY(AskForCancel());
      const Duration began = context_.clock.Monotonic();
      HEADWORKS_TRY(Look(began));
      if (model::IsTerminal(view_.header.state)) return Left(FollowEnd::kEnded);
      if (!view_.header.stuck_reason.empty()) return Left(FollowEnd::kStuck);
      HEADWORKS_TRY(CheckEngine());
      HEADWORKS_TRY(TellOthers());
      HEADWORKS_TRY(TellWait(began));
      HEADWORKS_TRY(TakeOverIfAlone(began));
      // Whoever reads what is written here may be slow, and the run is none the slower.
      signals_.Wait(std::clamp(9 * (context_.clock.Monotonic() - began), kLook, kRefresh));
    }
  }

 private:
  FollowResult Left(FollowEnd end) { return {.end = end, .view = std::move(view_)}; }

  Status AskForCancel() {
    cancel_asked_ = true;
    presenter_.Say(fmt::format("cancelling run {} (Ctrl-C again leaves at once)", run_.value));
    auto asked = runner_->control().Execute(
        MakeCommand(context_, control::CommandKind::kCancel, run_), kLook);
    // Not answered yet: it is stored and will happen.  Conflict: the run ended meanwhile.
    if (!asked && asked.error().code != Code::kUnavailable && asked.error().code != Code::kConflict)
      return asked;
    return {};
  }

  Status CheckEngine() {
    const Status works = runner_->CheckEngine();
    if (works) return {};
    return Error{
        works.error().code,
        fmt::format("{}; run {} goes on with the engine that has the store now, or with the "
                    "next: `{}`",
                    works.error().message, run_.value,
                    CommandLine(context_, fmt::format("runs show {}", run_.value)))};
  }

  /// Reads and shows what is new.
  Status Look(Duration monotonic) {
    HEADWORKS_ASSIGN(const std::int64_t version, runner_->inbox().DataVersion());
    const bool changed = version != version_ || view_.workflow == nullptr;
    if (changed) changed_at_ = monotonic;
    const bool read = changed || monotonic - shown_at_ >= kRefresh;
    if (read) {
      HEADWORKS_TRY(ReadRun());
      version_ = version;
      shown_at_ = monotonic;
    }
    HEADWORKS_TRY(ReadLines());
    if (read)
      for (const std::string& line : health_.Look(*runner_)) presenter_.Say(line);
    if (read || !lines_.empty()) presenter_.Update(view_, lines_, context_.clock.Now());
    return {};
  }

  Status ReadRun() {
    HEADWORKS_ASSIGN(view_, reader_.ReadSummary(*runner_, reference_));
    if (view_.workflow->size() > kMostListedTasks)
      return presenter_.ShowsPicked() ? reader_.ReadPicked(*runner_, view_) : Status();
    HEADWORKS_ASSIGN(view_, reader_.Read(*runner_, reference_, context_.clock.Now()));
    return {};
  }

  /// After the run, so that the lines of every attempt that is seen as ended are there (I6).
  Status ReadLines() {
    lines_.clear();
    if (view_.workflow->size() > kMostListedTasks) return {};
    for (bool more = true; more;) {
      HEADWORKS_ASSIGN(
          auto page,
          runner_->logs().Read(
              {.tenant = context_.tenant(), .run = run_, .after = cursor_, .max_lines = 10'000}));
      cursor_ = page.next;
      more = page.more;
      std::ranges::move(page.entries, std::back_inserter(lines_));
    }
    return {};
  }

  /// Runs that this process goes on with beside its own; those of other tenants are not seen.
  Status TellOthers() {
    for (const RunNo other : others_.TakeNew(run_)) {
      const auto view = RunReader(context_).ReadSummary(*runner_, fmt::format("{}", other.value));
      if (!view && view.error().code == Code::kNotFound) continue;
      HEADWORKS_TRY(view);
      if (++others_told_ > kMostOthers) continue;
      // Without recovery a run that was left is touched only for what somebody else waits for.
      const bool left = view->header.created_at < began_ && !runner_->options().enable_recovery;
      presenter_.Say(fmt::format(
          "run {} of {} goes on in this process too, because {}; once run {} is over, its tasks "
          "have up to {} to end, and `{}` continues it{}",
          other.value, view->header.name.workflow,
          left ? fmt::format("it holds or held what run {} needs", run_.value)
               : std::string("this process is the engine of the store"),
          run_.value, FormatDuration(runner_->options().drain_timeout), CommandLine(context_, "up"),
          others_told_ == kMostOthers ? "; further ones are not told" : ""));
    }
    return {};
  }

  bool IsPaused() const { return view_.header.paused_at != Instant{}; }

  /// Whether the run is held back as a whole: by somebody, by a limit of runs, or by pools.
  bool Waits() const {
    using model::TaskState;
    if (view_.header.state == model::RunState::kPending || IsPaused()) return true;
    return view_.count(TaskState::kQueued) + view_.count(TaskState::kRunning) == 0 &&
           std::ranges::find(view_.tasks, model::Reason::kPermit, &model::TaskRun::reason) !=
               view_.tasks.end();
  }

  /// What a run waits for that nothing is heard of, once for each wait.
  Status TellWait(Duration monotonic) {
    if (!Waits()) {
      waits_since_.reset();
      return {};
    }
    if (!waits_since_) waits_since_ = monotonic;
    if (*waits_since_ == kTold || monotonic - *waits_since_ < kSilence) return {};
    waits_since_ = kTold;
    if (IsPaused()) {
      presenter_.Say(fmt::format(
          "run {} is paused: what runs goes on, and nothing new begins until `{}`", run_.value,
          CommandLine(context_, fmt::format("runs resume {}", run_.value))));
      return {};
    }
    const Instant now = context_.clock.Now();
    HEADWORKS_ASSIGN(RunView view, reader_.Read(*runner_, reference_, now));
    HEADWORKS_TRY(reader_.ReadLimits(*runner_, view));
    const auto first =
        std::ranges::find(view.tasks, model::Reason::kPermit, &model::TaskRun::reason);
    const auto no = first == view.tasks.end() ? 0 : first - view.tasks.begin();
    const auto why = ExplainTask(view, TaskNo(static_cast<std::uint32_t>(no)), true, now);
    presenter_.Say(fmt::format("run {} waits: {}", run_.value, fmt::join(why, "\n  ")));
    return {};
  }

  Status TakeOverIfAlone(Duration monotonic) {
    if (runner_->is_engine() || monotonic - changed_at_ < kSilence) return {};
    changed_at_ = monotonic;
    if (NeedsWorkers(context_.settings(), *view_.workflow)) return TellIfAlone();
    auto engine = Runner::Open(others_.Watch(context_.options()));
    if (!engine && engine.error().code == Code::kConflict) return {};
    if (!engine) return NameStore(context_, std::move(engine).error());
    presenter_.Say("the engine of this store went away; this process takes over");
    runner_ = *std::move(engine);
    version_ = -1;
    return {};
  }

  /// Workers do not reach this process: as the engine it would be in the way of the next `up`.
  Status TellIfAlone() {
    HEADWORKS_ASSIGN(const std::string engine, FindEngine(context_));
    if (std::exchange(alone_, engine.empty()) || !engine.empty()) return {};
    presenter_.Say(
        fmt::format("the engine of this store went away, and tasks go to workers, who do not reach "
                    "this command; `{}` continues the run",
                    CommandLine(context_, "up")));
    return {};
  }

  const Context& context_;
  std::unique_ptr<Runner>& runner_;
  RunNo run_;
  std::string reference_;
  Presenter& presenter_;
  SignalWatch& signals_;
  OtherRuns& others_;
  const Instant began_;
  RunReader reader_;
  HealthWatch health_;

  RunView view_;
  std::vector<log_store::Entry> lines_;
  log_store::Cursor cursor_;
  std::int64_t version_ = -1;
  Duration changed_at_{};
  Duration shown_at_{};
  bool cancel_asked_ = false;
  bool alone_ = false;  // and told so
  int others_told_ = 0;
  /// By the monotonic clock, or kTold.
  std::optional<Duration> waits_since_;
};

}  // namespace

Result<FollowResult> Follow(const Context& context, std::unique_ptr<Runner>& runner, RunNo run,
                            Presenter& presenter, SignalWatch& signals, OtherRuns& others) {
  return Follower(context, runner, run, presenter, signals, others).Run();
}

}  // namespace headworks::cli
