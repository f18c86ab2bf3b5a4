#include "headworks/model/artifact.h"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "headworks/base/json.h"
#include "headworks/model/artifact_flow.h"

namespace headworks::model {
namespace json = boost::json;
namespace {

constexpr char kSeparator = '\x1e';
constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr std::size_t kDigestBytes = 64;

Error Damaged() { return {Code::kCorrupt, "the stored artifacts of a task are damaged"}; }

bool IsFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

bool IsDigest(std::string_view text) {
  return text.size() == kDigestBytes &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<Artifact> Read(const json::value& value) {
  const json::object* object = value.if_object();
  if (object == nullptr) return Damaged();
  const json::value* file = object->if_contains("file");
  const json::value* sha256 = object->if_contains("sha256");
  const json::value* size = object->if_contains("size");
  if (file == nullptr || sha256 == nullptr || size == nullptr || !file->is_string() ||
      !sha256->is_string() || !size->is_int64() || size->get_int64() < 0)
    return Damaged();
  Artifact artifact{.file = std::string(file->get_string()),
                    .sha256 = std::string(sha256->get_string()),
                    .size = static_cast<std::uint64_t>(size->get_int64()),
                    .executable = object->contains("executable")};
  if (!IsFileName(artifact.file) || !IsDigest(artifact.sha256)) return Damaged();
  return artifact;
}

}  // namespace

std::string WriteResult(const TaskResult& result) {
  if (result.artifacts.empty()) return result.output;
  json::object object;
  for (const auto& [name, artifact] : result.artifacts) {
    json::object& one = object[name].emplace_object();
    one = {{"file", artifact.file}, {"sha256", artifact.sha256}, {"size", artifact.size}};
    if (artifact.executable) one["executable"] = true;
  }
  return result.output + kSeparator + CanonicalJson(object);
}

Result<TaskResult> ReadResult(std::string_view text) {
  const std::size_t end = text.find(kSeparator);
  TaskResult result{.output = std::string(text.substr(0, end)), .artifacts = {}};
  if (end == std::string_view::npos) return result;
  const auto object =
      ParseJsonObject(text.substr(end + 1), "the artifacts", {.max_bytes = kMaxBytes});
  if (!object) return Damaged();
  for (const auto& member : *object) {
    HEADWORKS_ASSIGN(result.artifacts[std::string(member.key())], Read(member.value()));
  }
  return result;
}

bool PassesArtifacts(const Workflow& workflow, TaskNo task) {
  if (std::holds_alternative<FunctionAction>(workflow.task(task).action)) return false;
  return !workflow.task(task).artifacts.empty() ||
         std::ranges::any_of(workflow.upstreams(task),
                             [&](TaskNo need) { return !workflow.task(need).artifacts.empty(); });
}

std::string ArtifactPathProblem(std::string_view path) {
  if (path.empty()) return "is empty; give the path of a file that the task writes";
  if (path.starts_with(kScratchPath)) path.remove_prefix(kScratchPath.size());
  if (path.starts_with('/'))
    return "is absolute; give a path below the task's working folder, or one that begins with "
           "$HEADWORKS_SCRATCH/";
  if (path.empty() || path.ends_with('/'))
    return "names a folder; an artifact is one file, so pack the folder (tar) and name that";
  // Within a template two dots are none of the path.
  for (std::string_view rest = path; !rest.empty();) {
    const std::size_t slash = rest.find('/');
    if (rest.substr(0, slash) == "..")
      return "leads out of its folder by '..'; give a path below the task's working folder, or "
             "one that begins with $HEADWORKS_SCRATCH/";
    rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
  }
  return {};
}

}  // namespace headworks::model
