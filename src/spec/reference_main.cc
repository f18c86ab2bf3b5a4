#include <cstdio>

#include "headworks/spec/schema.h"

/// Prints docs/workflow-reference.md.
int main() {
  const std::string page = headworks::spec::ReferencePage();
  return std::fwrite(page.data(), 1, page.size(), stdout) == page.size() ? 0 : 1;
}
