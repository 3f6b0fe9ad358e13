#include "runtime/live/live_file.hpp"

#include <filesystem>
#include <random>

namespace millrace {
namespace {

constexpr std::int64_t format_version = 3;  // PRAGMA user_version

constexpr const char* format_2 = R"(
create table interactions (
  id text primary key,                         -- the receipt
  client text not null,
  session text not null,                       -- '' outside sessions
  dialogue text not null,                      -- key of the conversation up to this answer
  state text not null,                         -- open, closed (has its final reward, or its session ended), expired
  reward real,
  created real not null,                       -- Unix seconds of its answer
  body text,                                   -- JSON: tokens, log-probs, versions, words; null: forgotten
  question text not null default '',           -- key of the conversation up to what this answers
  continued integer not null default 0         -- its client has said something since
) strict;
create index interactions_by_question on interactions (question);
create index interactions_by_dialogue on interactions (dialogue);
create index interactions_by_session on interactions (session);
create index interactions_by_client on interactions (client);
create index interactions_by_state on interactions (state, created);
create table sessions (
  id text primary key,
  key text not null,
  task text not null,
  state text not null,                         -- open, ended, expired
  used real not null                           -- Unix seconds
) strict;
create index sessions_by_key on sessions (key);
create table lessons (
  number integer primary key,
  source text not null unique,                 -- the interaction, or session/run, that it was made of: never twice
  client text not null,
  created real not null,
  state text not null default 'waiting',       -- waiting (for a permit), assigned (an id), submitted (in the ledger), capped
  trajectory integer,
  body text                                    -- JSON: [{"interaction", "reward"}]; null once it is in the ledger
) strict;
create index lessons_by_state on lessons (state, number);
create index lessons_by_client on lessons (client, state);
)";

// What each format has more than the one before it.
constexpr const char* since_format_1 = R"(
alter table interactions add column question text not null default '';
alter table interactions add column continued integer not null default 0;
create index interactions_by_question on interactions (question);
)";
constexpr const char* since_format_2 = R"(
drop index lessons_by_client;
drop index lessons_by_state;
create index lessons_assigned on lessons (number) where state = 'assigned';
create index lessons_waiting on lessons (client, number) where state = 'waiting';
create index lessons_by_turn on lessons (client, trajectory);
create index lessons_of_client on lessons (client, created) where state <> 'capped';
create index lessons_by_age on lessons (created);
create index interactions_remembered on interactions (created) where body is not null;
create index sessions_by_state on sessions (state, used);
)";

}  // namespace

std::string random_name(const std::string& prefix) {
  std::random_device device;
  std::string name = prefix;
  for (int i = 0; i < 32; ++i) name += "0123456789abcdef"[device() % 16];
  return name;
}

expected<Database> open_live_file(const std::string& directory) {
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  const std::string file = directory + "/live.sqlite";
  auto database = Database::open(file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!database) return database;
  auto ready = database->execute("pragma journal_mode = wal; pragma synchronous = full");
  if (!ready) return tl::unexpected(ready.error());
  const auto format = database->number("pragma user_version");
  if (!format) return tl::unexpected(format.error());
  if (*format > format_version) {
    return fail(file + ": format " + std::to_string(*format) + ", this program knows " +
                std::to_string(format_version) + ": use the newer millrace that wrote it");
  }
  if (*format < format_version) {
    std::string all = "begin; ";
    if (*format == 0) all += format_2;
    if (*format == 1) all += since_format_1;
    all += since_format_2;
    all.append("pragma user_version = ").append(std::to_string(format_version)).append("; commit;");
    if (ready = database->execute(all.c_str()); !ready) return tl::unexpected(ready.error());
  }
  return database;
}

}  // namespace millrace
