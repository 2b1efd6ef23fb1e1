#!/usr/bin/env bash
# run.sh - runs the built test programs and the command-line scripts, and counts.
#
#   tests/run.sh [default|fast|slow|all|PATTERN]
#
# fast: no oracle comparisons, no planted cheats, no command-line runs of the real model, no proof_*; slow: only *_slow.
# A pattern narrows by path ("methods"). Output of a program is shown when it fails or skips.
# TEST_JOBS (the number of cores) run beside each other; lines come in the order they end.
# Last line: N passed, N failed, N skipped.
set -u
what=${1:-default}
: "${B:=build/plain}" "${KVAUDIT:=$B/kvaudit}" "${TEST_JOBS:=$(nproc)}" "${TEST_TIMEOUT:=900}"
export B KVAUDIT TEST_TIMEOUT
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export dir

wanted() { # path
  case $1 in
    *_slow*) [ "$what" = slow ] || [ "$what" = all ] ;;
    */oracle/* | */cheats/* | */cli/real_* | */cli/proof_*) [ "$what" != fast ] && [ "$what" != slow ] ;;
    *) [ "$what" != slow ] ;;
  esac
}
matches() {
  case $what in default | fast | slow | all) wanted "$1" ;; *) [[ $1 == *$what* ]] ;; esac
}

# One line for a test, then what a reader needs of its output.
report() { # path passed failed skipped seconds
  printf '%-52s %4s passed %s failed %s skipped  %.1fs\n' "$@"
}

run_program() { # source log
  local bin=$B/${1%.c*} start=${EPOCHREALTIME/[.,]/} rc p f s
  if [ ! -x "$bin" ]; then
    echo "FAIL $1: not built"
    echo "0 1 0" >"$2.count"
    return
  fi
  timeout "$TEST_TIMEOUT" "$bin" >"$2" 2>&1
  rc=$?
  # "passed failed skipped" from the summary of every group
  read -r p f s < <(awk '/^\[  PASSED  \] [0-9]+ test\(s\)/ {p += $4}
       /^\[  SKIPPED \] [0-9]+ test\(s\)/ {s += $4}
       /^ [0-9]+ FAILED TEST\(S\)/ {f += $1}
       END {printf "%d %d %d\n", p, f, s}' "$2")
  if [ $rc -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
  echo "$p $f $s" >"$2.count"
  report "$1" "$p" "$f" "$s" "$(seconds "$start")"
  if [ $rc -ne 0 ]; then
    [ $rc -lt 124 ] || echo "ended with status $rc"
    grep -v '^\[ *RUN *\]\|^\[ *OK *\]' "$2" | tail -40
  elif [ "$s" -ne 0 ]; then
    grep 'SKIP' "$2" | grep -v '^\[  SKIPPED' | head -4
  fi
}

run_script() { # script log
  local start=${EPOCHREALTIME/[.,]/} rc p f s
  timeout "$TEST_TIMEOUT" bash "$1" >"$2" 2>&1
  rc=$?
  p=$(grep -c '^ok ' "$2") f=$(grep -c '^not ok ' "$2") s=$(grep -c '^skip ' "$2")
  if [ $rc -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
  echo "$p $f $s" >"$2.count"
  report "$1" "$p" "$f" "$s" "$(seconds "$start")"
  if [ "$f" -ne 0 ]; then tail -40 "$2"; elif [ "$s" -ne 0 ]; then grep '^skip ' "$2" | head -4; fi
}

seconds() { awk -v a="$1" -v b="${EPOCHREALTIME/[.,]/}" 'BEGIN {printf "%.1f", (b - a) / 1e6}'; }

run_one() { # path
  local log=$dir/${1//\//_} out
  case $1 in *.c | *.cpp) out=$(run_program "$1" "$log") ;; *) out=$(run_script "$1" "$log") ;; esac
  flock "$dir" printf '%s\n' "$out"
}
export -f run_one run_program run_script report seconds

list() {
  local t
  # the long ones first, so that none of them ends alone
  for t in tests/cli/proof_*.sh tests/cli/real_*.sh tests/*/test_*.c tests/*/test_*.cpp tests/cli/*.sh; do
    [ -e "$t" ] && matches "$t" && echo "$t"
  done | awk '!seen[$0]++'
}

list | xargs -r -d '\n' -n 1 -P "$TEST_JOBS" bash -c 'run_one "$1"' run_one
n=$(list | wc -l)
read -r passed failed skipped ended < <(cat "$dir"/*.count 2>/dev/null |
  awk '{p += $1; f += $2; s += $3} END {printf "%d %d %d %d\n", p, f, s, NR}')
# a test that left no count did not run to its end
failed=$((failed + n - ended))

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
