#include "expression_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <set>

#include "expression_types.h"
#include "foreign_words.h"
#include "headworks/base/json.h"
#include "headworks/base/time.h"
#include "headworks/expr/command.h"
#include "headworks/expr/program.h"
#include "headworks/expr/shell_template.h"
#include "headworks/expr/template.h"
#include "headworks/spec/params.h"
#include "missing_output.h"
#include "param_value.h"
#include "quoting.h"
#include "scalar_place.h"
#include "unread.h"
#include "workflow_reader.h"

namespace headworks::spec {
namespace {

using NodeNo = YamlTree::NodeNo;
using Kind = YamlTree::Kind;

std::string_view CodeOf(expr::FaultKind kind) {
  switch (kind) {
    case expr::FaultKind::kSyntax:
      return "HW1301";
    case expr::FaultKind::kUnknownName:
      return "HW1302";
    case expr::FaultKind::kType:
      return "HW1303";
    case expr::FaultKind::kLimit:
      return "HW1304";
    case expr::FaultKind::kShell:
      return "HW1305";
  }
  return "HW1301";
}

bool IsKeyType(const expr::Type& type) {
  using enum expr::Type::Kind;
  return type.kind() == kString || type.kind() == kInt || type.kind() == kUint ||
         type.kind() == kBool;
}

/// What the script's quoting means, by the program that runs it.
expr::Shell ShellOf(const model::Task& task) {
  const auto* action = std::get_if<model::ShellAction>(&task.action);
  if (action == nullptr || action->shell.empty()) return expr::Shell::kSh;
  return expr::ShellOf(action->shell.front());
}

class ExpressionChecker {
 public:
  ExpressionChecker(const WorkflowDraft& draft, const YamlTree& tree, Source& source)
      : draft_(draft), tree_(tree), source_(source), types_(draft), missing_(draft) {}

  void Check(const ExpressionUse& use);

 private:
  /// Each scalar of a value that may hold expressions.
  void CheckNode(const ExpressionUse& use, NodeNo no);
  void CheckWhen(const ExpressionUse& use, NodeNo no);
  void CheckTemplate(const ExpressionUse& use, NodeNo no);
  /// The list of an `exec`: what each text says, and what the programs make of them.
  void CheckExec(const ExpressionUse& use, NodeNo no);
  const Matrix* MatrixOf(const ExpressionUse& use) const {
    const auto matrix = std::ranges::find(draft_.matrices, use.task, &Matrix::task);
    return matrix == draft_.matrices.end() ? nullptr : &*matrix;
  }
  void CheckScript(const ExpressionUse& use, NodeNo no, const expr::Environment& environment,
                   std::vector<expr::Fault>* faults);
  const expr::Environment& EnvironmentOf(const ExpressionUse& use);
  void Add(const ExpressionUse& use, NodeNo no, const std::vector<expr::Fault>& faults);
  /// What the fault's name makes one think of, behind a semicolon, or to say instead of it; empty =
  /// nothing.
  std::string Hint(const ExpressionUse& use, std::string_view text, const expr::Fault& fault) const;
  std::string CommentHint(NodeNo no) const;
  bool Charge(NodeNo no);
  /// Warns of what others would fill in.
  void WarnOfUnread(NodeNo no, bool reads_variables);
  /// Warns of outputs that may not be there; `text`: what was compiled of the node.
  template <typename Compiled>
  void WarnOfMissing(const ExpressionUse& use, NodeNo no, const Compiled& text);
  /// Of very many each once: what an anchor or a default holds is used by several tasks.
  void Warn(std::string_view code, NodeNo no, std::size_t offset, std::string message);

  const WorkflowDraft& draft_;
  const YamlTree& tree_;
  Source& source_;
  const ExpressionTypes types_;
  MissingOutputs missing_;
  /// Of the last use.
  std::optional<expr::Environment> environment_;
  std::size_t task_ = 0;
  ValueType type_ = ValueType::kAny;
  std::size_t compiled_ = 0;
  std::set<std::pair<std::uint32_t, std::uint32_t>> warned_;  // line and byte
};

const expr::Environment& ExpressionChecker::EnvironmentOf(const ExpressionUse& use) {
  const auto rank = [](ValueType type) {
    return type == ValueType::kWhen || type == ValueType::kAny || type == ValueType::kKeyExpression
               ? type
               : ValueType::kTemplate;
  };
  if (environment_ && use.task == task_ && rank(use.type) == rank(type_)) return *environment_;
  task_ = use.task;
  type_ = use.type;
  environment_ = use.type == ValueType::kAny             ? types_.OfParam()
                 : use.type == ValueType::kKeyExpression ? types_.OfKey()
                 : use.task == ExpressionUse::kNoTask
                     ? types_.OfWorkflow()
                     : types_.OfTask(use.task, use.type != ValueType::kWhen);
  return *environment_;
}

std::string ExpressionChecker::Hint(const ExpressionUse& use, std::string_view text,
                                    const expr::Fault& fault) const {
  if (fault.kind != expr::FaultKind::kUnknownName) return "";
  constexpr std::size_t kNoTask = ExpressionUse::kNoTask;
  const std::string_view before = text.substr(0, fault.offset);
  std::string_view name = text.substr(fault.offset);
  if (before.ends_with('[') && !name.empty()) name.remove_prefix(1);  // the quote
  name =
      name.substr(0, name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-"));
  const std::string_view behind = text.substr(fault.offset + name.size());
  const std::string spelled = fmt::format("{}{}{}", before.ends_with("run.") ? "run." : "", name,
                                          behind.starts_with('(') ? "(" : "");
  if (const std::string_view instead = InsteadInExpression(spelled);
      !instead.empty() &&
      (spelled.starts_with("run.") || spelled.ends_with('(') || !before.ends_with('.')))
    return fmt::format("'{}' is not known here; {}", name, instead);
  const bool of_needs = before.ends_with("needs.") || before.ends_with("needs[");
  if (const auto named = types_.FindTask(name); of_needs && named && use.task != kNoTask) {
    const auto& tasks = draft_.definition.tasks;
    const std::vector<std::string>& needs = tasks[use.task].needs;
    if (std::ranges::find(needs, tasks[*named].id) != needs.end()) return "";
    if (tasks[*named].role == tasks[use.task].role)
      return "; there is such a task, so add it to this task's needs";
    return tasks[use.task].role == model::TaskRole::kFinally
               ? "; a task under finally sees run.outcome, run.reason and run.failed_tasks instead"
               : "; that task runs elsewhere, so nothing of it is known here";
  }
  if (const auto& params = draft_.definition.params;
      use.type == ValueType::kKeyExpression &&
      (before.ends_with("params.") || before.ends_with("params[")))
    if (const auto param = params.find(std::string(name));
        param != params.end() && HasTemplateDefault(param->second))
      return fmt::format(
          "the default of {} is computed once the run is made, and a key is needed before; give "
          "it a fixed default or none, or take another value",
          name);
  if (before.ends_with("params.") && use.type != ValueType::kKeyExpression &&
      fault.message.find("did you mean") == std::string::npos)
    return "; declare it under `params`";
  if (fault.message.find("all_artifacts") != std::string::npos) return "";
  if (use.task != kNoTask && name == "artifacts" && before.find("needs") != before.npos)
    return use.type == ValueType::kWhen
               ? "; files are there once the task runs, and its conditions are asked before: let "
                 "the needed task say it by its output"
               : "; the needed task declares none";
  if (use.task != kNoTask && name == "matrix" && !before.ends_with('.'))
    return "the task has no matrix; give it one, or read the one of a task that it needs, "
           "needs.ID.matrices";
  if (use.task == kNoTask && (name == "needs" || name == "matrix"))
    return fmt::format("; {} is known in a task only", name);
  if (before.ends_with("run.") && name == "dir")
    return "; run.dir is known to the texts of a command only, once it is about to start";
  if (before.ends_with("run.") && name.starts_with("scratch"))
    return "; the scratch folder is run.dir in the texts of a command, HEADWORKS_SCRATCH in its "
           "environment";
  if (before.ends_with("run.") && (name == "outcome" || name == "reason" || name == "failed_tasks"))
    return fmt::format("; {} is known to tasks under finally only", name);
  return "";
}

/// Where YAML took the end of an expression for a comment.
std::string ExpressionChecker::CommentHint(NodeNo no) const {
  const std::string_view text = tree_.Text(no);
  const std::size_t open = text.rfind("${{");
  if (!tree_[no].plain || open == text.npos || text.find("}}", open) != text.npos) return "";
  const std::string_view line = source_.Line(tree_[no].place.line);
  if (line.find(" #") == line.npos) return "";
  const std::string mended = WithQuotes(line);
  return mended.empty() ? ""
                        : fmt::format(
                              "' #' begins a comment, also within ${{{{ }}}}; put the text "
                              "into quotes: {}",
                              mended);
}

void ExpressionChecker::Add(const ExpressionUse& use, NodeNo no,
                            const std::vector<expr::Fault>& faults) {
  const std::string_view text = tree_.Text(no);
  for (const expr::Fault& fault : faults) {
    const std::string hint =
        fault.kind == expr::FaultKind::kSyntax ? CommentHint(no) : Hint(use, text, fault);
    source_.Add(CodeOf(fault.kind), PlaceInScalar(source_, tree_[no].place, text, fault.offset),
                hint.empty() || hint.starts_with(';') ? fault.message + hint : hint);
  }
}

/// Aliases can make much of a small file.
bool ExpressionChecker::Charge(NodeNo no) {
  compiled_ += tree_[no].size;
  if (compiled_ <= kMaxCompiledBytes) return true;
  source_.Add("HW1304", tree_[no].place,
              fmt::format("the expressions of this file, and the texts they stand in, come to more "
                          "than {} MiB; share fewer of them by aliases",
                          kMaxCompiledBytes >> 20));
  return false;
}

void ExpressionChecker::CheckWhen(const ExpressionUse& use, NodeNo no) {
  const std::string_view text = tree_.Text(no);
  if (const std::size_t at = text.find("${{"); at != std::string_view::npos) {
    source_.Add("HW1301", PlaceInScalar(source_, tree_[no].place, text, at),
                fmt::format("{} is an expression as a whole; leave out ${{{{ and }}}}", use.key));
    return;
  }
  std::vector<expr::Fault> faults;
  const auto program = expr::Program::Compile(text, EnvironmentOf(use), &faults);
  Add(use, no, faults);
  WarnOfMissing(use, no, program);
  if (!program) return;
  const expr::Type& type = program->type();
  if (use.type == ValueType::kKeyExpression) {
    if (!type.is_dyn() && !IsKeyType(type))
      source_.Add("HW1303", PlaceInScalar(source_, tree_[no].place, text, 0),
                  fmt::format("a key must be text, a whole number or a boolean, and this is {}",
                              type.ToString()));
    return;
  }
  if (!type.is_dyn() && type.kind() != expr::Type::Kind::kBool)
    source_.Add("HW1303", PlaceInScalar(source_, tree_[no].place, text, 0),
                fmt::format("when must be true or false, and this is {}; compare it with something",
                            type.ToString()));
}

/// A script whose matrix says what it runs is looked at with the values of each combination.
void ExpressionChecker::CheckScript(const ExpressionUse& use, NodeNo no,
                                    const expr::Environment& environment,
                                    std::vector<expr::Fault>* faults) {
  const std::string_view text = tree_.Text(no);
  const expr::Shell shell = ShellOf(draft_.definition.tasks[use.task]);
  const auto script = expr::ShellTemplate::Parse(text, shell, environment, faults);
  WarnOfMissing(use, no, script);
  if (!script || !script->depends_on_matrix()) return;
  const Matrix* matrix = MatrixOf(use);
  if (matrix == nullptr) return;
  for (const boost::json::object& combination : matrix->combinations) {
    if (!Charge(no)) return;
    if (expr::ShellTemplate::Parse(text, shell, environment, faults, &combination)) continue;
    for (expr::Fault& fault : *faults)
      fault.message += fmt::format(" (matrix: {})", CanonicalJson(combination));
    return;
  }
}

void ExpressionChecker::CheckTemplate(const ExpressionUse& use, NodeNo no) {
  std::vector<expr::Fault> faults;
  const std::string_view text = tree_.Text(no);
  const expr::Environment& environment = EnvironmentOf(use);
  if (use.key == "run")
    CheckScript(use, no, environment, &faults);
  else if (use.type == ValueType::kAny)
    static_cast<void>(expr::Template::Parse(text, environment, &faults));  // keeps its type
  else
    WarnOfMissing(use, no, expr::Template::ParseArgument(text, environment, &faults));
  Add(use, no, faults);
}

void ExpressionChecker::WarnOfUnread(NodeNo no, bool reads_variables) {
  const std::string_view text = tree_.Text(no);
  auto found = FindForeignTemplate(text);
  if (!found && !reads_variables) found = FindShellVariable(text, draft_.definition);
  if (found) Warn("HW1018", no, found->offset, std::move(found->message));
}

void ExpressionChecker::Warn(std::string_view code, NodeNo no, std::size_t offset,
                             std::string message) {
  const Place place = PlaceInScalar(source_, tree_[no].place, tree_.Text(no), offset);
  if (warned_.emplace(place.line, place.byte).second) source_.Warn(code, place, std::move(message));
}

template <typename Compiled>
void ExpressionChecker::WarnOfMissing(const ExpressionUse& use, NodeNo no, const Compiled& text) {
  if (!text || use.task == ExpressionUse::kNoTask || !missing_.MayLack(use.task)) return;
  const auto when = use.type == ValueType::kWhen ? std::optional(tree_.Text(no)) : std::nullopt;
  for (auto& [offset, message] : missing_.Find(use.task, text->references(), when))
    Warn("HW1307", no, offset, std::move(message));
}

void ExpressionChecker::CheckExec(const ExpressionUse& use, NodeNo no) {
  const auto has_expression = [&](NodeNo element) {
    return tree_[element].kind == Kind::kScalar && !tree_[element].faulty &&
           tree_.Text(element).find("${{") != std::string_view::npos;
  };
  std::vector<NodeNo> elements;
  elements.reserve(tree_[no].size);
  for (std::uint32_t i = 0; i < tree_[no].size; ++i) elements.push_back(tree_.Element(no, i));
  for (const NodeNo element : elements)
    if (tree_[element].kind == Kind::kScalar && !tree_[element].faulty)
      WarnOfUnread(element, ReadsVariables(tree_.Text(elements.front())));
  if (std::ranges::none_of(elements, has_expression)) return;
  const expr::Environment& environment = EnvironmentOf(use);
  std::vector<expr::Template> arguments;
  arguments.reserve(elements.size());
  for (const NodeNo element : elements) {
    if (has_expression(element) && !Charge(element)) return;
    std::vector<expr::Fault> faults;
    auto argument = expr::Template::ParseArgument(tree_.Text(element), environment, &faults);
    Add(use, element, faults);
    WarnOfMissing(use, element, argument);
    arguments.push_back(argument ? *std::move(argument) : expr::Template());
  }
  expr::CommandReading reading = expr::ReadCommand(arguments);
  if (const Matrix* matrix = MatrixOf(use); matrix != nullptr && reading.depends_on_matrix)
    for (const boost::json::object& combination : matrix->combinations) {
      if (!Charge(no)) return;
      reading = expr::ReadCommand(arguments, &combination);
      for (auto& [argument, fault] : reading.faults)
        fault.message += fmt::format(" (matrix: {})", CanonicalJson(combination));
      if (!reading.faults.empty()) break;
    }
  for (const auto& [argument, fault] : reading.faults) Add(use, elements[argument], {fault});
}

void ExpressionChecker::CheckNode(const ExpressionUse& use, NodeNo no) {
  const YamlTree::Node& node = tree_[no];
  if (use.type == ValueType::kExec && node.kind == Kind::kList) return CheckExec(use, no);
  const bool is_key = use.type == ValueType::kKeyExpression;
  if (node.kind == Kind::kList && !is_key)  // what a key may not be has its fault already
    for (std::uint32_t i = 0; i < node.size; ++i) CheckNode(use, tree_.Element(no, i));
  if (node.kind == Kind::kMap && use.type == ValueType::kAny)
    for (std::uint32_t i = 0; i < node.size; ++i)
      if (tree_.Text(tree_.Key(no, i)).find("${{") != std::string_view::npos)
        source_.Add("HW1301", tree_[tree_.Key(no, i)].place,
                    "a key cannot hold a template; put the expression into a value");
  if (node.kind == Kind::kMap &&
      (use.type == ValueType::kTemplateMap || use.type == ValueType::kAny))
    for (std::uint32_t i = 0; i < node.size; ++i) CheckNode(use, tree_.Value(no, i));
  if (node.kind != Kind::kScalar || node.faulty) return;
  const bool is_when = use.type == ValueType::kWhen || is_key;
  if (!is_when) WarnOfUnread(no, use.key == "run" || use.type == ValueType::kAny);
  if (!is_when && tree_.Text(no).find("${{") == std::string_view::npos) return;
  if (!Charge(no)) return;
  if (is_when)
    CheckWhen(use, no);
  else
    CheckTemplate(use, no);
}

void ExpressionChecker::Check(const ExpressionUse& use) {
  if (compiled_ <= kMaxCompiledBytes) CheckNode(use, use.node);
}

/// Tries the templates that are defaults on a run that might be: each would fail every task.
void CheckDefaults(const WorkflowDraft& draft, const YamlTree& tree, Source& source) {
  const std::string created_at = FormatInstant(Instant(std::chrono::hours(491'600)));
  const boost::json::object variables{{"run",
                                       {{"id", "01900000-0000-7000-8000-000000000000"},
                                        {"workflow", draft.definition.name.workflow},
                                        {"created_at", created_at},
                                        {"date", created_at.substr(0, 10)}}},
                                      {"slot", nullptr}};
  boost::json::object of_schedule = variables;
  of_schedule["slot"] = created_at;
  std::vector<model::Fault> faults;
  for (const auto& [name, param] : draft.definition.params) {
    if (!HasTemplateDefault(param)) continue;
    const auto taken = RenderDefault(name, param, variables);
    if (!taken && !RenderDefault(name, param, of_schedule))
      faults.push_back(
          {"HW1306", fmt::format("params.{}.default", name),
           fmt::format("{}; tried with a run of {}", taken.error().message, created_at)});
  }
  AddModelFaults(tree, faults, source);
}

}  // namespace

void CheckExpressions(const WorkflowDraft& draft, const YamlTree& tree, Source& source) {
  if (draft.expressions.empty()) return;
  ExpressionChecker checker(draft, tree, source);
  for (const ExpressionUse& use : draft.expressions) checker.Check(use);
  if (source.good()) CheckDefaults(draft, tree, source);
}

}  // namespace headworks::spec
