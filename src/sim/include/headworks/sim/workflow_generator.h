#pragma once

#include <cstdint>
#include <string>

#include "headworks/model/workflow.h"
#include "headworks/sim/dice.h"

namespace headworks::sim {

/// A random valid workflow of 1 to `max_tasks` tasks (small ones more often): every trigger rule,
/// role, budget, timeout and brake that the model knows.  FunctionAction and ExecAction are mixed,
/// so that both lanes of a dispatcher are used.
model::WorkflowDefinition GenerateWorkflow(Dice& dice, std::string name, std::uint32_t max_tasks);

/// Gives some tasks a `when` and some a deadline, and maybe bounds the runs under way.
void AddConditions(Dice& dice, model::WorkflowDefinition& definition);

/// Bounds how many runs with one key are under way, how many start, or both.
void AddConcurrency(Dice& dice, model::WorkflowDefinition& definition);

/// Pools that a schedule with limits has, and the most permits that one has.
inline constexpr std::uint32_t kPools = 2;
inline constexpr std::uint32_t kMostPermits = 4;

/// Gives some tasks a pool, and a weight that it may or may not have just then.
void AddPools(Dice& dice, model::WorkflowDefinition& definition);

/// Gives some tasks this queue of workers, and some a label that those must have.
void AddQueue(Dice& dice, std::string_view queue, std::string_view label,
              model::WorkflowDefinition& definition);

}  // namespace headworks::sim
