#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "headworks/base/random.h"
#include "headworks/task_queue/checks.h"
#include "headworks/task_queue/long_poll.h"
#include "headworks/task_queue/rules.h"
#include "number.h"
#include "option_text.h"
#include "output.h"
#include "queue_commands.h"
#include "records.h"
#include "terminal.h"

namespace headworks::cli {
namespace json = boost::json;
namespace {

using task_queue::Claim;
using task_queue::ClaimedItem;
using task_queue::ItemFilter;
using task_queue::ItemNo;
using task_queue::ItemRecord;
using task_queue::ItemState;
using task_queue::Moved;
using task_queue::NewItem;
using task_queue::QueueRecord;
using task_queue::Settlement;

constexpr std::size_t kShownPayload = 60;

// ---- Arguments

/// None if it was not given.
Result<std::optional<Duration>> Parse(const DurationArg& arg) {
  if (!arg.text) return std::optional<Duration>();
  HEADWORKS_ASSIGN(const Duration duration, DurationOf(arg.flag, *arg.text));
  return std::optional(duration);
}

Result<Duration> ParseOr(const DurationArg& arg, Duration otherwise) {
  HEADWORKS_ASSIGN(const auto duration, Parse(arg));
  return duration.value_or(otherwise);
}

/// Zero = the queue's.
Result<Duration> ParseVisibility(const QueueArgs& args) {
  HEADWORKS_ASSIGN(const auto visibility, Parse(args.visibility));
  if (visibility == Duration())
    return Error{Code::kInvalidArgument,
                 "--visibility: a lease of no time ends at once; give 1ms to 24h"};
  return visibility.value_or(Duration());
}

/// 0 for "none".
Result<task_queue::RateLimit> ParseRate(const std::string& text) {
  if (text == "none") return task_queue::RateLimit();
  const std::size_t slash = text.find('/');
  const auto count = ParseNumber(text.substr(0, slash), 1, 1'000'000);
  if (!count) return Error{Code::kInvalidArgument, "--rate: " + count.error().message};
  if (slash == text.npos)
    return Error{Code::kInvalidArgument,
                 fmt::format("--rate: '{}' is no rate; write e.g. 100/1m, or none", text)};
  const auto per = ParseDuration(text.substr(slash + 1));
  if (!per) return Error{Code::kInvalidArgument, "--rate: " + per.error().message};
  return task_queue::RateLimit{*count, *per};
}

Result<std::vector<ItemState>> ParseStates(const std::vector<std::string>& names) {
  std::vector<ItemState> states;
  for (const std::string& name : names) {
    const auto state = std::ranges::find(task_queue::kAllStates, name, task_queue::StateName);
    if (state == task_queue::kAllStates.end())
      return Error{Code::kInvalidArgument,
                   fmt::format("--state: items are never '{}'; give pending, processing, "
                               "completed, dead, cancelled or purged",
                               name)};
    states.push_back(*state);
  }
  return states;
}

Result<std::vector<Claim>> ParseClaims(const std::vector<std::string>& texts) {
  std::vector<Claim> claims;
  for (const std::string& text : texts) {
    HEADWORKS_ASSIGN(claims.emplace_back(), task_queue::ParseClaim(text));
  }
  return claims;
}

Result<ItemFilter> MakeFilter(const QueueArgs& args) {
  ItemFilter filter;
  HEADWORKS_ASSIGN(filter.states, ParseStates(args.states));
  HEADWORKS_ASSIGN(filter.older_than, ParseOr(args.older_than, Duration()));
  filter.reason = args.reason;
  filter.ids = args.ids;
  filter.after = ItemNo(args.after);
  filter.limit = args.limit;
  return filter;
}

Result<std::string> ReadAll(std::istream& stream, std::size_t at_most, std::string_view what) {
  constexpr std::size_t kPart = std::size_t{1} << 20;
  std::string text;
  // One byte over the limit is enough to be refused; more need not be held.
  while (stream && text.size() <= at_most) {
    const std::size_t before = text.size();
    text.resize(std::min(before + kPart, at_most + 1));
    stream.read(text.data() + before, static_cast<std::streamsize>(text.size() - before));
    text.resize(before + static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad())
    return Error{Code::kUnavailable, fmt::format("cannot read {}: {}", what, std::strerror(errno))};
  if (text.size() <= at_most) return text;
  return Error{Code::kInvalidArgument,
               fmt::format("{} has more than {} bytes; push it in parts", what, at_most)};
}

/// JSON as it was given, or from where the argument says.
Result<std::string> ReadPayload(const QueueArgs& args) {
  const std::size_t at_most =
      args.lines ? task_queue::kMaxBatchBytes : task_queue::kMaxPayloadBytes;
  if (args.payload == "-") return ReadAll(std::cin, at_most, "standard input");
  if (!args.payload.starts_with('@')) return args.payload;
  const std::string path = args.payload.substr(1);
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Error{errno == ENOENT ? Code::kNotFound : Code::kUnavailable,
                 fmt::format("cannot read {}: {}", path, std::strerror(errno))};
  return ReadAll(file, at_most, path);
}

/// A text that nobody has put into quotes, or a number.
bool IsBareWord(std::string_view text) {
  return !text.empty() && text != "-" && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == ' ';
  });
}

/// What a push makes of its payloads.
class ItemMaker {
 public:
  static Result<ItemMaker> Make(const Context& context, const QueueArgs& args) {
    HEADWORKS_ASSIGN(const Duration delay, ParseOr(args.delay, Duration()));
    return ItemMaker(context, args, delay);
  }
  NewItem operator()(std::string_view payload) {
    return {.id = args_.id.empty() ? NewUuidV7(context_.clock.Now(), random_) : args_.id,
            .payload = std::string(payload),
            .priority = args_.priority,
            .delay = delay_,
            .max_attempts = args_.max_attempts};
  }

 private:
  ItemMaker(const Context& context, const QueueArgs& args, Duration delay)
      : context_(context), args_(args), delay_(delay) {}

  const Context& context_;
  const QueueArgs& args_;
  const Duration delay_;
  SystemRandom random_;
};

/// Calls `each(number, line)` for those that are not blank.
template <typename Each>
Status ForEachLine(std::string_view text, Each each) {
  int number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos)
      HEADWORKS_TRY(each(number, line));
    at = end + 1;
  }
  return {};
}

/// All lines before the first is stored: a push that is repeated would store that twice.
Status CheckLines(const Context& context, const QueueArgs& args, std::string_view text,
                  ItemMaker& make) {
  std::size_t items = 0;
  HEADWORKS_TRY(ForEachLine(text, [&](int number, std::string_view line) -> Status {
    ++items;
    const NewItem item = make(line);
    const Status fine = task_queue::CheckEnqueue(context.tenant(), args.queue, {&item, 1});
    if (fine) return {};
    return Error{fine.error().code, fmt::format("line {}: {}", number, fine.error().message)};
  }));
  if (items > 0) return {};
  return Error{Code::kInvalidArgument, "there is nothing to push: all lines are blank"};
}

// ---- Results

json::object ItemJson(const ItemRecord& item) {
  return {{"item", item.no.value},
          {"id", item.id},
          {"state", task_queue::StateName(item.state)},
          {"priority", item.priority},
          {"attempts", item.attempts},
          {"redrives", item.redrives},
          {"cancel_requested", item.cancel_requested},
          {"enqueued_at", JsonTime(item.enqueued_at)},
          {"available_at", JsonTime(item.available_at)},
          {"claimed_at", JsonTime(item.claimed_at)},
          {"ended_at", JsonTime(item.ended_at)},
          {"holder", item.holder},
          {"payload_bytes", item.payload_bytes},
          {"reason", item.reason}};
}

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string RateText(const std::optional<task_queue::RateLimit>& rate) {
  return rate ? fmt::format("{}/{}", rate->count, FormatDuration(rate->per)) : "none";
}

json::object SettingsJson(const task_queue::QueueSettings& s) {
  return {{"visibility", Seconds(s.visibility)},
          {"max_attempts", s.max_attempts},
          {"backoff", Seconds(s.backoff)},
          {"max_backoff", Seconds(s.max_backoff)},
          {"rate", s.rate ? json::value(json::object{{"count", s.rate->count},
                                                     {"per", Seconds(s.rate->per)}})
                          : json::value(nullptr)},
          {"max_depth", s.max_depth},
          {"dedup_window", Seconds(s.dedup_window)},
          {"dead_retention", Seconds(s.dead_retention)}};
}

json::object QueueJson(const QueueRecord& q) {
  return {{"queue", q.name},
          {"paused", q.paused},
          {"pending", q.pending},
          {"processing", q.processing},
          {"dead", q.dead},
          {"oldest_age", Seconds(q.oldest_age)},
          {"enqueued", q.enqueued},
          {"completed", q.completed},
          {"failed", q.failed},
          {"duplicates", q.duplicates},
          {"differing", q.differing},
          {"per_minute", json::object{{"enqueued", q.enqueue_rate},
                                      {"completed", q.complete_rate},
                                      {"failed", q.fail_rate}}},
          {"settings", SettingsJson(q.settings)}};
}

std::string SettingsText(const task_queue::QueueSettings& s) {
  return fmt::format(
      "visibility {}, max_attempts {}, backoff {} to {}, rate {}, max_depth {}, dedup_window {}, "
      "dead_retention {}\n",
      FormatDuration(s.visibility), s.max_attempts, FormatDuration(s.backoff),
      FormatDuration(s.max_backoff), RateText(s.rate), s.max_depth, FormatDuration(s.dedup_window),
      FormatDuration(s.dead_retention));
}

std::string Minute(Instant instant) { return FormatInstant(instant).substr(0, 19); }

void PrintItems(const Context& context, const std::vector<ItemRecord>& items) {
  json::array list;
  Table table({"ITEM", "ID", "STATE", "PRIORITY", "ATTEMPTS", "SINCE", "REASON"});
  for (const ItemRecord& item : items) {
    list.emplace_back(ItemJson(item));
    const Instant since = item.ended_at != Instant{}             ? item.ended_at
                          : item.state == ItemState::kProcessing ? item.claimed_at
                                                                 : item.enqueued_at;
    table.AddRow({fmt::format("{}", item.no.value), FitToWidth(item.id, 64),
                  std::string(task_queue::StateName(item.state)), fmt::format("{}", item.priority),
                  fmt::format("{}", item.attempts), Minute(since), FitToWidth(item.reason, 60)});
  }
  if (!context.wants_table())
    PrintValue(context.settings().output, list);
  else if (table.empty())
    Note("no such items");
  else
    Print(table.Render());
}

void PrintQueues(const Context& context, const std::vector<QueueRecord>& queues) {
  json::array list;
  Table table({"QUEUE", "PENDING", "PROCESSING", "DEAD", "COMPLETED", "OLDEST", "STATE"});
  for (const QueueRecord& q : queues) {
    list.emplace_back(QueueJson(q));
    table.AddRow({q.name, fmt::format("{}", q.pending), fmt::format("{}", q.processing),
                  fmt::format("{}", q.dead), fmt::format("{}", q.completed),
                  q.oldest_age > Duration() ? FormatDuration(q.oldest_age) : "-",
                  q.paused ? "paused" : "open"});
  }
  if (!context.wants_table())
    PrintValue(context.settings().output, list);
  else if (table.empty())
    Note(fmt::format("no queues in {}", StoreName(context.settings().runner)));
  else
    Print(table.Render());
}

/// What became of each claim or id: all are printed, and the last error is the command's.
class Answers {
 public:
  explicit Answers(const Context& context) : context_(context) {}

  void Add(const std::string& key, const std::string& name, std::string_view state) {
    list_.emplace_back(json::object{{key, name}, {"state", state}});
    text_ += fmt::format("{} {}\n", name, state);
  }
  void Add(const std::string& key, const std::string& name, const Error& error) {
    list_.emplace_back(
        json::object{{key, name}, {"error", CodeName(error.code)}, {"message", error.message}});
    if (failed_) Note("headworks: " + failed_->message);
    failed_ = error;
    // The store is well; the state of the item forbids it.
    if (error.code == Code::kLeaseLost || error.code == Code::kCancelled)
      failed_->code = Code::kConflict;
  }
  bool empty() const { return list_.empty(); }
  Result<Exit> Print() {
    if (context_.wants_table())
      cli::Print(text_);
    else
      PrintValue(context_.settings().output, list_);
    if (failed_) return *failed_;
    return Exit::kOk;
  }

 private:
  const Context& context_;
  json::array list_;
  std::string text_;
  std::optional<Error> failed_;
};

/// As LongPoll; a store that does not answer, as while another process keeps it locked, is waited
/// for, too.
Result<task_queue::Polled> PullWithin(const Context& context, task_queue::Queues& queues,
                                      const task_queue::PollRequest& request, Duration wait) {
  constexpr Duration kPause = std::chrono::seconds(1);
  const Duration end = context.clock.Monotonic() + std::min(wait, task_queue::kLongestDelay);
  for (bool told = false;; told = true) {
    auto polled =
        LongPoll(queues.tasks(), queues.bell(), context.clock, request,
                 std::max(end - context.clock.Monotonic(), Duration(0)), std::stop_token());
    const Duration left = end - context.clock.Monotonic();
    if (polled || polled.error().code != Code::kUnavailable || left <= Duration(0)) return polled;
    if (!told) Note(polled.error().message + "; waiting on, as --wait says");
    poll(nullptr, 0,
         static_cast<int>(
             std::chrono::ceil<std::chrono::milliseconds>(std::min(left, kPause)).count()));
  }
}

Result<Exit> SettleItems(const Context& context, const QueueArgs& args,
                         const Settlement& settlement) {
  HEADWORKS_ASSIGN(const auto claims, ParseClaims(args.ids));
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  std::vector<Settlement> all;
  for (const Claim& claim : claims) {
    all.push_back(settlement);
    all.back().claim = claim;
  }
  HEADWORKS_ASSIGN(const auto results,
                   runner->queues().tasks().Settle(context.tenant(), args.queue, all));
  Answers answers(context);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i])
      answers.Add("claim", args.ids[i], task_queue::StateName(*results[i]));
    else
      answers.Add("claim", args.ids[i], results[i].error());
  }
  return answers.Print();
}

/// Calls until nothing that fits is left; prints how many it were.
Result<Exit> MoveItems(const Context& context, const QueueArgs& args, std::string_view done,
                       Result<Moved> (task_queue::QueueAdmin::*move)(const TenantId&,
                                                                     std::string_view,
                                                                     const ItemFilter&)) {
  HEADWORKS_ASSIGN(ItemFilter filter, MakeFilter(args));
  if (!args.all && filter.ids.empty() && filter.reason.empty() && filter.older_than == Duration() &&
      filter.states.empty())
    return Error{Code::kInvalidArgument,
                 args.older_than.text
                     ? fmt::format("--older-than {} leaves out nothing: say --all if that is meant",
                                   *args.older_than.text)
                     : "say which: ids, a filter, or --all"};
  filter.limit = task_queue::kMaxBatch;
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  std::int64_t count = 0;
  for (bool more = true; more;) {
    HEADWORKS_ASSIGN(const Moved moved,
                     (runner->queues().admin().*move)(context.tenant(), args.queue, filter));
    count += moved.count;
    filter.after = moved.after;
    more = moved.more;
  }
  if (context.wants_table())
    Print(fmt::format("{} {} {} of queue {}\n", done, count, count == 1 ? "item" : "items",
                      args.queue));
  else
    PrintValue(context.settings().output, json::object{{"queue", args.queue}, {"items", count}});
  return Exit::kOk;
}

}  // namespace

Result<Exit> PushItems(const Context& context, const QueueArgs& args) {
  HEADWORKS_ASSIGN(const std::string text, ReadPayload(args));
  HEADWORKS_ASSIGN(ItemMaker make, ItemMaker::Make(context, args));
  if (args.lines) HEADWORKS_TRY(CheckLines(context, args, text, make));
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context, NoStore::kCreate));
  Answers answers(context);
  std::vector<NewItem> batch;
  const auto push = [&]() -> Status {
    if (batch.empty()) return {};
    HEADWORKS_ASSIGN(const auto results,
                     runner->queues().tasks().Enqueue(context.tenant(), args.queue, batch));
    for (std::size_t i = 0; i < batch.size(); ++i)
      answers.Add("id", batch[i].id, task_queue::EnqueuedName(results[i]));
    batch.clear();
    return {};
  };
  std::size_t bytes = 0;
  const auto add = [&](int, std::string_view line) -> Status {
    bytes += line.size();
    if (batch.size() == task_queue::kMaxBatch || bytes > task_queue::kMaxBatchBytes) {
      HEADWORKS_TRY(push());
      bytes = line.size();
    }
    batch.push_back(make(line));
    return {};
  };
  Status pushed = args.lines ? ForEachLine(text, add) : add(1, text);
  if (pushed) pushed = push();
  if (!pushed && pushed.error().code == Code::kInvalidArgument && IsBareWord(args.payload) &&
      pushed.error().message.contains("not JSON"))
    pushed =
        Error{pushed.error().code, fmt::format("{}; a text has quotes of its own in JSON: '\"{}\"'",
                                               pushed.error().message, args.payload)};
  // What was stored before an error is told all the same.
  if (!answers.empty() || pushed) {
    HEADWORKS_TRY(answers.Print());
  }
  HEADWORKS_TRY(pushed);
  return Exit::kOk;
}

Result<Exit> PullItems(const Context& context, const QueueArgs& args) {
  task_queue::PollRequest request{.tenant = context.tenant(),
                                  .queue = args.queue,
                                  .max_items = args.max_items,
                                  .holder = args.holder.empty() ? context.actor : args.holder};
  HEADWORKS_ASSIGN(request.visibility, ParseVisibility(args));
  HEADWORKS_ASSIGN(const Duration wait, ParseOr(args.wait, Duration()));
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  auto& queues = runner->queues();
  HEADWORKS_ASSIGN(const auto polled, wait == Duration()
                                          ? queues.tasks().Poll(request)
                                          : PullWithin(context, queues, request, wait));
  json::array list;
  Table table({"CLAIM", "ID", "ATTEMPT", "LEASE", "PAYLOAD"});
  for (const ClaimedItem& item : polled.items) {
    list.emplace_back(json::object{{"claim", FormatClaim(item.claim)},
                                   {"id", item.id},
                                   {"priority", item.priority},
                                   {"attempt", item.attempt},
                                   {"max_attempts", item.max_attempts},
                                   {"lease", Seconds(item.lease)},
                                   {"enqueued_at", JsonTime(item.enqueued_at)},
                                   {"payload", ParsedJson(item.payload)}});
    table.AddRow({FormatClaim(item.claim), FitToWidth(item.id, 64),
                  fmt::format("{}/{}", item.attempt, item.max_attempts), FormatDuration(item.lease),
                  FitToWidth(item.payload, kShownPayload)});
  }
  if (!context.wants_table())
    PrintValue(context.settings().output, list);
  else if (table.empty())
    Note(!queues.admin().GetQueue(context.tenant(), args.queue)
             ? fmt::format("nothing to pull: there is no queue {} yet; the first push makes it",
                           args.queue)
         : polled.paused ? fmt::format("queue {} is paused", args.queue)
                         : fmt::format("queue {} has nothing to pull now", args.queue));
  else
    Print(table.Render());
  if (!OutputIsBroken() || polled.items.empty()) return Exit::kOk;
  // Nobody knows of these claims.
  std::vector<Settlement> unread;
  unread.reserve(polled.items.size());
  for (const ClaimedItem& item : polled.items)
    unread.push_back({.claim = item.claim, .kind = Settlement::Kind::kHandBack});
  HEADWORKS_TRY(queues.tasks().Settle(context.tenant(), args.queue, unread));
  return Error{Code::kUnavailable,
               fmt::format("cannot write to standard output; {} items were handed back to queue {}",
                           unread.size(), args.queue)};
}

Result<Exit> AckItems(const Context& context, const QueueArgs& args) {
  return SettleItems(context, args, {.kind = Settlement::Kind::kAck});
}

Result<Exit> NackItems(const Context& context, const QueueArgs& args) {
  HEADWORKS_ASSIGN(const auto delay, Parse(args.delay));
  const auto kind = args.hand_back ? Settlement::Kind::kHandBack
                    : args.reject  ? Settlement::Kind::kReject
                                   : Settlement::Kind::kNack;
  return SettleItems(context, args, {.kind = kind, .reason = args.reason, .delay = delay});
}

Result<Exit> ExtendItems(const Context& context, const QueueArgs& args) {
  HEADWORKS_ASSIGN(const auto claims, ParseClaims(args.ids));
  HEADWORKS_ASSIGN(const Duration visibility, ParseVisibility(args));
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(const auto results, runner->queues().tasks().Extend(context.tenant(), args.queue,
                                                                       claims, visibility));
  Answers answers(context);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i])
      answers.Add("claim", args.ids[i], task_queue::StateName(ItemState::kProcessing));
    else
      answers.Add("claim", args.ids[i], results[i].error());
  }
  return answers.Print();
}

Result<Exit> CancelItems(const Context& context, const QueueArgs& args) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  Answers answers(context);
  for (const std::string& id : args.ids) {
    const auto state = runner->queues().tasks().Cancel(context.tenant(), args.queue, id);
    if (state)
      answers.Add("id", id, task_queue::StateName(*state));
    else
      answers.Add("id", id, state.error());
  }
  return answers.Print();
}

Result<Exit> ListQueueItems(const Context& context, const QueueArgs& args) {
  HEADWORKS_ASSIGN(const ItemFilter filter, MakeFilter(args));
  if (args.queue.empty() && (!filter.states.empty() || args.is_paged))
    return Error{Code::kInvalidArgument,
                 "--state, --limit and --after are for the items of a queue; say which queue"};
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  auto& admin = runner->queues().admin();
  if (args.queue.empty()) {
    HEADWORKS_ASSIGN(const auto queues, admin.ListQueues(context.tenant()));
    PrintQueues(context, queues);
  } else {
    HEADWORKS_ASSIGN(const auto items, admin.ListItems(context.tenant(), args.queue, filter));
    PrintItems(context, items);
  }
  return Exit::kOk;
}

Result<Exit> ListDeadItems(const Context& context, const QueueArgs& args) {
  QueueArgs dead = args;
  dead.states = {std::string(task_queue::StateName(ItemState::kDead))};
  return ListQueueItems(context, dead);
}

Result<Exit> ShowItem(const Context& context, const QueueArgs& args) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(const auto found,
                   runner->queues().admin().GetItem(context.tenant(), args.queue, args.id));
  const ItemRecord& item = found.item;
  if (!context.wants_table()) {
    json::object value = ItemJson(item);
    value["payload"] = ParsedJson(found.payload);
    PrintValue(context.settings().output, value);
    return Exit::kOk;
  }
  std::string text =
      fmt::format("item {} '{}' of queue {}: {}{}\nenqueued {}, priority {}, {} attempts\n",
                  item.no.value, item.id, args.queue, task_queue::StateName(item.state),
                  item.cancel_requested ? ", to be cancelled" : "", Minute(item.enqueued_at),
                  item.priority, item.attempts);
  if (item.claimed_at != Instant{})
    text += fmt::format("last pulled {} by {}\n", Minute(item.claimed_at), item.holder);
  if (!item.reason.empty())
    text += fmt::format("last failure: {}\n", FitToWidth(item.reason, item.reason.size()));
  if (!found.payload.empty()) text += found.payload + "\n";
  Print(ForScreen(text));
  return Exit::kOk;
}

Result<Exit> ShowQueue(const Context& context, const QueueArgs& args) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(const QueueRecord q,
                   runner->queues().admin().GetQueue(context.tenant(), args.queue));
  if (!context.wants_table()) {
    PrintValue(context.settings().output, QueueJson(q));
    return Exit::kOk;
  }
  Print(fmt::format(
      "queue {}{}: {} pending, {} processing, {} dead; the oldest waits {}\n"
      "{} enqueued, {} completed, {} deliveries failed, {} duplicates ({} of them differing)\n"
      "per minute: {:.1f} enqueued, {:.1f} completed, {:.1f} failed\n{}",
      q.name, q.paused ? " (paused)" : "", q.pending, q.processing, q.dead,
      FormatDuration(q.oldest_age), q.enqueued, q.completed, q.failed, q.duplicates, q.differing,
      q.enqueue_rate, q.complete_rate, q.fail_rate, SettingsText(q.settings)));
  return Exit::kOk;
}

Result<Exit> RedriveItems(const Context& context, const QueueArgs& args) {
  return MoveItems(context, args, "redrove", &task_queue::QueueAdmin::Redrive);
}

Result<Exit> PurgeItems(const Context& context, const QueueArgs& args) {
  return MoveItems(context, args, "purged", &task_queue::QueueAdmin::Purge);
}

Result<Exit> PauseQueue(const Context& context, const QueueArgs& args, bool paused) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_TRY(runner->queues().admin().SetPaused(context.tenant(), args.queue, paused));
  if (context.wants_table())
    Print(fmt::format("{} queue {}\n", paused ? "paused" : "resumed", args.queue));
  else
    PrintValue(context.settings().output, json::object{{"queue", args.queue}, {"paused", paused}});
  return Exit::kOk;
}

Result<Exit> DeleteQueue(const Context& context, const QueueArgs& args) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  Moved moved;
  do {
    HEADWORKS_ASSIGN(moved, runner->queues().admin().Delete(context.tenant(), args.queue));
  } while (moved.more);
  if (context.wants_table())
    Print(fmt::format("deleted queue {}\n", args.queue));
  else
    PrintValue(context.settings().output, json::object{{"queue", args.queue}, {"deleted", true}});
  return Exit::kOk;
}

Result<Exit> ConfigureQueue(const Context& context, const QueueArgs& args) {
  task_queue::SettingsChange change;
  HEADWORKS_ASSIGN(change.visibility, Parse(args.visibility));
  HEADWORKS_ASSIGN(change.backoff, Parse(args.backoff));
  HEADWORKS_ASSIGN(change.max_backoff, Parse(args.max_backoff));
  HEADWORKS_ASSIGN(change.dedup_window, Parse(args.dedup_window));
  HEADWORKS_ASSIGN(change.dead_retention, Parse(args.dead_retention));
  if (args.rate) {
    HEADWORKS_ASSIGN(change.rate, ParseRate(*args.rate));
  }
  if (args.max_attempts > 0) change.max_attempts = args.max_attempts;
  if (args.max_depth > 0) change.max_depth = args.max_depth;
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context, NoStore::kCreate));
  HEADWORKS_ASSIGN(const auto settings,
                   runner->queues().admin().Configure(context.tenant(), args.queue, change));
  if (context.wants_table())
    Print(fmt::format("queue {}: {}", args.queue, SettingsText(settings)));
  else
    PrintValue(context.settings().output, SettingsJson(settings));
  return Exit::kOk;
}

}  // namespace headworks::cli
