#include "runtime/sandbox.hpp"

#include <unistd.h>

#include <atomic>
#include <charconv>

#include "runtime/base64.hpp"

namespace millrace {
namespace {

// Reads a command a line, in base64, and answers each with "EXIT-CODE BASE64-OF-ITS-OUTPUT". What a command leaves
// running in the background is killed with its group, at the latest with the sandbox.
std::string runner(const SandboxLimits& limits) {
  const std::string run = "timeout -k 0.2 " + std::to_string(limits.command_s) + " sh /tmp/command < /dev/null 2>&1";
  const std::string cut = "head -c " + std::to_string(limits.output_bytes) + " > /tmp/output";
  return "while IFS= read -r line; do printf %s \"$line\" | base64 -d > /tmp/command; { " + run +
         "; echo $? > /tmp/code; } | " + cut +
         "; printf '%s %s\\n' \"$(cat /tmp/code)\" \"$(base64 -w0 /tmp/output)\"; done";
}

// Users of their own when the service is root: RLIMIT_NPROC counts a user's processes and does not bind root.
std::string next_user() {
  static std::atomic<unsigned> next{0};
  return std::to_string(300000 + next++ % 50000);
}

}  // namespace

expected<Sandbox> Sandbox::start(const SandboxLimits& limits) {
  std::vector<std::string> command;
  const bool root = ::geteuid() == 0;
  if (root) {
    const std::string user = next_user();
    command = {"setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs"};
  }
  const auto add = [&](std::initializer_list<std::string> words) { command.insert(command.end(), words); };
  const int others = root ? 0 : 1024;  // this user's processes outside count, too
  add({"prlimit", "--nproc=" + std::to_string(limits.processes + others), "--as=" + std::to_string(limits.memory_bytes),
       "--fsize=" + std::to_string(limits.disk_bytes), "--core=0", "--nofile=256"});
  add({"bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"});
  add({"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"});
  add({"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"});
  const std::string disk = std::to_string(limits.disk_bytes);
  add({"--size", disk, "--tmpfs", "/work", "--size", std::to_string(1 << 20), "--tmpfs", "/tmp"});
  add({"--setenv", "PATH", "/usr/bin", "--setenv", "HOME", "/work", "--setenv", "LANG", "C.UTF-8", "--chdir", "/work"});
  add({"sh", "-c", runner(limits)});
  auto process = PipedProcess::start(command);
  if (!process) return fail("sandbox: " + process.error().message);
  Sandbox sandbox(std::move(*process), limits);
  const auto works = sandbox.run("echo ready");
  if (!works || works->output != "ready\n") {
    return fail("sandbox: bwrap does not start: is bubblewrap installed, and may this user make namespaces?");
  }
  return sandbox;
}

expected<CommandResult> Sandbox::run(const std::string& command) {
  const double patience = limits_.command_s + 2;
  const auto answer = process_.write(to_base64(command) + "\n", patience).and_then([&] {
    return process_.read_line(patience, limits_.output_bytes * 2 + 64);
  });
  if (!answer) return fail("the command ended its sandbox: " + answer.error().message);
  const std::size_t space = answer->find(' ');
  CommandResult result;
  const auto code = std::from_chars(answer->data(), answer->data() + std::min(space, answer->size()), result.exit_code);
  auto output = space == std::string::npos ? std::nullopt : from_base64(answer->substr(space + 1));
  if (code.ec != std::errc() || !output) return fail("the command damaged its sandbox");
  result.output = std::move(*output);
  return result;
}

}  // namespace millrace
