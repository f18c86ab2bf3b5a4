#pragma once

#include <cstdint>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "headworks/base/time.h"
#include "headworks/model/workflow.h"

/// What authors of tasks and workflows write stands in `headworks` itself.  Plain C++20.
namespace headworks {

/// JSON as text, taken over as it is: for tasks that do their own JSON, and for fields of any
/// shape within a typed struct.
struct Json {
  std::string text;

  Json() = default;
  explicit Json(std::string t) : text(std::move(t)) {}
  bool operator==(const Json&) const = default;
};

/// "This cannot work, however often it is tried": `throw Fail("…")`, or `return Fail("…")` from a
/// task that returns a TaskResult.  Any other exception is a failure that is tried again.
class Fail : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// "There is nothing to do": the task ends as skipped.  Thrown or returned like Fail, but no
/// std::exception, so that a `catch (const std::exception&)` on the way does not swallow it.
struct Skip {
  std::string why;
  explicit Skip(std::string w = {}) : why(std::move(w)) {}
};

/// "Not yet, ask again after `delay`": no thread, no memory and no try is used meanwhile.
/// Thrown or returned like Skip.
struct Snooze {
  Duration delay;
  std::string why;
  explicit Snooze(Duration d, std::string w = {}) : delay(d), why(std::move(w)) {}
};

/// "I stopped because I was asked to" (`TaskContext::ThrowIfCancelled`).  Thrown like Skip.
struct Cancelled {};

/// The result of a task without one.
struct Done {};

/// A value, or a word on why there is none:
/// `TaskResult<Report> Make(const Order& o) { if (o.empty()) return Skip("no items"); … }`.
template <typename T = Done>
class TaskResult {
 public:
  TaskResult() = default;
  TaskResult(T value) : end_(std::move(value)) {}         // NOLINT(*-explicit-*)
  TaskResult(Fail fail) : end_(std::move(fail)) {}        // NOLINT(*-explicit-*)
  TaskResult(Skip skip) : end_(std::move(skip)) {}        // NOLINT(*-explicit-*)
  TaskResult(Snooze snooze) : end_(std::move(snooze)) {}  // NOLINT(*-explicit-*)

  T* value() { return std::get_if<T>(&end_); }
  const Fail* fail() const { return std::get_if<Fail>(&end_); }
  const Skip* skip() const { return std::get_if<Skip>(&end_); }
  const Snooze* snooze() const { return std::get_if<Snooze>(&end_); }

 private:
  std::variant<T, Fail, Skip, Snooze> end_;
};

/// Which attempt this is.
struct TaskInfo {
  model::Namespace workflow;
  std::string task;
  std::string run_id;
  /// 1-based; losses and interruptions do not count.
  int try_no = 1;
  /// Rises with every attempt of the task: give it to outside systems that must refuse an older
  /// attempt which is still alive somewhere.
  std::int64_t epoch = 0;
  /// The same over all tries: give it to outside systems that must do a thing once.
  std::string idempotency_key;
};

/// Whatever runs a task: an executor, or a test.
///
/// Threads.  Both may be called concurrently, from any thread the task uses.
class TaskHost {
 public:
  virtual ~TaskHost() = default;
  virtual void Log(std::string_view line) = 0;
  virtual void Heartbeat() = 0;
};

/// What a task is given, loaded when it is first asked for.
///
/// Threads.  Both may be called concurrently, from any thread the task uses.
class TaskInputs {
 public:
  virtual ~TaskInputs() = default;
  /// Valid as long as the host; throws what the host is to catch if it cannot be had.
  virtual std::string_view Input() = 0;
  virtual std::string_view Context() = 0;
};

/// What a task's code may know and say while it runs.  Valid until the task's function returns.
///
/// Threads.  All methods may be called concurrently.
class TaskContext {
 public:
  /// The strings and the host are borrowed.
  TaskContext(const TaskInfo& info, std::string_view input, std::string_view context,
              std::stop_token stop, TaskHost& host)
      : info_(info), input_(input), context_(context), stop_(std::move(stop)), host_(host) {}
  /// The same with inputs that are loaded late: many tasks look at none.
  TaskContext(const TaskInfo& info, TaskInputs& inputs, std::stop_token stop, TaskHost& host)
      : info_(info), inputs_(&inputs), stop_(std::move(stop)), host_(host) {}
  TaskContext(const TaskContext&) = delete;
  TaskContext& operator=(const TaskContext&) = delete;

  const TaskInfo& info() const { return info_; }
  /// The run's input merged with the outputs of all needed tasks: one JSON object.
  std::string_view input() const { return inputs_ ? inputs_->Input() : input_; }
  /// {"input", "params", "needs": {task: {"state", "output"}}, "run": {"id"}} as JSON.
  std::string_view context() const { return inputs_ ? inputs_->Context() : context_; }

  /// One line for the task's log; stored before the task counts as ended.
  void Log(std::string_view line) { host_.Log(line); }
  /// "I am making progress": shown to whoever asks what the task is doing.
  void Heartbeat() { host_.Heartbeat(); }

  /// True once the task should stop: cancelled, over its timeout, or the program shuts down.
  /// Nothing forces a C++ function: a long one must look.
  bool cancelled() const { return stop_.stop_requested(); }
  /// For condition_variable_any, stop_callback and the like.
  const std::stop_token& stop_token() const { return stop_; }
  void ThrowIfCancelled() const {
    if (cancelled()) throw Cancelled();
  }

 private:
  const TaskInfo& info_;
  TaskInputs* inputs_ = nullptr;
  std::string_view input_;
  std::string_view context_;
  std::stop_token stop_;
  TaskHost& host_;
};

}  // namespace headworks
