#include "runtime/environment.hpp"

#include "config/nearest.hpp"
#include "runtime/environments/calculator.hpp"
#include "runtime/environments/guess.hpp"
#include "runtime/environments/http.hpp"
#include "runtime/environments/letters.hpp"
#include "runtime/environments/openenv.hpp"
#include "runtime/environments/process.hpp"
#include "runtime/environments/shell.hpp"
#include "runtime/environments/turns.hpp"
#include "runtime/environments/writing.hpp"
#include "runtime/trajectory.hpp"

namespace millrace {
namespace {

struct Kind {
  const char* name;
  expected<EnvironmentFactory> (*make)(const EnvironmentSettings& settings);
};

// No environment at all: only the traffic of applications is trained, and no session of the service's own ever starts.
expected<EnvironmentFactory> make_live(const EnvironmentSettings&) { return EnvironmentFactory(); }

// A new environment is one line here and its two files beside this one.
constexpr Kind kinds[] = {{"writing", make_writing},    {"calculator", make_calculator}, {"letters", make_letters},
                          {"guess", make_guess},        {"shell", make_shell},           {"process", make_process},
                          {"openenv", make_openenv},    {"http", make_http_environment}, {"turns", make_turns},
                          {live_environment, make_live}};

}  // namespace

bool environment_waits(const std::string& name) {
  return name == "shell" || name == "process" || name == "openenv" || name == "http";
}

expected<EnvironmentFactory> make_environment_factory(const EnvironmentSettings& settings) {
  std::vector<std::string> names;
  std::string list;
  for (const Kind& kind : kinds) {
    if (settings.name == kind.name) return kind.make(settings);
    names.emplace_back(kind.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  return fail("\"environment.name\": unknown environment \"" + settings.name + "\": did you mean \"" +
              nearest(settings.name, names) + "\"? There are " + list);
}

}  // namespace millrace
