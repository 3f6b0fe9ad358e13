#include <unistd.h>

#include <iostream>

#include "actors/service.hpp"
#include "deploy/millrace/console.hpp"
#include "deploy/millrace/progress.hpp"
#include "deploy/millrace/signals.hpp"
#include "runtime/log.hpp"

namespace millrace {

int serve(const ServeCommand& command) {
  block_signals();
  auto settings = load_program_settings(command.config, command.sets);
  if (!settings) return complain(bad_use, settings.error().message);

  ServiceOptions options;
  options.settings = *settings;
  options.steps = command.steps;
  options.fresh = command.fresh;
  options.on_step = [json = command.json](const StepReport& report) {
    std::cout << (json ? progress_json(report) : progress_line(report)) << std::endl;
  };
  auto service = Service::start(std::move(options));
  if (!service) return complain(failed, service.error().message);

  SignalWatch watch([&service] { service->request_stop(); });
  const auto ended = service->wait();
  if (!ended) return complain(failed, ended.error().message);
  if (!service->drain()) _exit(done);  // what is still at work would hold up the end
  return done;
}

}  // namespace millrace
