#include <unistd.h>

#include <iostream>

#include "actors/service.hpp"
#include "deploy/millrace/console.hpp"
#include "deploy/millrace/progress.hpp"
#include "deploy/millrace/signals.hpp"
#include "deploy/millrace/supervisor.hpp"
#include "runtime/http_client.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

// Whether the service answers to its own probe; that goes through the server's thread, the gateway and the gatekeeper.
bool answers(const std::string& address, int port) {
  HttpCall call;
  const bool any = address == "0.0.0.0" || address == "::";
  call.address = (any ? "127.0.0.1" : address) + ":" + std::to_string(port);
  call.target = "/readyz";
  call.timeout_s = 5;
  const auto response = http_call(call);
  return response && response->status == 200;
}

}  // namespace

int serve(const ServeCommand& command) {
  block_signals();
  auto settings = load_program_settings(command.config, command.sets);
  if (!settings) return complain(bad_use, settings.error().message);

  ServiceOptions options;
  options.settings = *settings;
  options.steps = command.steps;
  options.learn = !command.no_learn;
  options.fresh = command.fresh;
  options.on_step = [json = command.json](const StepReport& report) {
    std::cout << (json ? progress_json(report) : progress_line(report)) << std::endl;
  };
  auto service = Service::start(std::move(options));
  if (!service) return complain(failed, service.error().message);

  SignalWatch watch([&service] { service->request_stop(); },
                    [&service, &command] {
                      notify_supervisor("RELOADING=1");
                      const auto changed = load_program_settings(command.config, command.sets);
                      changed ? service->reload(*changed)
                              : log_error("serve", "not reloaded: " + changed.error().message);
                      notify_supervisor("READY=1");
                    });
  SystemdWatchdog watchdog(
      [address = settings->http.address, port = service->port()] { return answers(address, port); });
  notify_supervisor("READY=1");
  const auto ended = service->wait();
  notify_supervisor("STOPPING=1");
  if (!ended) return complain(failed, ended.error().message);
  if (!service->drain()) _exit(done);  // what is still at work would hold up the end
  return done;
}

}  // namespace millrace
