#!/usr/bin/env bash
# audit.sh - `kvaudit audit`: every arm, every claim, resume, what the report shows of it.
. tests/cli/common.inc
export KVAUDIT_JOBS=2
cat >"$T/a.json" <<'END'
{"schema": 1, "name": "a", "defaults": {"seed": 3, "n": 3, "max_new_tokens": 8, "perf": 1},
 "models": ["builtin:retrieval"], "methods": ["snapkv+adakv", "keydiff", "knorm+global:norm=z"],
 "tasks": ["ruler/niah_single_2@144", "ruler/vt@400"], "budgets": [{"keep": 0.5}, {"keep": 0.25}]}
END
db=$T/a.db
sql() { sqlite3 "$db" "$1"; }
latest="run_id = (SELECT max(run_id) FROM an_claim)"

check physical_claims_hold 0 "$KVAUDIT" audit "$T/a.json" --db "$db" --quiet --progress none
cp "$T/out" "$T/grid"
for word in "held as" UPHELD-C REFUTED MASK_ONLY "What is lost" "Bytes claimed"; do
  has "the_grid_has_$(echo "$word" | tr ' ' _)" "$T/grid" "$word"
done
if command -v sqlite3 >/dev/null; then
  is every_masked_row_freed_nothing "$(sql "SELECT DISTINCT verdict, reason FROM an_claim
    WHERE $latest AND impl = 'mask' AND claim = 'K1'")" "REFUTED|MASK_ONLY"
  is fake_keys_free_nothing_either "$(sql "SELECT DISTINCT verdict, reason FROM an_claim
    WHERE $latest AND impl = 'fakekey' AND claim = 'K1'")" "REFUTED|MASK_ONLY"
  is fake_keys_are_judged_like_masks "$(sql "SELECT count(*) FROM an_claim m JOIN an_claim f
    USING(run_id, cell_id, claim) WHERE $latest AND m.impl = 'mask' AND f.impl = 'fakekey'
    AND claim IN ('K1', 'K2', 'K3', 'K4', 'K8') AND m.verdict = f.verdict
    AND m.value IS f.value")" 30
  is fake_keys_say_what_masks_say "$(sql "SELECT count(*), sum(a.gen_sha256 IS NOT b.gen_sha256
    OR a.kept_fnv <> b.kept_fnv OR a.score <> b.score) FROM outcome a JOIN cell m USING(cell_id)
    JOIN cell f ON f.task_id = m.task_id AND f.method_id = m.method_id AND f.budget = m.budget
    JOIN outcome b ON b.cell_id = f.cell_id AND b.sample_id = a.sample_id AND b.rep = a.rep
    WHERE m.enforce = 'mask' AND f.enforce = 'fakekey'")" "36|0"
  is copies_for_query_heads_are_over "$(sql "SELECT DISTINCT verdict, reason FROM an_claim
    WHERE $latest AND impl = 'qhead' AND claim = 'K1'")" "REFUTED|BYTES_OVER"
  is copies_keep_the_share_and_the_answers "$(sql "SELECT DISTINCT verdict FROM an_claim
    WHERE $latest AND impl = 'qhead' AND claim IN ('K2', 'K3')")" UPHELD
  is masked_and_physical_say_the_same "$(sql "SELECT DISTINCT verdict FROM an_claim
    WHERE $latest AND impl IN ('mask', 'physical') AND claim = 'K3'")" UPHELD
  is no_question_was_seen "$(sql "SELECT DISTINCT verdict FROM an_claim
    WHERE $latest AND impl = 'physical' AND claim = 'K5'")" UPHELD
  is what_the_full_cache_loses_is_no_claim "$(sql "SELECT DISTINCT verdict, note FROM an_claim
    WHERE $latest AND impl = 'physical' AND claim = 'K6'")" "N/A|the prompt is read before it is cut"
  is storage_costs_nothing "$(sql "SELECT DISTINCT value FROM an_claim
    WHERE $latest AND claim IN ('score.storage', 'score.overshoot')")" 0.0
  is six_rows_are_judged "$(sql "SELECT count(*) FROM an_claim WHERE $latest AND impl = 'physical'
    AND claim = 'headline'")" 6
  is the_parts_add_up "$(sql "SELECT count(*) FROM an_claim t JOIN an_claim s USING(run_id, cell_id, impl)
    JOIN an_claim o USING(run_id, cell_id, impl) JOIN an_claim u USING(run_id, cell_id, impl)
    WHERE t.claim = 'nats.total' AND s.claim = 'nats.storage' AND o.claim = 'nats.overshoot'
    AND u.claim = 'nats.uniformity' AND abs(t.value - s.value - o.value - u.value) > 1e-9")" 0
  is leaks_are_stored "$(sql "SELECT count(DISTINCT variant), sum(changed), min(jaccard)
    FROM an_leak")" "3|0|1.0"
else
  skip rows_of_the_audit "no sqlite3"
fi

check a_second_audit_measures_nothing 0 "$KVAUDIT" audit "$T/a.json" --db "$db" --progress none
has a_second_audit_says_so "$T/err" "0 to do"
same the_same_verdicts_again <(sed '/^Made by/d' "$T/out") <(sed '/^Made by/d' "$T/grid")
check the_report_shows_it 0 "$KVAUDIT" report audit --db "$db"
has the_report_has_the_grid "$T/out" "MASK_ONLY"
check bit_by_bit 0 "$KVAUDIT" audit "$T/a.json" --db "$db" --exact --probes 1 --quiet --only method=keydiff
check as_json 0 "$KVAUDIT" audit "$T/a.json" --db "$db" --json --quiet
if have_jq json_of_the_audit; then
  is json_schema "$(jq -r .schema "$T/out")" kvaudit.audit/1
  is json_rows_have_all_claims "$(jq '[.rows[].claims | length] | unique | .[]' "$T/out")" 8
  ! command -v sqlite3 >/dev/null || is json_rows_are_those_stored "$(jq '.rows | length' "$T/out")" \
    "$(sql "SELECT count(*) FROM an_claim WHERE $latest AND claim = 'headline'")"
fi
check no_probe_is_untested 0 "$KVAUDIT" audit "$T/a.json" --db "$db" --probes 0 --quiet
has no_probe_says_so "$T/out" "no probe ran"
check plan_only 0 "$KVAUDIT" audit "$T/a.json" --db "$T/none.db" --dry-run
if [ -e "$T/none.db" ]; then no plan_writes_nothing; else ok plan_writes_nothing; fi
check report_without_an_audit 0 "$KVAUDIT" report --db "$db"

# a budget that no head can live on: its claims are untested, the others are judged all the same
cat >"$T/few.json" <<'END'
{"schema": 1, "defaults": {"n": 1, "max_new_tokens": 2, "max_attempts": 1}, "models": ["builtin:retrieval"],
 "methods": ["keydiff"], "tasks": ["ruler/niah_single_2@144"], "budgets": [{"keep": 0.5}, {"bytes": 1}]}
END
check failed_cells_are_exit_5 5 "$KVAUDIT" audit "$T/few.json" --db "$T/few.db" --progress none
has failed_cells_are_untested "$T/out" "keydiff  1 bytes  physical  UNTESTED"
has the_others_are_judged "$T/out" "MASK_ONLY"
sed 's/"tasks"/"enforce": ["mask"], "tasks"/' "$T/a.json" >"$T/mask.json"
check only_masks_is_usage 2 "$KVAUDIT" audit "$T/mask.json" --db "$T/none.db"
has only_masks_says_why "$T/err" "nothing to audit"
check no_suite_is_usage 2 "$KVAUDIT" audit
exit $bad
