#!/usr/bin/env bash
# setup.sh - the peers of `make bench PEERS=1` in a virtual environment of their own, and the path
# of its Python on standard output. Nothing of it is used by the program or its tests.
#
# KVAUDIT_PEERS_VENV names an environment that is there already; it is used as it is.
set -eu
venv=${KVAUDIT_PEERS_VENV:-}
if [ -n "$venv" ]; then
  [ -x "$venv/bin/python" ] || { echo "peers: no $venv/bin/python" >&2; exit 1; }
  echo "$venv/bin/python"
  exit 0
fi
venv=${KVAUDIT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kvaudit}/peers
stamp=$venv/complete-2
if [ ! -e "$stamp" ]; then
  {
    echo "peers: a virtual environment with torch, transformers, kvpress, lm-eval and llama-cpp-python"
    echo "peers: in $venv (about 2 GB; llama.cpp is compiled for this machine: minutes)"
    python3 -m venv "$venv"
    pip=("$venv/bin/python" -m pip install -q --disable-pip-version-check)
    "${pip[@]}" --upgrade pip
    # the CPU build where its own index is reachable, else what the default index has
    "${pip[@]}" torch==2.15.0 --index-url https://download.pytorch.org/whl/cpu ||
      "${pip[@]}" torch==2.15.0
    "${pip[@]}" transformers==5.2.0 kvpress==0.5.5 gguf==0.19.0
    "${pip[@]}" "lm_eval[ruler]==0.4.13"
    CMAKE_ARGS=-DGGML_NATIVE=ON "${pip[@]}" --no-binary llama-cpp-python llama-cpp-python==0.3.36
    "$venv/bin/python" -c 'import kvpress, gguf, llama_cpp, lm_eval, torch, transformers'
    touch "$stamp"
  } >&2
fi
echo "$venv/bin/python"
