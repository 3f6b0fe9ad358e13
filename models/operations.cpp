#include "models/operations.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include "models/kernels.hpp"
#include "models/matrix_product.hpp"
#include "models/projection.hpp"
#include "models/tensor_kernels.hpp"

namespace millrace {

namespace {

using torch::autograd::AutogradContext;
using Tensors = torch::autograd::variable_list;

// Calls work(T{}) with the C++ type of a dtype.
template <class Work>
void with_type_of(const at::Tensor& tensor, Work work) {
  if (tensor.scalar_type() == at::kBFloat16) return work(c10::BFloat16{});
  TORCH_INTERNAL_ASSERT(tensor.scalar_type() == at::kFloat);
  work(float{});
}

// Where a leaf's gradient is added up.
at::Tensor gradient_of(const at::Tensor& leaf) {
  at::Tensor& gradient = leaf.mutable_grad();
  if (!gradient.defined()) gradient = at::zeros(leaf.sizes(), leaf.options().dtype(at::kFloat).requires_grad(false));
  return gradient;
}

// Whether autograd has to remember this operation.
bool is_recorded(const at::Tensor& a, const at::Tensor& b) {
  return at::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad());
}

struct Embed : torch::autograd::Function<Embed> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& table, const at::Tensor& tokens) {
    context->save_for_backward({table, tokens});
    return at::embedding(table, tokens).to(at::kFloat);
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const Tensors saved = context->get_saved_variables();
    gradient_of(saved[0]).index_add_(0, saved[1], gradients[0]);
    return {at::Tensor(), at::Tensor()};
  }
};

struct Project : torch::autograd::Function<Project> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight) {
    context->save_for_backward({x, weight});
    return product(x, weight);
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const Tensors saved = context->get_saved_variables();
    const at::Tensor dy = gradients[0].contiguous();
    if (context->needs_input_grad(1)) add_weight_gradient(gradient_of(saved[1]), dy, saved[0].contiguous());
    return {context->needs_input_grad(0) ? dy.mm(saved[1]) : at::Tensor(), at::Tensor()};
  }
};

struct ProjectPart : torch::autograd::Function<ProjectPart> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weights,
                            std::int64_t part) {
    context->save_for_backward({x, weights});
    context->saved_data["part"] = part;
    return product(x, weights[part]);
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const Tensors saved = context->get_saved_variables();
    const std::int64_t part = context->saved_data["part"].toInt();
    const at::Tensor dy = gradients[0].contiguous();
    if (context->needs_input_grad(1)) add_weight_gradient(gradient_of(saved[1])[part], dy, saved[0].contiguous());
    return {context->needs_input_grad(0) ? dy.mm(saved[1][part]) : at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct AddBias : torch::autograd::Function<AddBias> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& bias) {
    context->save_for_backward({bias});
    return x + bias;
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const at::Tensor bias = context->get_saved_variables()[0];
    if (context->needs_input_grad(1)) gradient_of(bias).add_(gradients[0].to(at::kFloat).sum(0));
    return {gradients[0], at::Tensor()};
  }
};

// The result, and the scale of every row.
std::pair<at::Tensor, at::Tensor> normed(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  if (!x.is_cpu()) return tensor_kernels::rms_norm(x, weight, epsilon);
  const std::int64_t rows = x.size(0), size = x.size(1);
  at::Tensor y = at::empty({rows, size}, weight.scalar_type()), scale = at::empty({rows}, at::kFloat);
  with_type_of(weight, [&]<class T>(T) {
    kernels::rms_norm<T>(x.const_data_ptr<float>(), weight.const_data_ptr<T>(), y.data_ptr<T>(),
                         scale.data_ptr<float>(), rows, size, static_cast<float>(epsilon));
  });
  return {y, scale};
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, double epsilon) {
    auto [y, scale] = normed(x, weight, epsilon);
    context->save_for_backward({x, weight, scale});
    return y;
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const Tensors saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &scale = saved[2], dy = gradients[0].contiguous();
    if (!x.is_cpu()) {
      if (context->needs_input_grad(1))
        gradient_of(weight).add_(tensor_kernels::rms_norm_weight_gradient(x, scale, dy));
      return {tensor_kernels::rms_norm_backward(x, weight, scale, dy), at::Tensor(), at::Tensor()};
    }
    const std::int64_t rows = x.size(0), size = x.size(1);
    at::Tensor dx;
    with_type_of(weight, [&]<class T>(T) {
      const auto* g = dy.const_data_ptr<T>();
      if (context->needs_input_grad(0)) {
        dx = at::empty_like(x);
        kernels::rms_norm_backward<T>(x.const_data_ptr<float>(), weight.const_data_ptr<T>(),
                                      scale.const_data_ptr<float>(), g, dx.data_ptr<float>(), rows, size);
      }
      if (context->needs_input_grad(1)) {
        kernels::rms_norm_weight_gradient<T>(x.const_data_ptr<float>(), scale.const_data_ptr<float>(), g,
                                             gradient_of(weight).data_ptr<float>(), rows, size);
      }
    });
    return {dx, at::Tensor(), at::Tensor()};
  }
};

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, float sign) {
  if (!x.is_cpu()) return tensor_kernels::rotate(x, cos, sin, sign);
  at::Tensor y = at::empty(x.sizes(), x.options());
  with_type_of(x, [&]<class T>(T) {
    kernels::rotate<T>(x.const_data_ptr<T>(), cos.const_data_ptr<float>(), sin.const_data_ptr<float>(), y.data_ptr<T>(),
                       x.size(0), x.size(1), x.size(2) / 2, sign);
  });
  return y;
}

struct Rotate : torch::autograd::Function<Rotate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    return rotated(x, cos, sin, 1.0f);
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const Tensors saved = context->get_saved_variables();
    return {rotated(gradients[0].contiguous(), saved[0], saved[1], -1.0f), at::Tensor(), at::Tensor()};
  }
};

struct Gated : torch::autograd::Function<Gated> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up) {
    context->save_for_backward({gate, up});
    return value(gate, up);
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const Tensors saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], dy = gradients[0].contiguous();
    if (!gate.is_cpu()) {
      const auto [of_gate, of_up] = tensor_kernels::gated_backward(gate, up, dy);
      return {of_gate, of_up};
    }
    at::Tensor dgate = at::empty_like(gate), dup = at::empty_like(up);
    with_type_of(gate, [&]<class T>(T) {
      kernels::gated_backward<T>(gate.const_data_ptr<T>(), up.const_data_ptr<T>(), dy.const_data_ptr<T>(),
                                 dgate.data_ptr<T>(), dup.data_ptr<T>(), gate.size(0), gate.size(1));
    });
    return {dgate, dup};
  }
  static at::Tensor value(const at::Tensor& gate, const at::Tensor& up) {
    if (!gate.is_cpu()) return tensor_kernels::gated(gate, up);
    at::Tensor y = at::empty_like(gate);
    with_type_of(gate, [&]<class T>(T) {
      kernels::gated<T>(gate.const_data_ptr<T>(), up.const_data_ptr<T>(), y.data_ptr<T>(), gate.size(0), gate.size(1));
    });
    return y;
  }
};

struct Residual : torch::autograd::Function<Residual> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& update) {
    context->saved_data["bfloat16"] = update.scalar_type() == at::kBFloat16;
    return value(hidden, update);
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const auto dtype = context->saved_data["bfloat16"].toBool() ? at::kBFloat16 : at::kFloat;
    return {gradients[0], gradients[0].to(dtype)};
  }
  static at::Tensor value(const at::Tensor& hidden, const at::Tensor& update) {
    if (!hidden.is_cpu()) return tensor_kernels::add(hidden, update);
    at::Tensor y = at::empty_like(hidden);
    with_type_of(update, [&]<class T>(T) {
      kernels::add<T>(hidden.const_data_ptr<float>(), update.const_data_ptr<T>(), y.data_ptr<float>(), hidden.size(0),
                      hidden.size(1));
    });
    return y;
  }
};

using LayerFunction = std::function<at::Tensor(const at::Tensor&)>;
struct LayerHolder final : torch::CustomClassHolder {
  explicit LayerHolder(LayerFunction function) : layer(std::move(function)) {}
  LayerFunction layer;
};

struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor&,
                            LayerFunction layer) {
    context->save_for_backward({hidden});
    const at::Tensor result = layer(hidden);
    context->saved_data["layer"] = c10::IValue::make_capsule(c10::make_intrusive<LayerHolder>(std::move(layer)));
    return result;
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const at::AutoGradMode with_gradient(true);
    const auto holder = c10::static_intrusive_pointer_cast<LayerHolder>(context->saved_data["layer"].toCapsule());
    const at::Tensor hidden = context->get_saved_variables()[0].detach().requires_grad_(true);
    holder->layer(hidden).backward(gradients[0]);  // adds to the gradients of the layer's weights, too
    return {hidden.grad(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor embed(const at::Tensor& table, const at::Tensor& tokens) {
  if (is_recorded(table, table)) return Embed::apply(table, tokens);
  return at::embedding(table, tokens).to(at::kFloat);
}

at::Tensor project(const at::Tensor& x, const at::Tensor& weight) {
  if (is_recorded(x, weight)) return Project::apply(x, weight);
  return product(x, weight);
}

at::Tensor project_part(const at::Tensor& x, const at::Tensor& weights, std::int64_t part) {
  if (is_recorded(x, weights)) return ProjectPart::apply(x, weights, part);
  return product(x, weights[part]);
}

at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias) {
  if (is_recorded(x, bias)) return AddBias::apply(x, bias);
  return x + bias;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  const at::Tensor rows = x.contiguous();
  if (is_recorded(rows, weight)) return RmsNorm::apply(rows, weight, epsilon);
  return normed(rows, weight, epsilon).first;
}

at::Tensor rotate(const at::Tensor& x, const Rotary& rotary) {
  if (is_recorded(x, x)) return Rotate::apply(x.contiguous(), rotary.cos, rotary.sin);
  return rotated(x.contiguous(), rotary.cos, rotary.sin, 1.0f);
}

at::Tensor gated(const at::Tensor& gate, const at::Tensor& up) {
  if (is_recorded(gate, up)) return Gated::apply(gate, up);
  return Gated::value(gate, up);
}

at::Tensor recomputed(const at::Tensor& hidden, const at::Tensor& trained, LayerFunction layer) {
  if (is_recorded(hidden, trained)) return Recomputed::apply(hidden, trained, std::move(layer));
  return layer(hidden);
}

at::Tensor residual(const at::Tensor& hidden, const at::Tensor& update) {
  if (is_recorded(hidden, update)) return Residual::apply(hidden, update);
  return Residual::value(hidden, update);
}

}  // namespace millrace
