#pragma once
// What a policy's loss reads of a pack: one entry an action token, from the sequences and from what the baseline said.
#include <span>
#include <vector>

#include "models/objectives/objective.hpp"
#include "models/transformer.hpp"

namespace millrace {

// What the loss needs to know of each action token, [tokens].
struct Actions {
  at::Tensor rows;  // of the hidden states: where the token is predicted, the row of the token before it
  at::Tensor tokens, temperature;
  ActionTokens objective;  // all but the log-prob itself

  Actions slice(std::int64_t begin, std::int64_t end) const {
    const auto part = [&](const at::Tensor& all) { return all.defined() ? all.slice(0, begin, end) : all; };
    return {.rows = part(rows),
            .tokens = part(tokens),
            .temperature = part(temperature),
            .objective = {.logp = {},
                          .behaviour = part(objective.behaviour),
                          .advantage = part(objective.advantage),
                          .length = part(objective.length),
                          .rewarded = part(objective.rewarded),
                          .sequence_log_ratio = part(objective.sequence_log_ratio),
                          .proximal = part(objective.proximal),
                          .reference = part(objective.reference)}};
  }
};

// Where the actions are and what they were; enough for log-probs.
Actions actions_of(const Pack& pack, std::span<const Sequence> sequences);

// With behaviour, advantages and what objectives ask of the trajectories.
Actions actions_of(const Pack& pack, std::span<const Sequence> sequences,
                   std::span<const std::vector<float>> advantages);

// Log-probs of the action tokens under these weights, [tokens] of each sequence at its temperature, in float32; 0 where
// mask is 0. No graph.
std::vector<std::vector<float>> log_probs_of(const Architecture& architecture, const Weights& weights,
                                             std::span<const Sequence> sequences);

// Each action's mean over its own trajectory.
at::Tensor mean_of_sequence(const at::Tensor& numbers, std::span<const Sequence> sequences);

}  // namespace millrace
