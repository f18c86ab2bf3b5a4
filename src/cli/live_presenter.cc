#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "follow.h"
#include "output.h"

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

/// Draws the run as a list, indented by level, over what it drew before.
class LivePresenter final : public Presenter {
 public:
  LivePresenter(std::FILE* stream, const Terminal& terminal)
      : stream_(stream), terminal_(terminal) {}

  void Update(const RunView& view, std::span<const log_store::Entry> lines, Instant now) override {
    for (const log_store::Entry& entry : lines)
      last_line_[entry.attempt.task.value] = log_store::DisplayText(entry.line.bytes);
    const TerminalSize size = SizeOf(stream_);
    std::vector<std::string> screen{Heading(view, now)};
    if (!view.tasks.empty() && view.tasks.size() + 3 <= size.rows)
      AddTasks(view, now, size, screen);
    else
      AddCounts(view, now, size, screen);
    Draw(screen);
  }

  void Say(std::string_view text) override {
    Erase();
    fmt::print(stream_, "{}\n", text);
    std::fflush(stream_);
  }

 private:
  std::string Heading(const RunView& view, Instant now) const {
    return fmt::format("{}  run {}  {}  {}/{} tasks  {}", view.header.name.workflow,
                       view.header.run_no.value,
                       terminal_.Paint(view.header.state, RunStateText(view.header)),
                       view.settled(), view.workflow->size(), FormatDuration(view.Elapsed(now)));
  }

  /// One task on one line: symbol, id, state, time, then its last log line as far as it fits.
  std::string TaskLine(const RunView& view, TaskNo no, std::size_t indent, std::size_t id_width,
                       Instant now, std::size_t columns) const {
    const model::TaskRun& task = view.tasks[no.value];
    const std::string id = FitToWidth(view.id(no), id_width - indent);
    const std::string state = std::string(model::TaskStateName(task.state));
    const std::string time = TimeOf(view, no, now);
    std::string line =
        fmt::format("{}{} {}{}  {}{}  {:<8}", std::string(indent, ' '),
                    terminal_.Paint(task.state, Symbol(task.state, terminal_.utf8)), id,
                    std::string(id_width - indent - DisplayWidth(id), ' '),
                    terminal_.Paint(task.state, state), std::string(15 - state.size(), ' '), time);
    const std::size_t used = id_width + 2 + 2 + 15 + 2 + 8;
    const auto last = last_line_.find(no.value);
    if (last != last_line_.end() && columns > used + 3)
      line += "  " + terminal_.Dim(FitToWidth(last->second, columns - used - 3));
    return line;
  }

  static std::string TimeOf(const RunView& view, TaskNo no, Instant now) {
    const model::TaskRun& task = view.tasks[no.value];
    if (task.state == TaskState::kRunning)
      return FormatDuration(std::max(now - task.since, Duration(0)));
    if (task.state == TaskState::kParked)
      return "in " + FormatDuration(std::max(task.not_before - now, Duration(0)));
    const model::AttemptRecord* last = view.LastAttempt(no);
    if (!model::IsTerminal(task.state) || last == nullptr || last->epoch != task.epoch) return {};
    return FormatDuration(std::max(last->outcome.ended_at - last->outcome.started_at, Duration(0)));
  }

  void AddTasks(const RunView& view, Instant now, const TerminalSize& size,
                std::vector<std::string>& screen) {
    if (levels_.empty()) levels_ = Levels(*view.workflow);
    // Deep chains must not push the ids out of the screen.
    const auto indent = [&](std::uint32_t no) {
      return 2 * std::min<std::size_t>(levels_[no], 10);
    };
    std::size_t id_width = 0;
    for (std::uint32_t no = 0; no < view.tasks.size(); ++no)
      id_width = std::max(id_width, indent(no) + DisplayWidth(view.id(TaskNo(no))));
    id_width = std::max<std::size_t>(std::min(id_width, size.columns / 2), 24);
    for (std::uint32_t no = 0; no < view.tasks.size(); ++no)
      screen.push_back(TaskLine(view, TaskNo(no), indent(no), id_width, now, size.columns));
  }

  /// Tasks per state, and then what runs or failed, as far as the screen reaches.
  void AddCounts(const RunView& view, Instant now, const TerminalSize& size,
                 std::vector<std::string>& screen) {
    for (std::size_t state = 0; state < model::kTaskStateCount; ++state) {
      const auto task_state = static_cast<TaskState>(state);
      if (view.header.counts[state] != 0)
        screen.push_back(fmt::format(
            "  {} {:<16}{:>8}", terminal_.Paint(task_state, Symbol(task_state, terminal_.utf8)),
            model::TaskStateName(task_state), view.header.counts[state]));
    }
    for (const TaskState shown : {TaskState::kFailed, TaskState::kRunning})
      for (std::uint32_t no = 0; no < view.tasks.size() && screen.size() + 2 < size.rows; ++no)
        if (view.tasks[no].state == shown)
          screen.push_back(TaskLine(view, TaskNo(no), 2, 32, now, size.columns));
  }

  void Erase() {
    if (drawn_ > 0) fmt::print(stream_, "\x1b[{}A\x1b[J", drawn_);
    drawn_ = 0;
  }

  void Draw(const std::vector<std::string>& screen) {
    // Without wrapping, so that a line is a line; in one write, so that no half frame is seen.
    std::string frame = "\x1b[?7l";
    if (drawn_ > 0) frame += fmt::format("\x1b[{}A", drawn_);
    for (const std::string& line : screen) frame += line + "\x1b[K\n";
    frame += "\x1b[J\x1b[?7h";
    std::fwrite(frame.data(), 1, frame.size(), stream_);
    std::fflush(stream_);
    drawn_ = screen.size();
  }

  std::FILE* stream_;
  Terminal terminal_;
  std::size_t drawn_ = 0;  // lines on the screen
  std::vector<std::uint32_t> levels_;
  std::unordered_map<std::uint32_t, std::string> last_line_;
};

}  // namespace

std::unique_ptr<Presenter> NewLivePresenter(std::FILE* stream, const Terminal& terminal) {
  return std::make_unique<LivePresenter>(stream, terminal);
}

}  // namespace headworks::cli
