#include "runtime/ledger_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace millrace {
namespace {

constexpr std::int64_t application_id = 0x4d696c6c;  // "Mill", in the header of the file
constexpr std::int64_t format_version = 3;           // PRAGMA user_version

// What an operator sees with `sqlite3 ledger.sqlite 'select * from trajectories'`; the tokens lie beside it.
constexpr const char* schema = R"(
create table trajectories (
  id integer primary key,
  outcome text not null,
  state text not null generated always as
    (case outcome when 'queued' then 'queued' when 'trained' then 'trained' else 'rejected' end) virtual,
  reason text not null,
  environment text not null,
  task text not null,
  answer text not null,
  expected text not null,
  reward real,                                 -- null: not a number
  reward_parts text not null,                  -- JSON: [{"name", "value", "weight"}]
  reward_spec text not null,
  reward_spec_version integer not null,
  ending text not null,
  turns integer not null,
  tokens integer not null,
  action_tokens integer not null,
  policy_version_oldest integer not null,      -- of its action tokens
  policy_version_newest integer not null,
  policy_version_finished integer not null,    -- in use when its last turn ended
  version integer,                             -- published version that holds it, or the learner's when it was judged
  created real not null,                       -- Unix seconds
  settled real,                                -- Unix seconds; null: queued
  seconds text not null,                       -- JSON: seconds in each stage before it was accepted
  temperature real not null,
  terminal integer not null,
  invalid text not null,
  position integer not null default 0,         -- in the order of acceptance
  step integer,                                -- batch that learned from it, value-only ones counted
  step_position integer,                       -- its place in that batch, from 1
  step_pack integer                            -- the pass it went through the learners in, from 1
) strict;
create index trajectories_by_state on trajectories (state);
create index trajectories_by_outcome on trajectories (outcome);
create table payloads (                        -- one entry a token; zstd of little-endian numbers
  id integer primary key references trajectories (id),
  tokens blob not null,                        -- int32
  mask blob not null,                          -- uint8
  behaviour blob not null,                     -- float32
  rewards blob not null,                       -- float32
  versions blob not null,                      -- uint64
  checksum integer not null                    -- xxh3 of the five, uncompressed, each with the former's as seed
) strict;
)";

// What format 2 added: the order of things, and the frontier.
constexpr const char* frontier_schema = R"(
create index trajectories_by_step on trajectories (step) where step is not null;
create table facts (key text primary key, value integer not null) strict;
create table forks (                           -- old weights published again under a new number
  policy_version integer not null,             -- whose weights they are
  resumed_as integer not null,
  step integer not null,                       -- batches the critic had learned from
  at real not null                             -- Unix seconds
) strict;
create table checkpoints (                     -- finished ones; the newest is where a killed service goes on
  name text primary key,                       -- of its folder under checkpoints/
  policy_version integer not null,
  step integer not null,                       -- batches the critic had learned from
  checksum integer not null,                   -- xxh3 of its manifest
  created real not null                        -- Unix seconds
) strict;
)";

// What format 3 added.
constexpr const char* from_format_2 = R"(
alter table forks add column repeats integer not null default 0;  -- 1: what came after was made once more, the same
alter table checkpoints add column reward real;  -- mean of what was trained since the one before; null: nothing was
alter table checkpoints add column reward_spec integer not null default 0;  -- version it was rewarded under
)";

constexpr const char* from_format_1 = R"(
alter table trajectories add column position integer not null default 0;
alter table trajectories add column step integer;
alter table trajectories add column step_position integer;
alter table trajectories add column step_pack integer;
update trajectories set position = id;
update trajectories set step = version, step_position = id where outcome = 'trained';
)";
constexpr const char* facts_of_format_1 = R"(
insert into facts select 'published', coalesce(max(version), 0) from trajectories;
insert into facts select 'step', coalesce(max(version), 0) from trajectories;
)";

// Errors: another program's database, a newer format. A database without any table has format 0.
expected<std::int64_t> format_of(const Database& database, const std::string& file) {
  const auto tables = database.number("select count(*) from sqlite_schema");
  if (!tables) {
    return fail(tables.error().message + ": this is no ledger, or a damaged one: restore it, or move it aside");
  }
  if (*tables == 0) return 0;
  const auto owner = database.number("pragma application_id");
  const auto format = database.number("pragma user_version");
  if (!owner || !format) return tl::unexpected(database.error());
  if (*owner != application_id) return fail(file + ": this SQLite file is not a Millrace ledger: move it aside");
  if (*format > format_version) {
    return fail(file + ": ledger of format " + std::to_string(*format) + ", this program knows " +
                std::to_string(format_version) + ": use the newer millrace that wrote it");
  }
  return *format;
}

std::string pragmas() {
  return "pragma application_id = " + std::to_string(application_id) +
         "; pragma user_version = " + std::to_string(format_version) + ";";
}

expected<void> create(const Database& database) {
  auto transaction = Transaction::begin(database);
  if (!transaction) return tl::unexpected(transaction.error());
  return database.execute((schema + (frontier_schema + (from_format_2 + pragmas()))).c_str()).and_then([&] {
    return transaction->commit();
  });
}

// All or nothing: a ledger that could not be migrated is as it was.
expected<void> migrate(const Database& database, std::int64_t format) {
  auto transaction = Transaction::begin(database);
  if (!transaction) return tl::unexpected(transaction.error());
  std::string steps = from_format_2 + pragmas();
  if (format == 1) steps = from_format_1 + (frontier_schema + (facts_of_format_1 + steps));
  return database.execute(steps.c_str()).and_then([&] { return transaction->commit(); });
}

}  // namespace

expected<FolderLock> FolderLock::take(const std::string& directory) {
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (code) return fail("state.directory " + directory + ": " + code.message() + ": it must be a writable folder");
  const std::string file = directory + "/lock";
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return fail(file + ": " + std::strerror(errno) + ": state.directory must be writable");
  FolderLock lock(descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return fail(directory + " is in use by another millrace: stop it first, or set state.directory");
  }
  return lock;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

expected<Database> open_ledger_file(const std::string& directory) {
  const std::string file = directory + "/ledger.sqlite";
  auto database = Database::open(file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!database) return database;
  const auto format = format_of(*database, file);
  if (!format) return tl::unexpected(format.error());
  auto ready = database->execute("pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on");
  if (ready && *format == 0) ready = create(*database);
  if (ready && *format > 0 && *format < format_version) ready = migrate(*database, *format);
  if (!ready) return tl::unexpected(ready.error());
  return database;
}

expected<Database> open_ledger_in_memory() {
  auto database = Database::open(":memory:", SQLITE_OPEN_READWRITE);
  if (!database) return database;
  if (auto created = create(*database); !created) return tl::unexpected(created.error());
  return database;
}

expected<Database> open_ledger_file_read_only(const std::string& directory) {
  const std::string file = directory + "/ledger.sqlite";
  if (!std::filesystem::exists(file)) {
    return fail(file + " does not exist: name the state.directory of a service that has run");
  }
  auto database = Database::open(file, SQLITE_OPEN_READONLY);
  if (!database) return database;
  const auto format = format_of(*database, file);
  if (!format) return tl::unexpected(format.error());
  if (*format == 0) return fail(file + " holds no table yet: its service has never come up");
  if (*format < format_version) {
    return fail(file + ": ledger of format " + std::to_string(*format) +
                ": the next `millrace serve` on it migrates it");
  }
  return database;
}

}  // namespace millrace
