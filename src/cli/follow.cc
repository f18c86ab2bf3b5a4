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
  explicit Follower(const Following& f)
      : context_(f.context),
        runner_(f.runner),
        run_(f.run),
        reference_(fmt::format("{}", f.run.value)),
        presenter_(f.presenter),
        outlet_(f.outlet),
        signals_(f.signals),
        others_(f.others),
        began_(f.context.clock.Now()),
        reader_(f.context),
        lines_(f.runner->logs(), f.context.tenant(), f.run) {}

  Result<FollowResult> Run() {
    for (;;) {
      if (signals_.terminations() > 0) return Left(FollowEnd::kTerminated);
      if (signals_.interrupts() > 1) return Left(FollowEnd::kLeft);
      if (signals_.interrupts() > 0 && !cancel_asked_) HEADWORKS_TRY(AskForCancel());
      const Duration began = context_.clock.Monotonic();
      const std::uint64_t taken = outlet_.taken();
      HEADWORKS_TRY(Look(began));
      if (told_ || IsGivenUp(began)) {
        if (model::IsTerminal(view_.header.state)) return Left(FollowEnd::kEnded);
        if (!view_.header.stuck_reason.empty()) return Left(FollowEnd::kStuck);
      }
      HEADWORKS_TRY(CheckEngine());
      HEADWORKS_TRY(TellOthers());
      HEADWORKS_TRY(TellWait(began));
      HEADWORKS_TRY(TakeOverIfAlone(began));
      Wait(began, taken);
    }
  }

 private:
  FollowResult Left(FollowEnd end) { return {.end = end, .view = std::move(view_)}; }

  /// Whether somebody wants to leave, and who reads takes nothing.
  bool IsGivenUp(Duration monotonic) {
    if (std::exchange(taken_, outlet_.taken()) != outlet_.taken() || outlet_.held() == 0)
      taken_at_ = monotonic;
    return signals_.interrupts() > 0 && monotonic - taken_at_ >= kStalled;
  }

  /// `taken`: by the reader of the output, when this round `began`.
  void Wait(Duration began, std::uint64_t taken) {
    if (outlet_.Pump()) {
      if (!told_) return;
      // Whoever looks is slow at times, and the run is none the slower.
      return signals_.Wait(std::clamp(9 * (context_.clock.Monotonic() - began), kLook, kRefresh));
    }
    // A terminal may say that it is writable, and still take nothing.
    const bool flows = outlet_.taken() != taken;
    signals_.Wait(flows ? kRefresh : kLook, flows ? outlet_.fd() : -1, SignalWatch::For::kWrite);
  }

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
    if (read)
      for (const std::string& line : health_.Look(*runner_)) presenter_.Say(line);
    if (told_ && !read) {
      HEADWORKS_ASSIGN(const bool printed, HasNewLines());
      if (!printed) return {};
    }
    // After the run: so the lines of every attempt that is seen as ended are there (I6).
    HEADWORKS_ASSIGN(told_, presenter_.Update(view_, lines_, context_.clock.Now()));
    return {};
  }

  Status ReadRun() {
    HEADWORKS_ASSIGN(view_, reader_.ReadSummary(*runner_, reference_));
    if (view_.workflow->size() > kMostListedTasks)
      return presenter_.ShowsPicked() ? reader_.ReadPicked(*runner_, view_) : Status();
    HEADWORKS_ASSIGN(view_, reader_.Read(*runner_, reference_, context_.clock.Now()));
    return {};
  }

  Result<bool> HasNewLines() {
    if (view_.workflow->size() > kMostListedTasks) return false;  // nobody shows them
    return lines_.HasNew();
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
          left ? fmt::format("it holds or held what run {} needs, or a command was for it",
                             run_.value)
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
    auto why = ExplainTask(view, TaskNo(static_cast<std::uint32_t>(no)), true, now);
    for (std::string& line : why) line = InOneParagraph(line);
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
    lines_.ReadFrom(runner_->logs());
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
  Outlet& outlet_;
  SignalWatch& signals_;
  OtherRuns& others_;
  const Instant began_;
  RunReader reader_;
  HealthWatch health_;

  RunView view_;
  LineReader lines_;
  bool told_ = false;  // all that is known
  std::uint64_t taken_ = 0;
  Duration taken_at_{};
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

Result<FollowResult> Follow(const Following& following) { return Follower(following).Run(); }

}  // namespace headworks::cli
