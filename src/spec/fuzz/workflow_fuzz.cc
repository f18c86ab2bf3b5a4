#include <cstddef>
#include <cstdint>

#include "properties.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headworks::spec::CheckWorkflowText({reinterpret_cast<const char*>(data), size});
  return 0;
}
