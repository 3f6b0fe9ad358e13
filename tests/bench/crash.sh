#!/usr/bin/env bash
# Kills a service 200 times on one state, half of them in the middle of a write (tests/system/test_killed.py says what
# must hold): about 20 minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
MILLRACE_CRASHES="${1:-200}" exec python3 tests/system/test_killed.py
