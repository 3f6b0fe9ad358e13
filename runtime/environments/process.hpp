#pragma once
// An environment in any language: a program (environment.command, run by /bin/sh) that answers JSON lines on its
// standard input with JSON lines on its standard output. One program serves one session at a time, then the next.
//   {"type": "reset", "episode": 7}        -> {"prompt": [{"role", "content"}] or "text", "expected"?: "text"}
//   {"type": "step", "action": "text"}     -> {"observation": "text", "role"?: "user", "reward"?: 0.0,
//                                              "terminated": false, "truncated": false}
// Either may be answered {"error": "text"}: the session fails, and is no zero reward.
// deploy/bridges/gymnasium_bridge.py makes every Gymnasium environment such a program.
#include "runtime/environment.hpp"

namespace millrace {

expected<EnvironmentFactory> make_process(const EnvironmentSettings& settings);

}  // namespace millrace
