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
  std::string name = "writing";                    // one of runtime/environments/environment.cpp's
  std::string data;                                // file or folder with the tasks; empty = the environment's own
  std::string command;                             // of `process`: the program, run by /bin/sh
  std::string url;                                 // of `openenv`: ws://HOST:PORT/ws; of `http`: http://HOST:PORT/PATH
  std::string action = R"({"message": "$text"})";  // of `openenv`: what a turn becomes
  std::string observation;     // of `openenv`: the field that the policy reads; empty = all of it as JSON
  double step_timeout_s = 30;  // seconds an environment outside the service may take for a step
  int max_turns = 1;           // a session with more is truncated
  int max_tokens = 2048;       // tokens of a whole trajectory, prompt included
  double deadline_s = 120;     // seconds a session may last from its permit to its score
};

struct RewardSettings {
  std::string spec = "chuunibyou";  // name of a file in reward.directory, without .json
  std::string directory = "config/rewards";
  int parallel = 16;  // answers that remote scorers are asked about at a time
};

struct SessionSettings {
  int limit = 16;  // live training sessions
};

// Traffic from applications that is trained on once its feedback comes.
struct LiveSettings {
  int max_lag = 64;        // versions its tokens may be behind the learner: feedback comes late
  double expire_s = 3600;  // seconds after an answer until its feedback comes too late; also an idle session's end
  int client_limit = 0;    // trajectories an hour that one client may teach; 0 = any number
  double max_reward = 10;  // largest reward, either sign, that feedback may give: none outshouts all others
  // What a named client's answer is worth whom it was not good enough to leave it at: it asked for another one; it said
  // nothing more within so many seconds, and rated nothing. 0 = that says nothing.
  double regenerated_reward = 0;
  double abandoned_reward = 0;
  double abandoned_after_s = 600;
  std::string redact_file;  // rules of what must not be kept (runtime/live/redaction.hpp); empty = none
  // The newest policy answers this share of clients, the last good one the rest, until both have been rated so often:
  // then the newest becomes the good one, unless its mean rating is worse by more than the margin. Share 1: no canary.
  double canary_share = 1;
  int canary_ratings = 32;
  double canary_margin = 0.1;
  std::string canary_action = "rollback";  // on a bad one: rollback (to a checkpoint of the good one) | hold
  // While applications are being served: for how many times as long as the last decode step with training in it took
  // they step alone, and how many times as long as its last pass a learner pauses. 0 = serving and training are equals.
  int priority = 1;
};

struct GenerationSettings {
  int max_tokens = 24;       // new tokens a turn
  int parallel = 256;        // turns that get a token in a decode step; others wait, those of applications in front
  double temperature = 1.0;  // > 0 to be trained
  double top_p = 1.0;        // 1 to be trained
  int top_k = 0;             // 0 = off; 0 to be trained
  // What becomes of the key-value cache of a live turn when new weights arrive between two of its tokens:
  // keep = old entries stay and new ones are computed with the new weights (no pause; log-probs are still those of the
  // distribution each token was drawn from); recompute = the cache is rebuilt with the new weights.
  std::string kv_on_swap = "keep";
  // auto | float32 | bfloat16 of the arithmetic, or int8: a copy of the weights rounded to eight bits, whose log-probs
  // the learner corrects like those of an older policy; logits and log-probs are float32.
  std::string dtype = "auto";
  std::string device = "cpu";  // cpu | cuda | cuda:0 ...
};

struct PolicySettings {
  double lr = 1e-6;
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double max_gradient_norm = 1.0;
  std::string dtype = "auto";  // auto | float32 | bfloat16 of the arithmetic; master weights and moments are float32
  std::string device = "cpu";
  bool recompute_activations = false;  // activation checkpointing: a third more arithmetic, memory for one layer
};

struct ValueSettings {
  std::string path;  // a folder that `millrace pretrain-value` wrote; empty = the critic starts from the policy
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
  std::string device = "cpu";
  bool recompute_activations = false;
};

// The policy on tasks it is not trained on.
struct EvaluationSettings {
  int every = 0;   // versions from one evaluation to the next; 0 = none
  int tasks = 16;  // always the same
};

// What counts as a collapse, and what is done about it.
struct GuardSettings {
  std::string action = "warn";  // off | warn | stop (no further version) | rollback (to a checkpoint before it)
  // The same step from the same weights with the same data ends the same way: with each rollback of the guard policy.lr
  // is multiplied by this, until the service is started again.
  double slow_down = 0.5;
  int patience = 3;           // steps in a row that must be wrong
  double min_entropy = 0.01;  // nats
  double min_effective_sample_size = 0.05;
  double max_masked_share = 0.9;
  double max_reward_loss = 0.5;      // share of the best mean reward of ten steps that may be lost
  double max_gradient_growth = 100;  // times the median norm of the last ten good steps
  double max_kl = 100;               // nats a token from the start policy, in an evaluation
};

struct HttpSettings {
  std::string address = "127.0.0.1";
  int port = 8700;                    // 0 = any free port
  std::string token_file;             // who may do what (runtime/callers.hpp); required when address is not loopback
  std::string certificate_file;       // PEM, with its chain: TLS instead of bare HTTP; needs key_file
  std::string key_file;               // PEM
  double requests_per_second = 2000;  // of all callers together, probes not counted; 0 = no limit
  // Of each client (x-millrace-client, where its token does not name it), or else of each token; 0 = no limit.
  double client_requests_per_second = 0;
};

struct StateSettings {
  std::string directory;  // ledger and checkpoints; empty = state/<preset>
  double keep_days = 30;  // that a settled trajectory stays in the ledger, and a served answer in live.sqlite
  int keep_mb = 4096;     // MiB the ledger may hold; beyond them the oldest settled trajectories leave earlier
};

struct CheckpointSettings {
  int every_steps = 10;  // batches from one checkpoint to the next
  int keep = 2;          // newest ones that stay on disk
  int keep_best = 1;     // ... and besides those of the highest mean reward under the reward spec in force
  // What becomes of trajectories sampled by policies that a rollback or a recovery abandoned: reject = they end as
  // rolled_back; train = they are trained, their lag counted from the fork.
  std::string abandoned = "reject";
};

struct SupervisionSettings {
  int restarts_per_minute = 10;  // of one actor; more of them end the service
  double backoff_s = 0.05;       // seconds before the second start within a minute, twice as long each time, 5 at most
  double hang_s = 600;  // seconds that one decode step or one pass of a learner may take; then the process ends
};

struct DrainSettings {
  double grace_s = 25;  // seconds from the signal to the end, the last checkpoint included
};

// Services on several machines that learn as one: each makes trajectories of its own, gradients are added up.
struct ReplicaSettings {
  int count = 1;                            // services that learn together; 1 = this one alone
  int rank = 0;                             // which of them this is, from 0
  std::string address = "127.0.0.1:29500";  // host:port at which rank 0 waits for the others
  std::string interface;                    // network interface gradients go by; empty = the host name's
  double timeout_s = 1800;                  // seconds to wait for the others, at the start and at a step
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
  // async: generation never waits for a step, only for capacity: where it is the faster, max_lag batches lie in the
  // queue and grow old. just_in_time: it runs only so far ahead, max_lag at most, that the learner never waits. sync:
  // it waits for the step that takes what it made. lockstep: a batch is generated while the one before is trained, and
  // both wait for each other; the same seed, machine type and threads then give the same weights, whatever ends the
  // service in between. Slower, also in generation.
  std::string pacing = "async";
  std::uint64_t seed = 0;
  int threads = 0;  // cores for arithmetic; 0 = all
  ModelSettings model;
  EnvironmentSettings environment;
  RewardSettings reward;
  SessionSettings sessions;
  LiveSettings live;
  GenerationSettings generation;
  PolicySettings policy;
  ValueSettings value;
  EvaluationSettings evaluation;
  GuardSettings guard;
  HttpSettings http;
  StateSettings state;
  CheckpointSettings checkpoint;
  DrainSettings drain;
  SupervisionSettings supervision;
  ReplicaSettings replicas;
};

}  // namespace millrace
