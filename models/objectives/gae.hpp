#pragma once
// Generalised advantage estimation (arXiv 1506.02438) over action tokens only, as SAO has it: observations are context,
// not transitions. Spans hold one entry a token of the trajectory, in the order of its text.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

// delta_t = r_t + gamma V_{t+1} - V_t, A_t = delta_t + gamma lambda A_{t+1}, where t + 1 is the next action token
// however many observation tokens lie between. A reward that arrives on an observation belongs to the last action
// before it. values[t] is the value before token t, read where mask is 1; after_last is the value after the
// trajectory's last token, 0 where it is terminal. Returns [tokens], 0 where mask is 0.
std::vector<double> skip_observation_gae(std::span<const std::uint8_t> mask, std::span<const double> values,
                                         std::span<const float> rewards, double after_last, double gamma,
                                         double lambda);

// lambda_policy = 1 - 1 / (alpha * length), clamped to [0, 1]; length = action tokens of the whole trajectory, >= 1.
double length_adaptive_lambda(double alpha, std::size_t length);

}  // namespace millrace
