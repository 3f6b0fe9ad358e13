#include "runtime/sqlite.hpp"

#include <limits>

namespace millrace {
namespace {

constexpr int busy_timeout_ms = 5000;  // readers of a WAL file wait only while it is opened or recovered

Error error_of(sqlite3* connection, const std::string& file) {
  return {file + ": " + (connection ? sqlite3_errmsg(connection) : "out of memory")};
}

}  // namespace

expected<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  sqlite3* connection = sqlite3_db_handle(statement_.get());
  return tl::unexpected(error_of(connection, sqlite3_db_filename(connection, "main")));
}

expected<void> Statement::execute() {
  for (;;) {
    const auto row = step();
    if (!row) return tl::unexpected(row.error());
    if (!*row) return {};
  }
}

double Statement::real(int column) const {
  return is_null(column) ? std::numeric_limits<double>::quiet_NaN() : sqlite3_column_double(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return data ? std::string(data, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))) : "";
}

std::string_view Statement::blob(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  return {data, data ? static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column)) : 0};
}

void Statement::bind_one(int index, std::string_view value) {
  sqlite3_bind_text64(statement_.get(), index, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

void Statement::bind_one(int index, const Blob& value) {
  sqlite3_bind_blob64(statement_.get(), index, value.bytes.data(), value.bytes.size(), SQLITE_TRANSIENT);
}

expected<Database> Database::open(const std::string& file, int flags) {
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(file.c_str(), &connection, flags, nullptr);
  Database database(connection, file);
  if (code != SQLITE_OK) return tl::unexpected(database.error());
  sqlite3_busy_timeout(connection, busy_timeout_ms);
  return database;
}

expected<Statement> Database::prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(connection_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return tl::unexpected(error());
  return Statement(statement);
}

expected<void> Database::execute(const char* sql) const {
  if (sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) return tl::unexpected(error());
  return {};
}

expected<std::int64_t> Database::number(std::string_view sql) const {
  auto statement = prepare(sql);
  if (!statement) return tl::unexpected(statement.error());
  const auto row = statement->step();
  if (!row) return tl::unexpected(row.error());
  return *row ? statement->integer(0) : 0;
}

Error Database::error() const { return error_of(connection_.get(), file_); }

expected<Transaction> Transaction::begin(const Database& database) {
  const auto begun = database.execute("begin immediate");
  if (!begun) return tl::unexpected(begun.error());
  return Transaction(database);
}

Transaction::~Transaction() {
  if (database_) (void)database_->execute("rollback");
}

expected<void> Transaction::commit() {
  const auto committed = database_->execute("commit");
  if (committed) database_ = nullptr;
  return committed;
}

}  // namespace millrace
