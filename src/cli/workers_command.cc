#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <optional>

#include "output.h"
#include "records.h"
#include "worker_commands.h"

namespace headworks::cli {
namespace json = boost::json;
namespace {

using store::WorkerOrder;
using store::WorkerPresence;
using store::WorkerRecord;

/// A row that is older was not written by an engine that looks after workers.
constexpr Duration kStale = 2 * store::WorkerStore::kRewritten + std::chrono::seconds(5);

/// All incarnations of one name.
struct WorkerView {
  std::string name;
  std::vector<WorkerRecord> incarnations;     // none: it is cordoned, and was not seen for long
  std::optional<WorkerOrder> cordon;          // the last word on it
  std::map<std::string, WorkerOrder> drains;  // by incarnation

  bool cordoned() const { return cordon && cordon->stands; }
};

/// What can be told of workers now.
class Roster {
 public:
  static Result<Roster> Read(const Context& context, Runner& runner) {
    Roster roster;
    HEADWORKS_ASSIGN(const std::string engine, FindEngine(context));
    roster.engine_ = !engine.empty();
    roster.now_ = context.clock.Now();
    HEADWORKS_ASSIGN(auto rows, runner.workers().ListWorkers(context.tenant()));
    HEADWORKS_ASSIGN(auto orders, runner.workers().ListOrders(context.tenant()));
    std::map<std::string, WorkerView> views;
    for (WorkerRecord& row : rows) views[row.name].incarnations.push_back(std::move(row));
    for (WorkerOrder& order : orders) {
      WorkerView& view = views[order.name];
      if (order.incarnation.empty())
        view.cordon = std::move(order);
      else
        view.drains.emplace(order.incarnation, std::move(order));
    }
    for (auto& [name, view] : views) {
      view.name = name;
      if (!view.incarnations.empty() || view.cordoned()) roster.views_.push_back(std::move(view));
    }
    return roster;
  }

  const std::vector<WorkerView>& views() const { return views_; }

  std::string StateOf(const WorkerView& view, const WorkerRecord& row) const {
    if (row.presence == WorkerPresence::kGone) return "gone";
    // Nobody hears it, so nobody knows.
    if (!engine_ || now_ > row.written_at + kStale) return "unknown";
    if (row.presence == WorkerPresence::kSilent) return "silent";
    if (view.drains.contains(row.incarnation)) return "draining";
    return view.cordoned() ? "cordoned" : "connected";
  }

 private:
  std::vector<WorkerView> views_;
  bool engine_ = false;
  Instant now_{};
};

/// Those that a list shows: who came back is not shown as gone, too.
std::vector<const WorkerRecord*> Shown(const WorkerView& view) {
  std::vector<const WorkerRecord*> shown;
  for (const WorkerRecord& row : view.incarnations)
    if (row.presence != WorkerPresence::kGone) shown.push_back(&row);
  if (shown.empty() && !view.incarnations.empty())
    shown.push_back(&*std::ranges::max_element(view.incarnations, {}, &WorkerRecord::gone_at));
  return shown;
}

json::value TextOrNull(std::string_view text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::value OrderJson(const WorkerOrder* order) {
  if (order == nullptr) return nullptr;
  return json::object{{"by", order->actor}, {"at", JsonTime(order->at)}, {"taken", order->taken}};
}

json::value CordonJson(const WorkerView& view) {
  return OrderJson(view.cordoned() ? &*view.cordon : nullptr);
}

json::object WorkerJson(const Roster& roster, const WorkerView& view, const WorkerRecord& row) {
  const auto drain = view.drains.find(row.incarnation);
  json::array queues;
  for (const WorkerRecord::Queue& queue : row.queues)
    queues.emplace_back(json::object{{"queue", queue.name},
                                     {"slots", queue.slots},
                                     {"held", queue.held},
                                     {"running", queue.running}});
  return {{"worker", row.name},
          {"incarnation", row.incarnation},
          {"tenant", row.tenant.value},
          {"state", roster.StateOf(view, row)},
          {"cordoned", CordonJson(view)},
          {"drained", OrderJson(drain == view.drains.end() ? nullptr : &drain->second)},
          {"queues", std::move(queues)},
          {"labels", json::value_from(row.labels)},
          {"host", TextOrNull(row.host)},
          {"version", TextOrNull(row.version)},
          {"protocol", row.protocol},
          {"connected_at", JsonTime(row.connected_at)},
          {"heard_at", JsonTime(row.heard_at)},
          {"written_at", JsonTime(row.written_at)},
          {"gone_at", JsonTime(row.gone_at)},
          {"gone_reason", TextOrNull(row.gone_why)}};
}

std::string Seconds(Instant instant) { return FormatInstant(instant).substr(0, 19); }

/// "default 2/4, mail 0/1".
std::string QueuesText(const WorkerRecord& row) {
  std::vector<std::string> texts;
  texts.reserve(row.queues.size());
  for (const WorkerRecord::Queue& queue : row.queues)
    texts.push_back(fmt::format("{} {}/{}", queue.name, queue.held, queue.slots));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string Labels(const WorkerRecord& row) {
  return row.labels.empty() ? "-" : fmt::format("{}", fmt::join(row.labels, ", "));
}

bool Serves(const WorkerRecord& row, const std::string& queue) {
  return queue.empty() ||
         std::ranges::any_of(row.queues, [&](const auto& each) { return each.name == queue; });
}

Result<WorkerView> FindWorker(const Context& context, const Roster& roster,
                              const std::string& name) {
  const auto found = std::ranges::find(roster.views(), name, &WorkerView::name);
  if (found == roster.views().end())
    return Error{Code::kNotFound,
                 fmt::format("no worker '{}' of tenant '{}' is known in {}; `headworks workers "
                             "list` shows all that are",
                             name, context.tenant().value, StoreName(context.settings().runner))};
  return *found;
}

}  // namespace

Result<Exit> ListWorkers(const Context& context, const WorkersArgs& args) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(const Roster roster, Roster::Read(context, *runner));
  json::array list;
  Table table({"WORKER", "STATE", "HELD/SLOTS", "LABELS", "CONNECTED", "HEARD"});
  for (const WorkerView& view : roster.views()) {
    if (view.incarnations.empty() && args.queue.empty()) {
      list.emplace_back(
          json::object{{"worker", view.name}, {"state", "gone"}, {"cordoned", CordonJson(view)}});
      table.AddRow({view.name, "gone, cordoned", "-", "-", "-", "-"});
    }
    for (const WorkerRecord* row : Shown(view)) {
      if (!Serves(*row, args.queue)) continue;
      list.emplace_back(WorkerJson(roster, view, *row));
      table.AddRow({row->name, roster.StateOf(view, *row), QueuesText(*row), Labels(*row),
                    Seconds(row->connected_at), Seconds(row->heard_at)});
    }
  }
  if (!context.wants_table())
    PrintValue(context.settings().output, list);
  else if (table.empty())
    Note(fmt::format("no workers in {}", StoreName(context.settings().runner)));
  else
    Print(table.Render());
  return Exit::kOk;
}

Result<Exit> ShowWorker(const Context& context, const WorkersArgs& args) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(const Roster roster, Roster::Read(context, *runner));
  HEADWORKS_ASSIGN(const WorkerView view, FindWorker(context, roster, args.name));
  json::array list;
  std::string text;
  if (view.cordon)
    text += fmt::format("{} {} by {} at {}\n", view.name,
                        view.cordoned() ? "was cordoned" : "was uncordoned", view.cordon->actor,
                        Seconds(view.cordon->at));
  for (const WorkerRecord& row : view.incarnations) {
    list.emplace_back(WorkerJson(roster, view, row));
    text += fmt::format(
        "worker {}: {}\n  incarnation {}\n  host {}, version {}, protocol {}\n  labels {}\n"
        "  connected since {}, heard at {}\n",
        row.name, roster.StateOf(view, row), row.incarnation, row.host.empty() ? "?" : row.host,
        row.version.empty() ? "?" : row.version, row.protocol, Labels(row),
        Seconds(row.connected_at), Seconds(row.heard_at));
    if (row.presence == WorkerPresence::kGone)
      text += fmt::format("  gone since {}: {}\n", Seconds(row.gone_at), row.gone_why);
    if (const auto drain = view.drains.find(row.incarnation); drain != view.drains.end())
      text += fmt::format("  told to drain by {} at {}\n", drain->second.actor,
                          Seconds(drain->second.at));
    for (const WorkerRecord::Queue& queue : row.queues)
      text += fmt::format("  queue {}: {} slots, {} held, {} running\n", queue.name, queue.slots,
                          queue.held, queue.running);
  }
  if (!context.wants_table())
    PrintValue(context.settings().output, json::object{{"worker", view.name},
                                                       {"cordoned", CordonJson(view)},
                                                       {"incarnations", std::move(list)}});
  else
    Print(text);
  return Exit::kOk;
}

Result<Exit> CommandWorkers(const Context& context, control::WorkerCommandKind kind,
                            const WorkersArgs& args) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(const std::string engine, FindEngine(context));
  auto done = runner->control().CommandWorkers(
      {.tenant = context.tenant(), .kind = kind, .name = args.name, .actor = context.actor},
      engine.empty() ? Duration(0) : kAnswerTimeout);
  if (!done) return NameStore(context, std::move(done).error());
  const std::string_view verb = control::WorkerCommandKindName(kind);
  if (!context.wants_table()) {
    PrintValue(context.settings().output, json::object{{"command", verb},
                                                       {"workers", json::value_from(done->names)},
                                                       {"taken", done->taken}});
    return Exit::kOk;
  }
  const bool drain = kind == control::WorkerCommandKind::kDrain;
  for (const std::string& name : done->names)
    Print(drain ? fmt::format("{} is to drain\n", name) : fmt::format("{}ed {}\n", verb, name));
  if (!done->taken)
    Note("no engine goes by that yet; the next one that lets workers connect will (headworks up)");
  return Exit::kOk;
}

}  // namespace headworks::cli
