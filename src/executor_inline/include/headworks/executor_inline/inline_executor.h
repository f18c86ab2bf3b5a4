#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string_view>

#include "headworks/author/registry.h"
#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/executor/executor.h"
#include "headworks/executor/start_ledger.h"

namespace headworks::executor_inline {

struct InlineOptions {
  /// Tasks that run at a time; 0 = one per processor.  At most 1,024.
  std::size_t threads = 0;
  /// Attempts that wait for a thread, so that none waits for the engine.
  std::size_t queue_depth = 256;
  /// Verdicts that are kept until the engine has stored them, and the bytes of their outputs;
  /// above either, offers are deferred.
  std::size_t max_unsettled = 65'536;
  std::size_t max_unsettled_bytes = std::size_t{64} << 20;
};

/// Where the lines go that tasks log.
///
/// Threads.  May be called concurrently, for one attempt one call at a time.
class LineSink {
 public:
  virtual ~LineSink() = default;
  /// `number` is 1-based within the attempt.  Stored when it returns.  Where it has to wait, it
  /// waits no longer once `stop` is requested, which is the task's own; its line is lost then.
  virtual Status Append(const model::AttemptKey& key, std::int64_t number, Instant at,
                        std::string_view line, const std::stop_token& stop) = 0;
};

/// What an inline executor works with; all borrowed, all must outlive it.
struct InlinePorts {
  const TaskRegistry& registry;
  executor::Resolver& resolver;
  LineSink& lines;
  Clock& clock;
  Logger& log;
  /// Null only where attempts do not outlive the process (memory store).
  executor::StartLedger* ledger = nullptr;
};

/// Runs C++ functions of the TaskRegistry on a bounded pool of threads in this process.
///
/// Isolation.  None: it is the embedder's own code.  What it throws is contained and becomes the
///   attempt's verdict.  What C++ itself cannot contain ends the process: a signal, an exception
///   out of a destructor during unwinding or out of a noexcept function, pthread_exit.  Then the
///   ledger makes the attempt a loss when the engine comes back, so that poison cannot loop.
/// Stopping.  Nothing forces a thread: Cancel, a timeout and Drain set the task's stop token and
///   wait.  A task that does not look keeps its thread, and is reported when it returns.  Stop
///   callbacks run on a thread of this executor, one at a time.
/// Verdicts.  Returned, or thrown: Fail = failed, Skip = skipped, Snooze = snoozed; any other
///   exception = retry; output that is no JSON object or over 1 MiB = failed (`output`).
///   After a timeout: retry (`timeout`) whatever came, except Fail.  After Cancel: a success, Skip
///   or Fail stands, anything else is cancelled; after Drain the same, but interrupted.
///   An input that cannot be loaded: failed (`dispatch_failed`); if the store cannot be reached:
///   snoozed for a second, no try is used.
/// Bounds.  `threads` running, `queue_depth` waiting, `max_unsettled` ended; 4 KiB of error;
///   lines of 64 KiB (longer ones are split), 64 MiB of lines an attempt.
/// Threads, Life.  As executor::Executor says.  The destructor waits for running tasks; a program
///   that must leave earlier has to end its process.
/// Errors.  Start: kInvalidArgument if an option is out of bounds or the ledger too small.
std::unique_ptr<executor::Executor> NewInlineExecutor(const InlineOptions& options,
                                                      const InlinePorts& ports);

/// Marks that the ledger of an inline executor must have room for, at least.
std::size_t LedgerCapacity(const InlineOptions& options);

}  // namespace headworks::executor_inline
