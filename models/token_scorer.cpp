#include "models/token_scorer.hpp"

#include "models/trained_actions.hpp"

namespace millrace {

std::vector<float> TokenScorer::log_probs(const Sequence& sequence) const {
  return log_probs_of(weights_->architecture, weights_->weights, {&sequence, 1}).front();
}

}  // namespace millrace
