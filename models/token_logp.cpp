#include "models/token_logp.hpp"

#include <tuple>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "models/kernels.hpp"
#include "models/tensor_kernels.hpp"
#include "models/transformer.hpp"

namespace millrace {

TokenLogp::TokenLogp(at::Tensor logits, at::Tensor tokens, at::Tensor temperature)
    : exponentials_(std::move(logits)), tokens_(std::move(tokens)), temperature_(std::move(temperature)) {
  const at::NoGradGuard no_gradient;
  if (!exponentials_.is_cpu()) {
    std::tie(sum_, logp_, entropy_) = tensor_kernels::exponentials_of_logits(exponentials_, tokens_, temperature_);
    return;
  }
  sum_ = at::empty_like(temperature_);
  logp_ = at::empty_like(temperature_);
  entropy_ = at::empty_like(temperature_);
  kernels::exponentials_of_logits(exponentials_.data_ptr<float>(), tokens_.const_data_ptr<std::int64_t>(),
                                  temperature_.const_data_ptr<float>(), sum_.data_ptr<float>(), logp_.data_ptr<float>(),
                                  entropy_.data_ptr<float>(), exponentials_.size(0), exponentials_.size(1));
}

// d logp[token] / d logits = (onehot(token) - softmax) / temperature
// d entropy / d logits = -softmax (log softmax + entropy) / temperature
at::Tensor TokenLogp::logits_gradient(const at::Tensor& logp_gradient, const at::Tensor& entropy_gradient) && {
  const at::NoGradGuard no_gradient;
  const at::Tensor scaled = logp_gradient / temperature_;
  at::Tensor of_entropy;
  if (entropy_gradient.defined()) {
    constexpr double smallest = 1e-30;  // p log p is 0 where p is
    const at::Tensor probabilities = exponentials_ / sum_.unsqueeze(1);
    of_entropy = probabilities.clamp_min(smallest).log_().add_(entropy_.unsqueeze(1)).mul_(probabilities);
    of_entropy.mul_(-(entropy_gradient / temperature_).unsqueeze(1));
  }
  exponentials_.mul_(-(scaled / sum_).unsqueeze(1));
  at::Tensor gradient = std::move(exponentials_).scatter_add_(1, tokens_.unsqueeze(1), scaled.unsqueeze(1));
  return of_entropy.defined() ? gradient.add_(of_entropy) : gradient;
}

at::Tensor logp_in_pieces(const Weights& weights, const at::Tensor& hidden, const at::Tensor& tokens,
                          const at::Tensor& temperature) {
  const at::NoGradGuard no_gradient;
  std::vector<at::Tensor> pieces;
  for (std::int64_t begin = 0; begin < tokens.size(0); begin += rows_at_once) {
    const auto piece = [&](const at::Tensor& all) { return all.slice(0, begin, begin + rows_at_once); };
    const at::Tensor logits = logits_of(weights, piece(hidden));
    pieces.push_back(TokenLogp(logits, piece(tokens), piece(temperature)).logp());
  }
  return at::cat(pieces);
}

}  // namespace millrace
