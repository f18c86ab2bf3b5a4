#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "headworks/base/result.h"

/// The file of a log store, for whoever reads, writes or looks after it.
namespace headworks::log_store_sqlite {

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

/// A prepared statement that is reset when its use ends.
class Statement {
 public:
  Status Prepare(sqlite3* db, std::string_view sql);
  sqlite3_stmt* get() const { return statement_.get(); }

  struct Use {
    explicit Use(Statement& s) : statement(s.get()) {}
    ~Use() {
      sqlite3_reset(statement);
      sqlite3_clear_bindings(statement);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    void Bind(int index, std::int64_t value) { sqlite3_bind_int64(statement, index, value); }
    void Bind(int index, std::string_view text) {
      sqlite3_bind_text64(statement, index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
    }
    void BindBlob(int index, std::string_view bytes) {
      sqlite3_bind_blob64(statement, index, bytes.data(), bytes.size(), SQLITE_STATIC);
    }
    int Step() { return sqlite3_step(statement); }
    std::int64_t Int(int column) const { return sqlite3_column_int64(statement, column); }
    std::string_view Blob(int column) const {
      return {static_cast<const char*>(sqlite3_column_blob(statement, column)),
              static_cast<std::size_t>(sqlite3_column_bytes(statement, column))};
    }
    sqlite3_stmt* statement;
  };

 private:
  std::unique_ptr<sqlite3_stmt, FinalizeStatement> statement_;
};

/// What the last call failed in; `what` was to be done with the file.
Error ErrorOf(sqlite3* db, std::string_view what);

/// Statements without parameters or rows.
Status Run(sqlite3* db, const char* sql, std::string_view what);

/// The file as it is, or a new one without tables.
Result<Database> OpenDatabase(const std::string& path);

/// Makes the tables of a new file, refuses one from a later program.
Status Migrate(sqlite3* db);

}  // namespace headworks::log_store_sqlite
