#!/usr/bin/env bash
# run.sh - speed and memory on this machine, one table with targets and verdicts.
#
#   B=build/plain KVAUDIT=build/kvaudit PEERS=0|1 tests/bench/run.sh
#
# Called by `make bench`. PEERS=1 measures llama.cpp, torch and kvpress in the same run
# (peers/setup.sh). A missed target is told, never a failure; a measurement that cannot be made is.
set -eu
cd "$(dirname "$0")/../.."
: "${B:=build/plain}" "${KVAUDIT:=build/kvaudit}" "${PEERS:=0}"
cache=${KVAUDIT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kvaudit}
BENCH_MODEL=$cache/models/SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -r "$BENCH_MODEL" ]; then
  echo "bench: no $BENCH_MODEL; '$KVAUDIT fetch smollm2-135m' brings it" >&2
  exit 1
fi
command -v python3 >/dev/null || { echo "bench: python3 is missing; see 'make deps'" >&2; exit 1; }
PEERS_PYTHON=
if [ "$PEERS" = 1 ]; then
  PEERS_PYTHON=$(tests/bench/peers/setup.sh)
fi
export B KVAUDIT BENCH_MODEL PEERS_PYTHON PYTHONDONTWRITEBYTECODE=1
exec python3 tests/bench/bench.py
