#include "actors/replay.hpp"

#include <algorithm>
#include <cstring>

#include "models/mini_batches.hpp"
#include "models/model.hpp"
#include "models/value_learner.hpp"
#include "runtime/checkpoint.hpp"
#include "runtime/ledger.hpp"
#include "runtime/reward.hpp"

namespace millrace {

namespace {

expected<CheckpointRow> named(const std::vector<CheckpointRow>& rows, const std::string& name) {
  for (const CheckpointRow& row : rows) {
    if (row.name == name) return row;
  }
  return fail("there is no checkpoint " + name);
}

// The first array that differs from the checkpoint's; empty = none does.
std::string difference(const LearnerImage& image, const TensorFile& file) {
  for (const TensorView& ours : image.tensors()) {
    const auto theirs = std::find_if(file.tensors().begin(), file.tensors().end(),
                                     [&](const TensorView& view) { return view.name == ours.name; });
    const bool same =
        theirs != file.tensors().end() && theirs->bytes.size() == ours.bytes.size() &&
        (ours.bytes.empty() || std::memcmp(theirs->bytes.data(), ours.bytes.data(), ours.bytes.size()) == 0);
    if (!same) return ours.name;
  }
  return {};
}

struct Learners {
  ValueLearner value;
  PolicyLearner policy;
  MiniBatches mini_batches;
  int warmup_left;

  Learners(const Model& model, const Settings& settings, int warmup)
      : value(model, settings.value, settings.recipe.baseline),
        policy(model, settings.policy, settings.recipe),
        mini_batches(policy, settings.recipe, settings.pack),
        warmup_left(warmup) {}
};

// One batch as it went through the learners.
ReplayedStep learn(Learners& learners, const std::vector<Trajectory>& batch, const std::vector<int>& passes,
                   Version version) {
  ReplayedStep result;
  result.trajectories = batch.size();
  result.policy = learners.warmup_left <= 0;
  for (std::size_t begin = 0; begin < batch.size();) {
    std::vector<Sequence> sequences;
    std::size_t end = begin;
    for (; end < batch.size() && passes[end] == passes[begin]; ++end) {
      sequences.push_back(batch[end].scored_sequence());
      result.reward_mean += batch[end].score.total / static_cast<double>(batch.size());
    }
    begin = end;
    std::vector<std::vector<float>> advantages;
    for (Valuation& valuation : learners.value.arrive(sequences)) advantages.push_back(std::move(valuation.advantages));
    if (result.policy) learners.mini_batches.add(sequences, advantages);
  }
  result.explained_variance = learners.value.step().explained_variance;
  if (!result.policy) {
    --learners.warmup_left;
    return result;
  }
  const PolicyStep step = learners.mini_batches.step(version);
  result.effective_sample_size = step.sums.effective_sample_size_ratio();
  result.masked_share = (step.sums.masked_low + step.sums.masked_high) / std::max(1.0, step.sums.tokens);
  return result;
}

}  // namespace

expected<ReplayReport> replay(const ReplayOptions& options, const std::function<void(const ReplayedStep&)>& on_step) {
  const Settings& settings = options.settings;
  if (settings.recipe.baseline.kind != "value") {
    return fail("recipe " + settings.recipe.name + " has no value model: replay repeats recipes that have one");
  }
  const expected<Ledger> ledger = Ledger::open_read_only(settings.state.directory);
  if (!ledger) return tl::unexpected(ledger.error());
  const std::vector<CheckpointRow> rows = ledger->checkpoints();
  if (rows.size() < 2) {
    return fail(settings.state.directory + " has " + std::to_string(rows.size()) +
                " checkpoints: replay goes from one to another (checkpoint.keep)");
  }
  const auto from_row = options.from.empty() ? rows.back() : named(rows, options.from);
  const auto to_row = options.to.empty() ? rows.front() : named(rows, options.to);
  if (!from_row) return tl::unexpected(from_row.error());
  if (!to_row) return tl::unexpected(to_row.error());
  if (from_row->step >= to_row->step) return fail(to_row->name + " is not later than " + from_row->name);
  const CheckpointStore store(settings.state.directory);
  const auto from = store.read(*from_row), to = store.read(*to_row);
  if (!from) return tl::unexpected(from.error());
  if (!to) return tl::unexpected(to.error());
  const std::string machine = (*to)->manifest.value("machine", "unknown");
  if (!options.counterfactual && machine != machine_type()) {
    return fail("it happened on " + machine + ", this is " + machine_type() + ": the same bits cannot be promised");
  }
  std::optional<RewardSpec> spec;
  if (!options.spec.empty()) {
    auto loaded = load_reward_spec(settings.reward.directory, options.spec);
    if (!loaded) return tl::unexpected(loaded.error());
    spec = std::move(*loaded);
  }

  if (auto devices = check_devices(settings); !devices) return tl::unexpected(devices.error());
  const expected<Model> model = load_model(settings.model, settings.seed);
  if (!model) return tl::unexpected(model.error());
  use_threads((*to)->manifest.value("threads", 1));
  Learners learners(*model, settings, (*from)->manifest.value("warmup_left", 0));
  if (auto restored = learners.value.restore((*from)->value.tensors()); !restored) {
    return tl::unexpected(restored.error());
  }
  if (auto restored = learners.policy.restore((*from)->policy.tensors(), from_row->policy_version); !restored) {
    return tl::unexpected(restored.error());
  }

  ReplayReport report{from_row->name, to_row->name, {}, false, {}};
  for (std::uint64_t step = from_row->step + 1; step <= to_row->step; ++step) {
    std::vector<Trajectory> batch;
    std::vector<int> passes;
    Version version = 0;
    for (const Ledger::Learned& learned : ledger->batch(step)) {
      expected<Trajectory> trajectory = ledger->read(learned.id);
      if (!trajectory) return tl::unexpected(trajectory.error());
      if (spec) {
        const expected<Score> score = spec->ask({trajectory->answer, trajectory->expected, trajectory->task});
        if (!score) return fail("trajectory " + std::to_string(learned.id) + ": " + score.error().message);
        trajectory->sequence.rewards.back() += static_cast<float>(score->total - trajectory->score.total);
        trajectory->score = *score;
      }
      batch.push_back(std::move(*trajectory));
      passes.push_back(learned.pass);
      version = learned.version;
    }
    if (batch.empty()) return fail("batch " + std::to_string(step) + " is not in the ledger any more");
    ReplayedStep replayed = learn(learners, batch, passes, version);
    replayed.step = step;
    on_step(replayed);
    report.steps.push_back(replayed);
  }
  report.difference = difference(*learners.value.image(), (*to)->value);
  if (report.difference.empty()) report.difference = difference(*learners.policy.image(), (*to)->policy);
  report.identical = report.difference.empty();
  return report;
}

}  // namespace millrace
