#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "commands.h"
#include "headworks/base/text.h"
#include "headworks/spec/workflow_file.h"
#include "output.h"
#include "templates.h"
#include "workflow_file.h"

namespace headworks::cli {
namespace {

/// The template's text with the file's own name as the workflow's.
std::string Named(std::string_view text, const std::string& name) {
  std::string named(text);
  const std::size_t at = named.find("\nname: ") + 7;
  return named.replace(at, named.find('\n', at) - at, name);
}

}  // namespace

Result<Exit> NewWorkflow(const Context& context, const std::string& name, const std::string& file) {
  const auto templates = Templates();
  const auto found = std::ranges::find(templates, name, &Template::name);
  if (found == templates.end()) {
    std::vector<std::string_view> names;
    names.reserve(templates.size());
    for (const Template& known : templates) names.push_back(known.name);
    return Error{Code::kInvalidArgument,
                 fmt::format("--template: '{}' is none of {}{}", name, fmt::join(names, ", "),
                             DidYouMean(name, names))};
  }
  if (!IsWorkflowFileName(std::filesystem::path(file).filename().string()) ||
      file.ends_with(".json"))
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: the name of the file ends in .yaml or .yml, or `headworks up` "
                             "does not look at it (JSON has no comments)",
                             file)};
  const std::string stem = std::filesystem::path(file).stem().string();
  const std::string text = Named(found->text, stem);
  // Nothing but the name can be wrong.
  HEADWORKS_TRY(spec::ParseWorkflow(text, file, "/"));
  // "x": a file that is there is never overwritten.
  std::FILE* stream = std::fopen(file.c_str(), "wxe");
  if (stream == nullptr)
    return Error{errno == EEXIST                       ? Code::kConflict
                 : errno == ENOENT || errno == ENOTDIR ? Code::kNotFound
                 : errno == EACCES || errno == EROFS   ? Code::kPermissionDenied
                                                       : Code::kUnavailable,
                 fmt::format("cannot make {}: {}", file, std::strerror(errno))};
  const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  if (std::fclose(stream) != 0 || !written)
    return Error{Code::kUnavailable,
                 fmt::format("cannot write {}: {}", file, std::strerror(errno))};
  if (context.wants_table())
    Print(fmt::format("{0} is there; `headworks run {0}` runs it\n", file));
  else
    PrintValue(context.settings().output,
               boost::json::object{{"file", file}, {"workflow", stem}, {"template", name}});
  return Exit::kOk;
}

}  // namespace headworks::cli
