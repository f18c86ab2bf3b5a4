#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/model/attempt.h"

/// What tasks print: apart from the runs' own store, because it is large, append-only and worth
/// less.
namespace headworks::log_store {

/// Stored: append, never renumber.
enum class Stream : std::uint8_t {
  kStdout = 1,
  kStderr = 2,
  /// Not the task's: a remark of Headworks about this log ("cut here, 64 MiB reached").
  kNote = 3,
};

struct Line {
  /// 1-based within its attempt, in order of arrival over both streams; gaps mean lost lines.
  std::int64_t number = 0;
  Stream stream = Stream::kStdout;
  Instant at{};
  /// Without the newline.  Any bytes; `DisplayText` makes them fit for a screen.
  std::string bytes{};

  bool operator==(const Line&) const = default;
};

/// Consecutive lines of one attempt.
struct Batch {
  model::AttemptKey attempt{};
  std::vector<Line> lines{};
};

/// A place in the log of one run: pass back the last one to read on.  Default: the beginning.
struct Cursor {
  std::int64_t chunk = 0;
  std::int64_t line = 0;

  auto operator<=>(const Cursor&) const = default;
};

struct Query {
  TenantId tenant{};
  RunNo run{};
  std::optional<TaskNo> task{};
  std::optional<std::int32_t> map_index{};
  std::optional<Epoch> epoch{};
  /// Only what came after.
  Cursor after{};
  /// 1 to kMaxPageLines.
  std::size_t max_lines = 1'000;
};

struct Entry {
  model::AttemptKey attempt{};
  Line line{};
};

struct Page {
  /// In order of arrival in the store; so each attempt's lines are in order.
  std::vector<Entry> entries{};
  Cursor next{};
  /// There was more than fitted.
  bool more = false;
};

inline constexpr std::size_t kMaxPageLines = 100'000;
/// A page ends early above this.
inline constexpr std::size_t kMaxPageBytes = std::size_t{16} << 20;
/// Longest line; longer ones are the writer's to split.
inline constexpr std::size_t kMaxLineBytes = std::size_t{64} << 10;
/// Most bytes of one Append.
inline constexpr std::size_t kMaxAppendBytes = std::size_t{64} << 20;

/// Lines of attempts, numbered, readable while the attempt runs, also by other processes.
///
/// Life.  A line that Append took survives the end of the process; a power cut may cost the
///   last seconds.
/// Threads.  All methods may be called concurrently; concurrent appends share a commit.
/// Errors.  kUnavailable: cannot be written or read now (disk full, locked); nothing was changed.
///   kCorrupt: the file is damaged.  kInvalidArgument: a bound was exceeded.
class LogStore {
 public:
  virtual ~LogStore() = default;

  /// Adds all batches or none.  Bounds: kMaxAppendBytes in sum, kMaxLineBytes a line.
  virtual Status Append(std::span<const Batch> batches) = 0;
  /// An unknown run, or one of another tenant, has no lines.
  virtual Result<Page> Read(const Query& query) = 0;
  /// The last `query.max_lines` lines that `query` selects, oldest first.  `next` reads on.
  virtual Result<Page> Tail(const Query& query) = 0;
  /// Removes all lines of a run; repeatable.
  virtual Status DeleteRun(const TenantId& tenant, RunNo run) = 0;
};

/// `bytes` as valid UTF-8: what is not becomes U+FFFD.
std::string DisplayText(std::string_view bytes);

}  // namespace headworks::log_store
