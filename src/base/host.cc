#include "headworks/base/host.h"

#include <unistd.h>

namespace headworks {

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace headworks
