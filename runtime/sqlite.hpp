#pragma once
// SQLite with owners: a connection, a prepared statement and a transaction that clean up after themselves. Not
// thread-safe: a connection and all that hangs on it belong to one thread at a time.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <sqlite3.h>

#include "config/expected.hpp"

namespace millrace {

// Raw bytes, bound and read as a BLOB.
struct Blob {
  std::string bytes;
};

class Statement {
 public:
  // Binds the values to the parameters ?1, ?2, ... of a statement that is fresh or has run to its end.
  template <class... Values>
  void bind(const Values&... values) {
    sqlite3_reset(statement_.get());
    int index = 0;
    (bind_one(++index, values), ...);
  }
  expected<bool> step();     // true: there is a row
  expected<void> execute();  // steps to the end
  // visit() for every row that is left; it returns expected<void>, and its error ends the loop.
  template <class Visit>
  expected<void> for_each_row(Visit visit) {
    while (true) {
      const auto row = step();
      if (!row) return tl::unexpected(row.error());
      if (!*row) return {};
      if (expected<void> visited = visit(); !visited) return visited;
    }
  }

  std::string name(int column) const { return sqlite3_column_name(statement_.get(), column); }
  int columns() const { return sqlite3_column_count(statement_.get()); }
  bool is_null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }
  int type(int column) const { return sqlite3_column_type(statement_.get(), column); }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  double real(int column) const;  // NULL reads as NaN
  std::string text(int column) const;
  std::string_view blob(int column) const;  // valid until the next step

 private:
  friend class Database;
  explicit Statement(sqlite3_stmt* statement) : statement_(statement, sqlite3_finalize) {}
  void bind_one(int index, std::int64_t value) { sqlite3_bind_int64(statement_.get(), index, value); }
  void bind_one(int index, std::uint64_t value) { bind_one(index, static_cast<std::int64_t>(value)); }
  void bind_one(int index, int value) { sqlite3_bind_int(statement_.get(), index, value); }
  // NaN is kept as NULL.
  void bind_one(int index, double value) { sqlite3_bind_double(statement_.get(), index, value); }
  void bind_one(int index, std::string_view value);
  void bind_one(int index, const std::string& value) { bind_one(index, std::string_view(value)); }
  void bind_one(int index, const char* value) { bind_one(index, std::string_view(value)); }
  void bind_one(int index, const Blob& value);

  std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement_;
};

class Database {
 public:
  // flags: SQLITE_OPEN_*. Errors name the file.
  static expected<Database> open(const std::string& file, int flags);

  expected<Statement> prepare(std::string_view sql) const;
  expected<void> execute(const char* sql) const;                      // one or several statements without parameters
  expected<std::int64_t> number(std::string_view sql) const;          // first column of the first row
  int changes() const { return sqlite3_changes(connection_.get()); }  // rows the last statement wrote
  Error error() const;  // what SQLite says about the last failure, with the file

 private:
  Database(sqlite3* connection, std::string file) : connection_(connection, sqlite3_close), file_(std::move(file)) {}

  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> connection_;
  std::string file_;
};

// Rolls back unless commit() came through.
class Transaction {
 public:
  static expected<Transaction> begin(const Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  expected<void> commit();

 private:
  explicit Transaction(const Database& database) : database_(&database) {}
  const Database* database_;
};

}  // namespace millrace
