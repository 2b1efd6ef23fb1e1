#!/usr/bin/env bash
# paper.sh - report --paper: the list, a published table without and with results, the flags,
# --strict, --selftest, every format; another model's numbers are never in a comparison.
. tests/cli/common.inc
. tests/cli/proof.inc
paper() { "$KVAUDIT" report --paper "$@"; }

check the_list 0 paper
has the_list_has_tables "$T/out" "S-CK/1"
has the_list_has_resolution "$T/out" "100  100"
check the_list_before_an_option 0 paper -f csv
has the_list_as_csv "$T/out" "id,title,numbers"
cp "$T/out" "$T/list"
check the_list_by_its_name 0 paper list -f csv
same both_lists_are_one "$T/out" "$T/list"
check selftest 0 paper --selftest
has selftest_ruler "$T/out" "21 of 21"
has selftest_longbench "$T/out" "39 of 39"
has selftest_mean_gain "$T/out" "14.17 of 9"
has selftest_better "$T/out" "88 of 90"
has selftest_tally "$T/out" "102 / 12 / 3"
has selftest_137_of_160 "$T/out" "137 of 160"
hasnt selftest_all_reproduced "$T/out" "NOT REPRODUCED"
for id in S-CK/1 S-LU/1 S-VD/RULER S-CT/tally-kvzip; do
  check "published_${id%%/*}" 0 sh -c "cd '$T' && '$KVAUDIT' report --paper $id"
  has "published_${id%%/*}_says_so" "$T/out" "(not measured)"
done
check unknown_table 2 paper S-CK/l
has unknown_table_nearest "$T/err" "did you mean 'S-CK/1'?"
check far_table 2 paper nothing
has far_table_says_where_they_are "$T/err" "'kvaudit report --paper' lists them"
check named_database_must_exist 3 paper S-CK/1 --db "$T/none.db"
check strict_without_results 1 sh -c "cd '$T' && '$KVAUDIT' report --paper S-CK/1 --strict"
has strict_counts "$T/err" "315 not measured"
check strict_alone 2 "$KVAUDIT" report --strict
check selftest_alone 2 "$KVAUDIT" report --selftest
check paper_is_no_view 2 "$KVAUDIT" report tasks --paper S-CK/1
check help_names_it 0 "$KVAUDIT" report --help
has help_optional_value "$T/out" "--paper [ID]"

# the parts of a published protocol on a computed model: never compared
suite p '"methods":["snapkv32","snapkv32+adakv"],"tasks":["ruler/niah_single_1@300","ruler/vt@450"],
  "budgets":[{"keep":0.4}],"defaults":{"n":3,"max_new_tokens":8}'
run_suite p p 0 --jobs 2
check another_model 0 paper S-CK/1 --db "$T/p.db"
has another_model_apart "$T/out" "Another model: builtin:retrieval in the columns of S-CK/1, never compared"
has another_model_protocol "$T/out" "model builtin:retrieval (Llama-3.1-8B-Instruct)"
has nothing_is_compared "$T/out" "0 match, 0 off, 0 not comparable, 315 not measured"
check strict_another_model 1 paper S-CK/1 --strict --db "$T/p.db"

# the same results under the published name: compared as far as the protocol agrees
cp "$T/p.db" "$T/l.db"
sqlite3 "$T/l.db" "UPDATE model SET name = 'Llama-3.1-8B-Instruct-F16.gguf'"
check published_model 0 paper S-CK/1 --db "$T/l.db"
has other_length_is_no_comparison "$T/out" "context 300 (32768)"
have_jq formats || exit $bad
paper S-CK/1 --json --db "$T/l.db" >"$T/l.json"
is numbers_with_flag_na "$(jq '[.tables[] | select(.id == "paper-s-ck-1-numbers") | .rows[] | select(.flag == "n/a")] | length' "$T/l.json")" 6
is no_difference_across_protocols "$(jq '[.tables[] | select(.id == "paper-s-ck-1-numbers") | .rows[] | select(.delta != null)] | length' "$T/l.json")" 0
is every_number_is_there "$(jq '[.tables[] | select(.id == "paper-s-ck-1-numbers") | .rows[]] | length' "$T/l.json")" 315
check as_csv 0 paper S-CK/1 -f csv --db "$T/l.db"
check as_markdown 0 paper S-CK/1 -f markdown --db "$T/l.db"
check as_latex 0 paper S-CK/1 -f latex --db "$T/l.db"
has latex_has_rules "$T/out" "\\toprule"
check as_html 0 paper S-CK/1 -f html --db "$T/l.db"
has html_has_the_table "$T/out" "S-CK/1: RULER 32k, 40 % kept"
check as_a_directory 0 paper S-CK/1 -o "$T/page" --db "$T/l.db"
for f in index.html report.json tables/paper-s-ck-1.csv tables/paper-s-ck-1.md tables/paper-s-ck-1.tex \
  tables/paper-s-ck-1.json tables/paper-s-ck-1-numbers.csv; do
  if [ -s "$T/page/$f" ]; then ok "has_$f"; else no "has_$f"; fi
done
paper S-CK/1 --json --db "$T/l.db" >"$T/l2.json"
same the_same_bytes_again "$T/l.json" "$T/l2.json"

# suites: all say what is missing, none is an error of the file
for f in configs/paper-*.json; do
  "$KVAUDIT" run "$f" --dry-run >"$T/out" 2>"$T/err"
  rc=$?
  if [ $rc -eq 3 ] && grep -q "model file configs/models/.* is missing" "$T/err"; then
    ok "dry_run_$(basename "$f" .json)"
  else
    no "dry_run_$(basename "$f" .json) exit $rc: $(head -c 200 "$T/err")"
  fi
done
exit $bad
