#include "headworks/dag_gen/dag_gen.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <type_traits>
#include <vector>

#include "headworks/base/json.h"
#include "headworks/base/random.h"

namespace headworks::dag_gen {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 6> kShapeNames = {"chain",   "fan",  "independent",
                                                         "layered", "grid", "montage"};
constexpr std::uint32_t kMaxSize = 1'000'000;
constexpr std::uint32_t kColours = 3;

/// Adds tasks with one action.
class Dag {
 public:
  explicit Dag(const DagOptions& options) : action_(options.action) {}

  /// Returns the id.
  std::string Add(std::string id, std::vector<std::string> needs) {
    model::Task task;
    task.id = id;
    task.needs = std::move(needs);
    task.action = action_;
    tasks_.push_back(std::move(task));
    return id;
  }
  std::vector<model::Task> Take() { return std::move(tasks_); }

 private:
  model::Action action_;
  std::vector<model::Task> tasks_;
};

void Chain(Dag& dag, std::uint32_t size) {
  std::vector<std::string> before;
  for (std::uint32_t i = 0; i < size; ++i) before = {dag.Add(fmt::format("t{}", i), before)};
}

void Fan(Dag& dag, std::uint32_t size) {
  const std::string first = dag.Add("split", {});
  std::vector<std::string> all;
  all.reserve(size);
  for (std::uint32_t i = 0; i < size; ++i) all.push_back(dag.Add(fmt::format("t{}", i), {first}));
  dag.Add("join", std::move(all));
}

void Independent(Dag& dag, std::uint32_t size) {
  for (std::uint32_t i = 0; i < size; ++i) dag.Add(fmt::format("t{}", i), {});
}

void Layered(Dag& dag, std::uint32_t size, std::uint64_t seed) {
  constexpr std::uint64_t kMostNeeds = 3;
  SeededRandom random(seed);
  const auto width = static_cast<std::uint32_t>(std::sqrt(static_cast<double>(size)));
  std::vector<std::string> before;
  for (std::uint32_t made = 0, layer = 0; made < size; ++layer) {
    // Half to one and a half times the mean width.
    const auto wanted = std::max<std::uint64_t>(1, width / 2 + random.Next() % (width + 1));
    std::vector<std::string> here;
    for (; here.size() < wanted && made < size; ++made) {
      std::vector<std::string> needs;
      if (!before.empty())
        for (std::uint64_t n = 1 + random.Next() % kMostNeeds; n > 0; --n)
          needs.push_back(before[random.Next() % before.size()]);
      std::ranges::sort(needs);
      needs.erase(std::ranges::unique(needs).begin(), needs.end());
      here.push_back(dag.Add(fmt::format("l{}_{}", layer, here.size()), std::move(needs)));
    }
    before = std::move(here);
  }
}

void Grid(Dag& dag, std::uint32_t size) {
  const auto side = static_cast<std::uint32_t>(std::sqrt(static_cast<double>(size)));
  const auto id = [](std::uint32_t row, std::uint32_t column) {
    return fmt::format("r{}c{}", row, column);
  };
  for (std::uint32_t row = 0; row < side; ++row)
    for (std::uint32_t column = 0; column < side; ++column) {
      std::vector<std::string> needs;
      if (row > 0) needs.push_back(id(row - 1, column));
      if (column > 0) needs.push_back(id(row, column - 1));
      dag.Add(id(row, column), std::move(needs));
    }
}

/// Tasks of a mosaic of `images`: per colour two per image, one per pair and five more.
std::uint64_t MontageSize(std::uint64_t images) {
  return kColours * (2 * images + images * (images - 1) / 2 + 5) + 1;
}

void Montage(Dag& dag, std::uint32_t size) {
  std::uint32_t images = 2;
  while (MontageSize(images + 1) <= size) ++images;
  std::vector<std::string> pictures;
  for (std::uint32_t colour = 0; colour < kColours; ++colour) {
    const auto id = [&](std::string_view kind, auto... numbers) {
      std::string text = fmt::format("{}_{}", kind, colour);
      ((text += fmt::format("_{}", numbers)), ...);
      return text;
    };
    std::vector<std::string> projected;
    projected.reserve(images);
    for (std::uint32_t i = 0; i < images; ++i) projected.push_back(dag.Add(id("project", i), {}));
    std::vector<std::string> differences;
    for (std::uint32_t i = 0; i < images; ++i)
      for (std::uint32_t k = i + 1; k < images; ++k)
        differences.push_back(dag.Add(id("diff", i, k), {projected[i], projected[k]}));
    const std::string fit = dag.Add(id("concat"), std::move(differences));
    const std::string model = dag.Add(id("model"), {fit});
    std::vector<std::string> corrected;
    corrected.reserve(images);
    for (std::uint32_t i = 0; i < images; ++i)
      corrected.push_back(dag.Add(id("background", i), {projected[i], model}));
    std::vector<std::string> for_sum = corrected;
    for_sum.push_back(dag.Add(id("table"), std::move(corrected)));
    const std::string sum = dag.Add(id("add"), std::move(for_sum));
    pictures.push_back(dag.Add(id("view"), {sum}));
  }
  dag.Add("mosaic", std::move(pictures));
}

}  // namespace

std::span<const std::string_view> ShapeNames() { return kShapeNames; }

Result<Shape> ShapeFromName(std::string_view name) {
  const auto at = std::ranges::find(kShapeNames, name);
  if (at != kShapeNames.end()) return static_cast<Shape>(at - kShapeNames.begin());
  return Error{Code::kInvalidArgument,
               fmt::format("no shape '{}'; there are {}", name, fmt::join(kShapeNames, ", "))};
}

Result<model::WorkflowDefinition> Generate(const DagOptions& options) {
  const std::string_view shape = kShapeNames[static_cast<std::size_t>(options.shape)];
  const auto least =
      options.shape == Shape::kMontage ? static_cast<std::uint32_t>(MontageSize(2)) : 1U;
  if (options.size < least || options.size > kMaxSize)
    return Error{Code::kInvalidArgument, fmt::format("size {} of shape {}: from {} to {}",
                                                     options.size, shape, least, kMaxSize)};
  Dag dag(options);
  switch (options.shape) {
    case Shape::kChain:
      Chain(dag, options.size);
      break;
    case Shape::kFan:
      Fan(dag, options.size);
      break;
    case Shape::kIndependent:
      Independent(dag, options.size);
      break;
    case Shape::kLayered:
      Layered(dag, options.size, options.seed);
      break;
    case Shape::kGrid:
      Grid(dag, options.size);
      break;
    case Shape::kMontage:
      Montage(dag, options.size);
      break;
  }
  model::WorkflowDefinition definition;
  definition.name.workflow = fmt::format("{}_{}", shape, options.size);
  definition.tasks = dag.Take();
  return definition;
}

std::string ToWorkflowFile(const model::WorkflowDefinition& definition) {
  std::string text = fmt::format("{{\"version\": 1, \"name\": {},\n\"tasks\": {{",
                                 QuoteJson(definition.name.workflow));
  for (bool first = true; const model::Task& task : definition.tasks) {
    json::object fields;
    if (!task.needs.empty()) fields["needs"] = json::array(task.needs.begin(), task.needs.end());
    if (const auto* shell = std::get_if<model::ShellAction>(&task.action))
      fields["run"] = shell->script;
    else if (const auto* exec = std::get_if<model::ExecAction>(&task.action))
      fields["exec"] = json::array(exec->argv.begin(), exec->argv.end());
    else
      fields["function"] = std::get<model::FunctionAction>(task.action).function;
    text += fmt::format("{}\n{}: {}", std::exchange(first, false) ? "" : ",", QuoteJson(task.id),
                        json::serialize(fields));
  }
  return text + "\n}}\n";
}

}  // namespace headworks::dag_gen
