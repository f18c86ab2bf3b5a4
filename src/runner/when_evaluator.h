#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "compiled_tasks.h"
#include "headworks/engine/evaluator.h"
#include "headworks/store/run_store.h"

namespace headworks {

/// Answers the `when` of tasks from the store, on a thread of its own.
///
/// Life.  The destructor drops what is not answered; the engine asks again when it comes back.
/// Bounds.  As many questions as the engine has ready tasks in memory.
class WhenEvaluator final : public engine::Evaluator {
 public:
  WhenEvaluator(store::RunQuery& query, CompiledTasks& compiled);
  ~WhenEvaluator() override;

  void Evaluate(engine::Question question, Answer answer) override;

 private:
  void Loop(const std::stop_token& stop);
  Result<bool> Decide(const engine::Question& question);

  store::RunQuery& query_;
  CompiledTasks& compiled_;
  std::mutex mutex_;
  std::condition_variable_any asked_;
  std::deque<std::pair<engine::Question, Answer>> open_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace headworks
