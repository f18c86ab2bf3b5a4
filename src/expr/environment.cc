#include "headworks/expr/environment.h"

#include <algorithm>
#include <utility>

#include "lexer.h"

namespace headworks::expr {

Status Environment::Declare(std::string name, Type type) {
  if (!IsFieldName(name) || internal::IsReserved(name)) {
    return Error{Code::kInvalidArgument,
                 "'" + name +
                     "' cannot be a variable: it needs letters, digits and _, and must "
                     "not be a word of the language"};
  }
  if (Find(name) != nullptr) {
    return Error{Code::kConflict, "variable '" + name + "' is declared twice"};
  }
  variables_.push_back({std::move(name), std::move(type)});
  return {};
}

const Type* Environment::Find(std::string_view name) const {
  const auto found = std::find_if(variables_.begin(), variables_.end(),
                                  [&](const Variable& v) { return v.name == name; });
  return found == variables_.end() ? nullptr : &found->type;
}

}  // namespace headworks::expr
