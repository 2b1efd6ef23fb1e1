#!/usr/bin/env bash
# list.sh - what the program knows; streams and JSON.
. tests/cli/common.inc
export KVAUDIT_CACHE=$T/cache

check counts 0 "$KVAUDIT" list
cp "$T/out" "$T/counts"
for kind in models methods tasks metrics views; do
  has "counts_$kind" "$T/counts" "kvaudit list $kind"
  check "list_$kind" 0 "$KVAUDIT" list $kind
  empty "list_${kind}_stderr" "$T/err"
done
check list_models 0 "$KVAUDIT" list models
has models_builtin "$T/out" builtin:retrieval
has models_not_fetched "$T/out" "smollm2-135m        not fetched"
check list_methods 0 "$KVAUDIT" list methods
has methods_snapkv "$T/out" snapkv
hasnt methods_without_parameters "$T/out" "window=64"
check list_methods_v 0 "$KVAUDIT" list methods -v
has methods_with_parameters "$T/out" "window=64"
has methods_storage "$T/out" "published code holds: mask"
has methods_deviations "$T/out" "differs: "
check list_tasks 0 "$KVAUDIT" list tasks
has tasks_ruler "$T/out" ruler/niah_single_1
has tasks_jsonl "$T/out" jsonl:PATH
check unknown_kind 2 "$KVAUDIT" list taks
has nearest_kind "$T/err" "did you mean 'tasks'?"
check two_kinds 2 "$KVAUDIT" list tasks models
check runs_without_database 3 "$KVAUDIT" list runs --db "$T/none.db"
empty runs_without_database_stdout "$T/out"
[ -e "$T/none.db" ] && no reading_makes_no_file || ok reading_makes_no_file
if have_jq list_json; then
  for kind in models methods tasks metrics views; do
    "$KVAUDIT" list $kind --json >"$T/out"
    is "schema_$kind" "$(jq -r .schema "$T/out")" kvaudit.list/1
    is "kind_$kind" "$(jq -r .kind "$T/out")" $kind
    if [ "$(jq '.items | length' "$T/out")" -gt 0 ]; then ok "items_$kind"; else no "items_$kind"; fi
  done
  is keydiff_json "$("$KVAUDIT" list methods --json | jq -r '.items[] | select(.name == "keydiff") | .kind')" scorer
fi
exit $bad
