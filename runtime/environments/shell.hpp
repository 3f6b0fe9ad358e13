#pragma once
// A computer to work on: the policy writes <sh>command</sh>, the command runs in a sandbox (bubblewrap), and its output
// comes back. A turn without a command ends the task; then its check decides: 1 when it exits with 0.
//
// environment.data is a folder with a folder for every task:
//   prompt.txt   the task in words           files/   what lies in the working directory at the start (optional)
//   check        a shell script that judges the working directory; the policy never sees it
//
// The sandbox has no network, sees /usr read-only and a working directory in memory of its own, and is bounded in time,
// processes, memory a process, disk and output. It ends with its session.
#include "runtime/environment.hpp"

namespace millrace {

expected<EnvironmentFactory> make_shell(const EnvironmentSettings& settings);

}  // namespace millrace
