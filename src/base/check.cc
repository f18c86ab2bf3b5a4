#include "headworks/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace headworks::internal {

void CheckFailed(const char* file, int line, const char* expression) {
  std::fprintf(stderr, "headworks: internal error at %s:%d: %s\n", file, line, expression);
  std::abort();
}

}  // namespace headworks::internal
