#pragma once
// A transformer's weights out of a GGUF file, dequantised to float32. A tensor that is missing or of the wrong shape is
// an error that names it; nothing is ever filled in.
#include "models/text/gguf.hpp"
#include "models/transformer.hpp"

namespace millrace {

// `vocab`: tokens of the tokenizer. Rows of the embedding beyond it are padding: they are dropped here, once, so that
// no side ever samples them or counts them in a normalisation.
expected<SnapshotPtr> read_weights(const GgufFile& file, std::int64_t vocab);

}  // namespace millrace
