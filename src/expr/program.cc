#include "headworks/expr/program.h"

#include <utility>

#include "ast.h"
#include "checker.h"
#include "evaluator.h"
#include "headworks/base/text.h"
#include "parser.h"

namespace headworks::expr {
namespace {

using internal::Ast;
using internal::Evaluator;
using internal::Value;

/// The part of the text that no expression may have, as a fault.
bool Refused(std::string_view text, std::vector<Fault>* faults) {
  if (text.size() > kMaxExpressionBytes) {
    faults->push_back({FaultKind::kLimit, 0, 0,
                       "the expression has " + std::to_string(text.size()) + " bytes, at most " +
                           std::to_string(kMaxExpressionBytes) +
                           " are allowed; let a task compute it instead"});
    return true;
  }
  const std::size_t valid = ValidUtf8Prefix(text);
  if (valid == text.size()) return false;
  faults->push_back({FaultKind::kSyntax, valid, 1, "the expression is not UTF-8 text here"});
  return true;
}

}  // namespace

Result<Program> Program::Compile(std::string_view text, const Environment& environment,
                                 std::vector<Fault>* faults) {
  std::vector<Fault> found;
  auto ast = std::make_shared<Ast>();
  if (!Refused(text, &found)) {
    ast->text = text;
    if (internal::ParseInto(ast.get(), &found)) internal::Check(ast.get(), environment, &found);
  }
  if (found.empty()) return Program(std::move(ast));
  Error error{Code::kInvalidArgument, found.front().message};
  if (faults != nullptr) {
    faults->insert(faults->end(), std::make_move_iterator(found.begin()),
                   std::make_move_iterator(found.end()));
  }
  return error;
}

Result<boost::json::value> Program::Evaluate(const boost::json::object& variables,
                                             const Limits& limits) const {
  Evaluator evaluator(*ast_, variables, limits);
  return evaluator.ToJson(evaluator.Run());
}

Result<bool> Program::EvaluateBool(const boost::json::object& variables,
                                   const Limits& limits) const {
  Evaluator evaluator(*ast_, variables, limits);
  const Value value = evaluator.Run();
  if (value.is(Value::Kind::kBool)) return value.boolean;
  if (value.is_error()) return evaluator.ErrorOf(value);
  return Error{Code::kInvalidArgument, "'" + internal::Excerpt(ast_->text) + "' is " +
                                           std::string(KindOf(value)) +
                                           ", but a bool is needed; compare it with something"};
}

Result<std::string> Program::EvaluateText(const boost::json::object& variables,
                                          const Limits& limits) const {
  Evaluator evaluator(*ast_, variables, limits);
  return evaluator.ToText(evaluator.Run());
}

const std::string& Program::text() const { return ast_->text; }
const Type& Program::type() const { return ast_->type; }
const std::vector<Reference>& Program::references() const { return ast_->references; }

}  // namespace headworks::expr
