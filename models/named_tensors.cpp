#include "models/named_tensors.hpp"

#include <algorithm>
#include <stdexcept>

#include "models/transformer.hpp"

namespace millrace {

namespace {

constexpr const char* steps_name = "optimizer.steps";

struct DtypeName {
  at::ScalarType dtype;
  const char* name;
};
constexpr DtypeName dtypes[] = {{at::kFloat, "F32"}, {at::kDouble, "F64"}, {at::kLong, "I64"}};

const char* name_of(at::ScalarType dtype) {
  for (const DtypeName& known : dtypes) {
    if (known.dtype == dtype) return known.name;
  }
  throw std::invalid_argument("an image holds float32, float64 and int64 only");
}

TensorView view_of(const NamedTensor& named) {
  const at::Tensor& tensor = named.tensor;
  if (!tensor.is_contiguous()) throw std::invalid_argument("image of " + named.name + ": not contiguous");
  return {named.name,
          name_of(tensor.scalar_type()),
          tensor.sizes().vec(),
          {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

const TensorView* find(std::span<const TensorView> image, const std::string& name) {
  for (const TensorView& view : image) {
    if (view.name == name) return &view;
  }
  return nullptr;
}

auto missing(const std::string& name) {
  return fail(name + " is missing: was it written with other settings or another recipe?");
}

// An empty tensor has no memory, and memcpy may not be given none.
void copy_into(const at::Tensor& tensor, const TensorView& view) {
  const at::Tensor here = tensor.is_cpu() ? tensor : at::empty(tensor.sizes(), tensor.scalar_type());
  std::copy(view.bytes.begin(), view.bytes.end(), static_cast<std::byte*>(here.data_ptr()));
  if (!tensor.is_cpu()) tensor.copy_(here);
}

}  // namespace

void add_optimizer(NamedTensors& tensors, const AdamW& optimizer, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    tensors.push_back({"optimizer.mean." + names[i], optimizer.means().at(i)});
    tensors.push_back({"optimizer.variance." + names[i], optimizer.variances().at(i)});
  }
  tensors.push_back({steps_name, at::full({1}, optimizer.steps(), at::kLong)});
}

void restore_steps(AdamW& optimizer, const NamedTensors& tensors) {
  for (const NamedTensor& named : tensors) {
    if (named.name == steps_name) optimizer.set_steps(named.tensor.item<std::int64_t>());
  }
}

LearnerImagePtr make_image(NamedTensors tensors, ImageGate& gate) {
  TensorViews views;
  for (NamedTensor& named : tensors) named.tensor = named.tensor.cpu();  // where it is elsewhere: a copy
  for (const NamedTensor& named : tensors) views.push_back(view_of(named));
  return std::make_shared<const LearnerImage>(std::move(views),
                                              std::make_shared<const NamedTensors>(std::move(tensors)), gate.close());
}

expected<void> copy_image(std::span<const TensorView> image, const NamedTensors& tensors) {
  std::vector<const TensorView*> sources;
  for (const NamedTensor& named : tensors) {
    const TensorView wanted = view_of(named);
    const TensorView* found = find(image, named.name);
    if (!found) return missing(named.name);
    if (found->dtype != wanted.dtype || found->shape != wanted.shape) {
      return fail(named.name + " is " + found->dtype + text_of(found->shape) + ", here it is " + wanted.dtype +
                  text_of(wanted.shape));
    }
    sources.push_back(found);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    copy_into(tensors[i].tensor, *sources[i]);
  }
  return {};
}

expected<at::Tensor> tensor_of(std::span<const TensorView> image, const std::string& name) {
  const TensorView* found = find(image, name);
  if (!found) return missing(name);
  for (const DtypeName& known : dtypes) {
    if (found->dtype != known.name) continue;
    const at::Tensor tensor = at::empty(found->shape, known.dtype);
    copy_into(tensor, *found);
    return tensor;
  }
  return fail(name + " is of unknown type " + found->dtype);
}

}  // namespace millrace
