#pragma once

#include <cstddef>
#include <string_view>

#include "source.h"

namespace headworks::spec {

/// Where byte `offset` of a scalar's value stands in the source.
///
/// `start` is the scalar's place (its anchor or tag, if it has one), `value` what the parser made
/// of it: without quotes, escapes, indentation and folded lines.
Place PlaceInScalar(Source& source, Place start, std::string_view value, std::size_t offset);

}  // namespace headworks::spec
