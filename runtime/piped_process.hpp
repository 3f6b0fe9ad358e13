#pragma once
// A program that runs beside the service and talks over its standard input and output. Every wait has a deadline; with
// the object the program and all its children in its process group go.
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "config/expected.hpp"

namespace millrace {

class PipedProcess {
 public:
  // stderr goes where the service's goes. Errors: the program cannot be started.
  static expected<PipedProcess> start(const std::vector<std::string>& command);
  PipedProcess(PipedProcess&& other) noexcept;
  PipedProcess& operator=(PipedProcess&& other) noexcept;
  ~PipedProcess();

  // Errors name what happened: it has ended, it did not read or answer within `timeout_s`, the line is too long.
  expected<void> write(std::string_view text, double timeout_s);
  expected<std::string> read_line(double timeout_s, std::size_t max_bytes);

  struct Output {
    std::string text;
    int exit_code = 0;       // 128 + signal when one ended it
    bool timed_out = false;  // it was killed at the deadline
    bool cut = false;        // it wrote more than max_bytes and was killed
  };
  // Closes its input, reads what it writes and waits for its end.
  Output finish(double timeout_s, std::size_t max_bytes);

 private:
  PipedProcess(pid_t process, int input, int output) : process_(process), input_(input), output_(output) {}
  void close_input();
  void end();           // kills and reaps
  int reap(bool wait);  // its exit code; -1: it still runs

  pid_t process_ = -1;  // -1: reaped
  int input_ = -1;      // what it reads
  int output_ = -1;     // what it writes
  int exit_code_ = 0;
  std::string unread_;
};

}  // namespace millrace
