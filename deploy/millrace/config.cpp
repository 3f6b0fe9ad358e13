#include <iostream>

#include "config/load.hpp"
#include "deploy/millrace/console.hpp"
#include "runtime/environment.hpp"
#include "runtime/reward.hpp"

namespace millrace {

int config_check(const ConfigCommand& command) {
  const auto settings = load_program_settings(command.config, command.sets);
  if (!settings) return complain(bad_use, settings.error().message);
  const auto environment = make_environment_factory(settings->environment);
  if (!environment) return complain(bad_use, command.config + ": " + environment.error().message);
  const auto spec = load_reward_spec(settings->reward.directory, settings->reward.spec);
  if (!spec) return complain(bad_use, command.config + ": " + spec.error().message);
  if (command.json) {
    std::cout << nlohmann::ordered_json{{"config", command.config}, {"ok", true}}.dump() << std::endl;
  } else {
    std::cout << command.config << ": ok" << std::endl;
  }
  return done;
}

int config_show(const ConfigCommand& command) {
  const auto settings = load_program_settings(command.config, command.sets);
  if (!settings) return complain(bad_use, settings.error().message);
  std::cout << to_json(*settings).dump(command.json ? -1 : 2) << std::endl;
  return done;
}

int config_schema() {
  std::cout << settings_schema().dump(2) << std::endl;
  return done;
}

}  // namespace millrace
