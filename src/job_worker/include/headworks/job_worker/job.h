#pragma once

#include <concepts>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "headworks/author/fields.h"
#include "headworks/author/task.h"
#include "headworks/base/log.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"

/// What authors of handlers write stands in `headworks` itself.  Plain C++20.
namespace headworks {

/// Which delivery of which item this is.
struct JobInfo {
  std::string queue;
  /// The producer's; the same at every delivery: give it to outside systems that must do a thing
  /// once.
  std::string id;
  /// 1-based, this delivery included.
  int attempt = 1;
  int max_attempts = 1;
  int priority = 0;
  Instant enqueued_at{};
};

/// What a handler may know and say while it runs.  Valid until its function returns.
///
/// Threads.  All methods may be called concurrently.
class JobContext {
 public:
  /// The logger is borrowed.
  JobContext(JobInfo info, std::stop_token stop, Logger& log)
      : info_(std::move(info)), stop_(std::move(stop)), log_(log) {}
  JobContext(const JobContext&) = delete;
  JobContext& operator=(const JobContext&) = delete;

  const JobInfo& info() const { return info_; }
  const std::string& queue() const { return info_.queue; }
  const std::string& id() const { return info_.id; }
  int attempt() const { return info_.attempt; }
  int max_attempts() const { return info_.max_attempts; }
  Instant enqueued_at() const { return info_.enqueued_at; }

  /// The worker's, with the fields "queue" and "item".
  Logger& log() { return log_; }

  /// True once the handler should stop: its item is to be cancelled or is not its own any more, or
  /// the program shuts down.  Nothing forces a C++ function: a long one must look.
  bool cancelled() const { return stop_.stop_requested(); }
  /// For condition_variable_any, stop_callback and the like; a callback must not block.
  const std::stop_token& stop_token() const { return stop_; }
  /// The way to stop early: whoever returns normally says that the work is done.
  void ThrowIfCancelled() const {
    if (cancelled()) throw Cancelled();
  }

 private:
  const JobInfo info_;
  const std::stop_token stop_;
  Logger& log_;
};

/// "Again after `delay`", instead of the queue's backoff; the attempt counts.  Thrown or returned.
/// What is beyond 0 to 10 years is brought within.
struct RetryLater {
  Duration delay;
  std::string why;
  explicit RetryLater(Duration d, std::string w = {}) : delay(d), why(std::move(w)) {}
};

/// Done, or why not:
/// `JobResult Send(const Mail& m) { if (m.to.empty()) return Fail("no address"); … return {}; }`.
class JobResult {
 public:
  JobResult() = default;
  JobResult(Done) {}  // NOLINT(*-explicit-*)
  /// An error is tried again after the queue's backoff.
  JobResult(Error error) : end_(std::move(error)) {}  // NOLINT(*-explicit-*)
  JobResult(Status status) {                          // NOLINT(*-explicit-*)
    if (!status) end_ = std::move(status).error();
  }
  JobResult(RetryLater later) : end_(std::move(later)) {}  // NOLINT(*-explicit-*)
  /// Is not tried again: a dead letter at once.
  JobResult(Fail fail) : end_(std::move(fail)) {}  // NOLINT(*-explicit-*)

  bool done() const { return std::holds_alternative<Done>(end_); }
  const Error* error() const { return std::get_if<Error>(&end_); }
  const RetryLater* later() const { return std::get_if<RetryLater>(&end_); }
  const Fail* fail() const { return std::get_if<Fail>(&end_); }

 private:
  std::variant<Done, Error, RetryLater, Fail> end_;
};

/// A handler with types erased.  May throw RetryLater, Fail, Cancelled, and any exception, which is
/// tried again.  Called by as many threads at once as its queue has slots.
using JobFunction = std::function<JobResult(std::string_view payload, JobContext&)>;

namespace internal {

template <typename T, typename F>
JobResult CallJob(F& function, T& input, JobContext& context) {
  const auto call = [&]() -> decltype(auto) {
    if constexpr (std::invocable<F&, T&, JobContext&>)
      return function(input, context);
    else
      return function(input);
  };
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    return {};
  } else {
    static_assert(std::convertible_to<decltype(call()), JobResult>,
                  "a handler returns nothing, a Status or a JobResult");
    return call();
  }
}

}  // namespace internal

/// Erases the types of a handler: `function` takes a T, and if it likes a `JobContext&`; it returns
/// nothing, a Status or a JobResult.  T is a struct with HEADWORKS_FIELDS, or another type of
/// fields.h; Json takes any payload as text.  A payload that does not fit is a Fail that names the
/// fields: it would not fit the next time either.
template <typename T, typename F>
JobFunction MakeJob(F function) {
  return [function = std::move(function)](std::string_view payload,
                                          JobContext& context) mutable -> JobResult {
    if constexpr (std::same_as<T, Json>) {
      Json input{std::string(payload)};
      return internal::CallJob(function, input, context);
    } else {
      auto input = FromJson<T>(payload, "payload");
      if (!input) return Fail(input.error().message);
      return internal::CallJob(function, *input, context);
    }
  };
}

}  // namespace headworks
