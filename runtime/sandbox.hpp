#pragma once
// A sandbox for untrusted shell commands: bubblewrap with namespaces of its own, no network, /usr read-only, a small
// working directory in memory that lasts as long as the sandbox, and limits on everything else.
#include <string>

#include "config/expected.hpp"
#include "runtime/piped_process.hpp"

namespace millrace {

struct SandboxLimits {
  double command_s = 10;                 // seconds a command may take
  int processes = 64;                    // at once
  std::size_t memory_bytes = 512 << 20;  // address space of one process
  std::size_t disk_bytes = 32 << 20;     // working directory
  std::size_t output_bytes = 16 << 10;   // of a command; the rest is thrown away
};

struct CommandResult {
  int exit_code = 0;   // 124: it took too long
  std::string output;  // stdout and stderr, cut to output_bytes
};

class Sandbox {
 public:
  // Errors: bubblewrap is missing, or the kernel does not let this user make namespaces.
  static expected<Sandbox> start(const SandboxLimits& limits);

  // Errors: the command took the whole sandbox down, or hung it; then no other can be run.
  expected<CommandResult> run(const std::string& command);

 private:
  Sandbox(PipedProcess process, SandboxLimits limits) : process_(std::move(process)), limits_(limits) {}

  PipedProcess process_;
  SandboxLimits limits_;
};

}  // namespace millrace
