#pragma once

#include <utility>
#include <vector>

#include "headworks/engine/evaluator.h"
#include "headworks/sim/dice.h"

namespace headworks::sim {

/// Answers the `when` of tasks late, in any order, and now and then not yet.  Questions die with
/// the process that asked them.
class Questions final : public engine::Evaluator {
 public:
  enum class Truth : std::uint8_t { kHolds, kDoesNot, kError };
  /// What is true of a task for the whole life of its run.
  static Truth TruthOf(RunNo run, TaskNo task) {
    const std::uint64_t draw = Mix64(static_cast<std::uint64_t>(run.value) * 1'009 + task.value);
    if (draw % 16 == 0) return Truth::kError;
    return draw % 16 < 5 ? Truth::kDoesNot : Truth::kHolds;
  }

  explicit Questions(Dice& dice) : dice_(dice) {}

  void Evaluate(engine::Question question, Answer answer) override {
    open_.emplace_back(std::move(question), std::move(answer));
    if (dice_.Chance(300)) Progress();
  }
  /// Answers one; false if nothing is asked.
  bool Progress() {
    if (open_.empty()) return false;
    std::swap(open_[dice_.Below(static_cast<std::uint32_t>(open_.size()))], open_.back());
    const auto [question, answer] = std::move(open_.back());
    open_.pop_back();
    if (dice_.Chance(unavailable_)) {
      answer(Error{Code::kUnavailable, "the store does not answer"});
      return true;
    }
    switch (TruthOf(question.run, question.task)) {
      case Truth::kHolds:
        answer(true);
        break;
      case Truth::kDoesNot:
        answer(false);
        break;
      case Truth::kError:
        answer(Error{Code::kInvalidArgument, "no such field"});
    }
    return true;
  }
  void SetUnavailable(unsigned per_mille) { unavailable_ = per_mille; }

 private:
  Dice& dice_;
  unsigned unavailable_ = 100;
  std::vector<std::pair<engine::Question, Answer>> open_;
};

}  // namespace headworks::sim
