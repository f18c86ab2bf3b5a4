#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "headworks/store_sqlite/sqlite_store.h"
#include "tests/scratch_folder.h"

namespace headworks::store_sqlite {

/// A database in a folder of its own.  Borrows the clock.
class CrashingDatabase {
 public:
  explicit CrashingDatabase(Clock& clock) : clock_(clock) { Reopen(); }

  Database& operator*() const { return *db_; }
  Database* operator->() const { return db_.get(); }

  /// Goes on with what is on disk now: the copies know nothing of what the old connections would
  /// still do when they close.
  void CrashAndReopen() {
    const std::filesystem::path from = Path();
    ++crashes_;
    std::filesystem::copy_file(from, Path());
    std::filesystem::copy_file(from.string() + "-wal", Path().string() + "-wal");
    Reopen();
  }

 private:
  std::filesystem::path Path() const { return folder_.path() / ("db" + std::to_string(crashes_)); }

  void Reopen() {
    auto opened = Open(Path(), {.clock = &clock_});
    ASSERT_TRUE(opened) << opened.error().message;
    db_ = *std::move(opened);
  }

  Clock& clock_;
  ScratchFolder folder_;
  int crashes_ = 0;
  std::unique_ptr<Database> db_;
};

}  // namespace headworks::store_sqlite
