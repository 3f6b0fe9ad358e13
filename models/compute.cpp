#include "models/compute.hpp"

#include <stdexcept>
#include <utility>

#include <ATen/Context.h>
#include <ATen/cpu/Utils.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "models/model.hpp"

namespace millrace {

namespace {

bool multiplies_bfloat16(at::Device device) {
  if (!device.is_cpu()) return true;
  const auto capabilities = at::cpu::get_cpu_capabilities();
  for (const char* feature : {"avx512_bf16", "amx_bf16"}) {
    const auto found = capabilities.find(feature);
    if (found != capabilities.end() && found->second.toBool()) return true;
  }
  return false;
}

// Errors: there is none of that name here.
expected<void> check_device(const std::string& name) {
  const at::Device device = device_of(name);
  if (device.is_cpu()) return {};
  if (!at::hasCUDA()) return fail("no CUDA here: it takes a GPU, its driver, and a program built by preset cuda");
  const int devices = at::detail::getCUDAHooks().deviceCount();
  if (device.index() < devices) return {};
  return fail("this machine has " + std::to_string(devices) + " GPUs, counted from cuda:0");
}

}  // namespace

at::Device device_of(const std::string& name) {
  const at::Device device(name);
  return device.is_cpu() || device.has_index() ? device : at::Device(device.type(), 0);
}

Compute compute_of(const std::string& dtype, const std::string& device_name) {
  const at::Device device = device_of(device_name);
  if (dtype == "float32") return {at::kFloat, device};
  if (dtype == "bfloat16") return {at::kBFloat16, device};
  if (dtype == "int8" && device.is_cpu()) return {at::kChar, device};
  if (dtype != "auto") throw std::invalid_argument("dtype \"" + dtype + "\" on " + device_name);
  return {multiplies_bfloat16(device) ? at::kBFloat16 : at::kFloat, device};
}

expected<void> check_devices(const Settings& settings) {
  for (const auto& [key, name] : {std::pair{"generation.device", settings.generation.device},
                                  {"policy.device", settings.policy.device},
                                  {"value.device", settings.value.device}}) {
    if (auto there = check_device(name); !there) return fail(key + (" \"" + name + "\": ") + there.error().message);
  }
  return {};
}

}  // namespace millrace
