#include "supervisor/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace headworks::supervisor {
namespace {

int OpenOf(pid_t pid, const char* file) {
  std::array<char, 48> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/%s", pid, file);
  return open(path.data(), O_RDONLY | O_CLOEXEC);
}

template <typename T>
bool TakeNumber(std::string_view& text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

bool ReadProcess(pid_t pid, Process& out) {
  const int fd = OpenOf(pid, "stat");
  if (fd < 0) return false;
  std::array<char, 1024> buffer{};
  const ssize_t size = read(fd, buffer.data(), buffer.size() - 1);
  close(fd);
  if (size <= 0) return false;
  // The name may hold spaces and parentheses: the fields start after the last ')'.
  const char* fields = std::strrchr(buffer.data(), ')');
  if (fields == nullptr) return false;
  unsigned long long started = 0;
  out.pid = pid;
  const int read_fields = std::sscanf(
      fields, ") %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
      &out.state, &out.parent, &out.group, &out.session, &started);
  out.started = started;
  return read_fields == 5;
}

std::vector<Process> ListProcesses() {
  std::vector<Process> all;
  DIR* directory = opendir("/proc");
  if (directory == nullptr) return all;
  while (const dirent* entry = readdir(directory)) {
    const pid_t pid = std::atoi(entry->d_name);
    Process process;
    if (pid > 0 && ReadProcess(pid, process)) all.push_back(process);
  }
  closedir(directory);
  return all;
}

std::vector<Process> Descendants(const std::vector<Process>& all, const std::vector<pid_t>& roots) {
  std::vector<pid_t> family = roots;
  std::vector<Process> found;
  // One generation a pass; trees are shallow.
  for (bool grew = true; grew;) {
    grew = false;
    for (const Process& p : all) {
      if (std::ranges::find(family, p.parent) == family.end()) continue;
      if (std::ranges::find(family, p.pid) != family.end()) continue;
      family.push_back(p.pid);
      found.push_back(p);
      grew = true;
    }
  }
  return found;
}

std::string ReadMark(pid_t pid) {
  const int fd = OpenOf(pid, "environ");
  if (fd < 0) return {};
  std::string environment;
  std::array<char, 16384> buffer{};
  // The kernel bounds an environment by the stack limit; 8 MiB is its default.
  while (environment.size() < (std::size_t{8} << 20)) {
    const ssize_t size = read(fd, buffer.data(), buffer.size());
    if (size <= 0) break;
    environment.append(buffer.data(), static_cast<std::size_t>(size));
  }
  close(fd);
  const std::string key = '\0' + std::string(kMarkName) + '=';
  std::size_t at = 0;
  if (!environment.starts_with(std::string_view(key).substr(1))) {
    at = environment.find(key);
    if (at == std::string::npos) return {};
    ++at;
  }
  return environment.c_str() + at + key.size() - 1;
}

bool ParseMark(std::string_view mark, std::string_view store_id, AttemptKey& out) {
  if (!mark.starts_with(store_id)) return false;
  mark.remove_prefix(store_id.size());
  if (!mark.starts_with(':')) return false;
  mark.remove_prefix(1);
  if (!TakeNumber(mark, out.run) || !mark.starts_with(':')) return false;
  mark.remove_prefix(1);
  return TakeNumber(mark, out.epoch) && mark.empty();
}

std::string FormatMark(std::string_view store_id, const AttemptKey& attempt) {
  return std::string(store_id) + ':' + std::to_string(attempt.run) + ':' +
         std::to_string(attempt.epoch);
}

bool Signal(const Process& process, int signal) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  if (fd < 0) return false;
  Process now;
  const bool same = ReadProcess(process.pid, now) && now.started == process.started;
  const bool sent = same && syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0) == 0;
  close(fd);
  return sent;
}

}  // namespace headworks::supervisor
