#!/usr/bin/env bash
# exports.sh - report in every format of one stored run with hostile names: LaTeX that compiles,
# CSV and Markdown that keep their columns, JSON by its schema, flat rows, and the files of
# lm-evaluation-harness.
. tests/cli/common.inc
. tests/cli/proof.inc
suite e '"methods":["snapkv","keydiff"],"tasks":["ruler/niah_single_1@300","ruler/vt@450"],
  "budgets":[{"keep":0.5},{"keep":0.25}],"defaults":{"n":4,"max_new_tokens":8,"perf":1}'
run_suite e e 0 --jobs 2
cp "$T/e.db" "$T/h.db"
sqlite3 "$T/h.db" "UPDATE model SET name = '}\\input{x}%\$_^~#&|<b>' || char(34) || char(10) || '=1+1'"
report() { "$KVAUDIT" report "$@" --db "$T/h.db"; }

check latex 0 report -f latex
if command -v pdflatex >/dev/null; then
  mkdir "$T/tex"
  { printf '\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n'
    cat "$T/out"
    printf '\\end{document}\n'; } >"$T/tex/d.tex"
  if (cd "$T/tex" && timeout 120 pdflatex -interaction=nonstopmode -halt-on-error d.tex >log 2>&1); then
    ok latex_compiles
  else
    no "latex_compiles $(grep -m1 '^!' "$T/tex/log" 2>/dev/null)"
  fi
else
  skip latex_compiles "no pdflatex: tests/reports/test_latex.c checks brackets and escapes"
fi

check directory 0 report -o "$T/dir"
for f in "$T"/dir/tables/*.csv; do
  for ext in md tex json; do
    if [ ! -s "${f%.csv}.$ext" ]; then no "table_as_$ext $f"; fi
  done
done
ok tables_in_four_formats
if command -v python3 >/dev/null; then
  schema() { # NAME SCHEMA FILE
    if why=$(python3 tests/cli/schema_check.py "reports/schema/$2.json" "$3"); then ok "$1"; else no "$1 $why"; fi
  }
  python3 -c 'import jsonschema' 2>/dev/null || skip second_validator "no python package jsonschema: schema_check.py alone"
  schema report_json_by_its_schema report-1 "$T/dir/report.json"
  for f in "$T"/dir/tables/*.json; do schema "table_$(basename "$f" .json)" table-1 "$f"; done
  report --json >"$T/v.json"
  schema one_view report-1 "$T/v.json"
  "$KVAUDIT" report --paper S-CK/2 --json --db "$T/h.db" >"$T/p.json"
  schema a_paper report-1 "$T/p.json"
  "$KVAUDIT" compare method=snapkv method=keydiff --json --db "$T/h.db" >"$T/c.json" 2>/dev/null
  schema compare compare-1 "$T/c.json"
  printf '{"schema":1,"gates":["score"]}' >"$T/gate.json"
  "$KVAUDIT" compare db="$T/e.db" db="$T/h.db" --gate "$T/gate.json" --json >"$T/g.json" 2>/dev/null
  schema gate gate-1 "$T/g.json"
  printf '{"schema":"kvaudit.report/1"}' >"$T/bad.json"
  if python3 tests/cli/schema_check.py reports/schema/report-1.json "$T/bad.json" >/dev/null; then
    no schema_refuses
  else
    ok schema_refuses
  fi
  # RFC 4180 by another reader: every row as wide as its header, and no formula
  if why=$(python3 - "$T"/dir/tables/*.csv <<'P'
import csv, sys
for path in sys.argv[1:]:
    rows = list(csv.reader(open(path, newline=""), strict=True))
    for r in rows:
        assert len(r) == len(rows[0]), (path, r)
        for c in r:
            if c[:1] in ("=", "+", "-", "@"):
                float(c)
P
  ); then ok csv_by_another_reader; else no "csv_by_another_reader $why"; fi
else
  skip schemas "no python3"
fi

# flat rows
have_jq flat || exit $bad
for what in outcomes cells memory timing heads; do
  check "jsonl_$what" 0 report -f jsonl --what $what
  cp "$T/out" "$T/$what.jsonl"
  check "csv_$what" 0 report -f csv --what $what
done
is outcomes_are_those_stored "$(jq -s length "$T/outcomes.jsonl")" "$(sql h 'SELECT count(*) FROM outcome')"
is scores_are_those_stored "$(jq -s '[.[].score | select(. != null)] | add * 1e6 | round' "$T/outcomes.jsonl")" \
  "$(sql h 'SELECT CAST(round(total(score) * 1e6) AS INTEGER) FROM outcome')"
# sums FILE TABLE WHERE: every column of whole numbers, null where it is not known
sums() {
  local col
  for col in $(sql h "SELECT name FROM pragma_table_info('$2') WHERE type = 'INTEGER' AND name <> 'outcome_id'"); do
    is "${2}_${col}_is_that_stored" "$(jq -s "[.[] | if has(\"$col\") then .$col else error(\"no $col\") end] | add // 0" "$T/$1" 2>&1)" \
      "$(sql h "SELECT coalesce(sum($col), 0) FROM $2 WHERE $3")"
  done
}
is sets_that_stay_are_told_apart "$(jq -s 'map(.kept_fnv) | unique | length > 4' "$T/outcomes.jsonl")" true
sums memory.jsonl memory true
sums timing.jsonl timing "exec = 'alone'"
is timing_is_of_rows_alone "$(jq -s length "$T/timing.jsonl")" "$(sql h "SELECT count(*) FROM timing WHERE exec = 'alone'")"
is cells_are_those_stored "$(jq -s length "$T/cells.jsonl")" "$(sql h 'SELECT count(*) FROM cell')"
check only_narrows 0 report --what cells --only method=keydiff*
check what_word 2 report --what outcome
has what_nearest "$T/err" "did you mean outcomes"
check what_as_html 2 report --what cells -f html
check lme_needs_a_directory 2 report -f lme
has lme_says_so "$T/err" "-o DIR"

# lm-evaluation-harness
check lme 0 "$KVAUDIT" report -f lme -o "$T/lme" --db "$T/e.db"
is lme_one_directory_a_run "$(find "$T/lme" -mindepth 1 -maxdepth 1 -type d | wc -l)" 6
one=$(find "$T/lme" -name 'results_*.json' | sort | tail -1)
is lme_keys "$(jq -r '. as $o | ["results", "configs", "versions", "config", "git_hash", "date", "n-samples", "n-shot", "higher_is_better"] | all(. as $k | $o | has($k))' "$one")" true
started=$(sql e "SELECT max(started_ms) FROM run")
is lme_date_is_that_of_the_last_run "$(jq '.date * 1000 | round' "$one")" "$started"
is lme_file_is_named_after_it "$(basename "$one")" \
  "results_$(date -u -d "@$((started / 1000))" +%Y-%m-%dT%H-%M-%S).$(printf '%06d' $((started % 1000 * 1000))).json"
is lme_metric "$(jq -r '.results["ruler/vt@450"] | has("match_all,none") and has("match_all_stderr,none")' "$one")" true
lines=$(find "$T/lme" -name 'samples_*.jsonl' -exec cat {} + | wc -l)
is lme_samples_are_the_finished_ones "$lines" "$(sql e "SELECT count(*) FROM outcome WHERE status = 'ok'")"
sample=$(find "$T/lme" -name 'samples_*.jsonl' | sort | head -1)
is lme_target_hash "$(head -1 "$sample" | jq -r .target_hash)" \
  "$(head -1 "$sample" | jq -j .target | sha256sum | cut -d' ' -f1)"
is lme_doc_hash "$(head -1 "$sample" | jq -r .doc_hash)" \
  "$(head -1 "$sample" | jq -j '.doc | "{\n  \"sample\": \"\(.sample)\",\n  \"index\": \(.index)\n}"' | sha256sum | cut -d' ' -f1)"
check lme_again 2 "$KVAUDIT" report -f lme -o "$T/lme" --db "$T/e.db"
check lme_forced 0 "$KVAUDIT" report -f lme -o "$T/lme" --force --db "$T/e.db"
exit $bad
