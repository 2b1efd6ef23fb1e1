#!/usr/bin/env bash
# noise.sh - the full cache repeated three times on the CPU backend: not a token differs, the floor is 0.
. tests/cli/common.inc
. tests/cli/proof.inc
suite n "\"methods\":[\"knorm\"],\"tasks\":[\"ruler/niah_multikey_1@400\"],
  \"budgets\":[{\"keep\":0.25}],\"defaults\":{\"n\":6,\"max_new_tokens\":8,\"reps\":3}"
run_suite n n 0 --jobs 2
check noise_json 0 "$KVAUDIT" report noise -f json --db "$T/n.db"
have_jq numbers || exit $bad
value() { jq -r --arg name "$1" '.tables[] | select(.id == "noise") | .rows[0][$name]' "$T/out"; }
is one_row "$(jq '.tables[] | select(.id == "noise") | .rows | length' "$T/out")" 1
is repetitions "$(value reps)" 3
is samples "$(value n)" 6
is no_score_flips "$(value flip)" 0
is no_token_differs "$(value regen)" 0
is the_floor_is_zero "$(value floor)" 0
is verdict "$(value verdict)" exact
"$KVAUDIT" report --db "$T/n.db" >"$T/out"
has footer_says_measured "$T/out" "measured for"
exit $bad
