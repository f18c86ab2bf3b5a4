#pragma once

#include <memory>
#include <string>

#include "headworks/log_store/log_store.h"

namespace headworks::log_store_sqlite {

/// Opens (and makes, if need be) a log file of its own beside a store: SQLite, WAL, one row per
/// chunk of lines.  Several processes may have it open; one engine writes, any may read.
Result<std::unique_ptr<log_store::LogStore>> OpenSqliteLogStore(const std::string& path);

}  // namespace headworks::log_store_sqlite
