#pragma once
// What every subcommand needs: to complain in one line, and to load a config the way the program does.
#include <string>
#include <vector>

#include "config/expected.hpp"
#include "config/settings.hpp"
#include "deploy/millrace/commands.hpp"

namespace millrace {

// Writes `millrace: text` to stderr as one line and returns the code.
int complain(ExitCode code, const std::string& text);

// Reads the config file under the process' environment and the given `--set`s.
expected<Settings> load_program_settings(const std::string& config, const std::vector<std::string>& sets);

expected<std::string> read_text_file(const std::string& path);

}  // namespace millrace
