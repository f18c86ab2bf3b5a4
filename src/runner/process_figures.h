#pragma once

#include <cstdint>

namespace headworks {

/// What the kernel says of this process; zero where it says nothing.
struct ProcessFigures {
  double cpu_seconds = 0;
  /// Since 1970.
  double start_seconds = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t virtual_bytes = 0;
  std::uint64_t open_files = 0;
  std::uint64_t max_files = 0;
  std::uint64_t threads = 0;
};

ProcessFigures ReadProcessFigures();

}  // namespace headworks
