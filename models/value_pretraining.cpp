#include "models/value_pretraining.hpp"

#include <algorithm>
#include <span>

namespace millrace {

expected<std::optional<ValueStep>> ValuePretraining::step(const SequenceSource& next, std::size_t& index) {
  std::vector<Sequence> batch;
  while (batch.size() < batch_) {
    expected<std::optional<Sequence>> sequence = next();
    if (!sequence) return tl::unexpected(sequence.error());
    if (!*sequence) break;
    if (!held_out(index++)) batch.push_back(std::move(**sequence));
  }
  if (batch.empty()) return std::optional<ValueStep>();
  for (std::size_t i = 0; i < batch.size(); i += pack_) {
    learner_.arrive(std::span(batch).subspan(i, std::min(pack_, batch.size() - i)));
  }
  return std::optional(learner_.step());
}

}  // namespace millrace
