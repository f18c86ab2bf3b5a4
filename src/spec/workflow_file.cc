#include "headworks/spec/workflow_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "headworks/base/text.h"
#include "recovery.h"
#include "source.h"
#include "workflow_reader.h"
#include "yaml_tree.h"

namespace headworks::spec {
namespace {

/// Faults that the error's message spells out.
constexpr std::size_t kFaultsInMessage = 50;

/// The first byte that no text file holds: NUL and other control characters, and what is not UTF-8.
/// (YAML would read UTF-16 too, but nothing behind this would.)
std::size_t FirstBadByte(std::string_view text) {
  const std::size_t valid = ValidUtf8Prefix(text);
  const auto bad =
      std::find_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(valid), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7F;
      });
  return static_cast<std::size_t>(bad - text.begin());
}

std::string DescribeSize(std::size_t bytes) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  return bytes % kMiB == 0 ? fmt::format("{} MiB", bytes / kMiB) : fmt::format("{} bytes", bytes);
}

/// Reads and checks into `definition`; what is wrong goes to `source`.
void Parse(Source& source, const std::string& base_dir, std::size_t max_bytes,
           const model::PlatformLimits& limits, model::WorkflowDefinition& definition) {
  if (source.text().size() > max_bytes)
    return source.AddWhole(
        "HW1001", fmt::format("the file is larger than {}; split it, or raise max_workflow_bytes",
                              DescribeSize(max_bytes)));
  if (const std::size_t bad = FirstBadByte(source.text()); bad != source.text().size())
    return source.Add(
        "HW1001", source.PlaceOf(bad),
        fmt::format("byte 0x{:02x} does not belong in a text file; {}",
                    static_cast<unsigned char>(source.text()[bad]),
                    static_cast<unsigned char>(source.text()[bad]) < 0x80
                        ? "remove it, or write it as \\x and two digits in a text in double quotes"
                        : "save it as UTF-8"));
  std::optional<Place> not_yaml;
  const auto tree = YamlTree::Parse(source, &not_yaml);
  if (not_yaml) ReadRest(source, *not_yaml);
  if (!tree) return;
  WorkflowDraft draft = ReadWorkflow(*tree, source);
  draft.definition.base_dir = base_dir;
  std::string& name = draft.definition.name.workflow;
  const bool name_of_file = name.empty();
  if (name_of_file) name = std::filesystem::path(source.name()).stem().string();
  std::vector<model::Fault> faults = model::Workflow::Check(draft.definition);
  for (model::Fault& fault : faults)
    if (fault.field == "name" && name_of_file)
      fault.message += "; it is taken from the file's name: rename the file or add `name:`";
  AddModelFaults(*tree, faults, source);
  AddModelFaults(*tree, model::CheckLimits(draft.definition, limits), source);
  CheckExpressions(draft, *tree, source);
  definition = std::move(draft.definition);
  if (!source.good() || draft.matrices.empty()) return;
  // Only now, so that a fault of a task with a matrix is told once, and as it is written.
  ExpandMatrices(definition, draft.matrices, *tree, source);
  if (source.good()) AddModelFaults(*tree, model::Workflow::Check(definition), source);
}

Result<std::string> ReadFile(const std::string& path, std::size_t max_bytes) {
  const auto failed = [&](int error) {
    const Code code = error == ENOENT || error == ENOTDIR ? Code::kNotFound
                      : error == EACCES || error == EPERM ? Code::kPermissionDenied
                      : error == EISDIR                   ? Code::kInvalidArgument
                                                          : Code::kUnavailable;
    return Error{code, fmt::format("cannot read {}: {}", path, std::strerror(error))};
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             &std::fclose);
  if (!file) return failed(errno);
  std::string text;
  std::size_t chunk = std::size_t{64} << 10;
  while (text.size() <= max_bytes) {  // one byte too many is enough to refuse it
    const std::size_t size = text.size();
    text.resize(size + chunk);
    const std::size_t read = std::fread(text.data() + size, 1, chunk, file.get());
    text.resize(size + read);
    if (read < chunk) break;
    chunk *= 2;
  }
  if (std::ferror(file.get()) != 0) return failed(errno);
  return text;
}

}  // namespace

Result<model::WorkflowDefinition> ParseWorkflow(std::string_view text,
                                                const std::string& source_name,
                                                const std::string& base_dir,
                                                std::vector<Fault>* faults, std::size_t max_bytes,
                                                const model::PlatformLimits& limits) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Source source(source_name, text);
  model::WorkflowDefinition definition;
  Parse(source, base_dir, max_bytes, limits, definition);
  if (source.good()) {
    if (faults != nullptr) *faults = source.TakeWarnings();
    return definition;
  }

  std::vector<Fault> all = source.TakeFaults();
  std::string message;
  for (std::size_t i = 0; i < std::min(all.size(), kFaultsInMessage); ++i)
    message += (i == 0 ? "" : "\n") + all[i].ToString();
  if (all.size() > kFaultsInMessage)
    message += fmt::format("\nand {} more faults", all.size() - kFaultsInMessage);
  if (faults != nullptr) *faults = std::move(all);
  return Error{Code::kInvalidArgument, std::move(message)};
}

Result<model::WorkflowDefinition> ParseWorkflowFile(const std::string& path,
                                                    std::vector<Fault>* faults,
                                                    std::size_t max_bytes,
                                                    const model::PlatformLimits& limits) {
  HEADWORKS_ASSIGN(const std::string text, ReadFile(path, max_bytes));
  std::error_code ec;
  const auto absolute = std::filesystem::absolute(path, ec);
  if (ec)
    return Error{Code::kUnavailable,
                 fmt::format("cannot find the folder of {}: {}", path, ec.message())};
  return ParseWorkflow(text, path, absolute.lexically_normal().parent_path().string(), faults,
                       max_bytes, limits);
}

}  // namespace headworks::spec
