#pragma once

#include <string>
#include <string_view>

#include "value.h"

namespace headworks::expr::internal {

/// A bool, number, string, timestamp or duration as `string()` writes it.  Doubles are the
/// shortest text that reads back as the same.
std::string ScalarText(const Value& value);
std::string DoubleText(double value);

/// RFC 4648, with padding.
std::string Base64(std::string_view bytes);

}  // namespace headworks::expr::internal
