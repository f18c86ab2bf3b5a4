#include "process_figures.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace headworks {
namespace {

/// Seconds from 1970 to the start of the machine.
double BootSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("btime ")) return std::stod(line.substr(6));
  return 0;
}

}  // namespace

ProcessFigures ReadProcessFigures() {
  ProcessFigures figures;
  std::string stat;
  std::getline(std::ifstream("/proc/self/stat"), stat);
  // The program's name, in parentheses, may contain anything.  What follows are fields 3 to 52 of
  // proc(5).
  const std::size_t name_end = stat.rfind(')');
  if (name_end != std::string::npos) {
    std::istringstream rest(stat.substr(name_end + 1));
    std::string state;
    rest >> state;
    std::array<std::int64_t, 25> field{};
    for (std::size_t i = 4; i < field.size() && rest; ++i) rest >> field[i];
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    figures.cpu_seconds = static_cast<double>(field[14] + field[15]) / ticks;
    figures.threads = static_cast<std::uint64_t>(field[20]);
    figures.start_seconds = BootSeconds() + static_cast<double>(field[22]) / ticks;
    figures.virtual_bytes = static_cast<std::uint64_t>(field[23]);
    figures.resident_bytes = static_cast<std::uint64_t>(field[24] * sysconf(_SC_PAGESIZE));
  }
  std::error_code ignored;  // no /proc: zero says so
  for (std::filesystem::directory_iterator entry("/proc/self/fd", ignored), end; entry != end;
       entry.increment(ignored))
    ++figures.open_files;
  if (figures.open_files > 0) --figures.open_files;  // the one that lists them
  if (rlimit limit = {}; getrlimit(RLIMIT_NOFILE, &limit) == 0) figures.max_files = limit.rlim_cur;
  return figures;
}

}  // namespace headworks
