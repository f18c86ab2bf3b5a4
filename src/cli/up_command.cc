#include <fmt/format.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "commands.h"
#include "follow.h"
#include "monitoring.h"
#include "news.h"
#include "output.h"
#include "signals.h"
#include "worker_endpoint.h"
#include "workflow_file.h"

namespace headworks::cli {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(200);

/// What happened to runs, from the runner's thread to the one that prints.
class EventLines {
 public:
  /// More lines than this between two looks are counted, not kept.
  static constexpr std::size_t kMost = 1'000;

  void Add(const RunEvent& event) {
    if (event.task) return;
    const std::lock_guard lock(mutex_);
    if (lines_.size() == kMost) {
      ++dropped_;
      return;
    }
    lines_.push_back(fmt::format(
        "run {} {}{}", event.run.value, model::RunStateName(event.run_state),
        event.reason == model::Reason::kNone ? std::string()
                                             : fmt::format(" ({})", ReasonName(event.reason))));
  }

  void Tell(News& news) {
    std::vector<std::string> lines;
    std::size_t dropped = 0;
    {
      const std::lock_guard lock(mutex_);
      lines.swap(lines_);
      dropped = std::exchange(dropped_, 0);
    }
    for (const std::string& line : lines) news.Say(line);
    if (dropped > 0) news.Say(fmt::format("... and {} more changes of runs", dropped));
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::size_t dropped_ = 0;
};

/// Keeps the workflows of one folder registered.
class Folder {
 public:
  Folder(const Context& context, Runner& runner, News& news, std::string path)
      : context_(context), runner_(runner), news_(news), path_(std::move(path)) {}
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    if (fd_ >= 0) close(fd_);
  }

  int fd() const { return fd_; }

  Status Open() {
    fd_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    // Watched before it is listed, so that no change falls between.
    if (fd_ < 0 || inotify_add_watch(
                       fd_, path_.c_str(),
                       IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR) < 0)
      return Error{errno == ENOENT || errno == ENOTDIR ? Code::kNotFound : Code::kUnavailable,
                   fmt::format("cannot watch the folder {}: {}", path_, std::strerror(errno))};
    return RegisterAll();
  }

  /// Takes up what changed since the last call.
  Status Follow() {
    alignas(inotify_event) std::array<char, 16'384> buffer;
    for (;;) {
      const ssize_t size = read(fd_, buffer.data(), buffer.size());
      if (size <= 0) return {};
      for (ssize_t at = 0; at < size;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
        if ((event->mask & IN_Q_OVERFLOW) != 0) {
          HEADWORKS_TRY(RegisterAll());
          continue;
        }
        if ((event->mask & IN_IGNORED) != 0) {
          news_.Say(fmt::format("the folder {} is gone; its workflows stay registered", path_));
          continue;
        }
        if (event->len == 0 || !IsWorkflowFileName(event->name)) continue;
        const std::string file = (std::filesystem::path(path_) / event->name).string();
        if ((event->mask & (IN_DELETE | IN_MOVED_FROM)) != 0)
          Removed(file);
        else
          HEADWORKS_TRY(Register(file));
      }
    }
  }

 private:
  Status RegisterAll() {
    HEADWORKS_ASSIGN(const auto files, ListWorkflowFiles(path_));
    if (files.empty()) news_.Say(fmt::format("no workflow files in {} yet", path_));
    if (const std::string below = FoldersBelow(path_); !below.empty())
      news_.Say(
          fmt::format("sub-folders of {} are not looked at; there are files called like workflows "
                      "in {}",
                      path_, below));
    for (const std::string& file : files) HEADWORKS_TRY(Register(file));
    return {};
  }

  /// A faulty file is told and skipped: the others still count.
  Status Register(const std::string& file) {
    const auto workflow = LoadRunnable(context_, file, "", &runner_);
    if (!workflow) {
      if (!std::filesystem::exists(file)) return {};  // gone again: IN_DELETE follows
      news_.Complain(workflow.error());
      return {};
    }
    if (const Status has_functions = CheckFunctions(context_.settings(), **workflow, file);
        !has_functions) {
      news_.Complain(has_functions.error());
      return {};
    }
    // Run by whoever it is not meant for, it would do harm that nobody looks for.
    if (const std::string ignored = IgnoredQueue(context_.settings(), **workflow);
        !ignored.empty()) {
      news_.Complain({Code::kInvalidArgument, fmt::format("{}: {}", file, ignored)});
      return {};
    }
    const std::string& name = (*workflow)->name().workflow;
    const auto [known, inserted] = file_of_.emplace(name, file);
    if (!inserted && known->second != file) {
      news_.Complain(
          {Code::kConflict, fmt::format("{}: workflow {} is already defined by {}; rename one",
                                        file, name, known->second)});
      return {};
    }
    const auto before = runner_.workflows().Get((*workflow)->name());
    if (before && before->version == (*workflow)->version()) {
      if (inserted) news_.Say(fmt::format("workflow {} unchanged ({})", name, file));
      return {};
    }
    if (Status registered = runner_.Register(*workflow, SourceOf(file)); !registered) {
      if (registered.error().code != Code::kInvalidArgument) return registered;
      // A pool was changed since the file was read, or the store does not take it.
      news_.Complain(
          {Code::kInvalidArgument, fmt::format("{}: {}", file, registered.error().message)});
      return {};
    }
    news_.Say(fmt::format("workflow {} {} as version {} ({})", name,
                          before ? "updated" : "registered", (*workflow)->version().substr(0, 12),
                          file));
    return {};
  }

  void Removed(const std::string& file) {
    for (auto entry = file_of_.begin(); entry != file_of_.end(); ++entry) {
      if (entry->second != file) continue;
      news_.Say(fmt::format("{} is gone; workflow {} stays registered, `{}` forgets it", file,
                            entry->first,
                            fmt::format("headworks workflow delete {}", entry->first)));
      file_of_.erase(entry);
      return;
    }
  }

  const Context& context_;
  Runner& runner_;
  News& news_;
  std::string path_;
  int fd_ = -1;
  std::map<std::string, std::string> file_of_;  // workflow → file
};

}  // namespace

Result<Exit> Up(const Context& context, const std::string& folder) {
  // Before there is an engine that would have to leave again.
  if (std::error_code error; !folder.empty() && !std::filesystem::is_directory(folder, error))
    return Error{Code::kNotFound, fmt::format("there is no folder {}", folder)};
  HEADWORKS_ASSIGN(SignalWatch signals, SignalWatch::Install());
  News news(signals);
  EventLines lines;
  RunnerOptions options = context.options();
  options.on_event = [&lines](const RunEvent& event) { lines.Add(event); };
  auto opened = Runner::Open(options);
  if (!opened) return NameStore(context, std::move(opened).error());
  const std::unique_ptr<Runner> runner = *std::move(opened);

  HEADWORKS_ASSIGN(const auto unfinished,
                   runner->query().ListRuns(context.tenant(), UnfinishedRuns()));
  std::unique_ptr<metrics_http::HttpServer> monitoring;
  if (const std::string& address = context.settings().metrics_listen; !address.empty()) {
    HEADWORKS_ASSIGN(monitoring, ServeMonitoring(address, *runner, context.logger));
  }
  std::unique_ptr<WorkerEndpoint> endpoint;
  if (!context.settings().rpc_listen.empty() || runner->worker_service() != nullptr) {
    HEADWORKS_ASSIGN(endpoint, WorkerEndpoint::Open(context, *runner));
  }
  news.Say(fmt::format("engine is up on {}, continuing {} unfinished runs",
                       StoreName(context.settings().runner), unfinished.size()));
  if (monitoring) news.Say(fmt::format("metrics are at http://{}/metrics", monitoring->address()));
  if (runner->worker_service() != nullptr)
    news.Say(fmt::format("workers of this host: `{}`", CommandLine(context, "worker")));
  if (endpoint && !endpoint->address().empty())
    news.Say(fmt::format("workers connect to {}", endpoint->address()));
  std::optional<Folder> watched;
  if (!folder.empty()) {
    watched.emplace(context, *runner, news, folder);
    HEADWORKS_TRY(watched->Open());
  }
  HealthWatch health;
  while (signals.interrupts() + signals.terminations() == 0) {
    news.Wait(kLook, watched ? watched->fd() : -1);
    HEADWORKS_TRY(runner->CheckEngine());  // nothing is left to drain
    if (watched) HEADWORKS_TRY(watched->Follow());
    lines.Tell(news);
    for (const std::string& line : health.Look(*runner)) news.Say(line);
  }
  news.Say(fmt::format("draining for up to {}; a second signal leaves at once",
                       FormatDuration(options.drain_timeout)));
  signals.Release();
  monitoring.reset();
  // Until then workers are heard.
  HEADWORKS_TRY(runner->Shutdown());
  endpoint.reset();
  lines.Tell(news);
  news.Say("left; unfinished runs continue with the next engine");
  return Exit::kOk;
}

}  // namespace headworks::cli
