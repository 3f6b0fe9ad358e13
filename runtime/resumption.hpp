#pragma once
// How a service goes on from what it finds: from which checkpoint, if any, and under which number its policy goes on.
#include <functional>

#include "runtime/checkpoint.hpp"
#include "runtime/ledger.hpp"

namespace millrace {

struct Resumption {
  StoredCheckpointPtr checkpoint;  // null: there is none yet, the policy is as it was loaded
  std::uint64_t incarnation = 1;
  Version version = 0;
};

// Replicas go on together: what each of them says, by rank. Alone, a service hears itself.
using Gather = std::function<std::vector<std::int64_t>(std::int64_t)>;
inline std::vector<std::int64_t> alone(std::int64_t number) { return {number}; }

// Begins an incarnation and brings the ledger to the newest checkpoint that is whole; what had been learned since is
// queued again. A service that ended in order goes on under the same number; one that was killed may have published one
// version that the ledger does not know of, so old weights get a number above that. Replicas that do not stand at the
// same step all go back to the newest one that they have in common. `model`: checksum of the weights as loaded.
// `repeats`: what was learned after the checkpoint will be learned again in the very same way (Fork). Errors: the state
// is another model's; there are checkpoints, but none is whole: starting from scratch instead would lose what was
// learned without anybody noticing.
expected<Resumption> resume(Ledger& ledger, const CheckpointStore& store, std::uint64_t model, bool repeats = false,
                            const Gather& gather = alone);

}  // namespace millrace
