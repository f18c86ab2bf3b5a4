#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exit_code.h"
#include "session.h"

/// What `headworks queue ...` does, given its parsed arguments.  Errors are printed by the caller.
namespace headworks::cli {

/// A duration as it is written, if it is given.  `flag` is named in errors.
struct DurationArg {
  const char* flag;
  std::optional<std::string> text{};
};

/// One for all subcommands, of which each looks at its own.
struct QueueArgs {
  std::string queue;
  std::vector<std::string> ids;     // or claims
  std::vector<std::string> states;  // by name
  std::string reason;
  DurationArg older_than{"--older-than"};
  DurationArg visibility{"--visibility"};
  DurationArg delay{"--delay"};
  DurationArg wait{"--wait"};
  std::size_t limit = 100;
  std::int64_t after = 0;
  bool is_paged = false;  // one of these two was given
  bool all = false;

  // push
  std::string payload;  // JSON, "@FILE", or "-" for standard input
  std::string id;
  bool lines = false;
  int priority = 0;
  int max_attempts = 0;
  // pull
  std::size_t max_items = 1;
  std::string holder;
  // nack
  bool hand_back = false;
  bool reject = false;
  // set
  DurationArg backoff{"--backoff"};
  DurationArg max_backoff{"--max-backoff"};
  DurationArg dedup_window{"--dedup-window"};
  DurationArg dead_retention{"--dead-retention"};
  std::optional<std::string> rate{};  // "100/1m", or "none"
  std::int64_t max_depth = 0;
};

Result<Exit> PushItems(const Context& context, const QueueArgs& args);
Result<Exit> PullItems(const Context& context, const QueueArgs& args);
Result<Exit> AckItems(const Context& context, const QueueArgs& args);
Result<Exit> NackItems(const Context& context, const QueueArgs& args);
Result<Exit> ExtendItems(const Context& context, const QueueArgs& args);
Result<Exit> CancelItems(const Context& context, const QueueArgs& args);
/// The queues, or the items of one.
Result<Exit> ListQueueItems(const Context& context, const QueueArgs& args);
Result<Exit> ListDeadItems(const Context& context, const QueueArgs& args);
Result<Exit> ShowItem(const Context& context, const QueueArgs& args);
Result<Exit> ShowQueue(const Context& context, const QueueArgs& args);
Result<Exit> RedriveItems(const Context& context, const QueueArgs& args);
Result<Exit> PurgeItems(const Context& context, const QueueArgs& args);
Result<Exit> PauseQueue(const Context& context, const QueueArgs& args, bool paused);
Result<Exit> DeleteQueue(const Context& context, const QueueArgs& args);
Result<Exit> ConfigureQueue(const Context& context, const QueueArgs& args);

}  // namespace headworks::cli
