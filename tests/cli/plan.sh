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
[ -e "$T/x.db" ] && no dry_run_makes_no_file || ok dry_run_makes_no_file
check dry_run_limit 0 "$KVAUDIT" run "$T/s.json" -n --limit 1 --set 'methods=["knorm"]' --only budget=keep=0.5
has dry_run_limit_is_said "$T/out" "limited to 1 samples a cell"
has dry_run_limit_counts "$T/out" "3 cells, 3 outcomes"
has dry_run_memory "$T/out" "largest cell: "
has dry_run_disk "$T/out" "the database grows by about "
sed 's/"defaults"/"exclude": [{"method": "random", "budget": {"keep": 0.25}}], "defaults"/' "$T/s.json" >"$T/ex.json"
check dry_run_exclude 0 "$KVAUDIT" run "$T/ex.json" -n
has dry_run_says_the_rule "$T/out" '/exclude/0 {"budget":{"keep":0.25},"method":"random"} removed 1 cell'
# with history: time, and how often samples differ from the full cache's
check dry_run_history_made 0 "$KVAUDIT" run "$T/s.json" --db "$T/h.db" --set 'tasks=["ruler/niah_single_2@320"]' --progress none
check dry_run_history 0 "$KVAUDIT" run "$T/s.json" --db "$T/h.db" -n --set 'tasks=["ruler/niah_single_2@320","ruler/niah_single_1@512"]' --set defaults.n=60
hasnt dry_run_knows_the_time "$T/out" "estimated time: unknown"
has dry_run_measured_pairs "$T/out" "measured on 12 pairs of ruler/niah_single_2@320"
has dry_run_assumed_pairs "$T/out" "with n = 60 no difference can be shown at 10 % discordant samples (power 0.8)"
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
  "$KVAUDIT" run "$T/ex.json" -n --json --shard 0/2 >"$T/out2"
  is plan_shard "$(jq -c '[.shard.i, .shard.n, .shard.balance, .shard.contexts, .shard.of, .exclude[0].method, .excluded]' "$T/out2")" \
    '[0,2,"cost",2,3,"random",[1]]'
  is plan_digests_differ "$(jq -r '.cells[].digest' "$T/out" | sort -u | wc -l)" 6
  # the environment and resources change no identity
  KVAUDIT_CPU=scalar KVAUDIT_JOBS=1 "$KVAUDIT" run "$T/s.json" -n --json --threads 2 >"$T/out2"
  same plan_does_not_depend_on_the_environment "$T/out" "$T/out2"
fi
exit $bad
