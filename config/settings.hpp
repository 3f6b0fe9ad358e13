#pragma once
// Everything that can be set, with its default, unit and meaning. Loaded by load.hpp: defaults < file < environment
// (MILLRACE_SECTION__KEY) < --set section.key=value.
#include <cstdint>
#include <string>

#include "config/recipe.hpp"

namespace millrace {

// Shape of a randomly initialised byte-level model, used where model.path is empty.
struct RandomModelSettings {
  int hidden = 64;
  int layers = 2;
  int heads = 4;
  int kv_heads = 2;
  int intermediate = 128;
  int experts = 0;            // 0: a Llama; else a Qwen3-MoE of so many experts a layer, each `intermediate` wide
  int experts_per_token = 2;  // at most `experts`
  double init_std = 0.02;
};

struct ModelSettings {
  std::string path;        // a GGUF file or a Hugging Face folder; empty = the random model below
  int max_context = 2048;  // tokens: prompt and answer of all turns together
  RandomModelSettings random;
};

struct EnvironmentSettings {
  std::string name = "writing";  // writing | calculator | letters | turns
  std::string data;              // file with the tasks; empty = the environment's own
  int max_turns = 1;             // a session with more is truncated
  int max_tokens = 2048;         // tokens of a whole trajectory, prompt included
  double deadline_s = 120;       // seconds a session may last from its permit to its last turn
};

struct RewardSettings {
  std::string spec = "chuunibyou";  // name of a file in reward.directory, without .json
  std::string directory = "config/rewards";
};

struct SessionSettings {
  int limit = 16;  // live training sessions
};

struct GenerationSettings {
  int max_tokens = 24;       // new tokens a turn
  double temperature = 1.0;  // > 0 to be trained
  double top_p = 1.0;        // 1 to be trained
  int top_k = 0;             // 0 = off; 0 to be trained
  // What becomes of the key-value cache of a live turn when new weights arrive between two of its tokens:
  // keep = old entries stay and new ones are computed with the new weights (no pause; log-probs are still those of the
  // distribution each token was drawn from); recompute = the cache is rebuilt with the new weights.
  std::string kv_on_swap = "keep";
  std::string dtype = "auto";  // auto | float32 | bfloat16 of the arithmetic; logits and log-probs are float32
};

struct PolicySettings {
  double lr = 1e-6;
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double max_gradient_norm = 1.0;
  std::string dtype = "auto";  // auto | float32 | bfloat16 of the arithmetic; master weights and moments are float32
};

struct ValueSettings {
  double lr = 5e-6;
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double max_gradient_norm = 1.0;
  // Where these are not given, they are the recipe's.
  int updates_per_step = 2;          // K: optimizer steps of the critic a policy step
  std::string freeze = "attention";  // none | attention | all_but_head
  int warmup_steps = 10;             // first batches that train the critic only
  std::string dtype = "auto";
};

// What counts as a collapse, and what is done about it.
struct GuardSettings {
  std::string action = "warn";  // off | warn
  int patience = 3;             // steps in a row that must be wrong
  double min_entropy = 0.01;    // nats
  double min_effective_sample_size = 0.05;
  double max_masked_share = 0.9;
  double max_reward_loss = 0.5;      // share of the best mean reward of ten steps that may be lost
  double max_gradient_growth = 100;  // times the median norm of the last ten good steps
};

struct HttpSettings {
  std::string address = "127.0.0.1";
  int port = 8700;         // 0 = any free port
  std::string token_file;  // holds the bearer token; required when address is not loopback
};

struct StateSettings {
  std::string directory;  // ledger and checkpoints; empty = state/<preset>
};

struct CheckpointSettings {
  int every_steps = 10;  // batches from one checkpoint to the next
  int keep = 2;          // newest ones that stay on disk
  // What becomes of trajectories sampled by policies that a rollback or a recovery abandoned: reject = they end as
  // rolled_back; train = they are trained, their lag counted from the fork.
  std::string abandoned = "reject";
};

struct DrainSettings {
  double grace_s = 25;  // seconds from the signal to the end, the last checkpoint included
};

struct Settings {
  std::string preset;  // name of the config file, without folder and ending; not a key of the file
  // Key "recipe" is its name; keys grouping.*, baseline.*, trust_region.* and loss.* overrule its numbers.
  Recipe recipe;
  int batch = 128;          // trajectories a policy step
  int min_batch = 128;      // ... at least, once max_wait_s is over
  double max_wait_s = 600;  // seconds from a step's first trajectory until min_batch suffices
  int max_lag = 4;          // versions a trained token's policy may be behind the learner
  int pack = 8;             // trajectories that go through a learner in one forward pass, if so many wait
  // async: generation never waits for a step, only for capacity. sync: it waits for the step that takes what it made.
  // lockstep: a batch is generated while the one before is trained, and both wait for each other.
  std::string pacing = "async";
  std::uint64_t seed = 0;
  int threads = 0;  // cores for arithmetic; 0 = all
  ModelSettings model;
  EnvironmentSettings environment;
  RewardSettings reward;
  SessionSettings sessions;
  GenerationSettings generation;
  PolicySettings policy;
  ValueSettings value;
  GuardSettings guard;
  HttpSettings http;
  StateSettings state;
  CheckpointSettings checkpoint;
  DrainSettings drain;
};

}  // namespace millrace
