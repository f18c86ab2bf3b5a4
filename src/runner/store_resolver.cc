#include "store_resolver.h"

#include <boost/json.hpp>
#include <utility>

#include "run_context.h"

namespace headworks {
namespace json = boost::json;
namespace {

/// Puts values into the texts of one task; keeps the first thing that has none.
class Renderer {
 public:
  explicit Renderer(json::object& variables) : variables_(variables) {}

  std::string Text(std::string_view field, const expr::Template& text) {
    auto value = text.RenderArgument(variables_, {});
    if (value) return *std::move(value);
    Note(field, value.error());
    return {};
  }
  std::vector<std::string> Texts(std::string_view field, const std::vector<expr::Template>& texts) {
    std::vector<std::string> values;
    values.reserve(texts.size());
    for (const expr::Template& text : texts) values.push_back(Text(field, text));
    return values;
  }
  /// `env` with its templates rendered, which see its plain values and what came before as `env`.
  std::map<std::string, std::string> Environment(
      std::map<std::string, std::string> env,
      const std::map<std::string, expr::Template>& templates) {
    json::object& seen = variables_.emplace("env", json::object()).first->value().as_object();
    for (const auto& [name, value] : env)
      if (!templates.contains(name)) seen[name] = value;
    std::map<std::string, std::string> rendered;
    for (const auto& [name, text] : templates) rendered[name] = Text("env." + name, text);
    for (const auto& [name, value] : rendered) seen[name] = env[name] = value;
    return env;
  }
  const Status& status() const { return status_; }

 private:
  void Note(std::string_view field, const Error& error) {
    if (status_) status_ = Error{error.code, std::string(field) + ": " + error.message};
  }

  json::object& variables_;
  Status status_;
};

Result<executor::Rendered> Render(const model::Workflow& workflow, const model::Task& task,
                                  const CompiledTask& compiled, const std::string& scratch,
                                  json::object& variables) {
  Renderer renderer(variables);
  executor::Rendered rendered;
  rendered.workflow_env = renderer.Environment(workflow.definition().env, compiled.workflow_env);
  rendered.env = renderer.Environment(task.env, compiled.env);
  rendered.env_file = renderer.Texts("env_file", compiled.env_file);
  rendered.cwd = renderer.Text("cwd", compiled.cwd);
  rendered.artifacts = task.artifacts;
  for (const auto& [name, text] : compiled.artifacts) {
    std::string path = renderer.Text("artifacts." + name, text);
    // The one absolute folder that artifacts may lie in, by the name that it has for them.
    if (!scratch.empty() && path.starts_with(scratch + '/'))
      path.replace(0, scratch.size() + 1, model::kScratchPath);
    rendered.artifacts[name] = std::move(path);
  }
  rendered.idempotency_key = renderer.Text("idempotency_key", compiled.idempotency_key);
  rendered.action = task.action;
  if (auto* exec = std::get_if<model::ExecAction>(&rendered.action))
    exec->argv = renderer.Texts("exec", compiled.argv);
  HEADWORKS_TRY(renderer.status());
  if (!compiled.script) return rendered;
  std::get<model::ShellAction>(rendered.action).script = compiled.script->script();
  auto bound = compiled.script->Bind(variables, {});
  if (!bound) return Error{bound.error().code, "run: " + bound.error().message};
  rendered.bound = {bound->begin(), bound->end()};
  return rendered;
}

}  // namespace

Result<executor::Resolved> StoreResolver::Resolve(const executor::Attempt& attempt) {
  ArtifactsOf artifacts{.folder = attempt.artifact_dir, .needed = {}};
  const ContextOf of{attempt.key.tenant, attempt.key.run,
                     attempt.run_id,     attempt.key.task,
                     *attempt.workflow,  attempt.artifact_dir.empty() ? nullptr : &artifacts};
  HEADWORKS_ASSIGN(json::object context, ReadRunContext(query_, of));
  const std::string scratch = scratch_ ? scratch_(attempt.run_id) : "";
  if (!scratch.empty()) context.at("run").as_object()["dir"] = scratch;
  executor::Resolved resolved{.context_json = json::serialize(context),
                              .merged_json = json::serialize(MergedContext(context, of)),
                              .rendered = {},
                              .artifacts = std::move(artifacts.needed)};
  if (!HasTemplates(*attempt.workflow, attempt.task())) return resolved;
  HEADWORKS_ASSIGN(const auto compiled, compiled_.Of(*attempt.workflow, attempt.key.task));
  TypeNumbers(context, of);
  auto rendered = Render(*attempt.workflow, attempt.task(), *compiled, scratch, context);
  if (!rendered && scratch.empty() && !compiled->scratch_user.empty())
    return Error{Code::kInvalidArgument,
                 compiled->scratch_user +
                     ": uses run.dir, a folder that the tasks of a run share, and those that "
                     "workers run do not; pass values by outputs, and files by artifacts below "
                     "the working folder"};
  HEADWORKS_ASSIGN(resolved.rendered, std::move(rendered));
  return resolved;
}

}  // namespace headworks
