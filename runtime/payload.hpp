#pragma once
// Token payloads as they lie in the ledger: each vector as little-endian numbers, compressed with zstd, and one xxh3
// checksum over all of them uncompressed. Bit for bit there and back, NaN and -0 included.
#include <cstdint>

#include "config/expected.hpp"
#include "runtime/sqlite.hpp"
#include "runtime/trajectory.hpp"

namespace millrace {

struct Payload {
  Blob tokens;     // int32
  Blob mask;       // uint8
  Blob behaviour;  // float32
  Blob rewards;    // float32
  Blob versions;   // uint64
  std::uint64_t checksum = 0;
};

Payload pack(const Sequence& sequence, const std::vector<Version>& versions);

// Writes the vectors into the trajectory. Errors: damaged data, checksum differs.
expected<void> unpack(const Payload& payload, Trajectory& trajectory);

}  // namespace millrace
