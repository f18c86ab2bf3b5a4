#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "commands.h"
#include "headworks/base/file.h"
#include "headworks/spec/workflow_file.h"
#include "output.h"
#include "workflow_file.h"
#include "yaml_format.h"

namespace headworks::cli {
namespace {

namespace fs = std::filesystem;

Result<std::string> ReadText(const Settings& settings, const std::string& file) {
  if (file == "-") return ReadStandardInput(settings);
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    return Error{Code::kNotFound, fmt::format("cannot read {}: {}", file, std::strerror(errno))};
  std::string text(settings.max_workflow_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

Result<std::string> DigestOf(const Settings& settings, const std::string& text,
                             const std::string& file) {
  HEADWORKS_ASSIGN(auto definition,
                   spec::ParseWorkflow(text, file, "/", nullptr, settings.max_workflow_bytes));
  HEADWORKS_ASSIGN(const auto workflow, model::Workflow::Create(std::move(definition)));
  return workflow->version();
}

/// The same lines but for blanks around them, in any order.
bool SameLines(const std::string& before, const std::string& after) {
  const auto lines = [](const std::string& text) {
    std::vector<std::string> found;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      line.erase(line.find_last_not_of(" \t\r") + 1);
      line.erase(0, line.find_first_not_of(" \t"));
      if (!line.empty()) found.push_back(line);
    }
    std::ranges::sort(found);
    return found;
  };
  return lines(before) == lines(after);
}

/// Keys stay where they are if moving them would change what the file means (aliases).
Result<std::string> Formatted(const Settings& settings, const std::string& text,
                              const std::string& file) {
  HEADWORKS_ASSIGN(const std::string before, DigestOf(settings, text, file));
  for (const bool reorder : {true, false}) {
    auto formatted = FormatYaml(text, reorder);
    if (!formatted) break;
    const auto after = DigestOf(settings, *formatted, file);
    if (after && *after == before && SameLines(text, *formatted)) return formatted;
  }
  return Error{Code::kConflict,
               fmt::format("{}: cannot be formatted without changing what it means, so it was left "
                           "alone; write it in block style, without tabs",
                           file)};
}

Status Replace(const std::string& file, const std::string& text) {
  const fs::path path = fs::weakly_canonical(file);
  std::error_code error;
  const auto mode = static_cast<unsigned>(fs::status(path, error).permissions());
  if (!error && !ReplaceFile(path.string(), text, mode))
    error = std::error_code(errno, std::generic_category());
  if (!error) return {};
  return Error{Code::kUnavailable, fmt::format("cannot write {}: {}", file, error.message())};
}

}  // namespace

Result<Exit> FormatWorkflows(const Context& context, const FormatArgs& args) {
  HEADWORKS_ASSIGN(const auto files, ExpandFolders(args.files));
  if (!args.check && !args.write && files.size() != 1)
    return Error{
        Code::kInvalidArgument,
        fmt::format("{} files: say --write to replace them or --check to look only", files.size())};
  Exit exit = Exit::kOk;
  boost::json::array changed;
  for (const std::string& file : files) {
    HEADWORKS_ASSIGN(const std::string text, ReadText(context.settings(), file));
    const std::string name = file == "-" ? "stdin.yaml" : file;
    auto formatted = Formatted(context.settings(), text, name);
    if (!formatted) {
      exit = Fail(formatted.error());
      continue;
    }
    if (!args.check && (!args.write || file == "-")) {
      Print(*formatted);
      continue;
    }
    if (*formatted == text) continue;
    changed.emplace_back(file);
    if (args.write) HEADWORKS_TRY(Replace(file, *formatted));
    if (args.check && exit == Exit::kOk) exit = Exit::kRunFailed;
    if (context.wants_table())
      Print(fmt::format("{} {}\n", args.check ? "would change" : "changed", file));
  }
  if (!context.wants_table() && (args.check || args.write))
    PrintValue(context.settings().output, changed);
  return exit;
}

}  // namespace headworks::cli
