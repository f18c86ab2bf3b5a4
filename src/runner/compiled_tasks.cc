#include "compiled_tasks.h"

#include <algorithm>
#include <boost/json.hpp>
#include <variant>

namespace headworks {
namespace {

bool HasTemplate(std::string_view text) { return text.find("${{") != std::string_view::npos; }

template <typename Map>
bool AnyValueHasTemplate(const Map& env) {
  return std::ranges::any_of(env, [](const auto& entry) { return HasTemplate(entry.second); });
}

const expr::Environment& Variables() {
  static const expr::Environment kVariables = [] {
    expr::Environment environment;
    for (const char* name : {"params", "input", "needs", "run", "slot", "matrix", "env"})
      static_cast<void>(environment.Declare(name, expr::Type()));
    return environment;
  }();
  return kVariables;
}

/// Compiles one task; keeps the first thing that is wrong.
class Compiler {
 public:
  Compiler(const model::Workflow& workflow, const model::Task& task)
      : workflow_(workflow), task_(task) {}

  Result<std::shared_ptr<const CompiledTask>> Compile() {
    auto compiled = std::make_shared<CompiledTask>();
    compiled->renders = HasTemplates(workflow_, task_);
    for (const std::string& text : task_.when) {
      auto program = expr::Program::Compile(text, Variables(), nullptr);
      if (program)
        compiled->when.push_back(std::move(*program));
      else
        Note("when", program.error());
    }
    if (compiled->renders) CompileTexts(*compiled);
    compiled->scratch_user = scratch_user_;
    if (!status_) return Error(status_.error());
    return std::shared_ptr<const CompiledTask>(std::move(compiled));
  }

 private:
  void Note(std::string_view field, const Error& error) {
    if (status_) status_ = Error{error.code, std::string(field) + ": " + error.message};
  }
  void NoteScratch(std::string_view field, const std::vector<expr::Reference>& references) {
    if (scratch_user_.empty() &&
        std::ranges::any_of(references, [](const expr::Reference& reference) {
          return reference.variable == "run" && !reference.path.empty() &&
                 reference.path.front() == "dir";
        }))
      scratch_user_ = field;
  }
  void Add(std::string_view field, const std::string& text, expr::Template& into) {
    auto made = expr::Template::Parse(text, Variables(), nullptr);
    if (!made) return Note(field, made.error());
    NoteScratch(field, made->references());
    into = std::move(*made);
  }
  void AddMap(const std::string& field, const std::map<std::string, std::string>& texts,
              std::map<std::string, expr::Template>& into) {
    for (const auto& [name, text] : texts)
      if (HasTemplate(text)) Add(field + name, text, into[name]);
  }
  void AddList(std::string_view field, const std::vector<std::string>& texts,
               std::vector<expr::Template>& into) {
    into.resize(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) Add(field, texts[i], into[i]);
  }
  void CompileTexts(CompiledTask& compiled) {
    AddMap("env.", workflow_.definition().env, compiled.workflow_env);
    AddMap("env.", task_.env, compiled.env);
    AddMap("artifacts.", task_.artifacts, compiled.artifacts);
    AddList("env_file", task_.env_file, compiled.env_file);
    Add("cwd", task_.cwd, compiled.cwd);
    Add("idempotency_key", task_.idempotency_key, compiled.idempotency_key);
    if (const auto* exec = std::get_if<model::ExecAction>(&task_.action))
      AddList("exec", exec->argv, compiled.argv);
    const auto* shell = std::get_if<model::ShellAction>(&task_.action);
    if (!shell || !HasTemplate(shell->script)) return;
    const expr::Shell by =
        shell->shell.empty() ? expr::Shell::kSh : expr::ShellOf(shell->shell.front());
    boost::json::object matrix;
    if (!task_.matrix.empty()) matrix = boost::json::parse(task_.matrix).as_object();
    auto script = expr::ShellTemplate::Parse(shell->script, by, Variables(), nullptr,
                                             task_.matrix.empty() ? nullptr : &matrix);
    if (!script) return Note("run", script.error());
    NoteScratch("run", script->references());
    compiled.script = *std::move(script);
  }

  const model::Workflow& workflow_;
  const model::Task& task_;
  Status status_;
  std::string scratch_user_;
};

}  // namespace

bool HasTemplates(const model::Workflow& workflow, const model::Task& task) {
  const auto* exec = std::get_if<model::ExecAction>(&task.action);
  const auto* shell = std::get_if<model::ShellAction>(&task.action);
  return (shell && HasTemplate(shell->script)) ||
         (exec && std::ranges::any_of(exec->argv, HasTemplate)) || AnyValueHasTemplate(task.env) ||
         AnyValueHasTemplate(workflow.definition().env) ||
         std::ranges::any_of(task.env_file, HasTemplate) || HasTemplate(task.cwd) ||
         HasTemplate(task.idempotency_key) || AnyValueHasTemplate(task.artifacts);
}

Result<std::shared_ptr<const CompiledTask>> CompiledTasks::Of(const model::Workflow& workflow,
                                                              TaskNo task) {
  const std::pair key(workflow.version(), task);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
  }
  HEADWORKS_ASSIGN(auto compiled, Compiler(workflow, workflow.task(task)).Compile());
  const std::scoped_lock lock(mutex_);
  if (known_.size() >= kMost) known_.clear();
  return known_.try_emplace(key, std::move(compiled)).first->second;
}

}  // namespace headworks
