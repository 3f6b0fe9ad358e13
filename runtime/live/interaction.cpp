#include "runtime/live/interaction.hpp"

#include <algorithm>

#include <xxhash.h>

namespace millrace {
namespace {

using nlohmann::json;

bool begins_with(const Tokens& text, const Tokens& beginning) {
  return text.size() >= beginning.size() && std::equal(beginning.begin(), beginning.end(), text.begin());
}

Tokens all_tokens(const Interaction& turn) {
  Tokens tokens = turn.prompt;
  tokens.insert(tokens.end(), turn.sampled.tokens.begin(), turn.sampled.tokens.end());
  return tokens;
}

void append(Trajectory& trajectory, TokenId token, bool action, float logp, Version version) {
  trajectory.sequence.tokens.push_back(token);
  trajectory.sequence.mask.push_back(action ? 1 : 0);
  trajectory.sequence.behaviour.push_back(logp);
  trajectory.sequence.rewards.push_back(0.0F);
  trajectory.versions.push_back(version);
}

}  // namespace

// A float32 survives the way through JSON: its double is written with all the digits it takes.
json to_json(const Interaction& i) {
  return {{"id", i.id},
          {"client", i.client},
          {"session", i.session},
          {"dialogue", i.dialogue},
          {"prompt", i.prompt},
          {"tokens", i.sampled.tokens},
          {"logp", i.sampled.logp},
          {"versions", i.sampled.versions},
          {"temperature", i.temperature},
          {"full_support", i.full_support},
          {"newest", i.newest},
          {"redacted", i.redacted},
          {"ended", i.ended},
          {"task", i.task},
          {"answer", i.answer},
          {"created", i.created},
          {"seconds", i.seconds}};
}

expected<Interaction> interaction_of(const json& document) {
  try {
    Interaction i;
    i.id = document.at("id");
    i.client = document.at("client");
    i.session = document.at("session");
    i.dialogue = document.at("dialogue");
    i.prompt = document.at("prompt").get<Tokens>();
    i.sampled.tokens = document.at("tokens").get<Tokens>();
    i.sampled.logp = document.at("logp").get<std::vector<float>>();
    i.sampled.versions = document.at("versions").get<std::vector<Version>>();
    i.temperature = document.at("temperature");
    i.full_support = document.at("full_support");
    i.newest = document.value("newest", true);
    i.redacted = document.value("redacted", false);
    i.ended = document.at("ended");
    i.task = document.at("task");
    i.answer = document.at("answer");
    i.created = document.at("created");
    i.seconds = document.at("seconds");
    return i;
  } catch (const json::exception& error) {
    return fail(std::string("a kept interaction is damaged: ") + error.what());
  }
}

std::string dialogue_key(const std::string& owner, const std::vector<Message>& messages) {
  json words = json::array({owner});
  for (const Message& message : messages) words.push_back({message.role, message.content});
  const std::string text = words.dump(-1, ' ', false, json::error_handler_t::replace);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return std::to_string(hash.high64) + "-" + std::to_string(hash.low64);
}

std::vector<std::vector<RewardedTurn>> join_turns(const std::vector<RewardedTurn>& turns) {
  std::vector<std::vector<RewardedTurn>> runs;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const Interaction& turn = turns[i].interaction;
    const bool asked_again =
        std::any_of(turns.begin() + static_cast<std::ptrdiff_t>(i) + 1, turns.end(),
                    [&](const RewardedTurn& later) { return later.interaction.prompt == turn.prompt; });
    if (asked_again && !turns[i].reward) continue;
    const auto run = std::find_if(runs.begin(), runs.end(), [&](const std::vector<RewardedTurn>& earlier) {
      const Interaction& last = earlier.back().interaction;
      return last.temperature == turn.temperature && begins_with(turn.prompt, all_tokens(last));
    });
    run == runs.end() ? runs.push_back({turns[i]}) : run->push_back(turns[i]);
  }
  std::erase_if(runs, [](const std::vector<RewardedTurn>& run) {
    return std::none_of(run.begin(), run.end(), [](const RewardedTurn& turn) { return turn.reward.has_value(); });
  });
  return runs;
}

Trajectory make_trajectory(const std::vector<RewardedTurn>& run, double now) {
  Trajectory trajectory;
  trajectory.environment = live_environment;
  trajectory.ending = Ending::terminated;
  const Interaction& first = run.front().interaction;
  const Interaction& last = run.back().interaction;
  trajectory.task = first.task;
  trajectory.created = first.created;
  trajectory.sequence.temperature = first.temperature;
  for (const RewardedTurn& turn : run) {
    const Interaction& said = turn.interaction;
    for (std::size_t i = trajectory.sequence.tokens.size(); i < said.prompt.size(); ++i) {
      append(trajectory, said.prompt[i], false, 0.0F, 0);
    }
    for (std::size_t i = 0; i < said.sampled.tokens.size(); ++i) {
      append(trajectory, said.sampled.tokens[i], true, said.sampled.logp[i], said.sampled.versions[i]);
      trajectory.finished_at = std::max(trajectory.finished_at, said.sampled.versions[i]);
    }
    if (said.redacted) trajectory.invalid = "redacted";
    if (!trajectory.sequence.rewards.empty()) {
      trajectory.sequence.rewards.back() += static_cast<float>(turn.reward.value_or(0));
    }
    trajectory.score.total += turn.reward.value_or(0);
    trajectory.seconds.generate += said.seconds;
    trajectory.answer += (trajectory.answer.empty() ? "" : "\n") + said.answer;
    ++trajectory.turns;
    if (!said.full_support && trajectory.invalid.empty()) trajectory.invalid = "sampling";
  }
  trajectory.score.parts = {{"feedback", trajectory.score.total, 1.0}};
  trajectory.score.spec = "feedback";
  trajectory.seconds.environment = std::max(0.0, last.created - first.created);  // the user's time between the turns
  trajectory.seconds.score = std::max(0.0, now - last.created - last.seconds);   // until the feedback came
  if (trajectory.invalid.empty() && trajectory.action_tokens() == 0) trajectory.invalid = "no action tokens";
  return trajectory;
}

}  // namespace millrace
