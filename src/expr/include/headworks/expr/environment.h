#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/expr/type.h"

namespace headworks::expr {

/// The variables that expressions may use, with their types.
class Environment {
 public:
  struct Variable {
    std::string name;
    Type type;
  };

  /// kInvalidArgument if `name` is no identifier or a word of the language, kConflict if it is
  /// declared already.
  Status Declare(std::string name, Type type);

  /// nullptr = not declared.
  const Type* Find(std::string_view name) const;
  const std::vector<Variable>& variables() const { return variables_; }

 private:
  std::vector<Variable> variables_;
};

/// Whether `name` can be written after a dot (`needs.NAME`); if not, `needs["NAME"]` can.
bool IsFieldName(std::string_view name);

}  // namespace headworks::expr
