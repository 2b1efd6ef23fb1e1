#!/usr/bin/env bash
# proof_resume_kill.sh - SIGKILL of the parent at 20 random points, SIGINT, and SIGKILL of a worker: no
# outcome is lost or stored twice, the file stays whole, and what it holds in the end is what an
# undisturbed run holds.  KVA_SEED=N takes other points.
. tests/cli/common.inc
. tests/cli/proof.inc
seed=${KVA_SEED:-1}
echo "seed $seed"
RANDOM=$((seed % 32768))
rnd() { echo $(((RANDOM * 32768 + RANDOM) % $1)); }
suite s '"methods":["random","keydiff","snapkv:window=16","tova"],"tasks":["ruler/niah_single_2@320"],
  "budgets":[{"keep":0.5},{"tokens":60}],"defaults":{"n":20,"max_new_tokens":4}'
start=$(date +%s%N)
run_suite s base 0 --jobs 2
ms=$((($(date +%s%N) - start) / 1000000))
outcomes base >"$T/base.txt"
total=$(wc -l <"$T/base.txt")
is planned "$total" 200

alive() { # PID...: any that still runs (a zombie does not)
  local p
  for p; do
    case $(sed 's/^.*) //' "/proc/$p/stat" 2>/dev/null) in '' | Z* | X*) ;; *) echo "$p" ;; esac
  done
}
none_alive() { [ -z "$(alive "$@")" ]; }
gone() { until_true none_alive "$@"; }
stored() { sql "$1" "SELECT count(*) FROM outcome WHERE status = 'ok'" 2>/dev/null || echo 0; }
kids() { cat "/proc/$1/task/$1/children" 2>/dev/null; }

# A run is killed after a random time; when one gets through, a new file is begun.
kills=0 files=0 orphans=0 shrunk=0 damaged=0 differ=0 db=k0 last=0 tries=0 progress=0
while [ $kills -lt 20 ] && [ $tries -lt 200 ]; do
  tries=$((tries + 1))
  "$KVAUDIT" run "$T/s.json" --db "$T/$db.db" --jobs 2 --progress none >"$T/out" 2>"$T/err" &
  pid=$!
  sleep "$(awk -v m="$(rnd $((ms * 2 / 3 + 20)))" 'BEGIN {print m / 1000}')"
  children=$(kids $pid)
  if kill -KILL $pid 2>/dev/null; then
    wait $pid 2>/dev/null
    rc=$?
  else
    wait $pid
    rc=$?
  fi
  if [ $rc -eq 137 ]; then
    kills=$((kills + 1))
    gone $children || orphans=$((orphans + 1))
    if [ -e "$T/$db.db" ] && [ -s "$T/$db.db" ]; then
      [ "$(sqlite3 "$T/$db.db" 'PRAGMA integrity_check; PRAGMA foreign_key_check' 2>&1)" = ok ] || damaged=$((damaged + 1))
      now=$(stored $db)
      [ "$now" -ge "$last" ] || shrunk=$((shrunk + 1))
      [ "$now" -gt 0 ] && [ "$now" -lt "$total" ] && progress=$((progress + 1))
      last=$now
    fi
  elif [ $rc -eq 0 ]; then
    outcomes $db >"$T/$db.txt"
    cmp -s "$T/$db.txt" "$T/base.txt" || differ=$((differ + 1))
    files=$((files + 1)) db=k$((files)) last=0
  else
    no run_between_kills "exit $rc: $(head -c 300 "$T/err")"
    break
  fi
done
echo "$kills kills, $progress of them with a part stored, $files files finished between them"
is twenty_kills $kills 20
is workers_die_with_the_parent $orphans 0
is files_stay_whole $damaged 0
is nothing_stored_is_lost $shrunk 0
is files_finished_on_the_way_are_equal $differ 0
run_suite s $db 0 --jobs 2
outcomes $db >"$T/end.txt"
same what_is_stored_in_the_end "$T/end.txt" "$T/base.txt"
is nothing_twice "$(sort "$T/end.txt" | uniq -d | wc -l)" 0
is integrity "$(sql $db 'PRAGMA integrity_check')" ok
for x in base $db; do "$KVAUDIT" report --db "$T/$x.db" --json >"$T/$x.json" 2>/dev/null; done
if have_jq reports_of_both_files_agree; then
  for x in base $db; do jq -S '[.. | objects | {score, retention, rank, n} | select(.score != null)]' "$T/$x.json" >"$T/$x.report"; done
  same reports_of_both_files_agree "$T/base.report" "$T/$db.report"
  [ -s "$T/base.report" ] && [ "$(head -c 2 "$T/base.report")" != "[]" ] || no report_has_scores
fi
run_suite s $db 0
has second_run_has_nothing_to_do "$T/$db.err" "0 to do"

# SIGINT: after the current step, with what is finished kept
suite long '"methods":["random","keydiff","snapkv:window=16","tova"],"tasks":["ruler/niah_single_2@320"],
  "budgets":[{"keep":0.5},{"tokens":60}],"defaults":{"n":200,"max_new_tokens":4}'
for sig in INT TERM; do
  db=sig$sig
  "$KVAUDIT" run "$T/long.json" --db "$T/$db.db" --jobs 2 --progress none >"$T/out" 2>"$T/err" &
  pid=$!
  until_true so_many $db 10 $pid
  children=$(kids $pid)
  kill -$sig $pid
  wait $pid
  is "${sig}_exit" $? $((128 + $(kill -l $sig)))
  gone $children && ok "${sig}_workers_end" || no "${sig}_workers_end"
  has "${sig}_says_how_to_resume" "$T/err" "interrupted; \`kvaudit run $T/long.json --jobs 2 --db $T/$db.db\` resumes"
  count "${sig}_status" $db interrupted "SELECT status FROM run ORDER BY run_id DESC LIMIT 1"
  n=$(stored $db)
  [ "$n" -ge 10 ] && [ "$n" -lt 2000 ] && ok "${sig}_keeps_finished_outcomes" || no "${sig}_keeps_finished_outcomes $n"
done
run_suite long sigINT 0 --jobs 2 --limit 20
none resumed_is_complete sigINT "SELECT c.slug FROM cell c WHERE (SELECT count(*) FROM outcome o JOIN sample s USING(sample_id)
  WHERE o.cell_id = c.cell_id AND s.idx < 20 AND o.status = 'ok') <> 20"
count resumed_has_nothing_twice sigINT 0 "SELECT count(*) FROM (SELECT 1 FROM outcome GROUP BY cell_id, sample_id, rep HAVING count(*) > 1)"

# A worker killed costs its unit, which the next run repeats. When a run gets through before the
# signal, another is begun.
for w in w1 w2 w3 w4 w5 w6 w7 w8 w9; do
  "$KVAUDIT" run "$T/s.json" --db "$T/$w.db" --jobs 1 --progress none >"$T/out" 2>"$T/err" &
  pid=$!
  until_true so_many $w 5 $pid
  kill -KILL $(kids $pid) 2>/dev/null
  wait $pid
  rc=$?
  [ $rc -eq 0 ] || break
done
is killed_worker_exit $rc 5
has killed_worker_is_said "$T/err" "killed by signal 9"
[ "$(stored $w)" -ge $((total - 10)) ] && ok killed_worker_costs_one_unit || no killed_worker_costs_one_unit "$(stored $w) of $total"
run_suite s $w 0 --jobs 2
sql $w "$OUTCOMES" >"$T/w.txt"
same killed_unit_is_repeated "$T/w.txt" "$T/base.txt"
exit $bad
