#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "deploy/millrace/console.hpp"
#include "models/value_pretraining.hpp"
#include "runtime/pretrained_value.hpp"
#include "runtime/scored_trajectories.hpp"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_held_out = 256;
constexpr int batches_a_save = 20;

// JSON has no NaN.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

// Those of the data that are kept apart.
expected<std::vector<Sequence>> held_out(const std::string& path, const Tokenizer& tokenizer) {
  auto data = ScoredTrajectories::open(path, tokenizer);
  if (!data) return tl::unexpected(data.error());
  std::vector<Sequence> apart;
  for (std::size_t index = 0; apart.size() < most_held_out; ++index) {
    auto sequence = data->next();
    if (!sequence) return tl::unexpected(sequence.error());
    if (!*sequence) break;
    if (ValuePretraining::held_out(index)) apart.push_back(std::move(**sequence));
  }
  return apart;
}

// Goes on behind what an earlier call has trained on the same data; the number of trajectories it has read.
expected<std::size_t> resume(const PretrainCommand& command, const std::string& out, ValueLearner& learner) {
  if (!has_pretrained(out)) return std::size_t{0};
  const auto before = read_pretrained(out);
  if (!before) return tl::unexpected(before.error());
  const std::string data = (*before)->facts.value("data", "");
  if (data != command.data) {
    return fail(out + " holds a critic trained on " + data + ": name another folder with --out, or move it away");
  }
  if (auto restored = learner.restore((*before)->tensors.tensors()); !restored) return tl::unexpected(restored.error());
  return (*before)->facts.value("trajectories", std::size_t{0});
}

void show(const PretrainCommand& command, const ScoredTrajectories& data, const ValueStep& step, bool due) {
  if (command.json) {
    std::cout << Json{{"trajectories", data.read()},
                      {"loss", number(step.loss)},
                      {"gradient_norm", number(step.gradient_norm)},
                      {"explained_variance", number(step.explained_variance)}}
                     .dump()
              << std::endl;
  } else if (due) {
    std::fprintf(stderr, "trajectories %zu/%zu | loss %.5f | explained variance %.3f\n", data.read(), data.total(),
                 step.loss, step.explained_variance);
  }
}

}  // namespace

int pretrain_value(const PretrainCommand& command) {
  const auto settings = load_program_settings(command.config, command.sets);
  if (!settings) return complain(bad_use, settings.error().message);
  const std::string out = command.out.empty() ? settings->state.directory + "/pretrained" : command.out;
  if (const auto devices = check_devices(*settings); !devices) return complain(failed, devices.error().message);
  const auto model = load_model(settings->model, settings->seed);
  if (!model) return complain(failed, model.error().message);
  if (settings->threads > 0) use_threads(settings->threads);
  const auto apart = held_out(command.data, *model->tokenizer);
  if (!apart) return complain(failed, apart.error().message);
  auto data = ScoredTrajectories::open(command.data, *model->tokenizer);
  if (!data) return complain(failed, data.error().message);

  ValueLearner learner(*model, settings->value, settings->recipe.baseline);
  const double before = learner.explained_variance_of(*apart);
  const auto done_before = resume(command, out, learner);
  if (!done_before) return complain(failed, done_before.error().message);
  while (data->read() < *done_before) {
    if (const auto skipped = data->next(); !skipped || !*skipped) break;
  }

  ValuePretraining pretraining(learner, settings->batch, settings->pack);
  const auto save = [&](bool last) {
    const double now = last ? learner.explained_variance_of(*apart) : std::nan("");
    return write_pretrained(out,
                            {{"data", command.data},
                             {"trajectories", data->read()},
                             {"held_out", apart->size()},
                             {"explained_variance_before", number(before)},
                             {"explained_variance_after", number(now)}},
                            learner.image()->tensors());
  };
  std::size_t index = data->read();
  auto shown = std::chrono::steady_clock::now();
  for (int batch = 1;; ++batch) {
    const auto step = pretraining.step([&data] { return data->next(); }, index);
    if (!step) return complain(failed, step.error().message);
    if (!*step) break;
    const auto now = std::chrono::steady_clock::now();
    const bool due = now - shown > std::chrono::seconds(2);
    if (due) shown = now;
    show(command, *data, **step, due);
    if (batch % batches_a_save != 0) continue;
    if (auto saved = save(false); !saved) return complain(failed, saved.error().message);
  }
  if (auto saved = save(true); !saved) return complain(failed, saved.error().message);

  const double after = learner.explained_variance_of(*apart);
  if (command.json) {
    std::cout << Json{{"trajectories", data->read()},
                      {"held_out", apart->size()},
                      {"explained_variance_before", number(before)},
                      {"explained_variance_after", number(after)},
                      {"path", out}}
                     .dump()
              << std::endl;
  } else {
    std::printf("%zu trajectories; explained variance of %zu kept apart: %.3f before, %.3f after; value.path=%s\n",
                data->read(), apart->size(), before, after, out.c_str());
  }
  return done;
}

}  // namespace millrace
