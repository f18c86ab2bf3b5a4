#include "headworks/model/resources.h"

#include <fmt/format.h>

#include "headworks/base/text.h"

namespace headworks::model {
namespace {

constexpr double kLeastCpu = 0.001;
constexpr double kMostCpu = 1'024;
constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 50;

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

std::string Excess(const Resources& asked, const Resources& most) {
  if (most.cpu > 0 && asked.cpu > most.cpu)
    return fmt::format("it asks for {} processors, and at most {} are allowed here", asked.cpu,
                       most.cpu);
  if (most.memory > 0 && asked.memory > most.memory)
    return fmt::format("it asks for {} of memory, and at most {} is allowed here",
                       FormatBytes(asked.memory), FormatBytes(most.memory));
  return {};
}

}  // namespace headworks::model
