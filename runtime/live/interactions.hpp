#pragma once
// The memory of live traffic: served answers that wait for feedback, sessions of clients, and lessons, that is rewarded
// runs of answers that wait for a permit to become trajectories. One SQLite file beside the ledger; what was answered
// with 200 is on disk. Every call is one transaction. `now` is always Unix seconds.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/expected.hpp"
#include "config/settings.hpp"
#include "runtime/live/interaction.hpp"

namespace millrace {

// An answer for an HTTP client: 200 with a body, or what is wrong.
struct LiveAnswer {
  int status = 200;
  nlohmann::json body;
  std::string message;  // of an error
  std::string param;
  std::optional<bool> rated_newest = {};  // of a rating that counts: whether it is of the newest policy's answer
};

struct Feedback {
  std::string interaction_id;
  double reward = 0;
  bool final = true;  // false: more may follow and replace it
};

struct Lesson {
  std::int64_t number = 0;
  TrajectoryId trajectory = 0;
  std::string client;
  std::vector<RewardedTurn> run;
};

class Interactions {
 public:
  // Opens or creates directory/live.sqlite.
  static expected<Interactions> open(const std::string& directory, const LiveSettings& settings);
  Interactions(Interactions&&) noexcept;
  Interactions& operator=(Interactions&&) noexcept;
  ~Interactions();

  expected<void> record(const Interaction& interaction);
  // The last recorded answer of this conversation: what was said so far, as the tokens it was said in.
  std::optional<Interaction> find_dialogue(const std::string& key);

  // A named client begins to wait for an answer to these messages: the conversation goes on, or an answer it had before
  // was not what it wanted (live.regenerated_reward). Returns how many were rated by that.
  expected<int> asked(const std::string& client, const std::vector<Message>& messages, double now);

  // 200 taken, or a repeat of what was; 404 unknown; 409 contradicts a final one; 410 too late.
  expected<LiveAnswer> feedback(const Feedback& feedback, double now);

  // Sessions as in AReaL's online mode. A key is the bearer of a session's requests.
  expected<LiveAnswer> start_session(const std::string& task, const std::string& key, double now);  // 409: key in use
  expected<std::optional<std::string>> session_of(const std::string& key, double now);  // none: unknown, ended, expired
  expected<LiveAnswer> set_reward(const std::string& session, const Feedback& feedback, double now);  // "" = the last
  expected<LiveAnswer> end_session(const std::string& session, double now);

  // Each permit gets a waiting lesson, which is then on its way to the ledger; clients take turns. Fewer lessons than
  // permits: no more wait.
  expected<std::vector<Lesson>> assign(const std::vector<TrajectoryId>& permits);
  expected<void> confirm(std::int64_t lesson);  // the ledger has it
  expected<std::int64_t> waiting_lessons();
  // Lessons that a former process had assigned and not confirmed: the ledger knows whether it has them.
  struct Assigned {
    std::int64_t lesson = 0;
    TrajectoryId trajectory = 0;
    double created = 0;
  };
  expected<std::vector<Assigned>> assigned();
  expected<void> unassign(std::int64_t lesson);

  // Rates what was abandoned, and forgets the content of what is too old for feedback; open sessions that nobody used
  // end. Returns how many expired.
  expected<int> expire(double now);
  // Forgets altogether what nothing more can come of and is older than `before`; a thousand answers a call.
  expected<void> prune(double before);

  // All that is kept of a client: {"interactions", "lessons", "trajectories": [ids]}; then its content is deleted.
  expected<nlohmann::json> forget(const std::string& client);

 private:
  struct State;
  explicit Interactions(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace
