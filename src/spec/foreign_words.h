#pragma once

#include <span>
#include <string_view>

/// Words of other tools (Airflow, GitHub Actions, Dagu, Argo), and what is written here instead.
namespace headworks::spec {

struct ForeignWord {
  /// In any case and with - or _ or neither between its parts.
  std::string_view word;
  /// The key or value it becomes, which must be known where the word stands; empty = anywhere.
  std::string_view meant;
  /// What to write, where it is not `meant` alone.
  std::string_view says{};
};

/// What `word` is among the keys or values `here`; nullptr = it is not known.
const ForeignWord* FindForeignWord(std::string_view word, std::span<const std::string_view> here);

/// What to write instead of a name in an expression, spelled as it stands: "always(" is a call,
/// "run.status" a field of run.  Empty = it is not known.
std::string_view InsteadInExpression(std::string_view spelled);

}  // namespace headworks::spec
