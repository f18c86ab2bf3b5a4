#include <cstdio>

#include "headworks/runner/metrics.h"

/// Prints docs/metrics.md.
int main() {
  const std::string page = headworks::MetricsPage();
  return std::fwrite(page.data(), 1, page.size(), stdout) == page.size() ? 0 : 1;
}
