#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headworks::expr {

/// A message in protobuf's text format, as far as the conformance data uses it: fields in their
/// order, scalars as they are written, adjacent strings joined and unescaped.
struct TextMessage {
  struct Field;
  std::vector<Field> fields;

  /// The first field `name`; nullptr = none.
  const Field* Find(std::string_view name) const;
  /// Text of the scalar field `name`, or empty.
  std::string Text(std::string_view name) const;
};

struct TextMessage::Field {
  std::string name;
  std::string scalar;
  TextMessage message;
};

/// nullopt = `text` is not in the format.
std::optional<TextMessage> ReadTextMessage(std::string_view text);

}  // namespace headworks::expr
