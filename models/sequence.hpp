#pragma once
// What a learner sees of a trajectory: tokens and numbers. All vectors have one entry a token, in the order of the
// text.
#include <cstdint>
#include <vector>

#include "models/text/tokens.hpp"

namespace millrace {

struct Sequence {
  Tokens tokens;                     // prompt, actions and observations; at least one before the first action
  std::vector<std::uint8_t> mask;    // 1 = an action: the policy sampled this token
  std::vector<float> behaviour;      // log-prob when it was sampled, at `temperature`; 0 where mask is 0
  std::vector<float> rewards;        // reward that arrived with this token, mostly 0
  std::uint64_t reward_version = 0;  // of the spec that scored it; 0 = none did
  double temperature = 1.0;          // > 0
  bool terminal = true;              // false: bootstraps from the value after the last token
};

}  // namespace millrace
