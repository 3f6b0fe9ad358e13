#include "runtime/environment.hpp"

#include "config/nearest.hpp"
#include "runtime/environments/calculator.hpp"
#include "runtime/environments/letters.hpp"
#include "runtime/environments/turns.hpp"
#include "runtime/environments/writing.hpp"

namespace millrace {
namespace {

struct Kind {
  const char* name;
  expected<EnvironmentFactory> (*make)(const EnvironmentSettings& settings);
};

// A new environment is one line here and its two files beside this one.
constexpr Kind kinds[] = {{"writing", make_writing}, {"calculator", make_calculator}, {"letters", make_letters}, {"turns", make_turns}};

}  // namespace

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
