#include "deploy/millrace/console.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>

#include "config/load.hpp"

namespace millrace {

int complain(ExitCode code, const std::string& text) {
  std::string line = "millrace: " + text;
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  std::cerr << line << std::endl;
  return code;
}

expected<Settings> load_program_settings(const std::string& config, const std::vector<std::string>& sets) {
  Overrides overrides;
  overrides.sets = sets;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view variable = *entry;
    const auto equals = variable.find('=');
    if (equals == std::string_view::npos) continue;
    overrides.environment.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
  }
  return load_settings(config, overrides);
}

expected<std::string> read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.bad()) return fail(path + ": cannot be read: " + std::strerror(errno));
  return text.str();
}

}  // namespace millrace
