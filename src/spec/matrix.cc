#include "matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <set>
#include <unordered_map>

#include "headworks/base/json.h"
#include "headworks/base/text.h"
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

/// A value with its type, for messages.
std::string Written(const json::value& value) {
  return fmt::format("{}{}", value.is_string() ? "the text " : "", CanonicalJson(value));
}

/// The value of another type that reads like `value`, as 3.1 and "3.1" do; nullptr = none.
const json::value* LookAlike(const json::value& value, const std::vector<json::value>& values) {
  const auto found = std::ranges::find_if(values, [&](const json::value& other) {
    return other.kind() != value.kind() && !(other == value) && Show(other) == Show(value);
  });
  return found == values.end() ? nullptr : &*found;
}

/// The one of `known` that `word` is a slip of: a letter too many or too few, or some in another
/// order.  Another number (gcc-13) or letter (arm64, amd64) as likely makes another value.
std::string_view SlipOf(std::string_view word, std::span<const std::string_view> known) {
  constexpr std::size_t kMostKnown = 100;  // a file may have very many words to compare
  if (known.size() > kMostKnown) return "";
  const std::string_view nearest = NearestWord(word, known);
  const auto letters = [](std::string_view text) {
    std::string lower(text);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    std::ranges::sort(lower);
    return lower;
  };
  const auto without_digits = [](std::string text) {
    std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
    return text;
  };
  const std::string a = letters(word), b = letters(nearest);
  const bool slip = a == b || (a.size() != b.size() && without_digits(a) != without_digits(b));
  return slip && nearest != word ? nearest : "";
}

/// As they stand in ids.
std::vector<std::string> TextsOf(const std::vector<json::value>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const json::value& value : values) texts.push_back(Show(value));
  return texts;
}

/// "a, b, c, ..."
std::string Listed(std::span<const std::string> words) {
  constexpr std::size_t kMost = 10;
  return fmt::format("{}{}", fmt::join(words.first(std::min(words.size(), kMost)), ", "),
                     words.size() > kMost ? ", ..." : "");
}

std::vector<std::string_view> ViewsOf(const std::vector<std::string>& words) {
  return {words.begin(), words.end()};
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
  /// Whether each member of the entry is a value of a list; says which is not.
  bool IsOfLists(NodeNo no, const json::object& entry);
  bool IsOfList(NodeNo key, NodeNo value_no, const json::value& value);
  void Include(NodeNo list);
  void IncludeOne(NodeNo no, json::object&& entry);
  /// Warns of names in it that may be meant as those of lists.
  void WarnOfNames(NodeNo no);
  /// A fault or warnings, if the further combination may be meant as one that is there.
  void CheckFurther(NodeNo no, const json::object& entry);
  bool IsLookAlike(const Axis& axis, NodeNo no, const json::value& value);
  const Axis* FindAxis(std::string_view name) const {
    const auto found = std::ranges::find(axes_, name, &Axis::name);
    return found == axes_.end() ? nullptr : &*found;
  }
  bool IsAxis(std::string_view name) const { return FindAxis(name) != nullptr; }
  std::vector<std::string> AxisNames() const {
    std::vector<std::string> names;
    names.reserve(axes_.size());
    for (const Axis& axis : axes_) names.push_back(axis.name);
    return names;
  }

  const YamlTree& tree_;
  Source& source_;
  std::size_t& work_;
  std::vector<Axis> axes_;
  std::vector<json::object> combinations_;
  /// Something is wrong and told: at all, and in the lists, so that nobody compares with them.
  bool faulty_ = false, faulty_lists_ = false;
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
    if (faulty_lists_ || !IsOfLists(no, *entry)) continue;
    const std::size_t taken = std::erase_if(combinations_, [&](const json::object& combination) {
      return Agrees(combination, *entry, [](std::string_view) { return true; });
    });
    if (taken == 0)
      Fault("HW1016", no, "entries before this one take these combinations away; remove it");
  }
}

bool MatrixReader::IsOfLists(NodeNo no, const json::object& entry) {
  if (axes_.empty()) {
    Fault("HW1016", no,
          "the matrix has no lists that make combinations; leave the entry out of include instead");
    return false;
  }
  bool all = true;
  for (std::uint32_t i = 0; i < tree_[no].size; ++i)
    all &= IsOfList(tree_.Key(no, i), tree_.Value(no, i), entry.at(tree_.Text(tree_.Key(no, i))));
  return all;
}

bool MatrixReader::IsOfList(NodeNo key, NodeNo value_no, const json::value& value) {
  const std::string_view name = tree_.Text(key);
  const Axis* axis = FindAxis(name);
  if (axis == nullptr) {
    const std::vector<std::string> names = AxisNames();
    const std::string hint = DidYouMean(name, ViewsOf(names));
    Fault("HW1016", key,
          fmt::format("the matrix has no list {}{}", QuoteJson(name),
                      hint.empty() ? fmt::format("; its lists are {}, and exclude comes before "
                                                 "include",
                                                 Listed(names))
                                   : hint));
    return false;
  }
  if (std::ranges::find(axis->values, value) != axis->values.end()) return true;
  // What could not be read has its fault already.
  if (value.is_null() || IsLookAlike(*axis, value_no, value)) return false;
  const std::vector<std::string> texts = TextsOf(axis->values);
  const std::string hint = DidYouMean(Show(value), ViewsOf(texts));
  Fault("HW1016", value_no,
        fmt::format("{} is never {}{}", name, Show(value),
                    hint.empty() ? fmt::format("; its values are {}", Listed(texts)) : hint));
  return false;
}

bool MatrixReader::IsLookAlike(const Axis& axis, NodeNo no, const json::value& value) {
  const json::value* other = LookAlike(value, axis.values);
  if (other == nullptr) return false;
  Fault("HW1016", no,
        fmt::format("{} is {} in its list, and {} is something else; write {} here", axis.name,
                    Written(*other), Written(value), CanonicalJson(*other)));
  return true;
}

void MatrixReader::CheckFurther(NodeNo no, const json::object& entry) {
  for (std::uint32_t i = 0; !faulty_lists_ && i < tree_[no].size; ++i) {
    const std::string_view name = tree_.Text(tree_.Key(no, i));
    const Axis* axis = FindAxis(name);
    const json::value& value = entry.at(name);
    if (axis == nullptr || value.is_null() ||
        std::ranges::find(axis->values, value) != axis->values.end() ||
        IsLookAlike(*axis, tree_.Value(no, i), value))
      continue;
    const std::vector<std::string> texts = TextsOf(axis->values);
    if (const std::string_view meant = SlipOf(Show(value), ViewsOf(texts)); !meant.empty())
      source_.Warn("HW1017", tree_[tree_.Value(no, i)].place,
                   fmt::format("this makes a further combination, with {} for {}, did you mean "
                               "'{}'?",
                               Show(value), name, meant));
  }
}

void MatrixReader::WarnOfNames(NodeNo no) {
  const std::vector<std::string> names = AxisNames();
  for (std::uint32_t i = 0; i < tree_[no].size; ++i) {
    const NodeNo key = tree_.Key(no, i);
    if (const std::string_view meant = SlipOf(tree_.Text(key), ViewsOf(names)); !meant.empty())
      source_.Warn("HW1017", tree_[key].place,
                   fmt::format("{} is none of the lists, so each combination that the entry fits "
                               "gets it, did you mean '{}'?",
                               QuoteJson(tree_.Text(key)), meant));
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
  if (extended) return WarnOfNames(no);
  for (const Axis& axis : axes_)
    if (!entry.contains(axis.name))
      return Fault("HW1016", no,
                   fmt::format("a further combination needs a value for {}, too", axis.name));
  if (combinations_.size() >= kMaxInstances)
    return Fault(
        "HW1015", no,
        fmt::format("the matrix has more than {} combinations; remove some", kMaxInstances));
  CheckFurther(no, entry);
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
  faulty_lists_ = faulty_;
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
  /// `task` shares the names `shared` with what it needs, and agrees with none of it.
  void SayThatAllAreNeeded(const model::Task& task, const Matrix& own,
                           const json::object& combination, const Matrix& needed,
                           const std::vector<std::string>& shared);
  const Index& IndexOf(const Matrix& matrix, const std::vector<std::string>& axes);

  model::WorkflowDefinition& definition_;
  const std::vector<Matrix>& matrices_;
  const YamlTree& tree_;
  Source& source_;
  std::unordered_map<std::string_view, const Matrix*> by_group_;
  std::map<const Matrix*, std::vector<std::string>> ids_;
  std::map<std::pair<const Matrix*, std::vector<std::string>>, Index> indexes_;
  /// Of which tasks it was said that some of them need all of another.
  std::set<std::pair<const Matrix*, const Matrix*>> told_;
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

void Expander::SayThatAllAreNeeded(const model::Task& task, const Matrix& own,
                                   const json::object& combination, const Matrix& needed,
                                   const std::vector<std::string>& shared) {
  if (!told_.emplace(&own, &needed).second) return;
  const std::string& group = definition_.tasks[needed.task].id;
  const Place place = tree_[own.node].place;
  std::string hint;
  for (const std::string& axis : shared) {
    std::vector<json::value> values;
    values.reserve(needed.combinations.size());
    for (const json::object& other : needed.combinations) values.push_back(other.at(axis));
    const json::value& value = combination.at(axis);
    if (std::ranges::find(values, value) != values.end()) continue;
    if (const json::value* other = LookAlike(value, values))
      return source_.Add("HW1016", place,
                         fmt::format("{} would need all of {}: {} is {} here and {} there; write "
                                     "both in one way",
                                     task.id, group, axis, Written(value), Written(*other)));
    const std::vector<std::string> texts = TextsOf(values);
    if (hint.empty()) hint = DidYouMean(Show(value), ViewsOf(texts));
  }
  source_.Warn("HW1017", place,
               fmt::format("{} needs all of {}, for none of it agrees in {}{}", task.id, group,
                           fmt::join(shared, " and "), hint));
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
      if (at != index.end())
        same = &at->second;
      else
        SayThatAllAreNeeded(task, *own, *combination, matrix, shared);
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
