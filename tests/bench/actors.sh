#!/usr/bin/env bash
# Kills each kind of actor of a running service 1,000 times (tests/actors/supervisor.cpp says what must hold).
set -euo pipefail
cd "$(dirname "$0")/../.."
MILLRACE_ROUNDS="${1:-1000}" OMP_NUM_THREADS=1 exec build/release/tests/test_actors --test-case="each kind of actor*"
