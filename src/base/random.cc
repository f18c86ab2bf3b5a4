#include "headworks/base/random.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cstring>

#include "headworks/base/check.h"

namespace headworks {

std::uint64_t SystemRandom::Next() {
  thread_local std::array<std::uint64_t, 32> pool;
  thread_local std::size_t used = pool.size();
  if (used == pool.size()) {
    HEADWORKS_CHECK(getrandom(pool.data(), sizeof pool, 0) == sizeof pool);
    used = 0;
  }
  return pool[used++];
}

std::uint64_t Mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

std::uint64_t SeededRandom::Next() {
  state_ += 0x9e3779b97f4a7c15U;
  return Mix64(state_);
}

std::string NewUuidV7(Instant now, Random& random) {
  const auto ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count());
  const std::uint64_t a = random.Next();
  const std::uint64_t b = random.Next();
  return fmt::format("{:08x}-{:04x}-7{:03x}-{:04x}-{:012x}", (ms >> 16) & 0xffffffffU, ms & 0xffffU,
                     a & 0xfffU, 0x8000U | ((a >> 12) & 0x3fffU), b & 0xffffffffffffU);
}

}  // namespace headworks
