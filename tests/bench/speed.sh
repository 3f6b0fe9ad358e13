#!/usr/bin/env bash
# Runs speed.py, Millrace beside its peers, in build/bench-venv (python_loop.sh says why it is large), with llama.cpp's
# Python package (built from source, some minutes), Ray and TRL added. Alone on the machine, or the figures mean nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv="$PWD/build/bench-venv"
if [[ ! -e "$venv/.speed-complete" ]]; then
  tests/bench/python_loop.sh --help >/dev/null  # makes the environment
  # llama.cpp's products in AMX tiles crash on this model (0.3.36, ggml_backend_amx_mul_mat): it goes without them.
  no_tiles="-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
  CMAKE_ARGS="-DCMAKE_C_FLAGS='$no_tiles' -DCMAKE_CXX_FLAGS='$no_tiles'" "$venv/bin/pip" install -q \
    --disable-pip-version-check "llama-cpp-python==0.3.36" "ray==2.60.0" "trl==1.16.0" >&2
  touch "$venv/.speed-complete"
fi
exec "$venv/bin/python" tests/bench/speed.py "$@"
