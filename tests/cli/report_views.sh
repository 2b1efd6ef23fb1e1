#!/usr/bin/env bash
# report_views.sh - views of evidence and answers from a stored run: the numbers of the report are those
# of the stored rows, the same file read twice gives the same report, and formats agree.
. tests/cli/common.inc
. tests/cli/proof.inc
suite r "\"methods\":[\"keydiff\",\"random\"],\"tasks\":[\"ruler/niah_multikey_1@400\",\"ruler/vt@400\"],
  \"budgets\":[{\"keep\":0.5},{\"keep\":0.25}],\"defaults\":{\"n\":5,\"max_new_tokens\":8}"
run_suite r r 0 --jobs 2
report() { "$KVAUDIT" report "$@" --db "$T/r.db"; }
check survival_text 0 report survival
has survival_names_the_task "$T/out" "ruler/vt@400"
check survival_csv 0 report survival -f csv
has csv_has_its_columns "$T/out" "surv_E,surv_E_lo,surv_E_hi,surv_payload,"
have_jq numbers || exit $bad
report survival -f json >"$T/survival.json"
column() { # NAME TASK METHOD: of the row at 25 %
  jq -r --arg name "$1" --arg task "ruler/$2@400" --arg method "$3" '.tables[] | select(.id == "board1-survival")
    | .rows[] | select(.task == $task and .budget == 0.25 and (.method | startswith($method))) | .[$name]' \
    "$T/survival.json" | xargs printf '%.4f'
}
# the value that is asked for: spans whose evidence is queried; kept is u16 little-endian
stored() { # LETTER TASK METHOD
  sql r "$FLAT, h AS (SELECT k.outcome_id, k.span, (SELECT avg((instr('0123456789ABCDEF',
      substr(hex(k.kept), 4 * value + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF',
      substr(hex(k.kept), 4 * value + 2, 1)) - 1) FROM generate_series(0, n_layer * n_kv_head - 1)) / n_tok AS held
    FROM span_kept k),
    q AS (SELECT sample_id, json_extract(j.value, '\$.id') AS id, json_extract(j.value, '\$.queried') AS asked,
      json_extract(j.value, '\$.match') AS of FROM sample s, json_each(s.meta_json, '\$.spans') j)
    SELECT printf('%.4f', avg(v)) FROM (SELECT avg(held) AS v FROM x JOIN h ON h.outcome_id = oid
      JOIN task t ON t.task_id = x.task_id
      JOIN q ON q.sample_id = x.sample_id AND q.id = span
      WHERE t.name = '$2' AND method LIKE '$3%' AND budget = 0.25 AND span LIKE '$1%'
      AND EXISTS (SELECT 1 FROM q e WHERE e.sample_id = x.sample_id AND e.asked AND e.id =
        CASE WHEN '$1' = 'E' THEN q.id ELSE q.of END) GROUP BY oid)"
}
for task in niah_multikey_1 vt; do
  for method in keydiff random; do
    is "evidence_${task}_$method" "$(column surv_E $task $method)" "$(stored E $task $method)"
    is "payload_${task}_$method" "$(column surv_payload $task $method)" "$(stored P $task $method)"
    is "distractor_${task}_$method" "$(column surv_D $task $method)" "$(stored D $task $method)"
  done
done
check answers_json 0 report answers -f json
is answers_of_every_cell "$(jq '[.tables[] | select(.id | endswith("-answers")) | .rows | length] | add' "$T/out")" 12
check grid_without_a_grid 0 report grid
has grid_says_what_it_shows "$T/out" "nothing to show in this view: the task niah/grid makes its rows"
check an_unknown_view 2 report survivals
has and_its_neighbour "$T/err" "survival"
check twice_1 0 report survival -f json && cp "$T/out" "$T/one"
check twice_2 0 "$KVAUDIT" report survival -f json --db "$T/r.db" --db "$T/r.db"
same the_same_file_twice_is_one "$T/one" "$T/out"
check page 0 report -o "$T/page"
for figure in survival-board1 survival-board1-noise heads-board1; do
  if [ -s "$T/page/figures/$figure.tsv" ]; then ok "has_$figure"; else no "has_$figure"; fi
done
has page_has_the_section "$T/page/index.html" "What survives"
if ! command -v gnuplot >/dev/null; then
  skip drawings "no gnuplot"
elif ! command -v xmllint >/dev/null; then
  skip drawings "no xmllint"
else
  for f in "$T"/page/figures/*.svg; do
    check "well_formed_$(basename "$f" .svg)" 0 xmllint --noout --nonet "$f"
  done
fi
mkdir "$T/bin" # a machine without gnuplot
check required_figures_are_missing 6 env PATH="$T/bin" "$KVAUDIT" report --db "$T/r.db" -o "$T/strict" --require-figures
has and_it_says_what_is "$T/err" "gnuplot is not installed"
is no_page_is_left "$(find "$T" -maxdepth 1 -name 'strict*')" ""
check figures_are_not_required 0 env PATH="$T/bin" "$KVAUDIT" report --db "$T/r.db" -o "$T/plain"
check by_task 0 report retention --by task -f json
is a_table_for_each_task "$(jq '[.tables[] | select(.id | endswith("-retention"))] | length' "$T/out")" 3
check by_something 2 report retention --by day
exit $bad
