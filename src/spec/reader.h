#pragma once

#include <boost/json/value.hpp>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "expression_check.h"
#include "headworks/model/workflow.h"
#include "language.h"
#include "matrix.h"
#include "source.h"
#include "yaml_tree.h"

namespace headworks::spec {

class Reader;

/// A key and what reads its value; `T` is what its map describes.
template <typename T>
struct Entry {
  Key key;
  void (*read)(Reader&, YamlTree::NodeNo value, T& into);
};

/// A task while it is read: what is kept apart until the whole is known.
struct TaskDraft : model::Task {
  std::vector<std::string> shell;
  /// The node of the matrix, or kNone.
  YamlTree::NodeNo matrix = ~YamlTree::NodeNo{0};
};

/// `rate` while it is read.
struct RateDraft {
  /// As long as no value was read.
  static constexpr int kNoLimit = std::numeric_limits<int>::min();
  static constexpr Duration kNoTime = Duration::min();

  int limit = kNoLimit;
  Duration per = kNoTime;
};

/// The keys of the map that describes a `T`: a part of the language (keys.cc).
template <typename T>
std::span<const Entry<T>> EntriesOf();
template <>
std::span<const Entry<model::WorkflowDefinition>> EntriesOf();
template <>
std::span<const Entry<model::Param>> EntriesOf();
template <>
std::span<const Entry<TaskDraft>> EntriesOf();
template <>
std::span<const Entry<model::Concurrency>> EntriesOf();
template <>
std::span<const Entry<RateDraft>> EntriesOf();
template <>
std::span<const Entry<model::RetryPolicy>> EntriesOf();
template <>
std::span<const Entry<model::RetryCondition>> EntriesOf();
template <>
std::span<const Entry<model::OutputSpec>> EntriesOf();
template <>
std::span<const Entry<model::Resources>> EntriesOf();

/// Turns a tree into a definition by way of the table of keys.  One use.
class Reader {
 public:
  using NodeNo = YamlTree::NodeNo;
  using Kind = YamlTree::Kind;
  static constexpr NodeNo kNone = ~NodeNo{0};

  Reader(const YamlTree& tree, Source& source) : tree_(tree), source_(source) {}

  model::WorkflowDefinition Workflow();
  /// Of the tasks of the workflow that was read.
  std::vector<Matrix> TakeMatrices() { return std::move(matrices_); }
  std::vector<ExpressionUse> TakeExpressions() { return std::move(expressions_); }

  // Values: each reads the node into `into`, or says what is wrong and leaves it.
  void Text(NodeNo no, std::string& into);
  /// As Text, but nothing is left to the check, which knows what an empty command means.
  void Command(NodeNo no, std::string& into);
  void Bool(NodeNo no, bool& into);
  void Integer(NodeNo no, int& into);
  void Fraction(NodeNo no, double& into);
  void Time(NodeNo no, Duration& into);
  void Size(NodeNo no, std::uint64_t& into);
  /// One text or a list of them.
  void Texts(NodeNo no, std::string_view wanted, std::vector<std::string>& into);
  /// Adds to `into`; a name that is there already gets the new value.
  void TextMap(NodeNo no, std::string_view wanted, std::map<std::string, std::string>& into);
  void Cwd(NodeNo no, std::string& into);
  void EnvFiles(NodeNo no, std::vector<std::string>& into);
  void Artifacts(NodeNo no, std::map<std::string, std::string>& into);
  /// The position of the value in `names`.
  std::optional<std::size_t> Choice(NodeNo no, std::span<const std::string_view> names);
  void Pattern(NodeNo no, std::string& into);
  void Json(NodeNo no, std::string& into);

  // Parts of the language.
  void Version(NodeNo no);
  void Params(NodeNo no, std::map<std::string, model::Param>& into);
  void ParamType(NodeNo no, model::Param& into);
  void Defaults(NodeNo no);
  void Tasks(NodeNo no, model::TaskRole role, std::vector<model::Task>& into);
  void Exec(NodeNo no, TaskDraft& into);
  void Shell(NodeNo no, std::vector<std::string>& into);
  void When(NodeNo no, std::vector<std::string>& into);
  void Concurrency(NodeNo no, std::optional<model::Concurrency>& into);
  void RunLimit(NodeNo no, int& into);
  void Rate(NodeNo no, model::Concurrency& into);
  void Retry(NodeNo no, model::Task& into);
  void StartTimeout(NodeNo no, Duration& into);
  void Resources(NodeNo no, model::Resources& into);
  void Cpu(NodeNo no, double& into);
  void Condition(NodeNo no, std::optional<model::RetryCondition>& into);
  void ExitCodes(NodeNo no, std::vector<int>& into);
  void Output(NodeNo no, model::OutputSpec& into);
  void OutputType(NodeNo no, std::string& into);

  void Fault(std::string_view code, NodeNo no, std::string message) {
    source_.Add(code, tree_[no].place, std::move(message));
  }
  /// `wanted` may say what to do behind a semicolon.
  void WrongType(NodeNo no, std::string_view wanted);
  void NotANumber(NodeNo no, std::string_view wanted);

 private:
  /// Says so if `path` is written as if a shell read it.
  void Path(NodeNo no, std::string_view path);
  bool Is(NodeNo no, Kind kind) const { return tree_[no].kind == kind; }
  template <typename T>
  void Map(NodeNo map, T& into, bool in_defaults = false);
  template <typename T>
  void ReadEntry(const Entry<T>& entry, NodeNo value, T& into);
  void UnknownKey(NodeNo key, NodeNo value, std::span<const std::string_view> here);
  /// Whether the key looks like the end of a text that a comma within { } cut.
  bool IsBehindComma(NodeNo key, NodeNo value) const;
  /// The node of the key or of its value, or kNone; `map` may be anything.
  NodeNo FindKey(NodeNo map, std::string_view key) const;
  NodeNo ValueOf(NodeNo map, std::string_view key) const;
  /// Whether a key that is not known is meant to be one of `names`, which the fault about it says.
  bool HasMisspeltKey(NodeNo map, std::span<const std::string_view> names) const;

  /// The type of a parameter whose value is `value`, written as `no`.
  model::ParamType TypeShownBy(NodeNo no, const boost::json::value& value) const;
  model::Param ReadParam(NodeNo no);
  void CheckParam(NodeNo map, model::Param& param);
  /// Of a value that was read as it is declared, although older YAML reads another one.
  void CheckFieldsOfStdout(NodeNo output, model::OutputMode mode);
  void CheckTrapsOf(NodeNo no, model::ParamType type, bool is_typed);
  /// The value as JSON: where text is wanted, a scalar is taken as it is written.
  std::string JsonOf(NodeNo no, model::ParamType type);
  void ChargeDefaults(std::size_t tasks);
  TaskDraft ReadTask(NodeNo key, NodeNo value);
  void CheckActions(NodeNo key, NodeNo map, TaskDraft& task);
  void CheckFunction(NodeNo map, TaskDraft& task);
  void CheckRetry(NodeNo map, const model::RetryPolicy& retry);
  void ReadMatrixOf(NodeNo task, const TaskDraft& draft, std::size_t position);
  std::string TypeOf(NodeNo no);

  const YamlTree& tree_;
  Source& source_;
  TaskDraft defaults_;
  /// Position of the task that is being read.
  std::size_t task_ = ExpressionUse::kNoTask;
  /// The key whose value is being read.
  const Key* key_ = nullptr;
  std::vector<ExpressionUse> expressions_;
  std::vector<Matrix> matrices_;
  std::size_t matrix_work_ = 0;
  NodeNo defaults_node_ = kNone;
  /// What the copies that matrices and defaults make weigh.
  std::size_t copied_ = 0;
};

}  // namespace headworks::spec
