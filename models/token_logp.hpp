#pragma once
// Log-probs of given tokens under given logits, with the gradient in closed form: no graph is recorded behind the
// logits, which turn into their own gradient in place.
#include <ATen/ATen.h>

namespace millrace {

class TokenLogp {
 public:
  // logits [rows, vocab] float32, taken over; tokens [rows] int64; temperature [rows] float32, > 0.
  TokenLogp(at::Tensor logits, at::Tensor tokens, at::Tensor temperature);

  const at::Tensor& logp() const { return logp_; }        // [rows], of the tokens
  const at::Tensor& entropy() const { return entropy_; }  // [rows], of the whole distribution, nats

  // d loss / d logits [rows, vocab] from d loss / d logp [rows] and, where it is defined, d loss / d entropy [rows].
  // Uses the distribution up: call it once, as the last.
  at::Tensor logits_gradient(const at::Tensor& logp_gradient, const at::Tensor& entropy_gradient = {}) &&;

 private:
  at::Tensor exponentials_;  // [rows, vocab]; probabilities are these by their sum
  at::Tensor tokens_, temperature_, sum_;
  at::Tensor logp_, entropy_;
};

struct Weights;

// Log-probs of tokens [rows] whose logits come from the hidden states [rows, hidden]; in pieces, so that never all
// logits are there at once. No graph.
at::Tensor logp_in_pieces(const Weights& weights, const at::Tensor& hidden, const at::Tensor& tokens,
                          const at::Tensor& temperature);

constexpr std::int64_t rows_at_once = 128;  // of logits: 25 MB in float32 for a vocabulary of 49152

}  // namespace millrace
