#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "commands.h"
#include "headworks/base/json.h"
#include "headworks/expr/program.h"
#include "output.h"
#include "workflow_file.h"

namespace headworks::cli {
namespace {

namespace json = boost::json;

/// Every member of the input is a variable of any type.
Result<expr::Environment> Declare(const json::object& variables) {
  expr::Environment environment;
  for (const auto& [name, value] : variables) {
    const Status declared = environment.Declare(std::string(name), expr::Type());
    if (!declared)
      return Error{Code::kInvalidArgument, fmt::format("--with: {}", declared.error().message)};
  }
  return environment;
}

/// The expression with a caret below the fault.  Of a long or many-lined one, the line's end.
std::string Point(const std::string& text, const expr::Fault& fault) {
  const std::size_t begin = fault.offset == 0 ? 0 : text.rfind('\n', fault.offset - 1) + 1;
  const std::string line = text.substr(begin, text.find('\n', begin) - begin);
  const std::size_t before = DisplayWidth(line.substr(0, fault.offset - begin));
  return fmt::format("{}\n  {}\n  {}{}", fault.message, line, std::string(before, ' '),
                     std::string(std::max<std::size_t>(fault.length, 1), '^'));
}

}  // namespace

Result<Exit> EvaluateExpression(const Context& context, const std::string& text,
                                const std::string& with) {
  HEADWORKS_ASSIGN(const std::string input, ReadInput(with, "--with"));
  HEADWORKS_ASSIGN(const json::object variables, ParseJsonObject(input, "--with", JsonLimits{}));
  HEADWORKS_ASSIGN(const expr::Environment environment, Declare(variables));
  std::vector<expr::Fault> faults;
  const auto program = expr::Program::Compile(text, environment, &faults);
  if (!program) {
    std::string message;
    for (const expr::Fault& fault : faults)
      message += (message.empty() ? "" : "\n") + Point(text, fault);
    return Error{Code::kInvalidArgument, message.empty() ? program.error().message : message};
  }
  HEADWORKS_ASSIGN(const json::value value, program->Evaluate(variables, expr::Limits{}));
  if (context.wants_table())
    Print(json::serialize(value) + "\n");
  else
    PrintValue(context.settings().output,
               json::object{{"type", program->type().ToString()}, {"value", value}});
  return Exit::kOk;
}

}  // namespace headworks::cli
