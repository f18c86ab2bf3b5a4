#pragma once

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"

/// The SQLite C API with owners, typed values and typed errors; nothing more.
namespace headworks::store_sqlite {

/// Opaque bytes, stored as a BLOB that starts with a format number (1 = as they are).
struct Payload {
  std::string_view bytes;
};
/// Bytes as they are.
struct Blob {
  std::string_view bytes;
};
struct OwnedPayload {
  std::string bytes;
};

/// What SQLite's `rc` means to a caller of the store.  `path` is named in the message.
Error ToError(int rc, std::string_view detail, int system_errno, std::string_view path);

/// One row of a result; valid until the next step.
class Row {
 public:
  explicit Row(sqlite3_stmt* stmt) : stmt_(stmt) {}

  /// Reads the columns from the first on, one for each argument.
  template <typename... T>
  void Read(T&... values) const {
    int column = 0;
    (ReadOne(column++, values), ...);
  }
  template <typename T>
  T Get(int column) const {
    T value{};
    ReadOne(column, value);
    return value;
  }

 private:
  void ReadOne(int i, std::string& v) const { v.assign(Bytes(i)); }
  void ReadOne(int i, OwnedPayload& v) const {
    const std::string_view bytes = Bytes(i);
    v.bytes.assign(bytes.empty() ? bytes : bytes.substr(1));
  }
  void ReadOne(int i, Duration& v) const { v = Duration(sqlite3_column_int64(stmt_, i)); }
  void ReadOne(int i, Instant& v) const { v = Instant(Duration(sqlite3_column_int64(stmt_, i))); }
  void ReadOne(int i, TenantId& v) const { ReadOne(i, v.value); }
  void ReadOne(int i, RunId& v) const { ReadOne(i, v.value); }
  template <typename Tag, typename Rep>
  void ReadOne(int i, StrongId<Tag, Rep>& v) const {
    v.value = static_cast<Rep>(sqlite3_column_int64(stmt_, i));
  }
  template <typename T>
  void ReadOne(int i, std::optional<T>& v) const {
    if (sqlite3_column_type(stmt_, i) == SQLITE_NULL) {
      v.reset();
    } else {
      ReadOne(i, v.emplace());
    }
  }
  template <typename T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void ReadOne(int i, T& v) const {
    v = static_cast<T>(sqlite3_column_int64(stmt_, i));
  }
  std::string_view Bytes(int i) const {
    const void* data = sqlite3_column_blob(stmt_, i);
    const int size = sqlite3_column_bytes(stmt_, i);
    return {static_cast<const char*>(data), data == nullptr ? 0 : static_cast<std::size_t>(size)};
  }

  sqlite3_stmt* stmt_;
};

/// One connection and its prepared statements, which are kept as long as it is open.
///
/// Threads.  One at a time.
/// SQL.  Statements are known by the address of their text: pass constants only.
class Connection {
 public:
  struct OpenOptions {
    int flags = SQLITE_OPEN_READWRITE;
    std::string vfs;  // empty = the default one
    Duration busy_timeout = std::chrono::seconds(5);
  };
  static Result<std::unique_ptr<Connection>> Open(const std::string& path,
                                                  const OpenOptions& options);
  /// Uses a connection that the caller opened, and closes when this is gone.
  static std::unique_ptr<Connection> Borrow(sqlite3* db);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Runs several statements without parameters, which are not kept.
  Status Script(const char* sql);
  /// Runs one statement; its rows, if any, are passed over.
  template <typename... Args>
  Status Run(const char* sql, const Args&... args) {
    return ForEach(sql, [](Row) {}, args...);
  }
  /// Calls `each(Row)` for every row; if it returns a Status, an error ends the call.
  template <typename Each, typename... Args>
  Status ForEach(const char* sql, Each each, const Args&... args) {
    HEADWORKS_ASSIGN(sqlite3_stmt* const stmt, Prepare(sql));
    const Reset reset{stmt};
    int parameter = 0;
    int rc = SQLITE_OK;
    ((rc = rc == SQLITE_OK ? Bind(stmt, ++parameter, args) : rc), ...);
    if (rc != SQLITE_OK) return Failure(rc);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
      if constexpr (std::is_void_v<std::invoke_result_t<Each, Row>>) {
        each(Row(stmt));
      } else {
        HEADWORKS_TRY(each(Row(stmt)));
      }
    }
    if (rc != SQLITE_DONE) return Failure(rc);
    return {};
  }
  /// The first column of the first row, if there is a row.
  template <typename T, typename... Args>
  Result<std::optional<T>> Value(const char* sql, const Args&... args) {
    std::optional<T> value;
    HEADWORKS_TRY(ForEach(sql, [&](Row row) { value = row.Get<T>(0); }, args...));
    return value;
  }
  /// Rows that the last INSERT, UPDATE or DELETE changed.
  std::int64_t Changes() const { return sqlite3_changes64(db_); }

  Error Failure(int rc);
  /// A flush to disk failed.  What the kernel has since dropped from its cache is unknown, so
  /// nothing more may be written through this process.
  bool flush_failed() const { return flush_failed_; }
  sqlite3* handle() const { return db_; }
  const std::string& path() const { return path_; }

 private:
  struct Reset {
    sqlite3_stmt* stmt;
    ~Reset() { sqlite3_reset(stmt); }
  };

  explicit Connection(std::string path) : path_(std::move(path)) {}
  Result<sqlite3_stmt*> Prepare(const char* sql);

  // Bound bytes must live until the statement is done; in ForEach they do.
  int Bind(sqlite3_stmt* s, int i, std::string_view v) {
    return sqlite3_bind_text64(s, i, v.data() == nullptr ? "" : v.data(), v.size(), SQLITE_STATIC,
                               SQLITE_UTF8);
  }
  int Bind(sqlite3_stmt* s, int i, const std::string& v) { return Bind(s, i, std::string_view(v)); }
  int Bind(sqlite3_stmt* s, int i, const char* v) { return Bind(s, i, std::string_view(v)); }
  int Bind(sqlite3_stmt* s, int i, Payload v);
  int Bind(sqlite3_stmt* s, int i, Blob v) {
    return sqlite3_bind_blob64(s, i, v.bytes.data(), v.bytes.size(), SQLITE_STATIC);
  }
  int Bind(sqlite3_stmt* s, int i, std::nullopt_t) { return sqlite3_bind_null(s, i); }
  int Bind(sqlite3_stmt* s, int i, Instant v) {
    return sqlite3_bind_int64(s, i, v.time_since_epoch().count());
  }
  int Bind(sqlite3_stmt* s, int i, Duration v) { return sqlite3_bind_int64(s, i, v.count()); }
  int Bind(sqlite3_stmt* s, int i, const TenantId& v) { return Bind(s, i, v.value); }
  int Bind(sqlite3_stmt* s, int i, const RunId& v) { return Bind(s, i, v.value); }
  template <typename Tag, typename Rep>
  int Bind(sqlite3_stmt* s, int i, StrongId<Tag, Rep> v) {
    return sqlite3_bind_int64(s, i, static_cast<std::int64_t>(v.value));
  }
  template <typename T>
  int Bind(sqlite3_stmt* s, int i, const std::optional<T>& v) {
    return v ? Bind(s, i, *v) : sqlite3_bind_null(s, i);
  }
  template <typename T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  int Bind(sqlite3_stmt* s, int i, T v) {
    return sqlite3_bind_int64(s, i, static_cast<std::int64_t>(v));
  }

  const std::string path_;
  sqlite3* db_ = nullptr;
  bool borrowed_ = false;
  bool flush_failed_ = false;
  std::unordered_map<const char*, sqlite3_stmt*> statements_;
};

/// A transaction; rolled back unless committed.
class Transaction {
 public:
  /// Takes the write lock at once, waiting at most the busy timeout.
  static Result<Transaction> BeginWrite(Connection& connection) {
    return Begin(connection, "BEGIN IMMEDIATE");
  }
  /// All reads until its end see the same state.
  static Result<Transaction> BeginRead(Connection& connection) {
    return Begin(connection, "BEGIN");
  }
  Transaction(Transaction&& other) noexcept : connection_(other.connection_) {
    other.connection_ = nullptr;
  }
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  /// After an error nothing is left open; whether it happened is unknown for kUnavailable.
  Status Commit();

 private:
  explicit Transaction(Connection& connection) : connection_(&connection) {}
  static Result<Transaction> Begin(Connection& connection, const char* sql);

  Connection* connection_;
};

/// Runs `body(connection)` within an open transaction, and undoes what it changed if it returns an
/// error.
template <typename Body>
std::invoke_result_t<Body, Connection&> InSavepoint(Connection& connection, Body&& body) {
  HEADWORKS_TRY(connection.Run("SAVEPOINT headworks"));
  auto result = std::forward<Body>(body)(connection);
  // Some errors have rolled back the whole transaction.
  if (sqlite3_get_autocommit(connection.handle()) != 0) return result;
  if (!result) HEADWORKS_TRY(connection.Run("ROLLBACK TO headworks"));
  HEADWORKS_TRY(connection.Run("RELEASE headworks"));
  return result;
}

}  // namespace headworks::store_sqlite
