#!/usr/bin/env bash
# proof_sampling.sh - sampled answers from suite to report: the plan says how, resources, shards, kills and
# more draws later change no token, the greedy cells beside them are what they were, pairs are means.
. tests/cli/common.inc
. tests/cli/proof.inc
have_jq sampling || exit 0
REST='"methods":["keydiff","random"],"tasks":["ruler/niah_single_2@320","ruler/niah_single_1@256"],
  "budgets":[{"keep":0.5}],"schedules":["oneshot","block:64+decode:1"],"defaults":{"n":6,"max_new_tokens":5}'
DRAWN='{"temperature":20,"top_p":0.9,"samples":4}'
suite s "$REST,\"sampling\":[\"greedy\",$DRAWN]"
suite greedy "$REST"
suite three "$REST,\"sampling\":[\"greedy\",{\"temperature\":20,\"top_p\":0.9,\"samples\":3}]"

check dry_run 0 "$KVAUDIT" run "$T/s.json" --db "$T/none.db" --dry-run
has dry_run_says_how "$T/out" "12 cells at sampling t20-p0.9, up to 4 draws a sample"
has dry_run_counts_draws "$T/out" "24 cells, 360 outcomes"
"$KVAUDIT" run "$T/s.json" --db "$T/none.db" --dry-run --json >"$T/plan.json"
is json_says_how "$(jq -r '[.cells[].sampling] | unique | join(" ")' "$T/plan.json")" "greedy t20-p0.9"
check set_greedy 0 "$KVAUDIT" run "$T/s.json" --db "$T/none.db" --dry-run --set sampling=greedy
has set_greedy_counts "$T/out" "12 cells, 72 outcomes"
check set_object 0 "$KVAUDIT" run "$T/s.json" --db "$T/none.db" --dry-run --set 'sampling={"temperature":0.6,"top_k":20}'
has set_object_says_how "$T/out" "at sampling t0.6-k20, up to 1 draw a sample"
check set_wrong 2 "$KVAUDIT" run "$T/s.json" --db "$T/none.db" --dry-run --set sampling=hot
has set_wrong_says_where "$T/err" "--set sampling=hot: /sampling: must be \"greedy\" or"
check timed 2 "$KVAUDIT" run "$T/s.json" --db "$T/none.db" --dry-run --set perf=1
has timed_says_why "$T/err" "/sampling/1: perf goes with greedy answers"

run_suite s one 0 --jobs 2
outcomes one >"$T/one.txt"
is planned "$(wc -l <"$T/one.txt")" 360
count draws_differ one 1 "SELECT count(*) > 50 FROM (SELECT 1 FROM outcome JOIN cell USING(cell_id)
  WHERE spec_json LIKE '%t20-%' GROUP BY cell_id, sample_id HAVING count(DISTINCT gen_sha256) > 1)"
none gold_nats_are_shared one "SELECT cell_id, sample_id FROM outcome JOIN score USING(outcome_id)
  WHERE metric = 'gold_nll' GROUP BY 1, 2 HAVING count(DISTINCT value) > 1"
"$KVAUDIT" list runs --db "$T/one.db" >"$T/out"
has list_says_how "$T/out" '"temperature":20'

run_suite s alone 0 --jobs 1 --wave 1 --threads 2
outcomes alone >"$T/alone.txt"
same one_at_a_time "$T/alone.txt" "$T/one.txt"
run_suite greedy greedy 0 --jobs 2
outcomes greedy >"$T/greedy.txt"
grep -F -x -f "$T/greedy.txt" "$T/one.txt" >"$T/both.txt"
same greedy_cells_are_what_they_were "$T/both.txt" "$T/greedy.txt"

# draws that come later, after a kill
"$KVAUDIT" run "$T/three.json" --db "$T/later.db" --jobs 1 --progress none >/dev/null 2>&1 &
pid=$!
until_true so_many later 30 $pid
kill -KILL $pid 2>/dev/null
wait $pid 2>/dev/null
sql later "SELECT 1" >/dev/null && sqlite3 "$T/later.db" "PRAGMA foreign_keys = ON; DELETE FROM outcome WHERE (outcome_id * 7) % 5 < 2"
run_suite s later 0 --jobs 2
outcomes later >"$T/later.txt"
same more_draws_later "$T/later.txt" "$T/one.txt"

files=()
for i in 0 1 2; do
  run_suite s "q$i" 0 --jobs 1 --shard "$i/3"
  files+=("$T/q$i.db")
done
check merge 0 "$KVAUDIT" merge "$T/all.db" "${files[@]}"
outcomes all >"$T/all.txt"
same shards "$T/all.txt" "$T/one.txt"

# an audit's arms are those of the same sampling; its probes ask questions that are empty, too
check audit 0 "$KVAUDIT" audit "$T/s.json" --only method=keydiff,schedule=oneshot --limit 2 --db "$T/audit.db"
has audit_judges "$T/out" "K3"

# 24 draws of 6 samples are 6 samples
run_suite s floor 0 --jobs 2 --only sampling=t20*,schedule=oneshot
has watch_counts_samples "$T/floor.err" "with the full cache (6 samples)"

# a sample's score is the mean of its draws, in boards and in pairs
"$KVAUDIT" report answers --json --db "$T/one.db" >"$T/r.json"
tables='[.tables[] | select(.id | endswith("-draws"))]'
is draw_tables "$(jq "$tables | length > 0" "$T/r.json")" true
check compare 0 "$KVAUDIT" compare method=keydiff method=random --db "$T/one.db" --json
pairs=$(jq '[.. | objects | .n? // empty | numbers] | max' "$T/out")
check compare_sampled 0 "$KVAUDIT" compare method=keydiff,sampling=t20* method=random,sampling=t20* --db "$T/one.db" --json
is compare_selects_sampling "$(jq .a.cells "$T/out")" 4
check compare_with_greedy 0 "$KVAUDIT" compare method=keydiff,sampling=t20* method=keydiff,sampling=greedy --db "$T/one.db"
has pairs_of_both "$T/out" "0 of 4 pairs"
check compare_both 0 "$KVAUDIT" compare method=keydiff method=random --db "$T/one.db"
has compare_tells_them_apart "$T/out" "oneshot, t20-p0.9"
"$KVAUDIT" report pairs --db "$T/one.db" >"$T/pairs.txt"
has no_line_of_both "$T/pairs.txt" "keydiff (t20-p0.9)"
[ "${pairs:-0}" -gt 0 ] && [ "$pairs" -le 24 ] && ok pairs_are_samples || no pairs_are_samples "$pairs"
