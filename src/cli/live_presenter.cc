#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "follow.h"
#include "output.h"
#include "run_tree.h"

namespace headworks::cli {
namespace {

using model::TaskState;

std::string_view Symbol(TaskState state, bool utf8) {
  switch (state) {
    case TaskState::kSucceeded:
      return utf8 ? "✓" : "+";
    case TaskState::kFailed:
      return utf8 ? "✗" : "x";
    case TaskState::kUpstreamFailed:
      return utf8 ? "⊘" : "/";
    case TaskState::kSkipped:
      return "-";
    case TaskState::kCancelled:
      return utf8 ? "■" : "c";
    case TaskState::kRunning:
      return utf8 ? "▶" : ">";
    case TaskState::kQueued:
      return utf8 ? "▷" : "q";
    case TaskState::kParked:
      return utf8 ? "↻" : "z";
    case TaskState::kReady:
      return utf8 ? "●" : "o";
    case TaskState::kWaiting:
      return utf8 ? "·" : ".";
  }
  return "?";
}

/// Columns of a line: the state's word, and the time.
constexpr std::size_t kStateWidth = 15;
constexpr std::size_t kTimeWidth = 10;
/// Narrower screens do without the words for states.
constexpr std::size_t kWide = 60;
/// Of what a task printed last, no screen shows more.
constexpr std::size_t kWidest = 1'000;
/// More upstreams than this are counted, not named.
constexpr std::size_t kMostNamed = 3;

/// Draws the run as a tree, over what it drew before.
class LivePresenter final : public Presenter {
 public:
  LivePresenter(Outlet& outlet, std::FILE* stream, const Terminal& terminal)
      : outlet_(outlet), stream_(stream), terminal_(terminal) {}

  Result<bool> Update(const RunView& view, LineReader& lines, Instant now) override {
    // A frame that the terminal has not taken yet is old by the time it does.
    if (!outlet_.Pump()) return false;
    HEADWORKS_TRY(ReadLastLines(view, lines));
    const TerminalSize size = SizeOf(stream_);
    std::vector<std::string> screen{Heading(view, now)};
    if (!AddTree(view, now, size, screen)) AddCounts(view, now, size, screen);
    Draw(screen);
    // The last drawing stays.
    if (model::IsTerminal(view.header.state)) drawn_ = 0;
    return true;
  }

  /// It draws the run as it is, and no history.
  void Skip(const RunView&) override {}

  bool ShowsPicked() const override { return true; }

  void Say(std::string_view text) override {
    Erase();
    outlet_.Write(fmt::format("{}\n", text));
    outlet_.Pump();
  }

 private:
  /// Of every attempt, for as long as it may print.
  Status ReadLastLines(const RunView& view, LineReader& lines) {
    for (std::uint32_t no = 0; no < view.tasks.size(); ++no) {
      const model::TaskRun& task = view.tasks[no];
      if (task.epoch.value == 0 || quiet_[no] == task.epoch) continue;
      // The view is older than what is read here: of what it shows as over all lines are there.
      if (!model::IsLive(task.state)) quiet_[no] = task.epoch;
      HEADWORKS_ASSIGN(const auto page, lines.Last(TaskNo(no), task.epoch, 1));
      if (!page.entries.empty())
        last_line_[no] = FitToWidth(ForScreen(page.entries.back().line.bytes), kWidest);
    }
    return {};
  }

  std::string Heading(const RunView& view, Instant now) const {
    return fmt::format("{}  run {}  {}  {}/{} tasks  {}", view.header.name.workflow,
                       view.header.run_no.value,
                       terminal_.Paint(view.header.state, RunStateText(view.header)),
                       view.settled(), view.workflow->size(), FormatDuration(view.Elapsed(now)));
  }

  /// What stands in a line before the state, and what is right of the time.
  struct Line {
    std::string branch;
    std::string name;
    TaskState state;
    std::string time;
    std::string text;
  };

  Line LineOf(const RunView& view, const TreeRow& row, Instant now) const {
    const TaskNo first = row.tasks.front();
    const TaskState state = view.task(first).state;
    Line line{row.branch, view.id(first), state, {}, {}};
    if (row.tasks.size() > 1) {
      line.name = fmt::format("{} tasks", row.tasks.size());
      line.text = fmt::format("{} {} {}", view.id(first), terminal_.utf8 ? "…" : "..",
                              view.id(row.tasks.back()));
      return line;
    }
    if (row.also_needs.size() > kMostNamed)
      line.name += fmt::format(" (+{} more)", row.also_needs.size());
    else if (!row.also_needs.empty()) {
      std::vector<std::string_view> ids;
      ids.reserve(row.also_needs.size());
      for (const TaskNo up : row.also_needs) ids.push_back(view.id(up));
      line.name += fmt::format(" (+{})", fmt::join(ids, ","));
    }
    line.time = TimeOf(view, first, now);
    line.text = TextOf(view, first);
    return line;
  }

  /// Why it failed, if it did, and the last that it printed.
  std::string TextOf(const RunView& view, TaskNo no) const {
    const model::TaskRun& task = view.task(no);
    const model::AttemptRecord* last = view.LastAttempt(no);
    std::string text;
    if (task.reason == model::Reason::kMarked)
      text = DescribeTask(view, no);
    else if (task.state == TaskState::kFailed &&
             (last == nullptr || last->epoch != task.epoch || CameTooLate(*last)))
      text = DescribeReason(view, no);
    else if (last != nullptr && last->epoch == task.epoch && !model::IsLive(task.state) &&
             last->outcome.verdict != model::Verdict::kSucceeded) {
      text = DescribeEnd(view, *last);
      if (const std::string fault = FaultOf(last->outcome); !fault.empty()) text += ": " + fault;
    }
    if (!text.empty() && IsAllowedFailure(view, no)) text += " (allowed)";
    if (const auto printed = last_line_.find(no.value); printed != last_line_.end())
      text += (text.empty() ? "" : ": ") + printed->second;
    return text;
  }

  /// Names share one column, at most half of the screen; a narrow screen does without the words
  /// for the states, which the symbols tell, too.
  void AddLines(const std::vector<Line>& lines, std::size_t columns,
                std::vector<std::string>& screen) const {
    std::size_t width = 0;
    for (const Line& line : lines)
      width = std::max(width, DisplayWidth(line.branch) + 2 + DisplayWidth(line.name));
    width = std::min(width, std::max<std::size_t>(columns / 2, 16));
    for (const Line& line : lines) {
      const std::size_t branch = DisplayWidth(line.branch) + 2;
      const std::string name = FitToWidth(line.name, width > branch ? width - branch : 1);
      std::string text = terminal_.Dim(line.branch) +
                         terminal_.Paint(line.state, Symbol(line.state, terminal_.utf8)) + " " +
                         name;
      std::size_t used = branch + DisplayWidth(name);
      const auto to_column = [&](std::size_t column) {
        if (used < column) text.append(column - used, ' ');
        used = std::max(used, column);
      };
      to_column(width + 2);
      if (columns >= kWide) {
        const std::string_view state = model::TaskStateName(line.state);
        text += terminal_.Paint(line.state, state);
        used += state.size();
        to_column(width + 2 + kStateWidth + 2);
      }
      text += line.time;
      used += line.time.size();
      if (!line.text.empty() && columns > used + kTimeWidth) {
        to_column(used - line.time.size() + kTimeWidth);
        text += terminal_.Dim(FitToWidth(line.text, columns - used));
      }
      screen.push_back(std::move(text));
    }
  }

  static std::string TimeOf(const RunView& view, TaskNo no, Instant now) {
    const model::TaskRun& task = view.task(no);
    if (task.state == TaskState::kRunning)
      return FormatDuration(std::max(now - task.since, Duration(0)));
    if (task.state == TaskState::kParked)
      return "in " + FormatDuration(std::max(task.not_before - now, Duration(0)));
    const model::AttemptRecord* last = view.LastAttempt(no);
    if (!model::IsTerminal(task.state) || last == nullptr || last->epoch != task.epoch ||
        last->outcome.started_at == Instant{} || CameTooLate(*last))
      return {};
    return FormatDuration(std::max(last->outcome.ended_at - last->outcome.started_at, Duration(0)));
  }

  /// As many tasks a line as it takes; false: it does not fit even so.
  bool AddTree(const RunView& view, Instant now, const TerminalSize& size,
               std::vector<std::string>& screen) const {
    if (view.tasks.empty()) return false;
    for (const Fold fold : {Fold::kNothing, Fold::kQuiet, Fold::kEverything}) {
      const auto rows =
          DrawTree(*view.workflow, view.tasks, fold, terminal_.utf8, size.columns / 3);
      if (rows.size() + 3 > size.rows) continue;
      std::vector<Line> lines;
      lines.reserve(rows.size());
      for (const TreeRow& row : rows) lines.push_back(LineOf(view, row, now));
      AddLines(lines, size.columns, screen);
      return true;
    }
    return false;
  }

  /// The first tasks in one of these states, state by state.
  static std::vector<TaskNo> TasksIn(const RunView& view, std::initializer_list<TaskState> states,
                                     std::size_t most) {
    std::vector<TaskNo> found;
    for (const TaskState state : states) {
      const auto add = [&](TaskNo no, const model::TaskRun& task) {
        if (task.state == state && found.size() < most) found.push_back(no);
      };
      for (std::uint32_t no = 0; no < view.tasks.size(); ++no) add(TaskNo(no), view.tasks[no]);
      for (const auto& [no, task] : view.picked) add(no, task);
    }
    return found;
  }

  /// Tasks per state, and then what runs or failed, as far as the screen reaches.
  void AddCounts(const RunView& view, Instant now, const TerminalSize& size,
                 std::vector<std::string>& screen) const {
    for (std::size_t state = 0; state < model::kTaskStateCount; ++state) {
      const auto task_state = static_cast<TaskState>(state);
      if (view.header.counts[state] != 0)
        screen.push_back(fmt::format(
            "  {} {:<16}{:>8}", terminal_.Paint(task_state, Symbol(task_state, terminal_.utf8)),
            model::TaskStateName(task_state), view.header.counts[state]));
    }
    const std::size_t free = size.rows - std::min(size.rows, screen.size() + 2);
    const auto failed = TasksIn(view, {TaskState::kFailed}, free);
    const auto under_way = TasksIn(view, {TaskState::kParked, TaskState::kRunning}, free);
    // Neither pushes the other off the screen.
    const std::size_t most_failed = free - std::min(under_way.size(), free / 2);
    std::vector<Line> lines;
    const auto add = [&](const std::vector<TaskNo>& tasks, std::size_t most) {
      for (std::size_t i = 0; i < std::min(tasks.size(), most); ++i)
        lines.push_back(LineOf(view, {.branch = "  ", .tasks = {tasks[i]}, .also_needs = {}}, now));
    };
    add(failed, most_failed);
    add(under_way, free - lines.size());
    AddLines(lines, size.columns, screen);
  }

  void Erase() {
    if (drawn_ > 0) outlet_.Write(fmt::format("\x1b[{}A\x1b[J", drawn_));
    drawn_ = 0;
  }

  void Draw(const std::vector<std::string>& screen) {
    // Without wrapping, so that a line is a line.
    std::string frame = "\x1b[?7l";
    if (drawn_ > 0) frame += fmt::format("\x1b[{}A", drawn_);
    for (const std::string& line : screen) frame += line + "\x1b[K\n";
    frame += "\x1b[J\x1b[?7h";
    outlet_.Write(frame);
    outlet_.Pump();
    drawn_ = screen.size();
  }

  Outlet& outlet_;
  std::FILE* stream_;
  Terminal terminal_;
  std::size_t drawn_ = 0;  // lines on the screen
  std::unordered_map<std::uint32_t, std::string> last_line_;
  std::unordered_map<std::uint32_t, Epoch> quiet_;  // attempts that print no more
};

}  // namespace

std::unique_ptr<Presenter> NewLivePresenter(Outlet& outlet, std::FILE* stream,
                                            const Terminal& terminal) {
  return std::make_unique<LivePresenter>(outlet, stream, terminal);
}

}  // namespace headworks::cli
