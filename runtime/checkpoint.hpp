#pragma once
// Checkpoints on disk: a folder a checkpoint under <state>/checkpoints, with a safetensors file a learner and a
// manifest that names them with their checksums. A folder gets its name when all of it is on the disk; it counts from
// the moment the ledger names it together with the manifest's checksum.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/tensor_file.hpp"

namespace millrace {

// A finished checkpoint as the ledger names it.
struct CheckpointRow {
  std::string name;
  std::uint64_t policy_version = 0;
  std::uint64_t step = 0;         // batches the critic has learned from, value-only ones included
  std::uint64_t checksum = 0;     // of its manifest
  double created = 0;             // Unix seconds
  double reward = 0;              // mean of what was trained since the checkpoint before; NaN: nothing was
  std::uint64_t reward_spec = 0;  // version of the reward spec that this was rewarded under
};

struct StoredCheckpoint {
  CheckpointRow row;
  nlohmann::json manifest;
  TensorFile policy, value;
};
using StoredCheckpointPtr = std::shared_ptr<const StoredCheckpoint>;

class CheckpointStore {
 public:
  explicit CheckpointStore(const std::string& state_directory) : directory_(state_directory + "/checkpoints") {}

  // Writes everything, or leaves nothing behind. `facts` goes into the manifest as it is. Returns the manifest's
  // checksum. Errors: the disk is full, not writable.
  expected<std::uint64_t> write(const std::string& name, nlohmann::json facts, const TensorViews& policy,
                                const TensorViews& value) const;
  // Checks every byte. Errors: something is missing, cut short or damaged; a newer format.
  expected<StoredCheckpointPtr> read(const CheckpointRow& row) const;
  // Removes all folders but these: older checkpoints, and what a crash left unfinished.
  expected<void> keep_only(const std::vector<std::string>& names) const;

 private:
  std::string directory_;
};

}  // namespace millrace
