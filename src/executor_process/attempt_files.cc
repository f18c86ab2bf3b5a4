#include "attempt_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

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

constexpr std::array<const char*, 3> kEndings{".in.json", ".out", ".sh"};

}  // namespace

Result<StateFolder> StateFolder::Open(const std::string& path) {
  StateFolder folder;
  folder.path_ = std::filesystem::absolute(path).string();
  for (const char* name : {"", "/attempts", "/scratch"}) {
    HEADWORKS_TRY(MakeFolder(folder.path_ + name));
  }
  return folder;
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

void StateFolder::Remove(const model::AttemptKey& key) const {
  const std::string base = Base(key);
  for (const char* ending : kEndings) {
    const std::string path = base + ending;
    if (unlink(path.c_str()) == 0 || errno != EISDIR) continue;
    // The task made a folder of it.  What cannot be removed now goes with the next Clear.
    std::error_code left;
    std::filesystem::remove_all(path, left);
  }
}

Status StateFolder::Clear() const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_ + "/attempts", error)) {
    std::filesystem::remove_all(entry.path(), error);
  }
  if (!error) return {};
  return Error{Code::kUnavailable, fmt::format("cannot remove what is left in {}/attempts: {}",
                                               path_, error.message())};
}

Status StateFolder::RemoveScratch(const RunId& run_id) const {
  std::error_code error;
  std::filesystem::remove_all(fmt::format("{}/scratch/{}", path_, run_id.value), error);
  if (!error) return {};
  return Error{Code::kUnavailable, fmt::format("cannot remove the scratch folder of run {} below "
                                               "{}: {}",
                                               run_id.value, path_, error.message())};
}

}  // namespace headworks::executor_process
