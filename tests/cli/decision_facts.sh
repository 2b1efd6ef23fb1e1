#!/usr/bin/env bash
# decision_facts.sh - what a decision says beside what it kept travels from the runner to the
# database and the reports: an allocator that fell back to uniform shares (pyramid), and how often the
# first stage of critical holds more than half of the attention. Layerwise cells hold what was decided
# layer by layer, united ones (an arm of the audit) what each layer's union holds.
. tests/cli/common.inc
export KVAUDIT_JOBS=1
cat >"$T/d.json" <<'END'
{"schema": 1, "name": "d", "defaults": {"seed": 5, "n": 3, "max_new_tokens": 4},
 "models": ["builtin:retrieval"],
 "methods": ["pyramidkv", "keydiff+pyramid:beta=2,window=4", "ada_critical", "keydiff"],
 "tasks": ["ruler/niah_single_2@192"], "budgets": [{"keep": 0.25}],
 "schedules": ["oneshot", "layerwise"]}
END
db=$T/d.db
sql() { sqlite3 "$db" "$1"; }
check run 0 "$KVAUDIT" run "$T/d.json" --db "$db" --quiet --progress none
check run_by_blocks 0 "$KVAUDIT" run "$T/d.json" --db "$db" --quiet --progress none --set schedules=block:64
check report 0 "$KVAUDIT" report --db "$db"
has the_report_names_the_row "$T/out" "fell back to uniform shares"
grep -A4 "fell back to uniform" "$T/out" >"$T/note"
has with_how_many_samples "$T/note" "pyramid at 25 % in 3 of 3 samples"
hasnt and_no_row_that_fits "$T/note" "keydiff"
check tasks_say_it_too 0 "$KVAUDIT" report tasks --db "$db"
has in_each_table "$T/out" "fell back to uniform shares"
check audit 0 "$KVAUDIT" audit "$T/d.json" --db "$db" --probes 0 --quiet --progress none
has the_audit_says_what_fell_back "$T/out" "fell back to uniform shares in 100 % of its samples"
has the_audit_says_what_stage_1_holds "$T/out" "stage 1 holds more than half of the attention in"
check report_audit 0 "$KVAUDIT" report audit --db "$db"
has the_report_of_the_audit_says_both "$T/out" "fell back to uniform shares in 100 %"
has the_report_of_the_audit_says_stage_1 "$T/out" "stage 1 holds more than half of the attention in"
if command -v sqlite3 >/dev/null; then
  x="FROM outcome JOIN cell USING(cell_id) JOIN method USING(method_id)"
  is only_pyramid_fell_back "$(sql "SELECT DISTINCT name LIKE 'snapkv%+pyramid%' $x WHERE flags & 1")" 1
  is under_every_schedule_it_does "$(sql "SELECT schedule, min(flags & 1) $x
    WHERE name LIKE 'snapkv%+pyramid%' AND enforce = 'physical' GROUP BY schedule")" \
    "$(printf 'block:64|1\nlayerwise|1\noneshot|1')"
  is stage_1_is_a_share "$(sql "SELECT count(*) > 0, min(value) >= 0, max(value) <= 1, min(method.name LIKE '%+critical%')
    FROM score JOIN outcome USING(outcome_id) JOIN cell USING(cell_id) JOIN method USING(method_id)
    WHERE metric = 'stage1'")" "1|1|1|1"
  is the_audit_stores_its_mean "$(sql "SELECT count(*), sum(abs(value - (SELECT avg(s.value) FROM score s
      JOIN outcome o USING(outcome_id) WHERE o.cell_id = c.cell_id AND s.metric = 'stage1')) > 1e-9)
    FROM an_claim c WHERE claim = 'stage1' AND impl = 'physical'")" "2|0"
else
  skip rows_of_decisions "no sqlite3"
fi
exit $bad
