#!/usr/bin/env bash
# compare.sh - selections of a measured suite, paired: numbers of the stored rows, cells without a
# partner, matching, both formats of a database, exit codes.
. tests/cli/common.inc
. tests/cli/proof.inc
suite c "\"methods\":[\"keydiff\",\"random\",\"snapkv:window=8\"],\"tasks\":[\"ruler/niah_single_2@400\",
  \"ruler/vt@400\"],\"budgets\":[{\"keep\":0.5},{\"keep\":0.25}],\"defaults\":{\"n\":6,\"max_new_tokens\":8}"
run_suite c c 0 --jobs 2
compare() { "$KVAUDIT" compare "$@"; }
DB=(--db "$T/c.db")
check text 0 compare method=keydiff method=random "${DB[@]}"
has text_says_who_meets_whom "$T/out" "A: method=keydiff, B: method=random"
has text_has_both_matchings "$T/out" "bytes "
has text_has_words "$T/out" "At nominal budgets"
cp "$T/out" "$T/one"
check again 0 compare method=keydiff method=random "${DB[@]}"
same the_same_bytes_again "$T/one" "$T/out"
check csv 0 compare method=keydiff method=random "${DB[@]}" -f csv
has csv_names_its_columns "$T/out" "diff,diff_lo,diff_hi,p_sign"
check markdown 0 compare method=keydiff method=random "${DB[@]}" -f markdown
has markdown_has_tables "$T/out" "| --- "
check short_form 0 compare method=snapkv method=dense,task=vt "${DB[@]}"
has lone_cells_are_counted "$T/out" "2 cells of method=snapkv have no partner"
check verbose 0 compare method=snapkv method=dense,task=vt "${DB[@]}" -v
has lone_cells_are_listed "$T/out" "Cells without a partner"
check budgets 0 compare method=keydiff,budget=0.5 method=keydiff,budget=25% "${DB[@]}"
has budgets_show_both "$T/out" "50 % | 25 %"
check nats 0 compare method=keydiff method=random --metric gold_nll "${DB[@]}"
has nats_says_so "$T/out" "answer nats"
cp "$T/c.db" "$T/d.db"
check two_files 0 compare "$T/c.db" "$T/d.db"
has two_equal_files_tie "$T/out" "0   14     0        0     14"
check two_files_named 0 compare "db=$T/c.db,method=keydiff" "db=$T/d.db,method=random"
check same_twice 2 compare method=keydiff method=keydiff "${DB[@]}"
has same_twice_says_why "$T/err" "itself"
check several 2 compare method=keydiff "method=*:*" "${DB[@]}"
has several_names_the_key "$T/err" "name method"
check nothing_by_bytes 5 compare method=keydiff method=dense --match bytes "${DB[@]}"
has nothing_by_bytes_still_prints "$T/out" "none of 4 pairs can be judged"
check absent 5 compare method=tova method=random "${DB[@]}"
has absent_says_what_is_there "$T/err" "there are: "
check unknown_key 2 compare metod=tova method=random "${DB[@]}"
has unknown_key_suggests "$T/err" "did you mean 'method'?"
check unknown_method 2 compare method=keydif method=random "${DB[@]}"
has unknown_method_suggests "$T/err" "keydiff"
check one_side 2 compare method=keydiff "${DB[@]}"
check three_sides 2 compare method=keydiff method=random method=dense "${DB[@]}"
check ties_typo 2 compare method=keydiff method=random --ties exakt "${DB[@]}"
has ties_typo_suggests "$T/err" "exact"
check alpha_range 2 compare method=keydiff method=random --alpha 2 "${DB[@]}"
check epsilon_alone 2 compare method=keydiff method=random --epsilon 0.1 "${DB[@]}"
check no_run 5 compare method=keydiff,run=nobody method=random "${DB[@]}"
check last_run 0 compare method=keydiff,run=last method=random "${DB[@]}"
check no_file 3 compare method=keydiff method=random --db "$T/none.db"
printf 'no database' >"$T/text.db"
check foreign_file 3 compare method=keydiff method=random --db "$T/text.db"
check view 0 "$KVAUDIT" report pairs "${DB[@]}"
has view_counts_against_dense "$T/out" "Win, tie and loss of every method"
check view_reference 0 "$KVAUDIT" report pairs --reference random "${DB[@]}"
check view_unknown_reference 2 "$KVAUDIT" report pairs --reference nobody "${DB[@]}"
check page 0 "$KVAUDIT" report -o "$T/page" "${DB[@]}" -q
has page_has_the_section "$T/page/index.html" "Method against method"
have_jq json || exit $bad
check json 0 compare method=keydiff method=random "${DB[@]}" --json
cp "$T/out" "$T/json"
is json_schema "$(jq -r .schema "$T/json")" kvaudit.compare/1
is counts_add_up "$(jq '[.tallies[] | .win + .tie + .loss + .invalid == .n] | all' "$T/json")" true
is every_pair_is_there "$(jq '(.pairs | length) == .tallies[0].n' "$T/json")" true
check mirror 0 compare method=random method=keydiff "${DB[@]}" --json
is mirror_counts "$(jq -c '.tallies[0] | [.loss, .tie, .win, .invalid, -.diff_hi]' "$T/out")" \
  "$(jq -c '.tallies[0] | [.win, .tie, .loss, .invalid, .diff_lo]' "$T/json")"
# the difference of a cell is that of the stored scores
stored() {
  sql c "SELECT printf('%.6f', avg(CASE WHEN m.name LIKE 'keydiff%' THEN o.score END) -
      avg(CASE WHEN m.name LIKE 'random%' THEN o.score END))
    FROM outcome o JOIN cell c USING(cell_id) JOIN method m USING(method_id) JOIN task t USING(task_id)
    WHERE t.name = '$1' AND c.budget = $2"
}
for task in niah_single_2 vt; do
  for budget in 0.5 0.25; do
    is "diff_${task}_$budget" "$(jq --arg t "ruler/$task@400" --argjson b $budget \
      '.pairs[] | select(.task == $t and .budget_a == $b) | .diff' "$T/json" | xargs printf '%.6f')" \
      "$(stored $task $budget)"
  done
done
# a path may hold commas, in a selector and in --confirm
cp "$T/c.db" "$T/a,b.db"
check path_with_a_comma 0 compare "db=$T/a,b.db,method=keydiff" "method=random,db=$T/c.db"
many=()
for i in $(seq 33); do many+=("${DB[@]}"); done
check too_many_files 2 compare method=keydiff method=random "${many[@]}"
has too_many_files_said "$T/err" "at most 32"
# half of a run: what is missing is invalid, not a tie
cp "$T/c.db" "$T/half.db"
sqlite3 "$T/half.db" "DELETE FROM outcome WHERE outcome_id IN (SELECT outcome_id FROM outcome o
  JOIN cell c USING(cell_id) JOIN method m USING(method_id) JOIN sample s USING(sample_id)
  WHERE m.name LIKE 'random%' AND s.idx > 2)" 2>"$T/sql.err" || no half_a_run "$(head -c 200 "$T/sql.err")"
check half 5 compare method=keydiff method=random --db "$T/half.db"
has half_says_why "$T/out" "only 3 of 6 samples"
# what only the gate reads is not taken in silence, and neither is what the gate does not read
check a_gate_option_without_a_gate 2 "$KVAUDIT" compare method=a method=b --junit "$T/j.xml"
has the_gate_is_named "$T/err" "--junit goes with --gate"
check a_rule_beside_a_gate 2 "$KVAUDIT" compare --gate "$T/gate.json" --ties exact
has the_gate_judges_by_its_file "$T/err" "--gate judges by its file"
exit $bad
