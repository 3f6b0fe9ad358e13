#pragma once
// One served answer with all that is needed to learn from it later, and what becomes of several that belong together.
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/expected.hpp"
#include "models/decoder.hpp"
#include "models/text/chat.hpp"
#include "runtime/trajectory.hpp"

namespace millrace {

inline constexpr const char* session_key_prefix = "sk-sess-";  // keys of /rl sessions begin with it

struct Interaction {
  std::string id;        // its receipt
  std::string client;    // whose it is; may be empty
  std::string session;   // of /rl/start_session; empty where there is none
  std::string dialogue;  // dialogue_key of the conversation with this answer at its end
  std::string question;  // ... and without it; empty where it is no conversation
  Tokens prompt;
  SampledTokens sampled;
  double temperature = 1;
  bool full_support = true;  // temperature > 0, top-p 1, no top-k: else it cannot be trained
  bool newest = true;        // the newest policy answered, not the last good one (canary.hpp)
  bool redacted = false;     // it matched a rule of redaction.hpp: nothing to learn from is left
  bool ended = true;         // its last token ends the turn
  std::string task;          // the user's last words
  std::string answer;        // as the client has seen it
  double created = 0;        // Unix seconds of its request
  double seconds = 0;        // from then until the answer was complete
};

nlohmann::json to_json(const Interaction& interaction);
expected<Interaction> interaction_of(const nlohmann::json& document);

// Names a conversation by its words and by whose it is: the same conversation of two clients has two keys.
std::string dialogue_key(const std::string& owner, const std::vector<Message>& messages);

// An interaction and its reward, if it has one.
struct RewardedTurn {
  Interaction interaction;
  std::optional<double> reward;
};

// Joins turns of one session, in the order of time, to runs that are one sequence of tokens each: the next prompt is
// what was said before and more. A turn that was asked again (the same prompt) without a reward of its own is a
// client's retry and left out, as are runs without any reward.
std::vector<std::vector<RewardedTurn>> join_turns(const std::vector<RewardedTurn>& turns);

// A run as a trajectory: exact tokens, log-probs and versions; each reward at the end of its turn. `now`: Unix seconds.
Trajectory make_trajectory(const std::vector<RewardedTurn>& run, double now);

}  // namespace millrace
