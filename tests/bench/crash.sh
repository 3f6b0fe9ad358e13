#!/usr/bin/env bash
# Kills a service at 200 random moments on one state (tests/system/test_crash.py says what must hold): about ten minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
MILLRACE_CRASHES="${1:-200}" MILLRACE_PROGRAM="$PWD/build/release/millrace" \
  python3 tests/system/test_crash.py Crash.test_killed_again_and_again
