#pragma once
#include <cstdint>
#include <vector>

namespace millrace {

using TokenId = std::int32_t;
using Tokens = std::vector<TokenId>;

// Number of a published policy. Grows by one a published batch and never returns; 0 is the policy as it was loaded.
using Version = std::uint64_t;

}  // namespace millrace
