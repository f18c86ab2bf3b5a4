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

/// What is wrong, and the line with carets below the fault; of a long one what is around it.
std::string Point(const std::string& text, const expr::Fault& fault) {
  constexpr std::size_t kShown = 100;  // bytes
  const std::size_t line_begin = fault.offset == 0 ? 0 : text.rfind('\n', fault.offset - 1) + 1;
  const std::size_t line_end = std::min(text.find('\n', line_begin), text.size());
  std::size_t begin = line_begin;
  if (line_end - line_begin > kShown && fault.offset - line_begin > kShown / 2)
    begin = fault.offset - kShown / 2;
  const auto is_inside = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80;
  };
  while (begin > line_begin && is_inside(begin)) --begin;
  std::size_t end = std::min(line_end, begin + kShown);
  while (end < line_end && is_inside(end)) ++end;
  const std::string front = begin > line_begin ? "..." : "";
  const std::string before = front + text.substr(begin, fault.offset - begin);
  const std::size_t at_fault = std::min(fault.length, end - fault.offset);
  // The types of the variables are not known, so the check of fields has not seen it.
  const bool is_minus = fault.kind == expr::FaultKind::kUnknownName && fault.offset > 1 &&
                        text[fault.offset - 1] == '-' && text[fault.offset - 2] != ' ';
  return fmt::format(
      "{}{}\n  {}{}{}\n  {}{}", fault.message,
      is_minus ? "; '-' means minus here: a name that has one goes into brackets, x[\"a-b\"]" : "",
      front, text.substr(begin, end - begin), end < line_end ? "..." : "",
      std::string(DisplayWidth(before), ' '),
      std::string(std::max<std::size_t>(DisplayWidth(text.substr(fault.offset, at_fault)), 1),
                  '^'));
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
  const auto value = program->Evaluate(variables, expr::Limits{});
  // Also where it costs too much: the expression is to blame, and no other time would do.
  if (!value) return Error{Code::kInvalidArgument, value.error().message};
  if (context.wants_table())
    Print(PlainJson(*value) + "\n");
  else
    PrintValue(context.settings().output,
               json::object{{"type", program->type().ToString()}, {"value", *value}});
  return Exit::kOk;
}

}  // namespace headworks::cli
