#include "headworks/expr/command.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "ast.h"
#include "shell_command.h"

namespace headworks::expr {
namespace {

bool ReadsMatrixOnly(const Program& program) {
  return !program.references().empty() &&
         std::ranges::all_of(program.references(), [](const Reference& reference) {
           return reference.variable == "matrix";
         });
}

std::optional<std::string> ValueOf(const Program& program, const boost::json::object* matrix) {
  if (matrix == nullptr) return std::nullopt;
  auto value = program.EvaluateText({{"matrix", *matrix}}, {});
  if (!value) return std::nullopt;
  return *std::move(value);
}

/// The text, without what marks an expression in a word.
void AppendLiteral(std::string_view text, std::string* word) {
  for (const char c : text) *word += c >= internal::kVariable && c <= internal::kMatrix ? '?' : c;
}

std::string Message(const Program& program, std::string_view reason) {
  std::string message =
      "'${{ " + internal::Excerpt(std::string(program.text())) + " }}' " + std::string(reason);
  constexpr std::string_view kNames = "names the program to run;";
  if (const std::size_t names = message.find(kNames); names != std::string::npos)
    return message.substr(0, names + kNames.size()) +
           " write its name here, or choose between several in a script (run, with case ... esac)";
  return message + " put it into env (env: {VALUE: \"...\"}) and let the program read VALUE there";
}

}  // namespace

CommandReading ReadCommand(std::span<const Template> arguments, const boost::json::object* matrix) {
  std::vector<internal::ShellWord> words;
  std::vector<std::pair<std::size_t, const Template::Part*>> expressions;
  for (const Template& argument : arguments) {
    internal::ShellWord& word = words.emplace_back();
    word.quoted = true;  // no keyword
    word.first_expression = expressions.size();
    for (const Template::Part& part : argument.parts()) {
      if (!part.program) {
        AppendLiteral(part.literal, &word.text);
      } else if (!ReadsMatrixOnly(*part.program)) {
        word.text += internal::kExpression;
        expressions.emplace_back(words.size() - 1, &part);
      } else if (const auto value = ValueOf(*part.program, matrix)) {
        AppendLiteral(*value, &word.text);
      } else {
        word.text += internal::kMatrix;
      }
    }
    word.end_expression = expressions.size();
  }
  internal::ShellCommands commands;
  std::vector<internal::ShellDanger> dangers;
  commands.Check(words, &dangers);
  CommandReading reading;
  reading.depends_on_matrix = commands.depends_on_matrix();
  for (const internal::ShellDanger& danger : dangers) {
    const auto& [argument, part] = expressions[danger.expression];
    reading.faults.emplace_back(argument,
                                Fault{FaultKind::kShell, part->offset, part->program->text().size(),
                                      Message(*part->program, danger.reason)});
  }
  return reading;
}

}  // namespace headworks::expr
