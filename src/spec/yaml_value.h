#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "source.h"
#include "yaml_tree.h"

/// What scalars mean by the core schema of YAML 1.2 (section 10.3): `yes` and `010` are not what
/// they were in 1.1.
namespace headworks::spec {

/// The value of a plain `true` or `false` (also True, TRUE, ...); nullopt = another text.
std::optional<bool> BoolOf(std::string_view plain);

/// `plain` as a JSON number: decimal, 0o17 and 0x1F integers and decimal fractions.  nullopt = no
/// number, or one that JSON cannot hold (.inf, .nan, integers beyond 64 bits).
std::optional<std::string> NumberOf(std::string_view plain);

/// Why `plain` is read differently by YAML 1.1, which people know, and 1.2: `yes`, `010`, `1:30`,
/// `1_000`, `0b11`, `2026-01-31`; and what to write instead.  Empty = it is not.
std::string TrapOf(std::string_view plain);

/// Which part of the text `plain` is not in its number, such as the 0 of 3.10, and what to write
/// instead.  Empty = none, or no number.
std::string LossOf(std::string_view plain);

/// Adds a fault for each plain scalar of the subtree that is a trap, or a fraction that ends in 0:
/// where the type is taken from the value, the author's and ours may differ.
void CheckTraps(const YamlTree& tree, YamlTree::NodeNo no, Source& source);

/// A few words for messages: "a list", "the text \"abc\"", "nothing".
std::string Describe(const YamlTree& tree, YamlTree::NodeNo no);

/// The value as JSON text.  What JSON cannot hold is a fault, and null stands in its place.
std::string ToJson(const YamlTree& tree, YamlTree::NodeNo no, Source& source);

}  // namespace headworks::spec
