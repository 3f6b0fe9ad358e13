#include <algorithm>
#include <limits>

#include "models/transformer.hpp"

namespace millrace {

namespace {

// How many leading tokens all sequences share, up to the last one before any action.
std::size_t shared_prefix(std::span<const Sequence> sequences) {
  if (sequences.empty()) return 0;
  const Tokens& first = sequences.front().tokens;
  std::size_t length = first.size();
  for (const Sequence& sequence : sequences) {
    const auto action = std::find(sequence.mask.begin(), sequence.mask.end(), std::uint8_t{1});
    length = std::min({length, sequence.tokens.size(), static_cast<std::size_t>(action - sequence.mask.begin())});
    const auto end =
        std::mismatch(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(length), sequence.tokens.begin());
    length = static_cast<std::size_t>(end.first - first.begin());
  }
  return length;
}

}  // namespace

Pack make_pack(std::span<const Sequence> sequences, at::Device device) {
  const auto prefix = static_cast<std::int64_t>(shared_prefix(sequences));
  Pack pack;
  pack.prefix = prefix;
  pack.bounds = {0};
  if (prefix > 0) pack.bounds.push_back(prefix);
  for (const Sequence& sequence : sequences) {
    const auto length = static_cast<std::int64_t>(sequence.tokens.size());
    const std::int64_t total = pack.bounds.back();
    auto& rows = pack.rows.emplace_back();
    for (std::int64_t t = 0; t < length; ++t) rows.push_back(t < prefix ? t : total + t - prefix);
    if (length > prefix) pack.bounds.push_back(total + length - prefix);
  }

  pack.tokens = at::empty({pack.bounds.back()}, at::kLong);
  pack.positions = at::empty({pack.bounds.back()}, at::kLong);
  auto* tokens = pack.tokens.data_ptr<std::int64_t>();
  auto* positions = pack.positions.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    for (std::size_t t = 0; t < pack.rows[i].size(); ++t) {
      tokens[pack.rows[i][t]] = sequences[i].tokens[t];
      positions[pack.rows[i][t]] = static_cast<std::int64_t>(t);
    }
  }
  pack.tokens = pack.tokens.to(device);
  pack.positions = pack.positions.to(device);
  return pack;
}

at::Tensor mask_of(const Pack& pack, at::ScalarType dtype) {
  const std::int64_t total = pack.bounds.back();
  const at::Tensor mask = at::full({total, total}, -std::numeric_limits<float>::infinity(), at::kFloat);
  for (const auto& rows : pack.rows) {
    for (std::size_t t = 0; t < rows.size(); ++t) {
      for (std::size_t earlier = 0; earlier <= t; ++earlier)
        mask.data_ptr<float>()[rows[t] * total + rows[earlier]] = 0.0f;
    }
  }
  return mask.to(pack.tokens.device(), dtype);
}

}  // namespace millrace
