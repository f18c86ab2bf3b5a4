#include "unread.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace headworks::spec {
namespace {

constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kNameStart = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";
constexpr std::string_view kNameRest = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

/// What people's expressions begin with, here and in Airflow, Actions and Argo; Go's templates,
/// which programs such as docker take, begin otherwise.
constexpr auto kRoots = std::to_array<std::string_view>(
    {"params", "needs", "matrix", "run", "input", "inputs", "slot", "github", "secrets", "vars",
     "ds", "ds_nodash", "ti", "dag_run", "var", "macros", "workflow", "tasks", "steps"});

/// Shells, and programs that take code or start others by them.
constexpr auto kReaders = std::to_array<std::string_view>(
    {"sh",     "bash",    "dash",   "zsh",     "ksh",     "mksh", "fish", "csh",
     "tcsh",   "busybox", "awk",    "gawk",    "mawk",    "perl", "make", "envsubst",
     "ssh",    "su",      "sudo",   "script",  "xargs",   "find", "php",  "tclsh",
     "expect", "docker",  "podman", "kubectl", "nsenter", "psql"});

/// The variables of every task, and the expression that says the same.
std::string_view InsteadOf(std::string_view name) {
  if (name == "HEADWORKS_SCRATCH") return "run.dir";
  if (name == "HEADWORKS_RUN_ID") return "run.id";
  return "";
}

std::string Lowered(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string Advice(std::string_view name, const model::WorkflowDefinition& workflow) {
  if (const std::string_view known = InsteadOf(name); !known.empty())
    return fmt::format("write ${{{{ {} }}}}", known);
  for (const std::string& param : {std::string(name), Lowered(name)})
    if (workflow.params.contains(param)) return fmt::format("write ${{{{ params.{} }}}}", param);
  return "let a script read it, under run, or write an expression, ${{ }}";
}

}  // namespace

std::optional<Unread> FindForeignTemplate(std::string_view text) {
  for (std::size_t at = text.find("{{"); at != text.npos; at = text.find("{{", at + 2)) {
    if (at > 0 && text[at - 1] == '$') continue;
    const std::size_t end = text.find("}}", at);
    if (end == text.npos) return std::nullopt;
    std::string_view inner = text.substr(at + 2, end - at - 2);
    inner.remove_prefix(std::min(inner.find_first_not_of(' '), inner.size()));
    inner = inner.substr(0, inner.find_last_not_of(' ') + 1);
    const std::string_view root =
        inner.substr(0, inner.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"));
    const std::string_view rest = inner.substr(root.size());
    if (std::ranges::find(kRoots, root) == kRoots.end()) continue;
    if (!rest.empty() && rest.front() != '.' && rest.front() != '[' && !rest.starts_with(" |"))
      continue;
    return Unread{at, fmt::format("this is text as it stands; an expression begins with a dollar, "
                                  "${{{{ {} }}}}",
                                  inner)};
  }
  return std::nullopt;
}

std::optional<Unread> FindShellVariable(std::string_view text,
                                        const model::WorkflowDefinition& workflow) {
  for (std::size_t at = text.find('$'); at != text.npos; at = text.find('$', at + 1)) {
    if (at > 0 && std::string_view("/:=, ").find(text[at - 1]) == std::string_view::npos) continue;
    std::string_view name = text.substr(at + 1);
    if (name.starts_with("{{")) continue;
    if (name.starts_with('(') && name.find(')') != name.npos && name.size() > 1 &&
        kLower.find(name[1]) != kLower.npos)
      return Unread{at,
                    "no shell runs this command here, so it is text; let a task print it and "
                    "take its output, or run it in the script"};
    const bool braces = name.starts_with('{');
    if (braces) name.remove_prefix(1);
    const std::size_t size = std::min(name.find_first_not_of(kNameRest), name.size());
    if (size < 2 || kNameStart.find(name.front()) == kNameStart.npos) continue;
    if (braces && !name.substr(size).starts_with('}')) continue;
    name = name.substr(0, size);
    return Unread{at, fmt::format("no shell reads ${} here, so it is text; {}", name,
                                  Advice(name, workflow))};
  }
  return std::nullopt;
}

bool ReadsVariables(std::string_view program) {
  program.remove_prefix(program.rfind('/') + 1);
  return std::ranges::find(kReaders, program) != kReaders.end();
}

}  // namespace headworks::spec
