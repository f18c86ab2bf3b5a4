#include "attempt_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "fd.h"

namespace headworks::executor_process {
namespace {

Error CannotWrite(const std::string& path) {
  return {Code::kUnavailable, fmt::format("cannot write {}: {}", path, std::strerror(errno))};
}

Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return Error{Code::kUnavailable,
               fmt::format("cannot make the folder {}: {}", path, std::strerror(errno))};
}

Status WriteFile(const std::string& path, std::string_view bytes) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) return CannotWrite(path);
  while (!bytes.empty()) {
    const ssize_t n = write(file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return CannotWrite(path);
    if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";
constexpr std::array<const char*, 3> kEndings{".in.json", ".out", ".sh"};

}  // namespace

Result<StateFolder> StateFolder::Open(const std::string& path) {
  StateFolder folder;
  folder.path_ = std::filesystem::absolute(path).string();
  const bool fresh = !std::filesystem::exists(folder.path_ + "/attempts");
  for (const char* name : {"", "/attempts", "/scratch"}) {
    HEADWORKS_TRY(MakeFolder(folder.path_ + name));
  }
  if (fresh) HEADWORKS_TRY(folder.NoteBoot());
  folder.trusted_ = FirstLine(folder.path_ + "/boot") == FirstLine(kBootId);
  return folder;
}

Status StateFolder::NoteBoot() const {
  return WriteFile(path_ + "/boot", FirstLine(kBootId) + "\n");
}

std::string StateFolder::Base(const model::AttemptKey& key) const {
  return fmt::format("{}/attempts/{}-{}", path_, key.run.value, key.epoch.value);
}

AttemptFiles StateFolder::FilesOf(const model::AttemptKey& key, const RunId& run_id) const {
  const std::string base = Base(key);
  return {.input = base + kEndings[0],
          .output = base + kEndings[1],
          .script = base + kEndings[2],
          .scratch = fmt::format("{}/scratch/{}", path_, run_id.value)};
}

Status StateFolder::Write(const AttemptFiles& files, const std::string& input,
                          const std::string& script) const {
  HEADWORKS_TRY(MakeFolder(files.scratch));
  if (!script.empty()) HEADWORKS_TRY(WriteFile(files.script, script));
  return WriteFile(files.input, input);
}

bool StateFolder::HasTrace(const model::AttemptKey& key) const {
  return access((Base(key) + kEndings[0]).c_str(), F_OK) == 0;
}

void StateFolder::Remove(const model::AttemptKey& key) const {
  const std::string base = Base(key);
  std::error_code ignored;  // The task may have made a folder of it; then it goes with the run.
  for (const char* ending : kEndings) std::filesystem::remove(base + ending, ignored);
}

Status StateFolder::RemoveRun(RunNo run, const RunId& run_id) const {
  std::error_code error;
  std::filesystem::remove_all(fmt::format("{}/scratch/{}", path_, run_id.value), error);
  const std::string prefix = fmt::format("{}-", run.value);
  for (const auto& entry : std::filesystem::directory_iterator(path_ + "/attempts", error)) {
    if (entry.path().filename().string().starts_with(prefix)) {
      std::filesystem::remove_all(entry.path(), error);
    }
  }
  if (!error) return {};
  return Error{Code::kUnavailable, fmt::format("cannot remove the files of run {} below {}: {}",
                                               run_id.value, path_, error.message())};
}

}  // namespace headworks::executor_process
