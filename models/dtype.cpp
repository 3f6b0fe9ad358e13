#include "models/dtype.hpp"

#include <stdexcept>

#include <ATen/cpu/Utils.h>

namespace millrace {

at::ScalarType compute_dtype(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "int8") return at::kChar;
  if (name != "auto") throw std::invalid_argument("dtype \"" + name + "\": use auto, float32, bfloat16 or int8");
  const auto capabilities = at::cpu::get_cpu_capabilities();
  for (const char* feature : {"avx512_bf16", "amx_bf16"}) {
    const auto found = capabilities.find(feature);
    if (found != capabilities.end() && found->second.toBool()) return at::kBFloat16;
  }
  return at::kFloat;
}

}  // namespace millrace
