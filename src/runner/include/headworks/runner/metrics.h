#pragma once

#include <string>

namespace headworks {

/// Every metric of `Runner::Metrics` as a page in Markdown: docs/metrics.md.
std::string MetricsPage();

}  // namespace headworks
