#!/usr/bin/env bash
# run.sh - runs the built test programs and the command-line scripts, and counts.
#
#   tests/run.sh [default|fast|slow|all|PATTERN]
#
# fast: no oracle comparisons, no command-line runs of the real model, no proof_*; slow: only *_slow.
# A pattern narrows by path ("methods"). Output of a program is shown when it fails or skips.
# Last line: N passed, N failed, N skipped.
set -u
what=${1:-default}
: "${B:=build/plain}" "${KVAUDIT:=$B/kvaudit}"
export KVAUDIT
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

wanted() { # path
  case $1 in
    *_slow*) [ "$what" = slow ] || [ "$what" = all ] ;;
    */oracle/* | */cli/real_* | */cli/proof_*) [ "$what" != fast ] && [ "$what" != slow ] ;;
    *) [ "$what" != slow ] ;;
  esac
}
matches() {
  case $what in default | fast | slow | all) wanted "$1" ;; *) [[ $1 == *$what* ]] ;; esac
}

count_cmocka() { # "passed failed skipped" from the summary of every group in the log
  awk '/^\[  PASSED  \] [0-9]+ test\(s\)/ {p += $4}
       /^\[  SKIPPED \] [0-9]+ test\(s\)/ {s += $4}
       /^ [0-9]+ FAILED TEST\(S\)/ {f += $1}
       END {printf "%d %d %d\n", p, f, s}' "$log"
}

for src in tests/*/test_*.c; do
  matches "$src" || continue
  bin=$B/${src%.c}
  if [ ! -x "$bin" ]; then
    echo "FAIL $src: not built"
    failed=$((failed + 1))
    continue
  fi
  start=${EPOCHREALTIME/[.,]/}
  timeout "${TEST_TIMEOUT:-900}" "$bin" >"$log" 2>&1
  rc=$?
  secs=$(awk -v a="$start" -v b="${EPOCHREALTIME/[.,]/}" 'BEGIN {printf "%.1f", (b - a) / 1e6}')
  read -r p f s < <(count_cmocka)
  if [ $rc -ne 0 ] && [ "$f" -eq 0 ]; then
    failed=$((failed + 1))
    f=crash
  fi
  [ "$f" = crash ] || failed=$((failed + f))
  passed=$((passed + p)) skipped=$((skipped + s))
  printf '%-52s %4s passed %s failed %s skipped  %.1fs\n' "$src" "$p" "$f" "$s" "$secs"
  if [ $rc -ne 0 ]; then
    grep -v '^\[ *RUN *\]\|^\[ *OK *\]' "$log" | tail -40
  elif [ "$s" -ne 0 ]; then
    grep 'SKIP' "$log" | grep -v '^\[  SKIPPED' | head -4
  fi
done

for script in tests/cli/*.sh; do
  [ -e "$script" ] || continue
  matches "$script" || continue
  start=${EPOCHREALTIME/[.,]/}
  timeout "${TEST_TIMEOUT:-900}" bash "$script" >"$log" 2>&1
  rc=$?
  secs=$(awk -v a="$start" -v b="${EPOCHREALTIME/[.,]/}" 'BEGIN {printf "%.1f", (b - a) / 1e6}')
  p=$(grep -c '^ok ' "$log") f=$(grep -c '^not ok ' "$log") s=$(grep -c '^skip ' "$log")
  if [ $rc -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  printf '%-52s %4s passed %s failed %s skipped  %.1fs\n' "$script" "$p" "$f" "$s" "$secs"
  if [ "$f" -ne 0 ]; then tail -40 "$log"; elif [ "$s" -ne 0 ]; then grep '^skip ' "$log" | head -4; fi
done

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
