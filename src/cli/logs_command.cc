#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <unordered_map>

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

  void Print(const log_store::Page& page) const {
    std::string text;
    for (const log_store::Entry& entry : page.entries) text += Text(entry);
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

/// Prints what is there; returns where to go on.
Status PrintAll(Runner& runner, log_store::Query& query, const LogPrinter& printer) {
  for (bool more = true; more;) {
    HEADWORKS_ASSIGN(const auto page, runner.logs().Read(query));
    printer.Print(page);
    query.after = page.next;
    more = page.more;
  }
  return {};
}

}  // namespace

Result<Exit> ShowLogs(const Context& context, const LogsArgs& args) {
  if (args.attempt != 0 && args.task.empty())
    return Error{Code::kInvalidArgument, "--attempt needs a task: `headworks runs logs RUN TASK`"};
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  RunReader reader(context);
  HEADWORKS_ASSIGN(RunView view, reader.ReadSummary(*runner, args.run));
  const std::string reference = fmt::format("{}", view.header.run_no.value);
  log_store::Query query{.tenant = context.tenant(),
                         .run = view.header.run_no,
                         .max_lines = args.tail == 0 ? kPageLines : args.tail};
  if (!args.task.empty()) {
    HEADWORKS_ASSIGN(query.task, FindTask(*view.workflow, args.task));
  }
  if (args.attempt != 0) {
    HEADWORKS_ASSIGN(const RunView whole, reader.Read(*runner, reference, context.clock.Now()));
    HEADWORKS_ASSIGN(query.epoch, EpochOf(whole, *query.task, args.attempt));
  }
  const LogPrinter printer(context, *view.workflow, args.task.empty());
  if (args.tail != 0) {
    HEADWORKS_ASSIGN(const auto page, runner->logs().Tail(query));
    printer.Print(page);
    query.after = page.next;
    query.max_lines = kPageLines;
    if (!args.follow) return Exit::kOk;
  }
  HEADWORKS_ASSIGN(SignalWatch signals, SignalWatch::Install());
  for (;;) {
    // The state first: the lines of a run that is over are all there (I6).
    HEADWORKS_ASSIGN(view, reader.ReadSummary(*runner, reference));
    HEADWORKS_TRY(PrintAll(*runner, query, printer));
    if (!args.follow || model::IsTerminal(view.header.state)) return Exit::kOk;
    if (OutputIsBroken() || signals.interrupts() + signals.terminations() > 0) return Exit::kOk;
    signals.Wait(kLook);
  }
}

}  // namespace headworks::cli
