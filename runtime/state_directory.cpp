#include "runtime/state_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>

namespace millrace {

namespace {

// Whether a running service holds the directory's lock file (see Ledger::open).
bool in_use(const std::string& directory) {
  const int file = ::open((directory + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  const bool free = ::flock(file, LOCK_EX | LOCK_NB) == 0;
  ::close(file);
  return !free;
}

std::string utc_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

}  // namespace

expected<std::string> move_aside(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::exists(directory, error)) return std::string();
  if (in_use(directory))
    return fail(directory + " is in use by another millrace: stop it first, or set state.directory");
  std::string target = directory + "." + utc_stamp();
  for (int n = 2; std::filesystem::exists(target, error); ++n)
    target = directory + "." + utc_stamp() + "-" + std::to_string(n);
  std::filesystem::rename(directory, target, error);
  if (error) return fail("cannot move " + directory + " to " + target + ": " + error.message());
  return target;
}

}  // namespace millrace
