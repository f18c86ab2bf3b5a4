#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <deque>
#include <iterator>

#include "commands.h"
#include "headworks/log_store/log_store.h"
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
  LogPrinter(const Context& context, const model::Workflow& workflow, bool named)
      : context_(context),
        workflow_(workflow),
        named_(named),
        terminal_(Terminal::Of(stdout, context.settings().color, context.environment)) {}

  void Print(const std::vector<log_store::Entry>& entries) const {
    std::string text;
    for (const log_store::Entry& entry : entries) text += Text(entry);
    cli::Print(text);
  }

 private:
  std::string Text(const log_store::Entry& entry) const {
    const std::string& task = workflow_.task(entry.attempt.task).id;
    if (!context_.wants_table())
      return boost::json::serialize(boost::json::object{
                 {"task", task},
                 {"epoch", entry.attempt.epoch.value},
                 {"number", entry.line.number},
                 {"stream", StreamName(entry.line.stream)},
                 {"at", JsonTime(entry.line.at)},
                 {"text", log_store::DisplayText(entry.line.bytes)},
             }) +
             "\n";
    const std::string prefix = named_ ? task + " | " : std::string();
    if (entry.line.stream == log_store::Stream::kNote)
      return fmt::format("{}[headworks: {}]\n", prefix, entry.line.bytes);
    // Elsewhere the bytes as they are: a log may well be piped into a tool that knows them.
    return prefix + (terminal_.screen ? ForScreen(entry.line.bytes) : entry.line.bytes) + "\n";
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
  Terminal terminal_;
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

  /// Prints what has come since the last call.
  Status PrintNew(const LogPrinter& printer) {
    return ForEachPage([&](log_store::Page& page) { printer.Print(page.entries); });
  }
  Status PrintTail(const LogPrinter& printer, std::size_t lines) {
    if (tasks_.size() < 2) {
      log_store::Query query = query_;
      query.max_lines = lines;
      HEADWORKS_ASSIGN(const auto page, runner_.logs().Tail(query));
      query_.after = page.next;
      printer.Print(page.entries);
      return {};
    }
    std::deque<log_store::Entry> last;
    HEADWORKS_TRY(ForEachPage([&](log_store::Page& page) {
      std::ranges::move(page.entries, std::back_inserter(last));
      if (last.size() > lines) last.erase(last.begin(), last.end() - std::ptrdiff_t(lines));
    }));
    printer.Print({std::make_move_iterator(last.begin()), std::make_move_iterator(last.end())});
    return {};
  }

 private:
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
      use(page);
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
  const LogPrinter printer(context, *view.workflow, tasks.size() != 1);
  if (args.tail != 0) {
    HEADWORKS_TRY(lines.PrintTail(printer, args.tail));
    if (!args.follow) return Exit::kOk;
  }
  HEADWORKS_ASSIGN(SignalWatch signals, SignalWatch::Install());
  for (;;) {
    // The state first: the lines of a run that is over are all there (I6).
    HEADWORKS_ASSIGN(view, reader.ReadSummary(*runner, reference));
    HEADWORKS_TRY(lines.PrintNew(printer));
    if (!args.follow || model::IsTerminal(view.header.state)) return Exit::kOk;
    if (OutputIsBroken() || signals.interrupts() + signals.terminations() > 0) return Exit::kOk;
    signals.Wait(kLook);
  }
}

}  // namespace headworks::cli
