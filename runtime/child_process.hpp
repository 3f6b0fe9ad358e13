#pragma once
// Another program run beside this one, its output in files.
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "config/expected.hpp"

namespace millrace {

class ChildProcess {
 public:
  // arguments[0] is the program's path. Errors: it cannot be started, a file cannot be written.
  static expected<ChildProcess> start(const std::vector<std::string>& arguments, const std::string& stdout_file,
                                      const std::string& stderr_file);
  ChildProcess(ChildProcess&& other) noexcept : pid_(other.pid_) { other.pid_ = -1; }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();  // kills it if it still runs

  // Its exit code once it has ended (128 + number after a signal), nothing before.
  std::optional<int> ended();
  void send(int signal);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_;  // -1: none, or ended
};

std::string own_program();  // path of the running program

}  // namespace millrace
