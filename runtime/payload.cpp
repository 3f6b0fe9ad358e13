#include "runtime/payload.hpp"

#include <bit>
#include <stdexcept>

#include <xxhash.h>
#include <zstd.h>

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "the ledger's numbers are little-endian");

constexpr int compression_level = 3;
constexpr std::uint64_t max_vector_bytes = std::uint64_t{1} << 30;

template <class T>
Blob compress(const std::vector<T>& values) {
  const std::size_t bytes = values.size() * sizeof(T);
  Blob blob{std::string(ZSTD_compressBound(bytes), '\0')};
  const std::size_t written =
      ZSTD_compress(blob.bytes.data(), blob.bytes.size(), values.data(), bytes, compression_level);
  if (ZSTD_isError(written)) throw std::runtime_error(ZSTD_getErrorName(written));
  blob.bytes.resize(written);
  return blob;
}

template <class T>
bool decompress(const Blob& blob, std::vector<T>& values) {
  const auto bytes = ZSTD_getFrameContentSize(blob.bytes.data(), blob.bytes.size());
  // ZSTD_CONTENTSIZE_UNKNOWN and _ERROR are above every size that is right.
  if (bytes > max_vector_bytes || bytes % sizeof(T) != 0) return false;
  values.resize(bytes / sizeof(T));
  return ZSTD_decompress(values.data(), bytes, blob.bytes.data(), blob.bytes.size()) == bytes;
}

// Chained over the vectors, so that one cannot stand in another's place.
std::uint64_t checksum_of(const Sequence& sequence, const std::vector<Version>& versions) {
  std::uint64_t hash = 0;
  const auto add = [&](const auto& values) {
    hash = XXH3_64bits_withSeed(values.data(), values.size() * sizeof(values[0]), hash);
  };
  add(sequence.tokens);
  add(sequence.mask);
  add(sequence.behaviour);
  add(sequence.rewards);
  add(versions);
  return hash;
}

}  // namespace

Payload pack(const Sequence& sequence, const std::vector<Version>& versions) {
  return {compress(sequence.tokens),  compress(sequence.mask), compress(sequence.behaviour),
          compress(sequence.rewards), compress(versions),      checksum_of(sequence, versions)};
}

expected<void> unpack(const Payload& payload, Trajectory& trajectory) {
  Sequence& sequence = trajectory.sequence;
  const bool whole = decompress(payload.tokens, sequence.tokens) && decompress(payload.mask, sequence.mask) &&
                     decompress(payload.behaviour, sequence.behaviour) &&
                     decompress(payload.rewards, sequence.rewards) && decompress(payload.versions, trajectory.versions);
  if (!whole) return fail("the payload is not what was written: zstd cannot read it");
  if (checksum_of(sequence, trajectory.versions) != payload.checksum) {
    return fail("the payload is not what was written: its checksum differs");
  }
  return {};
}

}  // namespace millrace
