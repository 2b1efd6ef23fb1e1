#!/usr/bin/env bash
# proof_retrieval_table_slow.sh - the 4k columns of retrieval-model.md 6 at n = 40, and the property behind
# them.
. tests/cli/common.inc
. tests/cli/proof.inc
. tests/cli/retrieval_table.inc

export KVAUDIT_JOBS=${KVAUDIT_JOBS:-2}
tasks='"tasks":["ruler/niah_single_1@4096","ruler/niah_single_2@4096"],"budgets":[{"keep":0.25}],
  "defaults":{"n":40,"max_new_tokens":16}'
suite t "\"methods\":[$SCORERS],$tasks"
suite a "\"methods\":[\"snapkv\",\"tova\"],\"visibility\":\"aware\",\"dense\":false,\"blind\":false,$tasks"
run_suite t t 0 --trace-kept 1000
run_suite a t 0 --trace-kept 1000
while read -r method noise essay; do
  row oneshot agnostic "$method" niah_single_1 "$noise"
  row oneshot agnostic "$method" niah_single_2 "$essay"
done <<'P'
dense 100 100
random 30 40
streaming 27.5 27.5
knorm 2.5 10
keydiff 82.5 50
valuediff 60 27.5
snapkv 0 20
tova 10 22.5
P
for task in niah_single_1 niah_single_2; do
  row oneshot aware snapkv $task 100
  row oneshot aware tova $task 100
done
right_exactly_when_held 600
exit $bad
