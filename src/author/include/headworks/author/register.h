#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "headworks/author/fields.h"
#include "headworks/author/registry.h"
#include "headworks/author/task.h"
#include "headworks/author/workflow_builder.h"

namespace headworks {
namespace internal {

template <typename T>
struct IsTaskResult : std::false_type {};
template <typename T>
struct IsTaskResult<TaskResult<T>> : std::true_type {};

/// The only parameter that is not the context, of a function with one or two parameters.
template <typename F>
struct Signature : Signature<decltype(&F::operator())> {};
template <typename R>
struct Signature<R (*)()> {
  using Input = void;
};
template <typename R, typename A>
struct Signature<R (*)(A)> {
  using Input = std::conditional_t<std::same_as<A, TaskContext&>, void, std::remove_cvref_t<A>>;
};
template <typename R, typename A>
struct Signature<R (*)(A, TaskContext&)> {
  using Input = std::remove_cvref_t<A>;
};
template <typename R, typename C, typename... A>
struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};
template <typename R, typename C, typename... A>
struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {};
template <typename R, typename C, typename... A>
struct Signature<R (C::*)(A...) const noexcept> : Signature<R (*)(A...)> {};
template <typename R, typename C, typename... A>
struct Signature<R (C::*)(A...) noexcept> : Signature<R (*)(A...)> {};
template <typename R, typename... A>
struct Signature<R (*)(A...) noexcept> : Signature<R (*)(A...)> {};

template <typename Output>
TaskResult<Json> Erase(const Output& output) {
  auto json = ToJson(output);
  if (!json) return Fail("the output has no JSON form: " + json.error().message);
  return *std::move(json);
}

/// Calls with whatever of (input, context) the function takes.
template <typename F, typename... Input>
TaskResult<Json> Invoke(F& function, TaskContext& context, Input&... input) {
  auto call = [&]() -> decltype(auto) {
    if constexpr (std::invocable<F&, Input&..., TaskContext&>)
      return function(input..., context);
    else
      return function(input...);
  };
  using Output = decltype(call());
  if constexpr (std::is_void_v<Output>) {
    call();
    return Json();
  } else if constexpr (IsTaskResult<Output>::value) {
    Output end = call();
    if (end.fail() != nullptr) return *end.fail();
    if (end.skip() != nullptr) return *end.skip();
    if (end.snooze() != nullptr) return *end.snooze();
    if constexpr (std::same_as<Output, TaskResult<Done>>)
      return Json();
    else if constexpr (std::same_as<Output, TaskResult<Json>>)
      return end;
    else
      return Erase(*end.value());
  } else if constexpr (std::same_as<std::remove_cvref_t<Output>, Json>) {
    return TaskResult<Json>(call());
  } else {
    return Erase(call());
  }
}

}  // namespace internal

/// Erases the types of a task's code.  `function` takes nothing, its input, a `TaskContext&`, or
/// its input and then the context; it returns nothing, its output, or a TaskResult of it.
/// Input and output are structs with HEADWORKS_FIELDS, or Json.  Input that does not fit ends the
/// task as failed, because the same input would come again.
template <typename F>
TaskFunction MakeTask(F function) {
  using Input = typename internal::Signature<std::decay_t<F>>::Input;
  return [function = std::move(function)](TaskContext& context) mutable -> TaskResult<Json> {
    if constexpr (std::is_void_v<Input>) {
      return internal::Invoke(function, context);
    } else if constexpr (std::same_as<Input, Json>) {
      Json input{std::string(context.input())};
      return internal::Invoke(function, context, input);
    } else {
      auto input = FromJson<Input>(context.input(), "input");
      if (!input) return Fail(input.error().message);
      return internal::Invoke(function, context, *input);
    }
  };
}

namespace internal {

/// One static registration; a list of them is built before main, in any order.
struct Linked {
  Linked(const char* name, const char* file, int line, TaskFunction task);
  Linked(const char* name, const char* file, int line, void (*build)(WorkflowBuilder&));
  Linked(const Linked&) = delete;
  Linked& operator=(const Linked&) = delete;

  const char* name;
  const char* file;
  int line;
  TaskFunction task;
  void (*build)(WorkflowBuilder&) = nullptr;
  const Linked* next;
};

}  // namespace internal
}  // namespace headworks

/// Registers a task's code under a FunctionName for every TaskRegistry::RegisterLinked:
///
///   Report Summarise(const Orders& orders, headworks::TaskContext& context) { … }
///   HEADWORKS_TASK("summarise", Summarise);
///   HEADWORKS_TASK("nightly::clean", [](headworks::TaskContext&) { … });  // only for `nightly`
///
/// Linking.  A linker drops an object of a static library that nobody refers to, and its tasks
///   with it.  Link such a library whole: `$<LINK_LIBRARY:WHOLE_ARCHIVE,my_tasks>` in CMake,
///   `-Wl,--whole-archive libmy_tasks.a -Wl,--no-whole-archive` by hand; or make it an OBJECT
///   library.
#define HEADWORKS_TASK(name, ...)                                                              \
  static const ::headworks::internal::Linked HEADWORKS_CONCAT_(headworks_task_, __COUNTER__) { \
    name, __FILE__, __LINE__, ::headworks::MakeTask(__VA_ARGS__)                               \
  }

/// Registers a workflow in the same way; the builder runs when a registry takes it over:
///
///   HEADWORKS_WORKFLOW("nightly", [](headworks::WorkflowBuilder& w) {
///     w.Task("fetch").Exec({"curl", "-fO", "https://example.org/orders.json"});
///     w.Task("report").Function("summarise").Needs({"fetch"}).Retry(3);
///   });
#define HEADWORKS_WORKFLOW(name, ...)                                                              \
  static const ::headworks::internal::Linked HEADWORKS_CONCAT_(headworks_workflow_, __COUNTER__) { \
    name, __FILE__, __LINE__, static_cast<void (*)(::headworks::WorkflowBuilder&)>(__VA_ARGS__)    \
  }
