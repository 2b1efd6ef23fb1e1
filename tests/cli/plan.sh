#!/usr/bin/env bash
# plan.sh - `run --dry-run`: suite errors, counts, JSON; no file is made.
. tests/cli/common.inc
export KVAUDIT_CACHE=$T/cache KVAUDIT_DB=$T/x.db

cat >"$T/s.json" <<'J'
{
  "schema": 1, "name": "tiny",
  "models": ["builtin:retrieval"],
  "methods": ["keydiff", "random"],
  "tasks": ["ruler/vt@256"],
  "budgets": [{"keep": 0.5}, {"keep": 0.25}],
  "defaults": {"n": 3}
}
J
check dry_run 0 "$KVAUDIT" run "$T/s.json" --dry-run
has dry_run_counts "$T/out" "suite tiny: 6 cells, 18 outcomes"
has dry_run_todo "$T/out" "0 done, 18 to do"
has dry_run_estimate "$T/out" "estimated time: unknown"
check probe 0 "$KVAUDIT" run "$T/s.json" --dry-run --probe
hasnt probe_tells_the_time "$T/out" "estimated time: unknown"
has probe_is_said "$T/out" "(builtin:retrieval by two probe prompts"
check probe_runs_nothing_else 2 "$KVAUDIT" run "$T/s.json" --probe
has probe_is_for_a_dry_run "$T/err" "--probe goes with --dry-run"
check probe_needs_a_suite 2 "$KVAUDIT" run --rescore --dry-run --probe
[ -e "$T/x.db" ] && no dry_run_makes_no_file || ok dry_run_makes_no_file
check dry_run_limit 0 "$KVAUDIT" run "$T/s.json" -n --limit 1 --set 'methods=["knorm"]' --only budget=keep=0.5
has dry_run_limit_is_said "$T/out" "limited to 1 samples a cell"
has dry_run_limit_counts "$T/out" "3 cells, 3 outcomes"
has dry_run_memory "$T/out" "largest cell: "
has dry_run_disk "$T/out" "the database grows by about "
sed 's/"defaults"/"exclude": [{"method": "random", "budget": {"keep": 0.25}}], "defaults"/' "$T/s.json" >"$T/ex.json"
check dry_run_exclude 0 "$KVAUDIT" run "$T/ex.json" -n
has dry_run_says_the_rule "$T/out" '/exclude/0 {"budget":{"keep":0.25},"method":"random"} removed 1 cell'
# names of more bytes than letters stand under their heading
printf '{"context":"a b c d","question":"e","answers":["f"]}\n' >"$T/fragen ü.jsonl"
sed 's/"tasks": .*/"tasks": ["ruler\/vt@256", "jsonl:fragen ü.jsonl"],/' "$T/s.json" >"$T/letters.json"
check dry_run_of_letters 0 "$KVAUDIT" run "$T/letters.json" -n
is columns_stand_below_each_other "$(sed -n 's/ü/u/g; /^model/,/^$/p' "$T/out" | grep . |
  awk '{print match($0, /(method|keydiff|random|dense|blind) /)}' | sort -u | wc -l)" 1
# with history: time, and how often samples differ from the full cache's
check dry_run_history_made 0 "$KVAUDIT" run "$T/s.json" --db "$T/h.db" --set 'tasks=["ruler/niah_single_2@320"]' --progress none
check dry_run_history 0 "$KVAUDIT" run "$T/s.json" --db "$T/h.db" -n --set 'tasks=["ruler/niah_single_2@320","ruler/niah_single_1@512"]' --set defaults.n=60
hasnt dry_run_knows_the_time "$T/out" "estimated time: unknown"
cp "$T/out" "$T/known"
cp "$T/h.db" "$T/before.db"
check probe_with_history 0 "$KVAUDIT" run "$T/s.json" --db "$T/h.db" -n --probe --set 'tasks=["ruler/niah_single_2@320","ruler/niah_single_1@512"]' --set defaults.n=60
same history_needs_no_probe "$T/out" "$T/known"
check probe_with_another_model 0 "$KVAUDIT" run "$T/s.json" --db "$T/h.db" -n --probe --set 'models=["builtin:tiny-llama"]' --set 'tasks=["ruler/niah_single_2@512"]'
has another_model_is_probed "$T/out" "(builtin:tiny-llama by two probe prompts"
same probe_stores_nothing "$T/h.db" "$T/before.db"
has dry_run_measured_pairs "$T/known" "measured on 12 pairs of ruler/niah_single_2@320"
has dry_run_assumed_pairs "$T/known" "with n = 60 no difference can be shown at 10 % discordant samples (power 0.8)"
# what no model of the suite can take is said once, with the arithmetic, before anything runs
cat >"$T/fit.json" <<'J'
{"schema": 1, "name": "fit", "models": ["builtin:tiny-llama"], "methods": ["keydiff", "knorm"],
 "tasks": ["ruler/niah_single_1@16384", "ruler/vt@64", "ruler/niah_single_1@1024"],
 "budgets": [{"keep": 0.5}, {"keep": 0.25}], "defaults": {"n": 2, "max_new_tokens": 8}}
J
check dry_run_fits 0 "$KVAUDIT" run "$T/fit.json" -n
is two_tasks_do_not_fit "$(grep -c '^DOES NOT FIT' "$T/out")" 2
if grep -qE '^DOES NOT FIT: ruler/niah_single_1@16384 on builtin:tiny-llama: prompt of 16[0-9]+ tokens and 8 to generate exceed the model.s context of 8192; 10 outcomes will be .truncated.$' "$T/out"; then
  ok context_of_the_model
else no context_of_the_model "$(grep FIT "$T/out")"; fi
has length_of_the_task "$T/out" "task ruler/vt does not fit in 64"
if have_jq misfits_json; then
  is misfits_json "$("$KVAUDIT" run "$T/fit.json" -n --json | jq -c '[.misfits[] | .all, .todo, .context, .prompt > 0]')" \
    "[true,10,8192,true,true,12,0,false]"
fi
check run_says_it_too 5 "$KVAUDIT" run "$T/fit.json" --db "$T/fit.db" --progress none --limit 1
is run_says_it_once "$(grep -c 'does not fit: ' "$T/err")" 2
has outcomes_are_as_said "$T/err" "6 outcomes of this suite failed, 5 do not fit"
check nothing_left_is_not_told_again 5 "$KVAUDIT" run "$T/fit.json" --db "$T/fit.db" --progress none --limit 1 \
  --only task='ruler/niah_single_1@16384'
hasnt truncated_is_told_once "$T/err" "does not fit: "
# of samples that differ in length the longest speaks, and one given as ids is known without tokenising
mkdir "$T/lb"
words() { printf 'word %.0s' $(seq "$1"); }
ids=$(printf '65,%.0s' $(seq 8190))
for n in 5 2000 20; do
  echo "{\"context\": \"$(words $n)\", \"question\": \" q?\", \"answers\": [\"a\"], \"max_new_tokens\": 4}" >>"$T/own.jsonl"
done
{ head -1 "$T/own.jsonl"; echo "{\"context_ids\": [${ids%,}], \"question_ids\": [66, 67], \"answers\": [\"a\"], \"max_new_tokens\": 4}"; } >"$T/ids.jsonl"
for n in 5 9000 20; do
  echo "{\"input\": \"what?\", \"context\": \"$(words $n)\", \"answers\": [\"a\"], \"all_classes\": null, \"length\": $n, \"language\": \"en\", \"dataset\": \"qasper\", \"_id\": \"$n\"}"
done >"$T/lb/qasper.jsonl"
cat >"$T/long.json" <<'J'
{"schema": 1, "name": "long", "models": ["builtin:tiny-llama"], "methods": ["keydiff"], "data": {"longbench": "lb"},
 "tasks": ["jsonl:own.jsonl", "jsonl:ids.jsonl", "longbench/qasper@4096", "longbench/qasper@8192", "longbench/qasper"],
 "budgets": [{"keep": 0.5}], "defaults": {"n": 3}, "blind": false}
J
check dry_run_looks_at_all 0 "$KVAUDIT" run "$T/long.json" -n
grep '^DOES NOT FIT' "$T/out" | sed 's/^DOES NOT FIT: //; s/ tokens and.*//' >"$T/misfits"
cat >"$T/want" <<'J'
jsonl:own.jsonl on builtin:tiny-llama: sample 1 (the longest of 3 in bytes): prompt of 10005
jsonl:ids.jsonl on builtin:tiny-llama: sample 1: prompt of 8192
longbench/qasper@8192 on builtin:tiny-llama: sample 1 (the longest of 3 in bytes): prompt of 8192
longbench/qasper on builtin:tiny-llama: sample 1 (the longest of 3 in bytes): prompt of 45693
J
same the_longest_sample_speaks "$T/misfits" "$T/want"
# a part of the suite speaks of its own samples alone
{ tail -1 "$T/ids.jsonl"; echo '{"context_ids": [65], "question_ids": [66], "answers": ["a"], "max_new_tokens": 4}'; } >"$T/part.jsonl"
sed 's/"tasks": .*/"tasks": ["jsonl:part.jsonl"],/; s/"n": 3/"n": 2/' "$T/long.json" >"$T/part.json"
for i in 0 1; do "$KVAUDIT" run "$T/part.json" -n --shard "$i/2" --balance mod >"$T/part.$i"; done
is one_part_of_two_has_the_misfit "$(grep -l 'DOES NOT FIT: .*sample 0' "$T"/part.[01] | wc -l)" 1
check run_of_short_and_long 5 "$KVAUDIT" run "$T/long.json" --db "$T/long.db" --progress none --only task='jsonl:*'
is run_names_the_longest "$(grep -c 'does not fit: .*sample 1' "$T/err")" 2
has run_counts_what_does_not_fit "$T/err" "4 do not fit"
# -q is "errors only"; what is asked for by name is shown all the same
niah='tasks=["ruler/niah_single_1@320"]'
check quiet_run 0 "$KVAUDIT" run "$T/s.json" --db "$T/q.db" --limit 1 -q --set "$niah"
empty quiet_run_says_nothing "$T/err"
empty quiet_run_has_no_data "$T/out"
check quiet_with_events 0 "$KVAUDIT" run "$T/s.json" --db "$T/q.db" --limit 2 -q --set "$niah" --progress json
has events_are_asked_for "$T/err" '{"event":"end"'
check quiet_tells_failures 5 "$KVAUDIT" run "$T/s.json" --db "$T/q.db" --limit 1 -q
has quiet_failure_is_named "$T/err" "ruler/vt does not fit in 256"
check no_suite 2 "$KVAUDIT" run
check missing_suite 3 "$KVAUDIT" run "$T/none.json" -n
check run_without_its_model 3 "$KVAUDIT" run configs/smoke.json --db "$T/new.db"
check audit_without_its_model 3 "$KVAUDIT" audit configs/smoke.json --db "$T/new.db"
is nothing_is_left_of_it "$(ls "$T"/new.db* 2>/dev/null)" ""
check missing_model 3 "$KVAUDIT" run configs/smoke.json -n
has missing_model_says_how "$T/err" "kvaudit fetch smollm2-135m"
sed 's/0.25/20/; s/random/randon/' "$T/s.json" >"$T/bad.json"
check bad_suite 2 "$KVAUDIT" run "$T/bad.json" -n
is bad_suite_first_line "$(sed -n 1p "$T/err")" "$T/bad.json:4:26: /methods/1: unknown method \"randon\"; did you mean \"random\"?"
is bad_suite_second_line "$(sed -n 2p "$T/err")" "$T/bad.json:6:39: /budgets/1/keep: 20 is not in (0,1); did you mean 0.2?"
has bad_suite_counts "$T/err" "bad.json: 2 errors"
empty bad_suite_stdout "$T/out"
check bad_set 2 "$KVAUDIT" run "$T/s.json" -n --set defaults.m=3
has bad_set_is_placed "$T/err" "--set defaults.m=3: /defaults/m: unknown key"
if have_jq plan_json; then
  "$KVAUDIT" run "$T/s.json" -n --json >"$T/out"
  is plan_schema "$(jq -r .schema "$T/out")" kvaudit.plan/1
  is plan_numbers "$(jq -c '[.planned, .todo, .done, .units, (.cells | length)]' "$T/out")" "[18,18,0,3,6]"
  is plan_estimates "$(jq -c '[.seconds, (.disk_bytes > 0), (.machine_bytes > 0), .shard, .exclude, ([.cells[] | .fits] | all), .cells[0].pairs, .cells[0].discordant]' "$T/out")" \
    "[null,true,true,null,null,true,0,0.1]"
  is nothing_probed "$(jq -c .probed "$T/out")" "[]"
  is probed_json "$("$KVAUDIT" run "$T/s.json" -n --probe --json | jq -c '[.seconds > 0, .probed]')" '[true,["builtin:retrieval"]]'
  "$KVAUDIT" run "$T/ex.json" -n --json --shard 0/2 >"$T/out2"
  is plan_shard "$(jq -c '[.shard.i, .shard.n, .shard.balance, .shard.contexts, .shard.of, .exclude[0].method, .excluded]' "$T/out2")" \
    '[0,2,"cost",2,3,"random",[1]]'
  is plan_digests_differ "$(jq -r '.cells[].digest' "$T/out" | sort -u | wc -l)" 6
  # the environment and resources change no identity
  KVAUDIT_CPU=scalar KVAUDIT_JOBS=1 "$KVAUDIT" run "$T/s.json" -n --json --threads 2 >"$T/out2"
  same plan_does_not_depend_on_the_environment "$T/out" "$T/out2"
fi
exit $bad
