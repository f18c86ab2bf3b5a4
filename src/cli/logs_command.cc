#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <deque>
#include <iterator>
#include <optional>

#include "commands.h"
#include "headworks/log_store/log_store.h"
#include "line_reader.h"
#include "output.h"
#include "records.h"
#include "run_view.h"
#include "signals.h"

namespace headworks::cli {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(100);
constexpr std::size_t kPageLines = 10'000;

/// The epoch of the `n`-th attempt of a task (1 = first), a live one included.
Result<Epoch> EpochOf(const RunView& view, TaskNo task, int n) {
  std::vector<Epoch> epochs;
  for (const auto& attempt : view.attempts)
    if (attempt.task == task) epochs.push_back(attempt.epoch);
  const Epoch live = view.tasks[task.value].epoch;
  if (live.value != 0 && (epochs.empty() || epochs.back() < live)) epochs.push_back(live);
  if (n < 1 || static_cast<std::size_t>(n) > epochs.size())
    return Error{Code::kNotFound,
                 fmt::format("--attempt {}: task {} of run {} has had {} attempts", n,
                             view.id(task), view.header.run_no.value, epochs.size())};
  return epochs[static_cast<std::size_t>(n) - 1];
}

class LogPrinter {
 public:
  /// `signals` (null = they end the process) are heard while the reader of the output takes its
  /// time.
  LogPrinter(const Context& context, const model::Workflow& workflow, bool named,
             SignalWatch* signals)
      : context_(context),
        workflow_(workflow),
        named_(named),
        signals_(signals),
        terminal_(Terminal::Of(stdout, context.settings().color, context.environment)) {}

  /// False: nobody wants more.
  bool Print(const std::vector<log_store::Entry>& entries) {
    for (const log_store::Entry& entry : entries) outlet_.Write(Text(entry));
    if (signals_ == nullptr) outlet_.Drain(Duration::max());
    while (!outlet_.Pump() && !IsToldToStop())
      signals_->Wait(kLook, outlet_.fd(), SignalWatch::For::kWrite);
    return !IsToldToStop() && !outlet_.is_broken();
  }

 private:
  bool IsToldToStop() const {
    return signals_ != nullptr && signals_->interrupts() + signals_->terminations() > 0;
  }

  std::string Text(const log_store::Entry& entry) const {
    const std::string& task = workflow_.task(entry.attempt.task).id;
    if (!context_.wants_table()) {
      const OutputFormat format = context_.settings().output;
      // One value a line, or one document each: they are read while there are more to come.
      return (format == OutputFormat::kYaml ? "---\n" : "") +
             FormatValue(format, boost::json::object{
                                     {"task", task},
                                     {"epoch", entry.attempt.epoch.value},
                                     {"number", entry.line.number},
                                     {"stream", StreamName(entry.line.stream)},
                                     {"at", JsonTime(entry.line.at)},
                                     {"text", log_store::DisplayText(entry.line.bytes)},
                                 });
    }
    const std::string prefix = named_ ? task + " | " : std::string();
    // Elsewhere the bytes as they are: a log may well be piped into a tool that knows them.
    if (terminal_.screen || entry.line.stream == log_store::Stream::kNote)
      return prefix + LineText(entry.line, terminal_) + "\n";
    return prefix + entry.line.bytes + "\n";
  }

  static std::string_view StreamName(log_store::Stream stream) {
    switch (stream) {
      case log_store::Stream::kStdout:
        return "stdout";
      case log_store::Stream::kStderr:
        return "stderr";
      case log_store::Stream::kNote:
        return "note";
    }
    return "unknown";
  }

  const Context& context_;
  const model::Workflow& workflow_;
  bool named_;
  SignalWatch* signals_;
  Terminal terminal_;
  Outlet outlet_{STDOUT_FILENO};
};

/// The lines of some tasks, in order of arrival.
class LogReader {
 public:
  /// `tasks` empty = all.
  LogReader(const Context& context, Runner& runner, RunNo run, std::vector<TaskNo> tasks)
      : runner_(runner),
        tasks_(std::move(tasks)),
        query_{.tenant = context.tenant(), .run = run, .max_lines = kPageLines} {
    if (tasks_.size() == 1) query_.task = tasks_.front();
  }
  void SetEpoch(Epoch epoch) { query_.epoch = epoch; }

  /// Prints what has come since the last call; false: nobody wants more.
  Result<bool> PrintNew(LogPrinter& printer) {
    bool wanted = true;
    HEADWORKS_TRY(
        ForEachPage([&](log_store::Page& page) { return wanted = printer.Print(page.entries); }));
    return wanted;
  }
  Result<bool> PrintTail(LogPrinter& printer, std::size_t lines) {
    std::vector<log_store::Entry> last;
    bool cut = false;
    if (tasks_.size() < 2) {
      log_store::Query query = query_;
      query.max_lines = lines;
      HEADWORKS_ASSIGN(auto page, runner_.logs().Tail(query));
      query_.after = page.next;
      cut = page.more && page.entries.size() < lines;
      last = std::move(page.entries);
    } else {
      HEADWORKS_ASSIGN(last, TailOfSome(lines, cut));
    }
    if (cut)
      Note(fmt::format("these are the last {} lines only: more would be above {} MiB at a time",
                       last.size(), log_store::kMaxPageBytes >> 20));
    return printer.Print(last);
  }

 private:
  /// Of the lines of tasks_, as Tail would.
  Result<std::vector<log_store::Entry>> TailOfSome(std::size_t lines, bool& cut) {
    std::deque<log_store::Entry> last;
    std::size_t bytes = 0;
    HEADWORKS_TRY(ForEachPage([&](log_store::Page& page) {
      for (log_store::Entry& entry : page.entries) {
        bytes += entry.line.bytes.size();
        last.push_back(std::move(entry));
        while (last.size() > lines || bytes > log_store::kMaxPageBytes) {
          cut = true;
          bytes -= last.front().line.bytes.size();
          last.pop_front();
        }
      }
      return true;
    }));
    cut = cut && last.size() < lines;
    return std::vector(std::make_move_iterator(last.begin()), std::make_move_iterator(last.end()));
  }

  /// Until `use` says that it is enough.
  template <typename Use>
  Status ForEachPage(Use use) {
    for (bool more = true; more;) {
      HEADWORKS_ASSIGN(auto page, runner_.logs().Read(query_));
      query_.after = page.next;
      more = page.more;
      if (tasks_.size() > 1)
        std::erase_if(page.entries, [&](const log_store::Entry& entry) {
          return !std::ranges::binary_search(tasks_, entry.attempt.task);
        });
      more = use(page) && more;
    }
    return {};
  }

  Runner& runner_;
  std::vector<TaskNo> tasks_;  // ascending
  log_store::Query query_;
};

}  // namespace

Result<Exit> ShowLogs(const Context& context, const LogsArgs& args) {
  if (args.attempt != 0 && args.task.empty())
    return Error{Code::kInvalidArgument, "--attempt needs a task: `headworks runs logs RUN TASK`"};
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  RunReader reader(context);
  HEADWORKS_ASSIGN(RunView view, reader.ReadSummary(*runner, args.run));
  const std::string reference = fmt::format("{}", view.header.run_no.value);
  std::vector<TaskNo> tasks;
  if (!args.task.empty()) {
    HEADWORKS_ASSIGN(tasks, view.workflow->Select(args.task));
  }
  LogReader lines(context, *runner, view.header.run_no, tasks);
  if (args.attempt != 0) {
    if (tasks.size() > 1)
      return Error{
          Code::kInvalidArgument,
          fmt::format("--attempt: {} is a matrix of {} tasks; name one of them, such as {}",
                      args.task, tasks.size(), view.id(tasks.front()))};
    HEADWORKS_ASSIGN(const RunView whole, reader.Read(*runner, reference, context.clock.Now()));
    HEADWORKS_ASSIGN(const Epoch epoch, EpochOf(whole, tasks.front(), args.attempt));
    lines.SetEpoch(epoch);
  }
  std::optional<SignalWatch> signals;
  if (args.follow) {
    HEADWORKS_ASSIGN(SignalWatch installed, SignalWatch::Install());
    signals.emplace(std::move(installed));
  }
  LogPrinter printer(context, *view.workflow, tasks.size() != 1, signals ? &*signals : nullptr);
  bool wanted = true;
  if (args.tail != 0) {
    HEADWORKS_ASSIGN(wanted, lines.PrintTail(printer, args.tail));
    if (!args.follow) return Exit::kOk;
  }
  while (wanted) {
    // The state first: the lines of a run that is over are all there (I6).
    HEADWORKS_ASSIGN(view, reader.ReadSummary(*runner, reference));
    HEADWORKS_ASSIGN(wanted, lines.PrintNew(printer));
    if (!args.follow || model::IsTerminal(view.header.state)) return Exit::kOk;
    if (wanted) signals->Wait(kLook);
  }
  return Exit::kOk;
}

}  // namespace headworks::cli
