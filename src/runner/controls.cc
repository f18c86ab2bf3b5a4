#include "controls.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <set>
#include <thread>

#include "headworks/alert/alert.h"

namespace headworks {
namespace {

using control::WorkerCommandKind;
using store::WorkerOrder;

constexpr Duration kAskInterval = std::chrono::milliseconds(10);
/// The engine looks for orders each 100 ms.
constexpr Duration kAskOrders = std::chrono::milliseconds(50);

/// Waits for an answer that the engine gives on its own thread.
template <typename T>
T WaitFor(std::future<T>& answer, Duration timeout) {
  if (answer.wait_for(timeout) == std::future_status::ready) return answer.get();
  return Error{Code::kUnavailable, fmt::format("no answer from the engine within {}; what was "
                                               "asked is still under way",
                                               FormatDuration(timeout))};
}

bool Matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

struct Orders {
  std::set<std::string> names;  // of the workers that are meant
  std::vector<WorkerOrder> all;
};

/// What `command` means for those whom the store knows; kNotFound, kConflict.
Result<Orders> OrdersOf(const control::WorkerCommand& command, store::WorkerStore& workers,
                        Instant now) {
  HEADWORKS_ASSIGN(const auto rows, workers.ListWorkers(command.tenant));
  HEADWORKS_ASSIGN(const auto known, workers.ListOrders(command.tenant));
  std::set<std::string> names;
  for (const auto& row : rows)
    if (Matches(command.name, row.name)) names.insert(row.name);
  // One may be cordoned that was seen last a long time ago.
  for (const auto& order : known)
    if (Matches(command.name, order.name)) names.insert(order.name);
  if (names.empty())
    return Error{Code::kNotFound,
                 fmt::format("no worker '{}' of tenant '{}' is known; `headworks workers list` "
                             "shows all that are",
                             command.name, command.tenant.value)};
  Orders orders;
  const auto add = [&](const std::string& name, const std::string& incarnation) {
    orders.names.insert(name);
    orders.all.push_back({.tenant = command.tenant,
                          .name = name,
                          .incarnation = incarnation,
                          .stands = command.kind != WorkerCommandKind::kUncordon,
                          .actor = command.actor,
                          .at = now});
  };
  switch (command.kind) {
    case WorkerCommandKind::kCordon:
      for (const std::string& name : names) add(name, "");
      break;
    case WorkerCommandKind::kUncordon:  // whoever is not cordoned needs no word of it
      for (const auto& order : known)
        if (names.contains(order.name) && order.incarnation.empty() &&
            (order.stands || !order.taken))
          add(order.name, "");
      orders.names = std::move(names);
      break;
    case WorkerCommandKind::kDrain:
      for (const auto& row : rows)
        if (names.contains(row.name) && row.presence != store::WorkerPresence::kGone)
          add(row.name, row.incarnation);
      break;
  }
  if (orders.names.empty())
    return Error{Code::kConflict,
                 fmt::format("worker '{}' is gone: there is nothing to drain; `headworks workers "
                             "cordon` keeps it from work when it comes back",
                             command.name)};
  return orders;
}

auto KeyOf(const WorkerOrder& order) {
  return std::pair<std::string_view, std::string_view>(order.name, order.incarnation);
}

/// Whether each is gone by, or is an order no more: another came after it, or it was forgotten.
/// `known` is in order of KeyOf.
bool AreTaken(const std::vector<WorkerOrder>& asked, const std::vector<WorkerOrder>& known) {
  return std::ranges::all_of(asked, [&](const WorkerOrder& order) {
    const auto now = std::ranges::lower_bound(known, KeyOf(order), {}, KeyOf);
    return now == known.end() || *now != order;  // `taken` is what differs, or more than that
  });
}

}  // namespace

Result<control::WorkersCommanded> StoredControl::CommandWorkers(
    const control::WorkerCommand& command, Duration timeout) {
  HEADWORKS_ASSIGN(const auto orders, OrdersOf(command, ports_.workers, ports_.clock.Now()));
  control::WorkersCommanded done{.names = {orders.names.begin(), orders.names.end()}};
  done.taken = orders.all.empty();
  if (done.taken) return done;
  HEADWORKS_TRY(ports_.workers.Order(orders.all));
  const Duration deadline = ports_.clock.Monotonic() + timeout;
  for (;;) {
    HEADWORKS_ASSIGN(const auto known, ports_.workers.ListOrders(command.tenant));
    done.taken = AreTaken(orders.all, known);
    if (done.taken || ports_.clock.Monotonic() >= deadline) return done;
    std::this_thread::sleep_for(kAskOrders);  // tidy-allow(sleep): the engine's roster takes it
  }
}

Result<std::vector<control::AlertTested>> StoredControl::TestAlert(const TenantId& tenant,
                                                                   std::string_view actor,
                                                                   Duration timeout) {
  if (ports_.alert_queues.empty())
    return Error{Code::kInvalidArgument,
                 "no alerts are configured here; set alert_command or alert_queue, as for "
                 "`headworks up`"};
  const Instant now = ports_.clock.Now();
  const alert::Alert test = alert::OfTest(tenant, NewUuidV7(now, ports_.random), actor, now);
  for (const std::string& queue : ports_.alert_queues) {
    // The first failure is the answer.
    const task_queue::NewItem item{
        .id = test.id,
        .payload = test.payload,
        .max_attempts = queue == alert::kCommandQueue ? 1 : alert::AttemptsIn(queue)};
    HEADWORKS_TRY(ports_.queues.tasks().Enqueue(tenant, queue, {&item, 1}));
  }
  const Duration deadline = ports_.clock.Monotonic() + timeout;
  std::vector<control::AlertTested> tested;
  for (const std::string& queue : ports_.alert_queues)
    for (const bool is_command = queue == alert::kCommandQueue;;) {
      HEADWORKS_ASSIGN(const auto known, ports_.queues.admin().GetItem(tenant, queue, test.id));
      const bool over = known.item.state != task_queue::ItemState::kPending &&
                        known.item.state != task_queue::ItemState::kProcessing;
      if (!is_command || over || ports_.clock.Monotonic() >= deadline) {
        tested.push_back(
            {queue, is_command, std::string(StateName(known.item.state)), known.item.reason});
        break;
      }
      std::this_thread::sleep_for(kAskInterval);  // tidy-allow(sleep): an engine runs the command
    }
  return tested;
}

Result<control::Started> EngineControl::Start(const control::StartRequest& request,
                                              Duration timeout) {
  // Shared with the callback, which may come after this call gave up.
  auto promise = std::make_shared<std::promise<Result<control::Started>>>();
  auto answer = promise->get_future();
  engine_.Start(request, [promise](Result<control::Started> started) {
    promise->set_value(std::move(started));
  });
  return WaitFor(answer, timeout);
}

Status EngineControl::Execute(const control::Command& command, Duration timeout) {
  auto promise = std::make_shared<std::promise<Status>>();
  auto answer = promise->get_future();
  engine_.Execute(command, [promise](Status status) { promise->set_value(std::move(status)); });
  return WaitFor(answer, timeout);
}

Result<control::Started> InboxControl::Start(const control::StartRequest& request,
                                             Duration timeout) {
  HEADWORKS_TRY(control::CheckStart(request));
  HEADWORKS_ASSIGN(const auto answer, Ask({.tenant = request.tenant,
                                           .shard = model::ShardOf(request.name),
                                           .kind = "start",
                                           .payload = control::EncodeStart(request)},
                                          timeout));
  return control::Started{answer.run, answer.run_id, false};
}

Status InboxControl::Execute(const control::Command& command, Duration timeout) {
  HEADWORKS_ASSIGN(const auto run,
                   database_.query().GetRun(command.tenant, std::to_string(command.run.value)));
  HEADWORKS_ASSIGN(const auto answer,
                   Ask({.tenant = command.tenant,
                        .shard = run.header.shard,
                        .kind = std::string(control::CommandKindName(command.kind)),
                        .run = command.run,
                        .payload = control::EncodeCommand(command)},
                       timeout));
  return {};
}

Result<store::Answer> InboxControl::Ask(store::InboxRow row, Duration timeout) {
  row.dedupe_key = NewUuidV7(ports_.clock.Now(), ports_.random);
  row.appended_at = ports_.clock.Now();
  HEADWORKS_TRY(database_.inbox().Append({&row, 1}));
  const Duration deadline = ports_.clock.Monotonic() + timeout;
  for (;;) {
    HEADWORKS_ASSIGN(auto answer, database_.inbox().GetAnswer(row.tenant, row.dedupe_key));
    if (answer && answer->error) return *answer->error;
    if (answer) return *std::move(answer);
    if (ports_.clock.Monotonic() >= deadline)
      return Error{Code::kUnavailable,
                   fmt::format("no engine answered within {}; what was asked is stored and will "
                               "happen when one runs (headworks up)",
                               FormatDuration(timeout))};
    std::this_thread::sleep_for(kAskInterval);  // tidy-allow(sleep): another process answers
  }
}

}  // namespace headworks
