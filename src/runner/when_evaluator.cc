#include "when_evaluator.h"

#include <boost/json.hpp>

#include "run_context.h"

namespace headworks {

WhenEvaluator::WhenEvaluator(store::RunQuery& query, CompiledTasks& compiled)
    : query_(query),
      compiled_(compiled),
      thread_([this](const std::stop_token& stop) { Loop(stop); }) {}

WhenEvaluator::~WhenEvaluator() {
  thread_.request_stop();
  thread_.join();
}

void WhenEvaluator::Evaluate(engine::Question question, Answer answer) {
  const std::scoped_lock lock(mutex_);
  open_.emplace_back(std::move(question), std::move(answer));
  asked_.notify_one();
}

void WhenEvaluator::Loop(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (asked_.wait(lock, stop, [this] { return !open_.empty(); }) && !stop.stop_requested()) {
    const auto [question, answer] = std::move(open_.front());
    open_.pop_front();
    lock.unlock();
    answer(Decide(question));
    lock.lock();
  }
}

Result<bool> WhenEvaluator::Decide(const engine::Question& question) {
  HEADWORKS_ASSIGN(const auto compiled, compiled_.Of(*question.workflow, question.task));
  const ContextOf of{question.tenant, question.run, question.run_id, question.task,
                     *question.workflow};
  HEADWORKS_ASSIGN(auto context, ReadRunContext(query_, of));
  TypeNumbers(context, of);
  for (const expr::Program& program : compiled->when) {
    const auto holds = program.EvaluateBool(context, {});
    if (!holds) return Error{holds.error().code, "when: " + holds.error().message};
    if (!*holds) return false;
  }
  return true;
}

}  // namespace headworks
