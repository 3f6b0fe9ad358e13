#include "runtime/ledger.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "runtime/clock.hpp"
#include "runtime/ledger_state.hpp"
#include "runtime/payload.hpp"

namespace millrace {
namespace {

using nlohmann::json;

constexpr const char* listed_columns =
    "select id, state, outcome, reason, environment, task, answer, expected, reward, reward_parts, reward_spec, "
    "reward_spec_version, ending, turns, tokens, action_tokens, policy_version_oldest, policy_version_newest, version, "
    "created, settled, seconds from trajectories ";

json parts_to_json(const std::vector<ScorePart>& parts) {
  json document = json::array();
  for (const ScorePart& part : parts) {
    document.push_back({{"name", part.name}, {"value", part.value}, {"weight", part.weight}});
  }
  return document;
}

// JSON has no NaN: it is written as null.
double number_of(const json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::vector<ScorePart> parts_from_json(const json& document) {
  std::vector<ScorePart> parts;
  for (const json& part : document) {
    parts.push_back({part.at("name"), number_of(part.at("value")), number_of(part.at("weight"))});
  }
  return parts;
}

json seconds_to_json(const StageSeconds& seconds) {
  return {{"generate", seconds.generate}, {"environment", seconds.environment},
          {"score", seconds.score},       {"queue", seconds.queue},
          {"value", seconds.value},       {"learn", seconds.learn}};
}

StageSeconds seconds_from_json(const json& document) {
  const auto of = [&](const char* stage) { return number_of(document.at(stage)); };
  return {of("generate"), of("environment"), of("score"), of("queue"), of("value"), of("learn")};
}

// Text a model or a user wrote may hold bytes that are not UTF-8; JSON may not.
std::string dump(const json& document) { return document.dump(-1, ' ', false, json::error_handler_t::replace); }

Ending ending_of(const std::string& name) {
  for (const Ending ending : {Ending::terminated, Ending::truncated}) {
    if (name == name_of(ending)) return ending;
  }
  return Ending::failed;
}

json row_to_json(const Statement& row) {
  json document = json::object();
  for (int column = 0; column < row.columns(); ++column) {
    const std::string name = row.name(column);
    json& field = document[name];
    switch (row.type(column)) {
      case SQLITE_INTEGER: field = row.integer(column); break;
      case SQLITE_FLOAT: field = row.real(column); break;
      case SQLITE_TEXT:
        field = name == "reward_parts" || name == "seconds" ? json::parse(row.text(column)) : json(row.text(column));
        break;
    }
  }
  return document;
}

LedgerCounts count_rows(const Database& database) {
  // accepted counts all rows by itself; it is not the sum of the others.
  auto rows =
      value_of(database.prepare("select 'accepted', count(*) from trajectories union all select state, "
                                "count(*) from trajectories group by state"));
  LedgerCounts counts;
  while (value_of(rows.step())) {
    const std::string name = rows.text(0);
    auto& count = name == "accepted"  ? counts.accepted
                  : name == "trained" ? counts.trained
                  : name == "queued"  ? counts.queued
                                      : counts.rejected;
    count += static_cast<std::uint64_t>(rows.integer(1));
  }
  const auto trained = static_cast<std::uint64_t>(fact(database, "pruned_trained"));
  const auto rejected = static_cast<std::uint64_t>(fact(database, "pruned_rejected"));
  counts.trained += trained;
  counts.rejected += rejected;
  counts.accepted += trained + rejected;
  return counts;
}

}  // namespace

Ledger::Ledger(std::unique_ptr<State> state) : state_(std::move(state)) {}
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;
Ledger::~Ledger() = default;

expected<Ledger> Ledger::open(const std::string& state_directory) {
  auto lock = FolderLock::take(state_directory);
  if (!lock) return tl::unexpected(lock.error());
  auto database = open_ledger_file(state_directory);
  if (!database) return tl::unexpected(database.error());
  const auto last_id = database->number("select max(id) from trajectories");
  const auto last_position = database->number("select max(position) from trajectories");
  if (!last_id || !last_position) return tl::unexpected(database->error());
  auto state = std::make_unique<State>(State{std::move(*lock), std::move(*database), 0, 0, {}, false});
  state->last_id = static_cast<TrajectoryId>(std::max(*last_id, fact(state->database, "pruned_to")));
  state->last_position = *last_position;
  return Ledger(std::move(state));
}

expected<Ledger> Ledger::open_read_only(const std::string& state_directory) {
  auto database = open_ledger_file_read_only(state_directory);
  if (!database) return tl::unexpected(database.error());
  return Ledger(std::make_unique<State>(State{std::nullopt, std::move(*database), 0, 0, {}, false}));
}

Ledger Ledger::forgetful() {
  return Ledger(
      std::make_unique<State>(State{std::nullopt, value_of(open_ledger_in_memory()), 0, 0, LedgerCounts{}, true}));
}

TrajectoryId Ledger::next_group(int size) {
  const TrajectoryId first = whole_groups(state_->last_id, size) + 1;
  state_->last_id = first - 1 + static_cast<TrajectoryId>(size);
  return first;
}

expected<void> Ledger::accept(const Trajectory& trajectory, Outcome outcome, const std::string& reason) {
  return accept({Submission{trajectory, outcome, reason}});
}

expected<void> Ledger::accept(const std::vector<Submission>& submissions) {
  if (state_->forgetful) {
    for (const Submission& submission : submissions) count(submission.outcome);
    return {};
  }
  auto transaction = Transaction::begin(state_->database);
  if (!transaction) return tl::unexpected(transaction.error());
  for (const Submission& submission : submissions) {
    const auto written = insert(submission.trajectory, submission.outcome, submission.reason);
    if (!written) return written;
  }
  if (auto committed = transaction->commit(); !committed) return committed;
  for (const Submission& submission : submissions) count(submission.outcome);
  return {};
}

void Ledger::count(Outcome outcome) {
  if (!state_->counts) return;
  ++state_->counts->accepted;
  ++(outcome == Outcome::queued ? state_->counts->queued : state_->counts->rejected);
}

expected<void> Ledger::insert(const Trajectory& trajectory, Outcome outcome, const std::string& reason) {
  if (outcome == Outcome::trained) throw std::logic_error("Ledger: trained is for settle(), after the queue");
  const Database& database = state_->database;
  auto row = database.prepare(
      "insert into trajectories (id, outcome, reason, environment, task, answer, expected, reward, reward_parts, "
      "reward_spec, reward_spec_version, ending, turns, tokens, action_tokens, policy_version_oldest, "
      "policy_version_newest, policy_version_finished, created, settled, seconds, temperature, terminal, invalid, "
      "position) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  auto payload = database.prepare("insert into payloads values (?, ?, ?, ?, ?, ?, ?)");
  if (!row || !payload) return tl::unexpected(database.error());

  const Trajectory& t = trajectory;
  const double settled = outcome == Outcome::queued ? std::numeric_limits<double>::quiet_NaN() : unix_now();
  row->bind(t.id, name_of(outcome), reason, t.environment, t.task, t.answer, t.expected, t.score.total,
            dump(parts_to_json(t.score.parts)), t.score.spec, t.score.spec_version, name_of(t.ending), t.turns,
            t.sequence.tokens.size(), t.action_tokens(), t.oldest_version(), t.newest_version(), t.finished_at,
            t.created, settled, dump(seconds_to_json(t.seconds)), t.sequence.temperature,
            static_cast<int>(t.sequence.terminal), t.invalid, ++state_->last_position);
  const Payload packed = pack(t.sequence, t.versions);
  payload->bind(t.id, packed.tokens, packed.mask, packed.behaviour, packed.rewards, packed.versions, packed.checksum);
  const auto written = row->execute().and_then([&] { return payload->execute(); });
  if (!written) return fail("trajectory " + std::to_string(t.id) + " was not accepted: " + written.error().message);
  return {};
}

expected<void> Ledger::settle(const std::vector<TrajectoryId>& ids, Outcome outcome, const std::string& reason,
                              Version version, std::uint64_t step, const std::vector<int>& passes) {
  if (outcome == Outcome::queued) throw std::logic_error("Ledger: a trajectory is settled once and for all");
  const auto count_settled = [&] {
    if (!state_->counts) return;
    state_->counts->queued -= ids.size();
    (outcome == Outcome::trained ? state_->counts->trained : state_->counts->rejected) += ids.size();
  };
  if (state_->forgetful) {
    count_settled();
    return {};
  }
  const Database& database = state_->database;
  auto transaction = Transaction::begin(database);
  if (!transaction) return tl::unexpected(transaction.error());
  auto update = database.prepare(
      "update trajectories set outcome = ?2, reason = ?3, version = ?4, settled = ?5, step = ?6, step_position = ?7, "
      "step_pack = ?8 "
      "where id = ?1 and outcome = 'queued'");
  if (!update) return tl::unexpected(update.error());
  int position = 0;
  for (const TrajectoryId id : ids) {
    if (step > 0) {
      const int pass = passes.empty() ? 1 : passes.at(static_cast<std::size_t>(position));
      update->bind(id, name_of(outcome), reason, version, unix_now(), step, ++position, pass);
    } else {
      update->bind(id, name_of(outcome), reason, version, unix_now());  // the rest is null
    }
    const auto written = update->execute();
    if (!written) return written;
    if (database.changes() == 0)
      return fail("trajectory " + std::to_string(id) + " is not queued: nothing was settled");
  }
  expected<void> noted;
  if (outcome == Outcome::trained) noted = set_fact(database, "published", static_cast<std::int64_t>(version));
  if (noted && step > 0) noted = set_fact(database, "step", static_cast<std::int64_t>(step));
  noted = noted.and_then([&] { return transaction->commit(); });
  if (noted) count_settled();
  return noted;
}

expected<void> Ledger::rescore(const std::vector<std::shared_ptr<const Trajectory>>& trajectories) {
  const Database& database = state_->database;
  auto transaction = Transaction::begin(database);
  if (!transaction) return tl::unexpected(transaction.error());
  auto row = database.prepare(
      "update trajectories set reward = ?2, reward_parts = ?3, reward_spec = ?4, reward_spec_version = ?5 "
      "where id = ?1 and outcome = 'queued'");
  auto payload = database.prepare("update payloads set rewards = ?2, checksum = ?3 where id = ?1");
  if (!row || !payload) return tl::unexpected(database.error());
  for (const auto& trajectory : trajectories) {
    const Score& score = trajectory->score;
    row->bind(trajectory->id, score.total, dump(parts_to_json(score.parts)), score.spec, score.spec_version);
    const Payload packed = pack(trajectory->sequence, trajectory->versions);
    payload->bind(trajectory->id, packed.rewards, packed.checksum);
    const auto written = row->execute().and_then([&] { return payload->execute(); });
    if (!written) return written;
  }
  return transaction->commit();
}

expected<void> Ledger::redact(const std::vector<TrajectoryId>& ids) {
  auto transaction = Transaction::begin(state_->database);
  if (!transaction) return tl::unexpected(transaction.error());
  auto words = state_->database.prepare(
      "update trajectories set task = '', answer = '', expected = '' where id = ?1 and outcome <> 'queued'");
  auto tokens = state_->database.prepare(
      "delete from payloads where id = ?1 and id in (select id from trajectories where outcome <> 'queued' and "
      "(step is null or step <= (select coalesce(min(step), 0) from checkpoints)))");
  if (!words || !tokens) return tl::unexpected(state_->database.error());
  for (const TrajectoryId id : ids) {
    words->bind(id);
    tokens->bind(id);
    const auto written = words->execute().and_then([&] { return tokens->execute(); });
    if (!written) return written;
  }
  return transaction->commit();
}

LedgerCounts Ledger::counts() const {
  State& s = *state_;
  if (!s.lock && !s.forgetful) return count_rows(s.database);  // somebody else writes
  if (!s.counts) s.counts = count_rows(s.database);
  return *s.counts;
}

json Ledger::list(const std::optional<std::string>& state, int limit) const {
  const char* filter = state ? "where state = ?2 or outcome = ?2 " : "";
  auto rows = value_of(state_->database.prepare(std::string(listed_columns) + filter + "order by id desc limit ?1"));
  rows.bind(limit);
  if (state) rows.bind(limit, *state);
  json list = json::array();
  while (value_of(rows.step())) list.push_back(row_to_json(rows));
  return list;
}

std::optional<json> Ledger::find(TrajectoryId id) const {
  std::string columns = listed_columns;
  columns.insert(columns.rfind(" from "), ", position, step, step_position, policy_version_finished");
  auto row = value_of(state_->database.prepare(columns + "where id = ?1"));
  row.bind(id);
  if (!value_of(row.step())) return std::nullopt;
  return row_to_json(row);
}

expected<Trajectory> Ledger::read(TrajectoryId id) const {
  auto row = state_->database.prepare(
      "select environment, task, answer, expected, reward, reward_parts, reward_spec, reward_spec_version, ending, "
      "turns, "
      "policy_version_finished, created, seconds, temperature, terminal, invalid, p.tokens, p.mask, p.behaviour, "
      "p.rewards, "
      "p.versions, p.checksum from trajectories join payloads p using (id) where id = ?1");
  if (!row) return tl::unexpected(row.error());
  row->bind(id);
  const auto found = row->step();
  if (!found) return tl::unexpected(found.error());
  if (!*found) return fail("trajectory " + std::to_string(id) + " is not in the ledger");

  Trajectory t;
  int column = 0;
  const auto text = [&] { return row->text(column++); };
  const auto real = [&] { return row->real(column++); };
  const auto integer = [&] { return row->integer(column++); };
  const auto blob = [&] { return Blob{std::string(row->blob(column++))}; };
  t.id = id;
  t.environment = text();
  t.task = text();
  t.answer = text();
  t.expected = text();
  t.score.total = real();
  t.score.parts = parts_from_json(json::parse(text()));
  t.score.spec = text();
  t.score.spec_version = static_cast<std::uint64_t>(integer());
  t.ending = ending_of(text());
  t.turns = static_cast<int>(integer());
  t.finished_at = static_cast<Version>(integer());
  t.created = real();
  t.seconds = seconds_from_json(json::parse(text()));
  t.sequence.temperature = real();
  t.sequence.terminal = integer() != 0;
  t.invalid = text();
  const Payload payload{blob(), blob(), blob(), blob(), blob(), static_cast<std::uint64_t>(integer())};
  const auto unpacked = unpack(payload, t);
  if (!unpacked) return fail("trajectory " + std::to_string(id) + ": " + unpacked.error().message);
  return t;
}

}  // namespace millrace
