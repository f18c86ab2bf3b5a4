#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/properties.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headworks::expr::CheckTemplate({reinterpret_cast<const char*>(data), size});
  return 0;
}
