#include "headworks/base/host.h"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace headworks {
namespace {

bool IsAbsolute(const char* folder) { return folder != nullptr && *folder == '/'; }

std::string HomeOfUser() {
  std::array<char, 16 << 10> text;
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, text.data(), text.size(), &found) != 0 || found == nullptr)
    return {};
  return IsAbsolute(found->pw_dir) ? found->pw_dir : std::string();
}

}  // namespace

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(file, id) ? id : "unknown";
}

std::string UserFolder(const std::function<const char*(const char*)>& environment,
                       const char* variable, const std::string& below_home) {
  if (const char* named = environment(variable); IsAbsolute(named)) return named;
  const char* home = environment("HOME");
  const std::string folder = IsAbsolute(home) ? home : HomeOfUser();
  if (folder.empty()) return {};
  return folder + (folder.ends_with('/') ? "" : "/") + below_home;
}

}  // namespace headworks
