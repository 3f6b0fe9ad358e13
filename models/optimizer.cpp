#include "models/optimizer.hpp"

#include <cmath>
#include <stdexcept>

#include <ATen/Parallel.h>

namespace millrace {

namespace {

// Computed in float64 first: 1 - 0.999 in float32 is off in its fifth digit.
struct Coefficients {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float gradient_scale;
  float keep;            // 1 - lr * weight decay
  float rate;            // lr / (1 - beta1^steps)
  float variance_scale;  // 1 / sqrt(1 - beta2^steps)
  float epsilon;
};

// Coefficients come by value, so that the compiler knows that nothing written here is one of them; two of the arrays
// may be one, but then number by number.
void update_range(const float* current, float* next, float* gradient, float* mean, float* variance, std::int64_t count,
                  Coefficients c) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * c.gradient_scale;
    mean[i] = c.beta1 * mean[i] + c.one_minus_beta1 * g;
    variance[i] = c.beta2 * variance[i] + c.one_minus_beta2 * g * g;
    const float step = mean[i] / (std::sqrt(variance[i]) * c.variance_scale + c.epsilon);
    const float weight = c.keep * current[i] - c.rate * step;
    gradient[i] = 0;
    next[i] = weight;
  }
}

// The same in LibTorch's operations, for devices other than CPUs.
void update_tensor(const at::Tensor& current, const at::Tensor& next, const at::Tensor& gradient,
                   const at::Tensor& mean, const at::Tensor& variance, const Coefficients& c) {
  gradient.mul_(c.gradient_scale);
  mean.mul_(c.beta1).add_(gradient, c.one_minus_beta1);
  variance.mul_(c.beta2).addcmul_(gradient, gradient, c.one_minus_beta2);
  const at::Tensor divisor = variance.sqrt().mul_(c.variance_scale).add_(c.epsilon);
  gradient.zero_();
  next.copy_(current).mul_(c.keep).addcdiv_(mean, divisor, -c.rate);
}

float* floats(const at::Tensor& tensor) {
  if (!tensor.is_contiguous()) throw std::invalid_argument("AdamW: a tensor is not contiguous");
  return tensor.data_ptr<float>();  // throws where it is not float32
}

}  // namespace

AdamW::AdamW(AdamWSettings settings, const std::vector<at::Tensor>& parameters) : settings_(settings) {
  for (const at::Tensor& parameter : parameters) {
    const auto there = at::device(parameter.device()).dtype(at::kFloat);
    mean_.push_back(at::zeros(parameter.sizes(), there));
    variance_.push_back(at::zeros(parameter.sizes(), there));
  }
}

void AdamW::step(const std::vector<at::Tensor>& current, const std::vector<at::Tensor>& gradients, double scale,
                 const std::vector<at::Tensor>& next) {
  ++steps_;
  const auto steps = static_cast<double>(steps_);
  const Coefficients coefficients{
      .beta1 = static_cast<float>(settings_.beta1),
      .one_minus_beta1 = static_cast<float>(1 - settings_.beta1),
      .beta2 = static_cast<float>(settings_.beta2),
      .one_minus_beta2 = static_cast<float>(1 - settings_.beta2),
      .gradient_scale = static_cast<float>(scale),
      .keep = static_cast<float>(1 - settings_.lr * settings_.weight_decay),
      .rate = static_cast<float>(settings_.lr / (1 - std::pow(settings_.beta1, steps))),
      .variance_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(settings_.beta2, steps))),
      .epsilon = static_cast<float>(settings_.epsilon)};
  constexpr std::int64_t grain = 1 << 16;  // numbers a thread takes at least
  for (std::size_t i = 0; i < current.size(); ++i) {
    if (!current[i].is_cpu()) {
      update_tensor(current[i], next[i], gradients[i], mean_[i], variance_[i], coefficients);
      continue;
    }
    const float* from = floats(current[i]);
    float *to = floats(next[i]), *gradient = floats(gradients[i]);
    float *mean = floats(mean_[i]), *variance = floats(variance_[i]);
    at::parallel_for(0, current[i].numel(), grain, [&](std::int64_t begin, std::int64_t end) {
      update_range(from + begin, to + begin, gradient + begin, mean + begin, variance + begin, end - begin,
                   coefficients);
    });
  }
}

double global_norm(const std::vector<at::Tensor>& gradients) {
  if (gradients.empty()) return 0;
  std::vector<at::Tensor> squares;
  for (const at::Tensor& gradient : gradients) {
    // Row by row in float32, which is fast, then in float64: a float32 sum of millions of squares loses digits.
    squares.push_back(at::linalg_vector_norm(gradient, 2, at::IntArrayRef{-1}).to(at::kDouble).square().sum());
  }
  return std::sqrt(at::stack(squares).sum().item<double>());
}

double clip_factor(double norm, double limit) { return norm > limit ? limit / norm : 1.0; }

}  // namespace millrace
