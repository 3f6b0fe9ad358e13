#pragma once
// What a policy is worth on tasks it is not trained on, and how far it has gone from where it started: forgetting shows
// in the perplexity, reward hacking in the n-grams, before either shows in the reward.
#include <vector>

#include "runtime/trajectory.hpp"

namespace millrace {

struct Evaluation {
  Version version = 0;  // that was published last when it began; 0: none yet
  int tasks = 0;        // that came to an answer
  int failed = 0;       // that did not
  double reward_mean = 0;
  std::uint64_t spec_version = 0;  // newest one that scored any of them
  double perplexity = 0;           // of the answers under the start policy: exp(-mean log-prob a token)
  double kl = 0;                   // nats a token from the start policy: mean of log-prob now - log-prob then
  double distinct_bigrams = 0;     // share of different ones among all pairs of neighbouring action tokens
  double length_mean = 0;          // action tokens
};

// start_logp[i]: log-probs of trajectory i's tokens under the start policy. Sets all but version and failed.
Evaluation evaluation_of(const std::vector<Trajectory>& trajectories,
                         const std::vector<std::vector<float>>& start_logp);

}  // namespace millrace
