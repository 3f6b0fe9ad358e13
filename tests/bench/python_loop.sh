#!/usr/bin/env bash
# Runs python_loop.py, the rival in Python, in a virtual environment of its own: build/bench-venv, made once. PyPI's only
# wheel of torch for Linux needs all of its GPU packages to be imported, on a CPU, too: 5 GB on the disk, some minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv="$PWD/build/bench-venv"
if [[ ! -e "$venv/.complete" ]]; then
  echo "python_loop: making $venv" >&2
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check "torch==2.11.0" "transformers==5.24.0" "gguf==0.19.0" \
    "accelerate==1.15.0" >&2
  touch "$venv/.complete"
fi
exec "$venv/bin/python" tests/bench/python_loop.py "$@"
