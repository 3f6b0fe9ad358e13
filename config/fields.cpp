#include "config/fields.hpp"

namespace millrace {
namespace {

Allowed from_to(double min, double max) { return {.min = min, .max = max, .above_min = false, .words = {}}; }
Allowed above_to(double min, double max) { return {.min = min, .max = max, .above_min = true, .words = {}}; }
Allowed one_of(std::vector<std::string> words) {
  return {.min = 0, .max = 0, .above_min = false, .words = std::move(words)};
}
Allowed any() { return {}; }

constexpr double most = 1e6;  // trajectories, sessions, steps
constexpr double most_tokens = 1e7;
constexpr double most_seconds = 1e7;  // about four months
constexpr const char* device = "that computes: cpu, cuda or cuda:N, counted from 0";
constexpr const char* recompute =
    "activation checkpointing: a layer runs once more in the backward pass, and its numbers need not be kept";
const std::vector<std::string> dtypes = {"auto", "float32", "bfloat16"};

}  // namespace

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes) names.emplace_back(recipe.name);
  return names;
}

std::vector<Field> fields_of(Settings& s) {
  return {
      {"recipe", &s.recipe, one_of(recipe_names()), "", "the algorithm"},
      {"batch", &s.batch, from_to(1, 65536), "trajectories", "a policy step takes so many"},
      {"min_batch", &s.min_batch, from_to(1, 65536), "trajectories",
       "a policy step takes at least so many, once max_wait_s is over; not given: the same as batch"},
      {"max_wait_s", &s.max_wait_s, from_to(0, most_seconds), "seconds",
       "from a step's first trajectory until min_batch suffices"},
      {"max_lag", &s.max_lag, from_to(0, 1000), "versions",
       "a trained token's policy may be so far behind the learner"},
      {"pack", &s.pack, from_to(1, 1024), "trajectories", "go through a learner in one forward pass, if so many wait"},
      {"pacing", &s.pacing, one_of({"async", "just_in_time", "sync", "lockstep"}), "",
       "async: generation waits for capacity only; just_in_time: it is as far ahead as the learner needs; sync: it "
       "waits for the step that takes what it made; lockstep: a batch is generated while the one before is trained, "
       "and "
       "the same seed gives the same weights; not given: the recipe's"},
      {"seed", &s.seed, any(), "", "of everything drawn at random"},
      {"threads", &s.threads, from_to(0, 4096), "cores", "for arithmetic; 0 = all"},

      {"grouping.size", &s.recipe.grouping.size, from_to(1, 1024), "rollouts",
       "of one task; batch counts whole groups; not given, like all of grouping, baseline, trust_region and loss: the "
       "recipe's"},
      {"grouping.drop_equal", &s.recipe.grouping.drop_equal, any(), "",
       "a group whose members all got the same reward is dropped and replaced"},
      {"grouping.max_wait_s", &s.recipe.grouping.max_wait_s, above_to(0, most_seconds), "seconds",
       "from a group's permits until it closes with the members it has"},
      {"grouping.overlong_share", &s.recipe.grouping.overlong_share, from_to(0, 1), "",
       "share of the length limit over which a penalty grows from 0 to 1, 0 = none"},
      {"baseline.kind", &s.recipe.baseline.kind, one_of({"value", "group", "running_mean"}), "",
       "what a reward is compared with: the value model, its group, or the mean of the last rewards"},
      {"baseline.gamma", &s.recipe.baseline.gamma, from_to(0, 1), "", "discount an action token"},
      {"baseline.lambda_policy_alpha", &s.recipe.baseline.lambda_policy_alpha, above_to(0, 1e12), "",
       "lambda of the advantages = 1 - 1 / (this * action tokens of the trajectory), clamped to [0, 1]"},
      {"baseline.lambda_value", &s.recipe.baseline.lambda_value, from_to(0, 1), "", "lambda of the value targets"},
      {"baseline.skip_observations", &s.recipe.baseline.skip_observations, any(), "",
       "the value model steps from action token to action token; false: through observations, too"},
      {"baseline.window", &s.recipe.baseline.window, from_to(1, most), "rewards", "in the running mean"},
      {"trust_region.low", &s.recipe.trust_region.low, from_to(0, 1), "",
       "a token's or, with gspo, a sequence's ratio may be as low as 1 - this"},
      {"trust_region.high", &s.recipe.trust_region.high, from_to(0, 1e12), "", "... and as high as 1 + this"},
      {"loss.mean_over", &s.recipe.loss.mean_over, one_of({"tokens", "sequence"}), "",
       "tokens of the batch, or tokens of each sequence and then sequences"},
      {"loss.mini_batches", &s.recipe.loss.mini_batches, from_to(1, 1024), "updates",
       "optimizer steps a policy step, each on its own part of the batch"},
      {"loss.nll_weight", &s.recipe.loss.nll_weight, from_to(0, 1e6), "",
       "of the negative log-likelihood of rewarded trajectories; vapo only"},
      {"loss.kl_weight", &s.recipe.loss.kl_weight, from_to(0, 1e6), "", "of the KL to the policy at the start"},
      {"loss.entropy_weight", &s.recipe.loss.entropy_weight, from_to(0, 1e6), "", "of the entropy bonus"},

      {"model.path", &s.model.path, any(), "", "a GGUF file or a Hugging Face folder; empty = the random model"},
      {"model.max_context", &s.model.max_context, from_to(2, most_tokens), "tokens",
       "prompt and answer of all turns together"},
      {"model.random.hidden", &s.model.random.hidden, from_to(2, 65536), "", "width of the random model"},
      {"model.random.layers", &s.model.random.layers, from_to(1, 1024), "", "its number of layers"},
      {"model.random.heads", &s.model.random.heads, from_to(1, 1024), "", "its attention heads a layer"},
      {"model.random.kv_heads", &s.model.random.kv_heads, from_to(1, 1024), "",
       "its heads of keys and values a layer; divides heads"},
      {"model.random.intermediate", &s.model.random.intermediate, from_to(1, 1048576), "", "width of its MLPs"},
      {"model.random.experts", &s.model.random.experts, from_to(0, 1024), "",
       "experts a layer; 0: none, a Llama; else a Qwen3-MoE"},
      {"model.random.experts_per_token", &s.model.random.experts_per_token, from_to(1, 1024), "",
       "experts that every token goes through"},
      {"model.random.init_std", &s.model.random.init_std, above_to(0, 10), "",
       "standard deviation of its first weights"},

      {"environment.name", &s.environment.name, any(), "",
       "writing, calculator, letters, turns, guess, shell, process, openenv, http, or live: only applications' traffic "
       "is trained"},
      {"environment.data", &s.environment.data, any(), "",
       "file or folder with the tasks; empty = the environment's own"},
      {"environment.command", &s.environment.command, any(), "", "process: the program that is the environment"},
      {"environment.url", &s.environment.url, any(), "",
       "openenv: the server's ws://HOST:PORT/ws; http: http://HOST:PORT/PATH"},
      {"environment.action", &s.environment.action, any(), "",
       "openenv: the action as JSON; $text stands for the turn's text, $number for the first number in it"},
      {"environment.observation", &s.environment.observation, any(), "",
       "openenv: the field of the observation that the policy reads; empty = all of it as JSON"},
      {"environment.step_timeout_s", &s.environment.step_timeout_s, above_to(0, most_seconds), "seconds",
       "an environment outside the service may take for a step; shell: a command"},
      {"environment.max_turns", &s.environment.max_turns, from_to(1, 10000), "turns",
       "a session with more is truncated"},
      {"environment.max_tokens", &s.environment.max_tokens, from_to(2, most_tokens), "tokens",
       "of a whole trajectory, prompt included"},
      {"environment.deadline_s", &s.environment.deadline_s, above_to(0, most_seconds), "seconds",
       "a session may last from its permit to its score"},

      {"reward.spec", &s.reward.spec, any(), "", "name of a file in reward.directory, without .json"},
      {"reward.directory", &s.reward.directory, any(), "", "folder of the reward specs"},
      {"reward.parallel", &s.reward.parallel, from_to(1, 1024), "answers",
       "that remote scorers are asked about at a time"},

      {"sessions.limit", &s.sessions.limit, from_to(1, 65536), "sessions", "live training sessions"},

      {"live.max_lag", &s.live.max_lag, from_to(0, 100000), "versions",
       "tokens of live traffic may be so far behind the learner"},
      {"live.expire_s", &s.live.expire_s, above_to(0, most_seconds), "seconds",
       "after an answer until feedback comes too late; also until an idle /rl session ends"},
      {"live.client_limit", &s.live.client_limit, from_to(0, most), "trajectories",
       "that one client may teach in an hour; 0 = any number"},
      {"live.max_reward", &s.live.max_reward, above_to(0, 1e6), "",
       "largest reward, of either sign, that feedback may give"},
      {"live.regenerated_reward", &s.live.regenerated_reward, from_to(-1e6, 1e6), "",
       "of an answer whose client, named and without a rating, asks the same again; 0 = that says nothing"},
      {"live.abandoned_reward", &s.live.abandoned_reward, from_to(-1e6, 1e6), "",
       "of an answer after which its client, named and without a rating, says no more; 0 = that says nothing"},
      {"live.abandoned_after_s", &s.live.abandoned_after_s, above_to(0, most_seconds), "seconds",
       "from an answer until its conversation counts as abandoned"},
      {"live.redact_file", &s.live.redact_file, any(), "",
       "a Perl-compatible pattern a line: what matches is blacked out before it is stored, and never trained on"},
      {"live.canary_share", &s.live.canary_share, above_to(0, 1), "",
       "of the clients, whom the newest policy answers; the last good one answers the rest; 1 = no canary"},
      {"live.canary_ratings", &s.live.canary_ratings, from_to(1, most), "ratings",
       "of either policy before the newest is judged"},
      {"live.canary_margin", &s.live.canary_margin, from_to(0, 1e6), "",
       "of mean rating, by which the newest may be worse and become the good one"},
      {"live.canary_action", &s.live.canary_action, one_of({"rollback", "hold"}), "",
       "on a bad canary: policy, critic and optimizers go back to a checkpoint of the good one, or it stays a canary"},
      {"live.priority", &s.live.priority, from_to(0, 100), "",
       "while applications are served: for how many times as long as the last decode step with training in it they "
       "step alone, and as its last pass a learner pauses; 0 = serving and training are equals"},

      {"generation.max_tokens", &s.generation.max_tokens, from_to(1, most_tokens), "tokens", "new tokens a turn"},
      {"generation.parallel", &s.generation.parallel, from_to(1, 65536), "turns",
       "that get a token in a decode step; others wait, those of applications in front"},
      {"generation.temperature", &s.generation.temperature, above_to(0, 100), "", "of sampling"},
      {"generation.top_p", &s.generation.top_p, above_to(0, 1), "",
       "probability mass that is sampled from; only turns with 1 are trained"},
      {"generation.top_k", &s.generation.top_k, from_to(0, most), "tokens",
       "most likely tokens that are sampled from, 0 = all; only turns with 0 are trained"},
      {"generation.dtype", &s.generation.dtype, one_of({"auto", "float32", "bfloat16", "int8"}), "",
       "of the arithmetic; int8: the weights are rounded for generation alone; logits and log-probs are float32"},
      {"generation.device", &s.generation.device, any(), "", device},
      {"generation.kv_on_swap", &s.generation.kv_on_swap, one_of({"keep", "recompute"}), "",
       "the key-value cache of a live turn when new weights arrive"},

      {"policy.lr", &s.policy.lr, from_to(0, 1), "", "learning rate"},
      {"policy.weight_decay", &s.policy.weight_decay, from_to(0, 1), "", "decoupled, as in AdamW"},
      {"policy.beta1", &s.policy.beta1, from_to(0, 0.999999), "", "decay of AdamW's mean"},
      {"policy.beta2", &s.policy.beta2, from_to(0, 0.999999), "", "decay of AdamW's mean square"},
      {"policy.max_gradient_norm", &s.policy.max_gradient_norm, above_to(0, 1e9), "",
       "a longer gradient is scaled down to it"},
      {"policy.dtype", &s.policy.dtype, one_of(dtypes), "", "of the arithmetic; master weights are float32"},
      {"policy.device", &s.policy.device, any(), "", device},
      {"policy.recompute_activations", &s.policy.recompute_activations, any(), "", recompute},

      {"value.path", &s.value.path, any(), "",
       "a folder that `millrace pretrain-value` wrote; empty = the critic starts from the policy"},
      {"value.lr", &s.value.lr, from_to(0, 1), "", "learning rate"},
      {"value.weight_decay", &s.value.weight_decay, from_to(0, 1), "", "decoupled, as in AdamW"},
      {"value.beta1", &s.value.beta1, from_to(0, 0.999999), "", "decay of AdamW's mean"},
      {"value.beta2", &s.value.beta2, from_to(0, 0.999999), "", "decay of AdamW's mean square"},
      {"value.max_gradient_norm", &s.value.max_gradient_norm, above_to(0, 1e9), "",
       "a longer gradient is scaled down to it"},
      {"value.updates_per_step", &s.value.updates_per_step, from_to(1, 100), "updates",
       "optimizer steps of the critic a policy step (K); not given: the recipe's"},
      {"value.freeze", &s.value.freeze, one_of({"none", "attention", "all_but_head"}), "",
       "part of the critic that is not trained; not given: the recipe's"},
      {"value.warmup_steps", &s.value.warmup_steps, from_to(0, most), "steps",
       "first batches that train the critic only; not given: the recipe's"},
      {"value.dtype", &s.value.dtype, one_of(dtypes), "", "of the arithmetic; master weights are float32"},
      {"value.device", &s.value.device, any(), "", device},
      {"value.recompute_activations", &s.value.recompute_activations, any(), "", recompute},

      {"evaluation.every", &s.evaluation.every, from_to(0, most), "versions",
       "from one evaluation on tasks that are not trained to the next; 0 = none"},
      {"evaluation.tasks", &s.evaluation.tasks, from_to(1, most), "tasks", "of an evaluation, always the same"},

      {"guard.action", &s.guard.action, one_of({"off", "warn", "stop", "rollback"}), "",
       "on a collapse: nothing, a warning, no further version until resume, or back to a checkpoint before it"},
      {"guard.slow_down", &s.guard.slow_down, above_to(0, 1), "",
       "with each rollback of the guard policy.lr is multiplied by it, until the service is started again"},
      {"guard.patience", &s.guard.patience, from_to(1, most), "steps", "in a row that must be wrong"},
      {"guard.min_entropy", &s.guard.min_entropy, from_to(0, 100), "nats", "less is a collapse"},
      {"guard.min_effective_sample_size", &s.guard.min_effective_sample_size, from_to(0, 1), "",
       "share of the batch's tokens; less is a collapse"},
      {"guard.max_masked_share", &s.guard.max_masked_share, from_to(0, 1), "", "more is a collapse"},
      {"guard.max_reward_loss", &s.guard.max_reward_loss, from_to(0, 1e9), "",
       "share of the best mean reward of ten steps that may be lost"},
      {"guard.max_gradient_growth", &s.guard.max_gradient_growth, from_to(1, 1e9), "",
       "times the median gradient norm of the last ten good steps; more is a collapse"},
      {"guard.max_kl", &s.guard.max_kl, from_to(0, 1e9), "nats a token",
       "from the start policy in an evaluation; more is a collapse"},

      {"http.address", &s.http.address, any(), "", "where the service listens"},
      {"http.port", &s.http.port, from_to(0, 65535), "", "0 = any free port"},
      {"http.token_file", &s.http.token_file, any(), "",
       "lines of ROLE TOKEN [NAME], or one token; required when address is not loopback"},
      {"http.certificate_file", &s.http.certificate_file, any(), "",
       "PEM, with its chain: the service speaks TLS; needs key_file"},
      {"http.key_file", &s.http.key_file, any(), "", "PEM, the certificate's private key"},
      {"http.requests_per_second", &s.http.requests_per_second, from_to(0, most), "requests",
       "of all callers together, probes not counted; 0 = no limit"},
      {"http.client_requests_per_second", &s.http.client_requests_per_second, from_to(0, most), "requests",
       "of each client that a token or x-millrace-client names, or else of each token; 0 = no limit"},

      {"state.directory", &s.state.directory, any(), "", "ledger and checkpoints; empty = state/<preset>"},
      {"state.keep_days", &s.state.keep_days, above_to(0, 36500), "days",
       "that a trajectory stays in the ledger once it is settled, and what is known of a served answer"},
      {"state.keep_mb", &s.state.keep_mb, from_to(1, 1e9), "MiB",
       "the ledger may hold; beyond them the oldest settled trajectories leave earlier"},

      {"checkpoint.every_steps", &s.checkpoint.every_steps, from_to(1, most), "steps",
       "batches from one checkpoint to the next"},
      {"checkpoint.keep", &s.checkpoint.keep, from_to(1, 1000), "checkpoints", "newest ones that stay on disk"},
      {"checkpoint.keep_best", &s.checkpoint.keep_best, from_to(0, 1000), "checkpoints",
       "that stay besides those, with the highest mean reward under the reward spec in force"},
      {"checkpoint.abandoned", &s.checkpoint.abandoned, one_of({"reject", "train"}), "",
       "trajectories sampled by policies that a rollback or a recovery abandoned: end as rolled_back, or are trained "
       "with their lag counted from the fork"},

      {"drain.grace_s", &s.drain.grace_s, from_to(0, most_seconds), "seconds",
       "from SIGTERM to the end, the last checkpoint included"},

      {"supervision.restarts_per_minute", &s.supervision.restarts_per_minute, from_to(0, most), "restarts",
       "of one actor; more of them end the service"},
      {"supervision.backoff_s", &s.supervision.backoff_s, from_to(0, 60), "seconds",
       "before the second start within a minute, twice as long each time, 5 at most"},
      {"supervision.hang_s", &s.supervision.hang_s, above_to(0, most_seconds), "seconds",
       "that one decode step or one pass of a learner may take; then the process ends"},

      {"replicas.count", &s.replicas.count, from_to(1, 4096), "services",
       "that learn as one, each from trajectories of its own; 1 = this one alone"},
      {"replicas.rank", &s.replicas.rank, from_to(0, 4095), "", "which of them this is, from 0"},
      {"replicas.address", &s.replicas.address, any(), "", "host:port at which rank 0 waits for the others"},
      {"replicas.interface", &s.replicas.interface, any(), "",
       "network interface that gradients go by; empty = the one of the host's name"},
      {"replicas.timeout_s", &s.replicas.timeout_s, above_to(0, most_seconds), "seconds",
       "to wait for the others, at the start and at a step; then the service ends"},
  };
}

}  // namespace millrace
