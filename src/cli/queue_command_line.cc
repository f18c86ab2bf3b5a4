#include "queue_command_line.h"

#include <cstdint>

#include "headworks/task_queue/task_queue.h"
#include "number_option.h"

namespace headworks::cli {
namespace {

/// Adds them; what they do later sees the arguments alone.
class QueueTree {
 public:
  QueueTree(QueueArgs& args, const QueueLeaf& leaf) : args_(args), leaf_(leaf) {}

  void Add() {
    AddPush();
    AddPull();
    AddSettlements();
    AddLists();
    AddMoves();
    AddSet();
  }

 private:
  using Command = Result<Exit> (*)(const Context&, const QueueArgs&);

  CLI::App& Leaf(const char* name, const char* description, Command command) {
    CLI::App& leaf = leaf_(name, description, [&args = args_, command](const Context& context) {
      return command(context, args);
    });
    leaf.add_option("queue", args_.queue, "The queue")->required();
    return leaf;
  }

  static void AddDuration(CLI::App& leaf, DurationArg& to, const char* description) {
    leaf.add_option(to.flag, to.text, description)->type_name("DURATION");
  }

  void AddPush() {
    CLI::App& push = Leaf("push", "Put an item in; a known id changes nothing", PushItems);
    push.add_option("payload", args_.payload, "JSON, @FILE or - for standard input")
        ->required()
        ->type_name("JSON|@FILE|-");
    auto* id = push.add_option("--id", args_.id, "Known once in its queue (default: a new one)")
                   ->check([](const std::string& given) {
                     return given.empty() ? "is empty; leave it out for a new one" : "";
                   });
    push.add_flag("--lines", args_.lines, "Each line of the payload is an item")->excludes(id);
    push.add_option("--priority", args_.priority, "Higher goes first")
        ->check(NumberFrom(-task_queue::kMaxPriority, task_queue::kMaxPriority));
    AddDuration(push, args_.delay, "Not to be pulled before so long from now");
    push.add_option("--max-attempts", args_.max_attempts, "Instead of the queue's")
        ->check(NumberFrom(1, task_queue::kMaxAttempts));
  }

  void AddPull() {
    CLI::App& pull = Leaf("pull", "Take items out, under a lease", PullItems);
    pull.add_option("--max", args_.max_items, "At most so many")
        ->check(NumberFrom(1, task_queue::kMaxBatch))
        ->capture_default_str();
    AddDuration(pull, args_.visibility, "How long the lease holds (default: the queue's)");
    AddDuration(pull, args_.wait, "Wait so long for an item, if there is none");
    pull.add_option("--holder", args_.holder, "Who holds them (default: user@host)");
  }

  CLI::App& AddClaims(CLI::App& leaf) {
    leaf.add_option("claims", args_.ids, "As pull printed them")->required()->type_name("CLAIM");
    return leaf;
  }

  void AddSettlements() {
    AddClaims(Leaf("ack", "They are done", AckItems));
    CLI::App& nack = AddClaims(
        Leaf("nack", "They failed: again later, or dead after the last attempt", NackItems));
    auto* reason =
        nack.add_option("--reason", args_.reason, "Why, kept with the item")->type_name("TEXT");
    AddDuration(nack, args_.delay, "Again after so long (default: the queue's backoff)");
    nack.add_flag("--hand-back", args_.hand_back,
                  "They were not begun: again at once, and no attempt is used")
        ->excludes(reason)
        ->excludes(nack.get_option(args_.delay.flag));
    nack.add_flag("--reject", args_.reject,
                  "They would fail again: dead at once, whatever attempts are left")
        ->excludes(nack.get_option("--hand-back"))
        ->excludes(nack.get_option(args_.delay.flag));
    CLI::App& extend = AddClaims(Leaf("extend", "Let their leases end later", ExtendItems));
    AddDuration(extend, args_.visibility, "So long from now (default: the queue's)");
  }

  CLI::App& AddIds(CLI::App& leaf, bool required) {
    leaf.add_option("ids", args_.ids, "Ids of items")->type_name("ID")->required(required);
    return leaf;
  }

  void AddLists() {
    CLI::App& list = Leaf("list", "All queues, or the items of one", ListQueueItems);
    list.get_option("queue")->required(false);
    list.add_option("--state", args_.states,
                    "Only these: pending, processing, completed, dead, cancelled, purged")
        ->delimiter(',')
        ->allow_extra_args(false);
    AddPaging(list);
    CLI::App& dead = Leaf("dead", "Dead letters, and why", ListDeadItems);
    AddPaging(dead);
    AddFilter(dead);
    CLI::App& show = Leaf("show", "One item with its payload", ShowItem);
    show.add_option("id", args_.id, "Its id")->required();
    Leaf("stats", "Figures and settings of a queue", ShowQueue);
  }

  void AddPaging(CLI::App& leaf) {
    const auto given = [&args = args_](const std::string&) { args.is_paged = true; };
    leaf.add_option("--limit", args_.limit, "At most so many")
        ->check(NumberFrom(1, task_queue::kMaxBatch))
        ->capture_default_str()
        ->each(given);
    leaf.add_option("--after", args_.after, "Only those behind the item of this number")
        ->check(NumberFrom(0, INT64_MAX))
        ->each(given);
  }

  void AddFilter(CLI::App& leaf) {
    leaf.add_option("--reason", args_.reason, "Only those whose last failure says this")
        ->type_name("TEXT");
    AddDuration(leaf, args_.older_than, "Only those that are so for so long");
  }

  void AddAll(CLI::App& leaf) {
    leaf.add_flag("--all", args_.all, "All of them")
        ->excludes(leaf.get_option("ids"))
        ->excludes(leaf.get_option("--reason"))
        ->excludes(leaf.get_option("--older-than"));
  }

  void AddMoves() {
    CLI::App& redrive =
        AddIds(Leaf("redrive", "Give dead letters all their attempts again", RedriveItems), false);
    AddFilter(redrive);
    AddAll(redrive);
    CLI::App& purge = AddIds(
        Leaf("purge", "Remove pending and dead items; their ids stay known", PurgeItems), false);
    AddFilter(purge);
    purge.add_option("--state", args_.states, "Only these: pending, dead")
        ->delimiter(',')
        ->allow_extra_args(false);
    AddAll(purge);
    AddIds(Leaf("cancel", "Take items back; who holds one is told", CancelItems), true);
    Leaf("pause", "Give nothing out", [](const Context& context, const QueueArgs& args) {
      return PauseQueue(context, args, true);
    });
    Leaf("resume", "Give out again", [](const Context& context, const QueueArgs& args) {
      return PauseQueue(context, args, false);
    });
    Leaf("delete", "Forget an empty queue, its settings, and the ids that it knows", DeleteQueue);
  }

  void AddSet() {
    CLI::App& set = Leaf("set", "Make a queue, or change what holds for it", ConfigureQueue);
    AddDuration(set, args_.visibility, "How long a lease holds");
    set.add_option("--max-attempts", args_.max_attempts, "Deliveries before an item is dead")
        ->check(NumberFrom(1, task_queue::kMaxAttempts));
    AddDuration(set, args_.backoff, "Before the second delivery, doubled from then on");
    AddDuration(set, args_.max_backoff, "At most");
    set.add_option("--rate", args_.rate, "Pulled items on average, e.g. 100/1m, or none")
        ->type_name("COUNT/DURATION");
    set.add_option("--max-depth", args_.max_depth, "Items that are not over")
        ->check(NumberFrom(1, task_queue::kMaxDepth));
    AddDuration(set, args_.dedup_window, "How long ids are known once their items are over");
    AddDuration(set, args_.dead_retention, "How long dead letters are kept");
  }

  QueueArgs& args_;
  const QueueLeaf& leaf_;
};

}  // namespace

void AddQueueCommands(QueueArgs& args, const QueueLeaf& leaf) { QueueTree(args, leaf).Add(); }

}  // namespace headworks::cli
