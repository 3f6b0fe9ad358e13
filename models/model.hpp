#pragma once
// A language model as others hold it: a name for weights they never touch. No Torch in sight.
#include <cstdint>
#include <memory>
#include <string>

#include "config/expected.hpp"
#include "config/settings.hpp"
#include "models/text/tokenizer.hpp"

namespace millrace {

// The weights of one published policy. Immutable: whoever holds the pointer may read it for ever.
class Snapshot;
using SnapshotPtr = std::shared_ptr<const Snapshot>;

Version version_of(const Snapshot& snapshot);
SnapshotPtr renumbered(const Snapshot& snapshot, Version version);  // the same tensors under another number
// Checks the weights and makes the copy that decoders of this dtype compute with on that device. A publisher does it,
// so that they need not between two of their steps.
void prepare(const Snapshot& snapshot, const std::string& dtype, const std::string& device = "cpu");
std::uint64_t checksum_of(const Snapshot& snapshot);  // over every weight's bits; takes as long as reading them

struct Model {
  SnapshotPtr weights;  // version 0
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string name;  // what the API calls it
};

// Reads settings.path, a GGUF file or a folder as Hugging Face lays it out (config.json, safetensors, tokenizer.json,
// tokenizer_config.json), or makes a random byte-level model from settings.random and the seed.
// Errors: file missing, malformed, unknown architecture, a tensor missing or of the wrong shape.
expected<Model> load_model(const ModelSettings& settings, std::uint64_t seed);

// Errors: generation.device, policy.device or value.device, which this machine or this program does not have.
expected<void> check_devices(const Settings& settings);

// Threads that one call into models/ may use, on the calling thread. Every compute actor calls it when it starts.
void use_threads(int threads);

// What results may depend on in their last bits: the processor.
std::string machine_type();

}  // namespace millrace
