#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/model/workflow.h"

/// Workflows of the shapes that real ones have, of any size: what benches and tests run.
namespace headworks::dag_gen {

enum class Shape : std::uint8_t {
  /// t0 → t1 → … : the latency of a hop, N times.
  kChain,
  /// One task, N that need it, one that needs those: N + 2 tasks.
  kFan,
  /// N tasks without edges.
  kIndependent,
  /// Layers of about √N tasks; each task needs one to three of the layer before, by chance.
  kLayered,
  /// A square; each task needs its upper and left neighbours: a wave goes through.
  kGrid,
  /// A mosaic of images in three colours, like the astronomers' Montage: projections, a
  /// difference per pair, one model of them all, corrections, and one picture.  Wide, with
  /// bottlenecks, and more edges than tasks.
  kMontage,
};

struct DagOptions {
  Shape shape = Shape::kChain;
  /// N for chain, fan and independent; for the others tasks, of which as many are made as the
  /// shape allows.  1 (montage: 31) to 1,000,000.
  std::uint32_t size = 1;
  /// The same seed gives the same workflow everywhere.
  std::uint64_t seed = 1;
  /// What each task does.
  model::Action action = model::ShellAction{.script = ":"};
};

/// A workflow named by shape and size ("chain_1000").  kInvalidArgument: size out of bounds.
Result<model::WorkflowDefinition> Generate(const DagOptions& options);

/// A workflow file (JSON, which is YAML too) that reads as `definition`, for what Generate sets.
std::string ToWorkflowFile(const model::WorkflowDefinition& definition);

/// All names, in the order of the enumerators.
std::span<const std::string_view> ShapeNames();
/// kInvalidArgument lists the names that there are.
Result<Shape> ShapeFromName(std::string_view name);

}  // namespace headworks::dag_gen
