#include <filesystem>
#include <iostream>

#include <nlohmann/json.hpp>

#include "deploy/millrace/console.hpp"
#include "models/export.hpp"
#include "runtime/checkpoint.hpp"
#include "runtime/ledger.hpp"

namespace millrace {
namespace {

// The policy of the newest checkpoint under the config's state directory; without one, the model as it came.
expected<Model> newest_policy(const Settings& settings) {
  auto model = load_model(settings.model, settings.seed);
  if (!model || !std::filesystem::exists(settings.state.directory + "/ledger.sqlite")) return model;
  const auto ledger = Ledger::open_read_only(settings.state.directory);
  if (!ledger) return tl::unexpected(ledger.error());
  const auto checkpoints = ledger->checkpoints();
  if (checkpoints.empty()) return model;
  const auto stored = CheckpointStore(settings.state.directory).read(checkpoints.front());
  if (!stored) return tl::unexpected(stored.error());
  auto weights = weights_of_image(*model->weights, (*stored)->policy.tensors(), checkpoints.front().policy_version);
  if (!weights) return fail(settings.state.directory + ": " + weights.error().message);
  model->weights = std::move(*weights);
  return model;
}

}  // namespace

int export_folder(const ExportCommand& command) {
  const auto settings = load_program_settings(command.config, command.sets);
  if (!settings) return complain(bad_use, settings.error().message);
  const auto model = newest_policy(*settings);
  if (!model) return complain(failed, model.error().message);
  if (const auto done = export_model(*model, command.folder); !done) return complain(failed, done.error().message);
  const Version version = version_of(*model->weights);
  if (command.json) {
    const nlohmann::json report = {{"folder", command.folder}, {"model", model->name}, {"policy_version", version}};
    std::cout << report.dump() << std::endl;
  } else {
    std::cout << model->name << ", policy version " << version << ", is in " << command.folder << std::endl;
  }
  return done;
}

}  // namespace millrace
