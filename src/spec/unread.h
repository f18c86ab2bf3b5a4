#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "headworks/model/workflow.h"

/// What a shell, Jinja or another workflow tool would fill in, where none of them reads.
namespace headworks::spec {

struct Unread {
  std::size_t offset = 0;  // of the text
  std::string message;     // what it is taken for, and what to write
};

/// `{{ params.x }}` as Airflow and Actions write it, in any text.
std::optional<Unread> FindForeignTemplate(std::string_view text);

/// `$NAME`, `${NAME}` and `$(command)` in a text of the workflow that no shell sees.  Only what
/// begins the text or follows one of / : = , and blanks counts, with a name in capitals: dollars
/// stand in passwords, too.
std::optional<Unread> FindShellVariable(std::string_view text,
                                        const model::WorkflowDefinition& workflow);

/// Whether this program, the first of an `exec`, may read variables in its arguments by itself.
bool ReadsVariables(std::string_view program);

}  // namespace headworks::spec
