#include "headworks/model/resources.h"

#include <fmt/format.h>

#include "headworks/base/text.h"

namespace headworks::model {
namespace {

constexpr double kLeastCpu = 0.001;
constexpr double kMostCpu = 1'024;
constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 50;

/// "1GiB"; beside an amount that is no whole unit "1GiB (1073741824 bytes)", so that the two can be
/// compared.
std::string ShowMemory(std::uint64_t bytes, std::uint64_t beside) {
  const auto is_whole = [](std::uint64_t amount) {
    return FormatBytes(amount) != fmt::format("{}", amount);
  };
  if (!is_whole(bytes)) return fmt::format("{} {}", bytes, bytes == 1 ? "byte" : "bytes");
  return is_whole(beside) ? FormatBytes(bytes)
                          : fmt::format("{} ({} bytes)", FormatBytes(bytes), bytes);
}

}  // namespace

std::vector<ResourceFault> CheckResources(const Resources& resources) {
  const auto& [cpu, memory] = resources;
  std::vector<ResourceFault> faults;
  if (!(cpu == 0 || (cpu >= kLeastCpu && cpu <= kMostCpu)))  // so that NaN is refused too
    faults.push_back({"cpu", fmt::format("{} is out of range: it must be {} to {} processors", cpu,
                                         kLeastCpu, kMostCpu)});
  if (memory > kMostMemory)
    faults.push_back({"memory", fmt::format("{} is out of range: it must be 1 byte to {}",
                                            FormatBytes(memory), FormatBytes(kMostMemory))});
  return faults;
}

std::vector<ResourceFault> Excesses(const Resources& asked, const Resources& most) {
  std::vector<ResourceFault> faults;
  if (most.cpu > 0 && asked.cpu > most.cpu)
    faults.push_back({"cpu", fmt::format("it asks for {} processors, and at most {} are allowed "
                                         "here",
                                         asked.cpu, most.cpu)});
  if (most.memory > 0 && asked.memory > most.memory)
    faults.push_back({"memory", fmt::format("it asks for {} of memory, and at most {} is allowed "
                                            "here",
                                            ShowMemory(asked.memory, most.memory),
                                            ShowMemory(most.memory, asked.memory))});
  return faults;
}

std::string Excess(const Resources& asked, const Resources& most) {
  std::string text;
  for (const auto& [field, message] : Excesses(asked, most))
    text += (text.empty() ? "" : "; ") + message;
  return text;
}

}  // namespace headworks::model
