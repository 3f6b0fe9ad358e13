#include "models/token_logp.hpp"

#include <utility>

#include <ATen/core/grad_mode.h>

#include "models/transformer.hpp"

namespace millrace {

TokenLogp::TokenLogp(at::Tensor logits, at::Tensor tokens, at::Tensor temperature)
    : tokens_(std::move(tokens)), temperature_(std::move(temperature)) {
  const at::NoGradGuard no_gradient;
  at::Tensor all = at::log_softmax(logits.div_(temperature_.unsqueeze(1)), 1);
  logp_ = all.gather(1, tokens_.unsqueeze(1)).squeeze(1);
  probabilities_ = at::exp_out(logits, all);  // the logits' memory is free again
  entropy_ = all.mul_(probabilities_).sum(1).neg_();
}

// d logp[token] / d logits = (onehot(token) - softmax) / temperature
// d entropy / d logits = -softmax (log softmax + entropy) / temperature
at::Tensor TokenLogp::logits_gradient(const at::Tensor& logp_gradient, const at::Tensor& entropy_gradient) && {
  const at::NoGradGuard no_gradient;
  const at::Tensor scaled = (logp_gradient / temperature_).unsqueeze(1);
  at::Tensor of_entropy;
  if (entropy_gradient.defined()) {
    constexpr double smallest = 1e-30;  // p log p is 0 where p is
    of_entropy = probabilities_.clamp_min(smallest).log_().add_(entropy_.unsqueeze(1)).mul_(probabilities_);
    of_entropy.mul_(-(entropy_gradient / temperature_).unsqueeze(1));
  }
  probabilities_.mul_(-scaled);
  at::Tensor gradient = std::move(probabilities_).scatter_add_(1, tokens_.unsqueeze(1), scaled);
  return of_entropy.defined() ? gradient.add_(of_entropy) : gradient;
}

at::Tensor logp_in_pieces(const Weights& weights, const at::Tensor& hidden, const at::Tensor& rows,
                          const at::Tensor& tokens, const at::Tensor& temperature) {
  const at::NoGradGuard no_gradient;
  std::vector<at::Tensor> pieces;
  for (std::int64_t begin = 0; begin < rows.size(0); begin += rows_at_once) {
    const auto piece = [&](const at::Tensor& all) { return all.slice(0, begin, begin + rows_at_once); };
    const at::Tensor logits = logits_of(weights, hidden.index_select(0, piece(rows)));
    pieces.push_back(TokenLogp(logits, piece(tokens), piece(temperature)).logp());
  }
  return at::cat(pieces);
}

}  // namespace millrace
