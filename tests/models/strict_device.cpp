#include "tests/models/strict_device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

namespace millrace::testing {
namespace {

constexpr c10::DeviceType type = c10::DeviceType::PrivateUse1;
const c10::Device only(type, 0);

// Whole pages, which are open to the host only while an operation of the device's own runs.
class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    const std::size_t pages = std::max<std::size_t>(1, (size + page - 1) / page);
    void* const begin = ::mmap(nullptr, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED) throw std::bad_alloc();
    const std::lock_guard lock(mutex_);
    blocks_[begin] = {pages * page, 0};
    return {begin, begin, [](void* block) { instance().release(block); }, only};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    const Open there(to), here(from);
    default_copy_data(to, from, count);
  }

  static Memory& instance() {
    static Memory memory;
    return memory;
  }

  // Opens the block of this address, if it is one of ours.
  class Open {
   public:
    explicit Open(const void* address) : block_(instance().open(const_cast<void*>(address), 1)) {}
    ~Open() {
      if (block_) instance().open(block_, -1);
    }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    void* block_;
  };

 private:
  static constexpr std::size_t page = 4096;
  struct Block {
    std::size_t size = 0;
    int users = 0;
  };

  void* open(void* address, int users) {
    const std::lock_guard lock(mutex_);
    auto block = blocks_.upper_bound(address);
    if (block == blocks_.begin()) return nullptr;
    --block;
    auto& [begin, state] = *block;
    if (static_cast<std::byte*>(begin) + state.size <= address) return nullptr;
    state.users += users;
    ::mprotect(begin, state.size, state.users > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
    return begin;
  }
  void release(void* begin) {
    const std::lock_guard lock(mutex_);
    ::munmap(begin, blocks_.at(begin).size);
    blocks_.erase(begin);
  }

  std::mutex mutex_;
  std::map<void*, Block> blocks_;
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};

const bool hooked = [] {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();

// What is asked of it has been done when the call returns: there is nothing to wait for.
struct Guard final : c10::impl::NoOpDeviceGuardImpl<type> {
  c10::Device getDevice() const override { return only; }
  c10::Device exchangeDevice(c10::Device) const override { return only; }
  c10::Stream getStream(c10::Device) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, only); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, only); }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &Memory::instance(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &Memory::instance(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           dtype.value_or(at::kFloat));
}

// The same memory as the host sees it, while it is open.
at::Tensor as_host(const at::Tensor& tensor) {
  return at::from_blob(const_cast<void*>(tensor.storage().data()), {}, tensor.options().device(at::kCPU))
      .set_(at::Storage(c10::Storage::use_byte_size_t(), tensor.storage().nbytes(),
                        at::DataPtr(const_cast<void*>(tensor.storage().data()), at::kCPU)),
            tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  const Memory::Open source(from.storage().data()), target(to.storage().data());
  as_host(to).copy_(as_host(from));
  return to;
}

const at::Tensor& resize(const at::Tensor& tensor, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  auto* const inside = tensor.unsafeGetTensorImpl();
  inside->set_sizes_contiguous(size);
  const auto bytes = static_cast<std::size_t>(inside->numel()) * tensor.element_size();
  if (bytes > tensor.storage().nbytes()) {
    tensor.storage().set_data_ptr_noswap(Memory::instance().allocate(bytes));
    tensor.storage().set_nbytes(bytes);
  }
  return tensor;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar value_of(const at::Tensor& tensor) { return tensor.cpu().item(); }

void compute(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const auto check = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.dim() > 0 && tensor.device().type() != type) {
      throw std::runtime_error(operation.schema().name() + ": a tensor of the CPU among those of a device");
    }
  };
  const auto arguments = torch::jit::last(*stack, operation.schema().arguments().size());
  const std::string& name = operation.schema().name();
  const bool may_mix = name == "aten::index" || name == "aten::_index_put_impl_";  // where indices may lie anywhere
  for (const c10::IValue& argument : arguments) {
    if (may_mix) break;
    if (argument.isTensor()) check(argument.toTensor());
    if (argument.isTensorList()) {
      for (const at::Tensor& tensor : argument.toTensorVector()) check(tensor);
    }
  }
  at::native::cpu_fallback(operation, stack, /*error_on_views=*/true);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("unfold", &at::native::unfold);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("resize_", &resize);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("_local_scalar_dense", &value_of);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&compute>()); }

}  // namespace

std::string strict_device() {
  static const bool named = (c10::register_privateuse1_backend("strict"), true);
  return named ? "strict:0" : "";
}

}  // namespace millrace::testing
