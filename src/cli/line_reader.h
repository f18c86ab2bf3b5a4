#pragma once

#include <map>
#include <string>

#include "headworks/log_store/log_store.h"
#include "terminal.h"

namespace headworks::cli {

/// A line as people see it; what Headworks remarks is told apart.
std::string LineText(const log_store::Line& line, const Terminal& terminal);

/// What the attempts of a run print, a page at a time, so that a flood takes no more memory than
/// that.
class LineReader {
 public:
  /// Borrows `logs`.
  LineReader(log_store::LogStore& logs, TenantId tenant, RunNo run)
      : logs_(&logs), tenant_(std::move(tenant)), run_(run) {}

  /// Another way to the same lines.
  void ReadFrom(log_store::LogStore& logs) { logs_ = &logs; }

  /// Whether any attempt has printed since the last call.
  Result<bool> HasNew();
  /// The next lines of an attempt; `more` = there are others behind them.
  Result<log_store::Page> Next(TaskNo task, Epoch epoch);
  /// Its place is kept no longer: all its lines were read.
  void Forget(Epoch epoch) { places_.erase(epoch); }
  /// The last `count` lines of an attempt so far.
  Result<log_store::Page> Last(TaskNo task, Epoch epoch, std::size_t count);

 private:
  log_store::Query QueryFor(TaskNo task, Epoch epoch, std::size_t lines) const;

  log_store::LogStore* logs_;
  TenantId tenant_;
  RunNo run_;
  log_store::Cursor newest_;
  std::map<Epoch, log_store::Cursor> places_;
};

}  // namespace headworks::cli
