#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "commands.h"
#include "headworks/artifact_store/artifact_store.h"
#include "headworks/base/fd.h"
#include "headworks/base/file.h"
#include "headworks/base/text.h"
#include "headworks/model/artifact.h"
#include "output.h"
#include "run_view.h"

namespace headworks::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

/// One that a task of the run has left.
struct Left {
  std::string task, name;
  model::Artifact artifact;
};

/// All of the run, or of `task`, in the order of the tasks.
Result<std::vector<Left>> ReadLeft(const Context& context, Runner& runner, const RunView& view,
                                   const std::string& task) {
  std::vector<TaskNo> tasks;
  if (!task.empty()) {
    HEADWORKS_ASSIGN(tasks, view.workflow->Select(task));
  } else {
    for (TaskNo no(0); no.value < view.workflow->size(); ++no.value)
      if (!view.workflow->task(no).artifacts.empty()) tasks.push_back(no);
  }
  HEADWORKS_ASSIGN(const auto ends,
                   runner.query().ReadEnds(context.tenant(), view.header.run_no, tasks));
  std::vector<Left> all;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    HEADWORKS_ASSIGN(auto result, model::ReadResult(ends[i].output));
    for (auto& [name, artifact] : result.artifacts)
      all.push_back({view.id(tasks[i]), name, std::move(artifact)});
  }
  return all;
}

Result<Exit> List(const Context& context, const std::vector<Left>& all, const RunView& view) {
  if (!context.wants_table()) {
    json::array list;
    for (const Left& left : all)
      list.emplace_back(json::object{{"task", left.task},
                                     {"name", left.name},
                                     {"file", left.artifact.file},
                                     {"size", left.artifact.size},
                                     {"sha256", left.artifact.sha256},
                                     {"executable", left.artifact.executable}});
    PrintValue(context.settings().output, list);
    return Exit::kOk;
  }
  if (all.empty()) {
    Note(fmt::format("no artifacts of run {}", view.header.run_no.value));
    return Exit::kOk;
  }
  Table table({"TASK", "NAME", "FILE", "BYTES", "SHA256"});
  for (const Left& left : all)
    table.AddRow({left.task, left.name, left.artifact.file, fmt::to_string(left.artifact.size),
                  left.artifact.sha256});
  Print(table.Render());
  return Exit::kOk;
}

/// The one of the name, of one task.
Result<Left> Find(const std::vector<Left>& all, const ArtifactsArgs& args) {
  std::vector<std::string_view> names;
  const Left* found = nullptr;
  for (const Left& left : all) {
    names.push_back(left.name);
    if (left.name != args.name) continue;
    if (found != nullptr)
      return Error{Code::kInvalidArgument,
                   fmt::format("{} is a matrix of which several tasks have left {}; name one of "
                               "them, such as {}",
                               args.task, args.name, found->task)};
    found = &left;
  }
  if (found != nullptr) return *found;
  return Error{Code::kNotFound, fmt::format("task {} has left no artifact {}{}", args.task,
                                            args.name, DidYouMean(args.name, names))};
}

/// Calls `take` with each piece.
template <typename Take>
Status Read(artifact_store::Reader& reader, const Take& take) {
  std::vector<char> piece(kPieceBytes);
  for (;;) {
    HEADWORKS_ASSIGN(const std::size_t count, reader.Read(piece));
    if (count == 0) return {};
    HEADWORKS_TRY(take(std::string_view(piece.data(), count)));
  }
}

/// The file has its name only once it is whole; what had it before is replaced.
Status WriteFile(artifact_store::Reader& reader, const std::string& path, bool executable) {
  const auto trouble = [&] {
    return Error{Code::kUnavailable,
                 fmt::format("--to: cannot write {}: {}", path, std::strerror(errno))};
  };
  std::string part = path + ".XXXXXX";
  const Fd file(mkostemp(part.data(), O_CLOEXEC));
  if (!file) return trouble();
  Status done = Read(reader, [&](std::string_view bytes) -> Status {
    if (!WriteAll(file.get(), bytes)) return trouble();
    return {};
  });
  const mode_t mask = umask(0);
  umask(mask);
  if (done && fchmod(file.get(), (executable ? 0777 : 0666) & ~mask) != 0) done = trouble();
  if (done && fsync(file.get()) != 0) done = trouble();
  if (done && rename(part.c_str(), path.c_str()) != 0) done = trouble();
  if (!done) unlink(part.c_str());
  return done;
}

Result<Exit> Fetch(const Context& context, Runner& runner, const RunView& view, const Left& left,
                   std::string to) {
  HEADWORKS_ASSIGN(const auto reader,
                   runner.artifacts().Open({context.tenant(), view.header.run_id},
                                           {left.artifact.sha256, left.artifact.size}));
  if (to == "-") {
    const Status done = Read(*reader, [&](std::string_view bytes) -> Status {
      Print(bytes);
      if (!OutputIsBroken()) return {};
      return Error{Code::kCancelled, "standard output takes no more"};
    });
    // What is wrong with the output is said at the end, as of every command.
    if (!done && !OutputIsBroken()) return done.error();
    return Exit::kOk;
  }
  std::error_code none;
  if (fs::is_directory(to, none)) to = (fs::path(to) / left.artifact.file).string();
  if (fs::exists(to, none) && !fs::is_regular_file(to, none))
    return Error{Code::kInvalidArgument,
                 fmt::format("--to: {} is no regular file, which this would replace; print into it "
                             "with --to -",
                             to)};
  HEADWORKS_TRY(WriteFile(*reader, to, left.artifact.executable));
  if (context.wants_table())
    Print(
        fmt::format("{} of {} is in {}, {} bytes\n", left.name, left.task, to, left.artifact.size));
  else
    PrintValue(
        context.settings().output,
        json::object{{"file", to}, {"size", left.artifact.size}, {"sha256", left.artifact.sha256}});
  return Exit::kOk;
}

}  // namespace

Result<Exit> ShowArtifacts(const Context& context, const ArtifactsArgs& args) {
  if (args.name.empty() != args.to.empty())
    return Error{Code::kInvalidArgument,
                 args.to.empty() ? "where shall it go? add --to FILE, or --to - to print it"
                                 : "--to is for one artifact; name it behind its task"};
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(const RunView view, RunReader(context).ReadSummary(*runner, args.run));
  HEADWORKS_ASSIGN(const auto all, ReadLeft(context, *runner, view, args.task));
  if (args.name.empty()) return List(context, all, view);
  HEADWORKS_ASSIGN(const Left left, Find(all, args));
  return Fetch(context, *runner, view, left, args.to);
}

}  // namespace headworks::cli
