#include "matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <set>
#include <unordered_map>

#include "headworks/base/json.h"
#include "yaml_value.h"

namespace headworks::spec {
namespace json = boost::json;
namespace {

using NodeNo = YamlTree::NodeNo;
using Kind = YamlTree::Kind;

/// A value as it stands in an id: text without quotes.
std::string Show(const json::value& value) {
  return value.is_string() ? std::string(value.get_string()) : CanonicalJson(value);
}

bool IsIdentifier(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && text.size() <= 100 && is_letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

class MatrixReader {
 public:
  MatrixReader(const YamlTree& tree, Source& source, std::size_t& work)
      : tree_(tree), source_(source), work_(work) {}

  std::optional<Matrix> Read(NodeNo no);

 private:
  struct Axis {
    std::string name;
    std::vector<json::value> values;
  };

  void Fault(std::string_view code, NodeNo no, std::string message) {
    faulty_ = true;
    source_.Add(code, tree_[no].place, std::move(message));
  }
  void ReadAxis(NodeNo key, NodeNo values);
  json::value ReadValue(NodeNo no);
  /// A map from names to values, or nullopt with a fault.
  std::optional<json::object> ReadCombination(NodeNo no);
  bool Multiply(NodeNo no);
  /// The entries of `include` or `exclude`; empty with a fault if it is no list, or too long.
  std::vector<NodeNo> Entries(NodeNo list, std::string_view name);
  void Exclude(NodeNo list);
  void Include(NodeNo list);
  void IncludeOne(NodeNo no, json::object&& entry);
  bool IsAxis(std::string_view name) const {
    return std::ranges::find(axes_, name, &Axis::name) != axes_.end();
  }

  const YamlTree& tree_;
  Source& source_;
  std::size_t& work_;
  std::vector<Axis> axes_;
  std::vector<json::object> combinations_;
  bool faulty_ = false;
};

json::value MatrixReader::ReadValue(NodeNo no) {
  if (tree_[no].kind != Kind::kScalar) {
    Fault("HW1009", no,
          fmt::format("a value of a matrix is text, a number or a boolean, not {}",
                      Describe(tree_, no)));
    return nullptr;
  }
  CheckTraps(tree_, no, source_);
  const auto value = ParseJson(ToJson(tree_, no, source_), {});
  if (!value) return nullptr;
  if (std::string loss = tree_[no].plain ? LossOf(tree_.Text(no)) : ""; !loss.empty())
    Fault("HW1013", no, std::move(loss));
  if (const std::string_view text = tree_.Text(no); text.find("${{") != std::string_view::npos)
    Fault("HW1010", no,
          "a matrix is expanded before any run and cannot hold templates; list the values");
  return *value;
}

void MatrixReader::ReadAxis(NodeNo key, NodeNo values) {
  Axis axis;
  axis.name = tree_.Text(key);
  if (!IsIdentifier(axis.name))
    Fault("HW1010", key,
          fmt::format("{} cannot name values of a matrix; use letters, digits and _, no digit "
                      "first, at most 100",
                      QuoteJson(axis.name)));
  if (tree_[values].kind != Kind::kList || tree_[values].size == 0)
    return Fault(
        "HW1009", values,
        fmt::format("{} takes a list of values, e.g. [a, b], not {}", axis.name,
                    tree_[values].kind == Kind::kList ? "an empty one" : Describe(tree_, values)));
  axis.values.reserve(tree_[values].size);
  std::set<std::string> seen;
  for (std::uint32_t i = 0; i < tree_[values].size; ++i) {
    const NodeNo element = tree_.Element(values, i);
    axis.values.push_back(ReadValue(element));
    if (!axis.values.back().is_null() && !seen.insert(Show(axis.values.back())).second)
      Fault("HW1016", element,
            fmt::format("{} is in the list already; remove one", Describe(tree_, element)));
  }
  axes_.push_back(std::move(axis));
}

bool MatrixReader::Multiply(NodeNo no) {
  std::size_t count = 1;
  for (const Axis& axis : axes_) {
    count *= axis.values.size();
    if (count <= kMaxInstances) continue;
    Fault(
        "HW1015", no,
        fmt::format("the matrix has more than {} combinations; shorten its lists", kMaxInstances));
    return false;
  }
  if (axes_.empty()) return true;
  work_ += count;
  combinations_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    json::object combination;
    std::size_t rest = i, below = count;
    for (const Axis& axis : axes_) {
      below /= axis.values.size();
      combination[axis.name] = axis.values[rest / below];
      rest %= below;
    }
    combinations_.push_back(std::move(combination));
  }
  return true;
}

std::optional<json::object> MatrixReader::ReadCombination(NodeNo no) {
  if (tree_[no].kind != Kind::kMap || tree_[no].size == 0) {
    Fault("HW1009", no,
          fmt::format("an entry is a map from names to values, e.g. {{os: linux}}, not {}",
                      tree_[no].kind == Kind::kMap ? "an empty one" : Describe(tree_, no)));
    return std::nullopt;
  }
  json::object entry;
  for (std::uint32_t i = 0; i < tree_[no].size; ++i) {
    const NodeNo key = tree_.Key(no, i);
    if (!IsIdentifier(tree_.Text(key)))
      Fault("HW1010", key,
            fmt::format("{} cannot name a value of a matrix; use letters, digits and _",
                        QuoteJson(tree_.Text(key))));
    entry[tree_.Text(key)] = ReadValue(tree_.Value(no, i));
  }
  return entry;
}

/// Whether `combination` has all of `part`'s values, as far as they are axes'.
bool Agrees(const json::object& combination, const json::object& part, const auto& is_axis) {
  return std::ranges::all_of(part, [&](const json::key_value_pair& member) {
    if (!is_axis(member.key())) return true;
    const json::value* value = combination.if_contains(member.key());
    return value != nullptr && *value == member.value();
  });
}

std::vector<NodeNo> MatrixReader::Entries(NodeNo list, std::string_view name) {
  std::vector<NodeNo> entries;
  if (tree_[list].kind != Kind::kList) {
    Fault("HW1009", list,
          fmt::format("{} takes a list of maps, e.g. [{{os: mac, python: \"3.8\"}}]", name));
    return entries;
  }
  work_ += combinations_.size() * tree_[list].size;
  if (tree_[list].size > kMaxInstances || work_ > kMaxMatrixWork) {
    Fault("HW1015", list,
          fmt::format("{} has more than {} entries, or those of the whole file are too many; "
                      "shorten it",
                      name, kMaxInstances));
    return entries;
  }
  entries.reserve(tree_[list].size);
  for (std::uint32_t i = 0; i < tree_[list].size; ++i) entries.push_back(tree_.Element(list, i));
  return entries;
}

void MatrixReader::Exclude(NodeNo list) {
  for (const NodeNo no : Entries(list, "exclude")) {
    const auto entry = ReadCombination(no);
    if (!entry) continue;
    const std::size_t before = combinations_.size();
    const bool names_axes =
        std::ranges::all_of(*entry, [&](const auto& member) { return IsAxis(member.key()); });
    if (names_axes)
      std::erase_if(combinations_, [&](const json::object& combination) {
        return Agrees(combination, *entry, [](std::string_view) { return true; });
      });
    if (combinations_.size() == before)
      Fault("HW1016", no, "no combination has these values; correct or remove the entry");
  }
}

void MatrixReader::IncludeOne(NodeNo no, json::object&& entry) {
  bool extended = false;
  const bool has_extras =
      std::ranges::any_of(entry, [&](const auto& member) { return !IsAxis(member.key()); });
  for (json::object& combination : combinations_) {
    if (axes_.empty() ||
        !Agrees(combination, entry, [&](std::string_view key) { return IsAxis(key); }))
      continue;
    extended = true;
    for (const auto& member : entry) combination[member.key()] = member.value();
  }
  if (extended && !has_extras)
    return Fault("HW1016", no,
                 "the combination is there already, and the entry adds nothing; remove it");
  if (extended) return;
  for (const Axis& axis : axes_)
    if (!entry.contains(axis.name))
      return Fault("HW1016", no,
                   fmt::format("a further combination needs a value for {}, too", axis.name));
  if (combinations_.size() >= kMaxInstances)
    return Fault(
        "HW1015", no,
        fmt::format("the matrix has more than {} combinations; remove some", kMaxInstances));
  combinations_.push_back(std::move(entry));
}

void MatrixReader::Include(NodeNo list) {
  for (const NodeNo no : Entries(list, "include"))
    if (auto entry = ReadCombination(no)) IncludeOne(no, *std::move(entry));
}

std::optional<Matrix> MatrixReader::Read(NodeNo no) {
  if (tree_[no].kind != Kind::kMap) {
    Fault(
        "HW1009", no,
        fmt::format("matrix takes a map from names to lists of values, e.g. {{os: [linux, mac]}}, "
                    "not {}",
                    Describe(tree_, no)));
    return std::nullopt;
  }
  std::optional<NodeNo> include, exclude;
  for (std::uint32_t i = 0; i < tree_[no].size; ++i) {
    const std::string_view name = tree_.Text(tree_.Key(no, i));
    if (name == "include")
      include = tree_.Value(no, i);
    else if (name == "exclude")
      exclude = tree_.Value(no, i);
    else
      ReadAxis(tree_.Key(no, i), tree_.Value(no, i));
  }
  if (!Multiply(no)) return std::nullopt;
  if (exclude) Exclude(*exclude);
  if (include) Include(*include);
  if (combinations_.empty() && source_.good())
    Fault("HW1016", exclude && !axes_.empty() ? *exclude : no,
          exclude && !axes_.empty() ? "no combination is left; take fewer away, or remove the task"
                                    : "the matrix has no combination; give it a list of values");
  Matrix matrix;
  matrix.node = no;
  matrix.lists = !axes_.empty();
  for (Axis& axis : axes_) matrix.axes.push_back(std::move(axis.name));
  matrix.combinations = std::move(combinations_);
  matrix.faulty = faulty_;
  if (matrix.lists || matrix.combinations.empty()) return matrix;
  for (const auto& member : matrix.combinations.front())
    if (std::ranges::all_of(matrix.combinations, [&](const json::object& combination) {
          return combination.contains(member.key());
        }))
      matrix.axes.emplace_back(member.key());
  return matrix;
}

std::vector<std::string> SharedAxes(const Matrix* own, const Matrix& other) {
  std::vector<std::string> shared;
  if (own != nullptr)
    std::ranges::copy_if(own->axes, std::back_inserter(shared), [&](const std::string& axis) {
      return std::ranges::find(other.axes, axis) != other.axes.end();
    });
  return shared;
}

std::string KeyOf(const json::object& combination, const std::vector<std::string>& axes) {
  std::string key;
  for (const std::string& axis : axes) key += CanonicalJson(combination.at(axis)) + ",";
  return key;
}

/// From tasks with matrices to their instances.
class Expander {
 public:
  Expander(model::WorkflowDefinition& definition, const std::vector<Matrix>& matrices,
           const YamlTree& tree, Source& source)
      : definition_(definition), matrices_(matrices), tree_(tree), source_(source) {}

  void Expand();

 private:
  /// Positions in `matrix.combinations`, by the values of some of its axes.
  using Index = std::unordered_map<std::string, std::vector<std::size_t>>;

  void NameInstances(const Matrix& matrix);
  void ResolveNeeds(model::Task& task, const Matrix* own, const json::object* combination);
  const Index& IndexOf(const Matrix& matrix, const std::vector<std::string>& axes);

  model::WorkflowDefinition& definition_;
  const std::vector<Matrix>& matrices_;
  const YamlTree& tree_;
  Source& source_;
  std::unordered_map<std::string_view, const Matrix*> by_group_;
  std::map<const Matrix*, std::vector<std::string>> ids_;
  std::map<std::pair<const Matrix*, std::vector<std::string>>, Index> indexes_;
  std::size_t needs_ = 0;
};

const Expander::Index& Expander::IndexOf(const Matrix& matrix,
                                         const std::vector<std::string>& axes) {
  const auto [at, fresh] = indexes_.try_emplace({&matrix, axes});
  if (fresh)
    for (std::size_t i = 0; i < matrix.combinations.size(); ++i)
      at->second[KeyOf(matrix.combinations[i], axes)].push_back(i);
  return at->second;
}

/// Without lists all of an entry tells it from the others.
std::vector<std::string> NamesInId(const Matrix& matrix, const json::object& combination) {
  if (matrix.lists) return matrix.axes;
  std::vector<std::string> names;
  names.reserve(combination.size());
  for (const auto& member : combination) names.emplace_back(member.key());
  return names;
}

void Expander::NameInstances(const Matrix& matrix) {
  const std::string& group = definition_.tasks[matrix.task].id;
  std::vector<std::string>& ids = ids_[&matrix];
  std::set<std::string_view> seen;
  ids.reserve(matrix.combinations.size());
  for (const json::object& combination : matrix.combinations) {
    std::vector<std::string> values;
    values.reserve(combination.size());
    for (const std::string& name : NamesInId(matrix, combination))
      values.push_back(Show(combination.at(name)));
    ids.push_back(fmt::format("{}[{}]", group, fmt::join(values, ",")));
    if (!seen.insert(ids.back()).second)
      source_.Add(
          "HW1016", tree_[matrix.node].place,
          fmt::format("two combinations would be called {}; make their values differ", ids.back()));
  }
  by_group_.emplace(group, &matrix);
}

void Expander::ResolveNeeds(model::Task& task, const Matrix* own, const json::object* combination) {
  std::vector<std::string> needs;
  for (std::string& need : task.needs) {
    const auto found = by_group_.find(need);
    if (found == by_group_.end()) {
      needs.push_back(std::move(need));
      continue;
    }
    const Matrix& matrix = *found->second;
    const std::vector<std::string>& ids = ids_.at(&matrix);
    const std::vector<std::string> shared = SharedAxes(own, matrix);
    const std::vector<std::size_t>* same = nullptr;
    if (!shared.empty()) {
      const Index& index = IndexOf(matrix, shared);
      const auto at = index.find(KeyOf(*combination, shared));
      if (at != index.end()) same = &at->second;
    }
    needs_ += same != nullptr ? same->size() : ids.size();
    if (needs_ > kMaxInstanceNeeds) return;
    if (same != nullptr)
      for (const std::size_t i : *same) needs.push_back(ids[i]);
    else
      needs.insert(needs.end(), ids.begin(), ids.end());
  }
  task.needs = std::move(needs);
}

void Expander::Expand() {
  std::map<std::size_t, const Matrix*> by_task;
  for (const Matrix& matrix : matrices_) {
    by_task.emplace(matrix.task, &matrix);
    NameInstances(matrix);
  }
  std::vector<model::Task> tasks;
  for (std::size_t i = 0; i < definition_.tasks.size(); ++i) {
    model::Task& written = definition_.tasks[i];
    const auto found = by_task.find(i);
    if (found == by_task.end()) {
      ResolveNeeds(written, nullptr, nullptr);
      tasks.push_back(std::move(written));
    } else {
      const Matrix& matrix = *found->second;
      for (std::size_t k = 0; k < matrix.combinations.size(); ++k) {
        model::Task& instance = tasks.emplace_back(written);
        instance.id = ids_.at(&matrix)[k];
        instance.group = written.id;
        instance.matrix = CanonicalJson(matrix.combinations[k]);
        instance.axes = NamesInId(matrix, matrix.combinations[k]);
        ResolveNeeds(instance, &matrix, &matrix.combinations[k]);
      }
    }
    if (needs_ > kMaxInstanceNeeds)
      return source_.AddWhole(
          "HW1015",
          fmt::format("the matrices make more than {} needs between their instances; put a task "
                      "without matrix in between, or let them share an axis",
                      kMaxInstanceNeeds));
  }
  definition_.tasks = std::move(tasks);
}

}  // namespace

std::optional<Matrix> ReadMatrix(const YamlTree& tree, YamlTree::NodeNo no, Source& source,
                                 std::size_t& work) {
  return MatrixReader(tree, source, work).Read(no);
}

Instances NeededInstances(const Matrix* own, const Matrix& needed) {
  const std::vector<std::string> shared = SharedAxes(own, needed);
  const std::size_t all = needed.combinations.size();
  std::unordered_map<std::string, std::size_t> counts;
  for (const json::object& combination : needed.combinations) ++counts[KeyOf(combination, shared)];
  bool one = false, several = false;
  const auto note = [&](std::size_t count) { (count == 1 ? one : several) = true; };
  if (shared.empty()) {
    note(all);
  } else {
    for (const json::object& combination : own->combinations) {
      const auto found = counts.find(KeyOf(combination, shared));
      note(found == counts.end() ? all : found->second);
    }
  }
  return one && several ? Instances::kEither : one ? Instances::kOne : Instances::kSeveral;
}

void ExpandMatrices(model::WorkflowDefinition& definition, const std::vector<Matrix>& matrices,
                    const YamlTree& tree, Source& source) {
  Expander(definition, matrices, tree, source).Expand();
}

}  // namespace headworks::spec
