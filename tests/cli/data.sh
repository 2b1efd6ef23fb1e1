#!/usr/bin/env bash
# data.sh - data sets of the user: named in the suite or with --data, missing ones found while
# planning, every task of any suite generated with its profile, dialect and data.
. tests/cli/common.inc
. tests/cli/proof.inc
export KVAUDIT_CACHE=$T/cache
MINI=$PWD/configs/data/qa_mini_squad.json
cp "$MINI" "$T/mini.json"

rest='"methods":["keydiff"],"tasks":["ruler/qa_1@700"],"budgets":[{"keep":0.5}],"defaults":{"n":2,"max_new_tokens":4}'
suite none "$rest"
check missing_file_is_no_suite_error 3 "$KVAUDIT" run "$T/none.json" --db "$T/none.db" --progress none
has missing_file_is_named "$T/err" 'data set "squad"'
has missing_file_says_how "$T/err" "--data squad=PATH"
check dry_run_finds_it_too 3 "$KVAUDIT" run "$T/none.json" --db "$T/nope.db" --dry-run
check argument_brings_it 0 "$KVAUDIT" run "$T/none.json" --db "$T/none.db" --progress none --data "squad=$MINI"
suite own "$rest,\"data\":{\"squad\":\"mini.json\"}"
run_suite own own 0
is the_same_tasks "$(sql none 'SELECT hex(digest) FROM task')" "$(sql own 'SELECT hex(digest) FROM task')"
is part_of_the_suite "$(sql own "SELECT json_extract(config_json, '\$.data.squad') FROM run")" mini.json
is argument_is_part_too "$(sql none "SELECT json_extract(config_json, '\$.data.squad') FROM run")" "$MINI"
# relative paths of arguments start where the shell stands, and win over the suite's
suite wrong "$rest,\"data\":{\"squad\":\"nowhere.json\"}"
check suite_path_is_missing 3 "$KVAUDIT" run "$T/wrong.json" --db "$T/w.db" --dry-run
has suite_path_is_named "$T/err" "$T/nowhere.json"
check argument_wins 0 env -C "$T" "$KVAUDIT" run wrong.json --db w.db --dry-run --data squad=mini.json
check sample_is_made_again 0 "$KVAUDIT" report --db "$T/none.db" --sample 'ruler/qa_1@700#0'
has sample_has_its_prompt "$T/out" "--- context"
is sample_has_one_list_of_spans "$(grep -A 1 -e '^--- spans' "$T/out" | cut -c 1-4 | tr '\n' ' ')" "---  E0   "

bad_data() { # NAME JSON WORDS
  suite "$1" "$rest,\"data\":$2"
  check "$1" 2 "$KVAUDIT" run "$T/$1.json" --db "$T/x.db" --dry-run
  has "$1_message" "$T/err" "$3"
}
bad_data misspelt_data '{"sqaud":"mini.json"}' "did you mean 'squad'?"
bad_data data_list '["mini.json"]' "must be an object"
bad_data data_number '{"squad":3}' "/data/squad"
check misspelt_argument 2 "$KVAUDIT" run "$T/own.json" --db "$T/x.db" --dry-run --data sqaud=x
has misspelt_argument_message "$T/err" "did you mean 'squad'?"
check argument_without_path 2 "$KVAUDIT" run "$T/own.json" --db "$T/x.db" --dry-run --data squad=
check profile_reaches_the_task 2 "$KVAUDIT" run "$T/own.json" --db "$T/x.db" --dry-run --set defaults.profile=ofical
has profile_message "$T/err" "official"

check generate_with_data 0 "$KVAUDIT" generate ruler/qa_1@700 -n 2 --data "squad=$MINI"
check generate_without_data 3 "$KVAUDIT" generate ruler/qa_1@700
check generate_dialect_and_profile 0 "$KVAUDIT" generate ruler/niah_single_1@512 --dialect kva1 --profile official
has generate_profile "$T/out" '"layout":"official"'
check generate_bad_profile 2 "$KVAUDIT" generate ruler/niah_single_1@512 --profile ofical
if have_jq beyond; then
  "$KVAUDIT" generate ruler/qa_1@700 -n 9999 --data "squad=$MINI" >"$T/all" 2>"$T/warn"
  has beyond_what_there_is_warns "$T/warn" "$(wc -l <"$T/all") samples"
fi
exit $bad
