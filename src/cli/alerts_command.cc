#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <deque>
#include <utility>

#include "commands.h"
#include "headworks/alert/alert.h"
#include "output.h"
#include "records.h"

namespace headworks::cli {
namespace json = boost::json;
namespace {

using task_queue::ItemRecord;

struct StoredAlert {
  std::string queue;
  ItemRecord item;
};

/// Where alerts are looked for: also those that another configuration leaves for its command.
std::vector<std::string> QueuesOf(const Context& context) {
  return alert::QueuesOf(true, context.options().alert_queue);
}

/// The newest `limit`, oldest first.
Result<std::vector<StoredAlert>> Newest(const Context& context, Runner& runner, std::size_t limit) {
  std::vector<StoredAlert> all;
  for (const std::string& queue : QueuesOf(context)) {
    std::deque<ItemRecord> newest;
    for (task_queue::ItemFilter filter{.limit = task_queue::kMaxBatch};;) {
      auto page = runner.queues().admin().ListItems(context.tenant(), queue, filter);
      if (!page && page.error().code == Code::kNotFound) break;
      if (!page) return Error(page.error());
      for (ItemRecord& item : *page) {
        filter.after = item.no;
        newest.push_back(std::move(item));
        if (newest.size() > limit) newest.pop_front();
      }
      if (page->size() < filter.limit) break;
    }
    for (ItemRecord& item : newest) all.push_back({queue, std::move(item)});
  }
  std::ranges::sort(all, {},
                    [](const StoredAlert& a) { return std::pair(a.item.enqueued_at, a.item.no); });
  if (all.size() > limit) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(limit));
  return all;
}

Result<json::object> AlertJson(const Context& context, Runner& runner, const StoredAlert& alert) {
  const auto known = runner.queues().admin().GetItem(context.tenant(), alert.queue, alert.item.id);
  if (!known && known.error().code != Code::kNotFound) return Error(known.error());
  return json::object{{"id", alert.item.id},
                      {"about", alert::KindOf(alert.item.id)},
                      {"queue", alert.queue},
                      {"state", StateName(alert.item.state)},
                      {"attempts", alert.item.attempts},
                      {"created_at", JsonTime(alert.item.enqueued_at)},
                      {"ended_at", JsonTime(alert.item.ended_at)},
                      {"reason", alert.item.reason},
                      {"alert", ParsedJson(known ? known->payload : std::string())}};
}

}  // namespace

Result<Exit> ListAlerts(const Context& context, std::size_t limit) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(const auto alerts, Newest(context, *runner, limit));
  if (!context.wants_table()) {
    json::array list;
    for (const StoredAlert& alert : alerts) {
      HEADWORKS_ASSIGN(auto object, AlertJson(context, *runner, alert));
      list.emplace_back(std::move(object));
    }
    PrintValue(context.settings().output, list);
    return Exit::kOk;
  }
  Table table({"ALERT", "QUEUE", "STATE", "ATTEMPTS", "CREATED", "REASON"});
  for (const auto& [queue, item] : alerts)
    table.AddRow({item.id, queue, std::string(StateName(item.state)),
                  fmt::format("{}", item.attempts), FormatInstant(item.enqueued_at).substr(0, 19),
                  item.reason.substr(0, item.reason.find('\n'))});
  if (table.empty())
    Note(fmt::format("no alerts in {}", StoreName(context.settings().runner)));
  else
    Print(table.Render());
  return Exit::kOk;
}

Result<Exit> TestAlert(const Context& context) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context, NoStore::kCreate));
  HEADWORKS_ASSIGN(const std::string engine, FindEngine(context));
  const Duration timeout =
      engine.empty() ? Duration() : context.options().alert_timeout + kAnswerTimeout;
  HEADWORKS_ASSIGN(const auto tested,
                   runner->control().TestAlert(context.tenant(), context.actor, timeout));
  Exit exit = Exit::kOk;
  json::array list;
  std::string text;
  for (const control::AlertTested& way : tested) {
    list.emplace_back(json::object{{"queue", way.queue},
                                   {"way", way.is_command ? "command" : "queue"},
                                   {"state", way.state},
                                   {"reason", way.reason}});
    if (!way.is_command) {
      text += fmt::format("the test alert is in queue {} ({})\n", way.queue, way.state);
    } else if (way.state == "completed") {
      text += "the alert command succeeded\n";
    } else if (way.state == "dead") {
      text += fmt::format("the alert command failed: {}\n", way.reason);
      exit = Exit::kRunFailed;
    } else {
      text += fmt::format(
          "{}; it is stored in queue {}, and the next engine with an alert_command takes it\n",
          engine.empty() ? "no engine is running that could run the alert command"
                         : "the engine has not run the alert command: has it one configured?",
          way.queue);
      exit = Exit::kUnavailable;
    }
  }
  if (context.wants_table())
    Print(text);
  else
    PrintValue(context.settings().output, list);
  return exit;
}

}  // namespace headworks::cli
