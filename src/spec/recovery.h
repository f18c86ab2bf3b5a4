#pragma once

#include "source.h"

namespace headworks::spec {

/// Reads on behind a place that is no YAML, so that one slip does not hide all the rest.
///
/// Leaves out the entry around `fault` (a task, say, or a key at the left margin) and reads the
/// text again, a bounded number of times.  Adds to `source` what is wrong with the rest, but
/// nothing that the part left out could explain: what is missing, or a name that is not known.
void ReadRest(Source& source, Place fault);

}  // namespace headworks::spec
