#!/usr/bin/env bash
# proof_shards.sh - a suite measured in 1, 2, 3 and 7 shards, one after another, at the same time, and
# with one killed half way and run again, gives the outcomes of one process; so does the report of the
# files in two orders. Left out of the comparison: which runs there were, and when.
. tests/cli/common.inc
. tests/cli/proof.inc
have_jq proof_shards || exit 0
suite s '"methods":["random","keydiff","snapkv:window=16","tova"],"tasks":["ruler/niah_single_2@320","ruler/niah_single_1@256"],
  "budgets":[{"keep":0.5},{"tokens":60}],"defaults":{"n":12,"reps":2,"max_new_tokens":4}'
run_suite s one 0 --jobs 2
outcomes one >"$T/one.txt"
total=$(wc -l <"$T/one.txt")
is planned "$total" $((2 * 10 * 12 * 2))

report() { # FILES...: the report without its list of runs and their times
  local args=() f
  for f; do args+=(--db "$T/$f.db"); done
  "$KVAUDIT" report --json "${args[@]}" 2>"$T/err" |
    jq 'del(.generated) | .tables |= map(select(.id != "runs")) | .footer |= map(select(test("from results up to") | not))'
}
report one >"$T/one.json"
[ -s "$T/one.json" ] && [ "$(jq '.tables | length' "$T/one.json")" -gt 0 ] && ok a_report_to_compare || no a_report_to_compare "$(head -c 300 "$T/err")"

shard() { # I N FILE [OPTIONS]
  "$KVAUDIT" run "$T/s.json" --db "$T/$3.db" --progress none --jobs 1 --shard "$1/$2" "${@:4}" >"$T/$3.out" 2>"$T/$3.err"
}
# joined NAME FILES...: outcomes and reports of the files, in this order and the other way round
joined() {
  local name=$1 f back=()
  shift
  for f; do outcomes "$f"; done | LC_ALL=C sort >"$T/$name.txt"
  for f; do back=("$f" "${back[@]}"); done
  LC_ALL=C sort "$T/one.txt" >"$T/sorted.txt"
  same "${name}_outcomes" "$T/$name.txt" "$T/sorted.txt"
  report "$@" >"$T/$name.json"
  same "${name}_report" "$T/$name.json" "$T/one.json"
  report "${back[@]}" >"$T/$name.json"
  same "${name}_report_backwards" "$T/$name.json" "$T/one.json"
  merged "$name" "$@"
  merged "${name}_backwards" "${back[@]}"
}
# merged NAME FILES...: the same through one merged file
merged() {
  local name=$1 f in=()
  shift
  "$KVAUDIT" merge --help >/dev/null 2>&1 || { skip "${name}_merge" "merge is not built"; return; }
  for f; do in+=("$T/$f.db"); done
  rm -f "$T/all.db"*
  if ! "$KVAUDIT" merge "$T/all.db" "${in[@]}" >"$T/out" 2>"$T/err"; then
    no "${name}_merge" "$(head -c 300 "$T/err")"
    return
  fi
  report all >"$T/$name.json"
  same "${name}_merged" "$T/$name.json" "$T/one.json"
}

for n in 1 2 3 7; do
  files=() bad_exit=
  for i in $(seq 0 $((n - 1))); do
    shard "$i" $n "q$n.$i" || bad_exit="$i: $?: $(head -c 200 "$T/q$n.$i.err")"
    files+=("q$n.$i")
  done
  is "in_sequence_${n}_exit" "$bad_exit" ""
  joined "in_sequence_$n" "${files[@]}"
done

# at the same time; the second of three is killed with a part stored, its orphans end by themselves
pids=() files=()
for i in 0 2; do
  shard $i 3 "p$i" &
  pids+=($!)
done
killed=0 whole=$(sql q3.1 "SELECT count(*) FROM outcome")
for try in $(seq 40); do # again when it got through first
  rm -f "$T/p1.db"*
  setsid "$KVAUDIT" run "$T/s.json" --db "$T/p1.db" --progress none --jobs 1 --shard 1/3 >"$T/p1.out" 2>"$T/p1.err" &
  pid=$!
  until_true so_many p1 20 $pid
  kill -KILL $pid 2>/dev/null
  wait $pid 2>/dev/null
  [ $? -eq 137 ] && [ "$(n_outcomes p1)" -lt "$whole" ] && killed=1 && break
done
wait "${pids[@]}"
is shard_killed "$killed" 1
n=$(n_outcomes p1)
[ "$n" -ge 20 ] && ok killed_half_way || no killed_half_way "$n of $whole"
shard 1 3 p1
is rerun_exit $? 0
count killed_run_is_marked p1 "killed done" "SELECT group_concat(status, ' ') FROM (SELECT status FROM run ORDER BY run_id)"
joined at_once p0 p1 p2
# the assignment is the suite's: cut by turns it differs, and is whole again
for i in 0 1; do shard $i 2 "m$i" --balance mod; done
joined by_turns m0 m1

# more shards than contexts: the last are empty, say so, and leave their run
shard 24 25 empty
is empty_exit $? 0
count empty_run empty "24 25 done" "SELECT shard_i || ' ' || shard_n || ' ' || status FROM run"
count empty_plan empty "$((2 * 10))" "SELECT count(*) FROM plan"
check dry_run 0 "$KVAUDIT" run "$T/s.json" --db "$T/none.db" -n --shard 1/5
has dry_run_says_what "$T/out" "shard 1/5 by cost: 4 of 24 contexts"
for b in 3 5/5 -1/5 1/0 x/y; do
  check "refused_$b" 2 "$KVAUDIT" run "$T/s.json" --db "$T/none.db" --shard "$b"
done
has says_how "$T/err" "--shard wants I/N"
check balance_alone 2 "$KVAUDIT" run "$T/s.json" --db "$T/none.db" --balance mod
exit $bad
