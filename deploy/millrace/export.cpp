#include <iostream>

#include <nlohmann/json.hpp>

#include "deploy/millrace/console.hpp"
#include "models/export.hpp"

namespace millrace {

int export_folder(const ExportCommand& command) {
  const auto settings = load_program_settings(command.config, command.sets);
  if (!settings) return complain(bad_use, settings.error().message);
  const auto model = load_model(settings->model, settings->seed);
  if (!model) return complain(failed, model.error().message);
  if (const auto done = export_model(*model, command.folder); !done) return complain(failed, done.error().message);
  if (command.json) {
    std::cout << nlohmann::json{{"folder", command.folder}, {"model", model->name}, {"policy_version", 0}}.dump()
              << std::endl;
  } else {
    std::cout << model->name << " is in " << command.folder << std::endl;
  }
  return done;
}

}  // namespace millrace
