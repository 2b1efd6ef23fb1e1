#!/usr/bin/env bash
# proof_retrieval_table.sh - the 1k columns and the block rows of retrieval-model.md 6 within 16 points, and
# the property behind them: an answer is right exactly when (layer 1, KV head 0, position of the value)
# was kept. The table has n = 40 (block rows 20), two standard errors of which are 14 points; 100 samples
# here (block rows 200), the same in each run, of which two standard errors are 10 (7).
. tests/cli/common.inc
. tests/cli/proof.inc
. tests/cli/retrieval_table.inc
export KVAUDIT_JOBS=${KVAUDIT_JOBS:-2}
suite t "\"methods\":[$SCORERS],\"visibility\":\"agnostic\",\"budgets\":[{\"keep\":0.25}],
  \"tasks\":[\"ruler/niah_single_1@1008\",\"ruler/niah_single_2@1008\",\"ruler/niah_multikey_1@1008\"],
  \"defaults\":{\"n\":100,\"max_new_tokens\":16}"
suite a "\"methods\":[\"snapkv\",\"tova\"],\"visibility\":\"aware\",\"budgets\":[{\"keep\":0.25}],
  \"tasks\":[\"ruler/niah_single_1@1008\",\"ruler/niah_single_2@1008\",\"ruler/niah_multikey_1@1008\"],
  \"defaults\":{\"n\":100,\"max_new_tokens\":16},\"dense\":false,\"blind\":false"
suite b "\"methods\":[\"random\",\"streaming\",\"knorm\",\"keydiff\",\"valuediff\"],
  \"schedules\":\"block:128\",\"budgets\":[{\"tokens\":256}],
  \"tasks\":[\"ruler/niah_single_1@1008\",\"ruler/niah_single_2@1008\"],
  \"defaults\":{\"n\":200,\"max_new_tokens\":16},\"dense\":false,\"blind\":false"
run_suite t t 0 --trace-kept 1000
run_suite a t 0 --trace-kept 1000
run_suite b t 0 --trace-kept 1000

count lengths_are_about_1000 t 1 "$FLAT SELECT avg(n_ctx + n_question) BETWEEN 930 AND 992 AND max(n_ctx + n_question) <= 992 FROM x
  WHERE method <> 'blind'"
while read -r method noise essay keys4; do
  row oneshot agnostic "$method" niah_single_1 "$noise"
  row oneshot agnostic "$method" niah_single_2 "$essay"
  row oneshot agnostic "$method" niah_multikey_1 "$keys4"
done <<'P'
dense 100 100 100
random 30 20 32.5
streaming 22.5 25 22.5
knorm 2.5 12.5 22.5
keydiff 77.5 45 52.5
valuediff 75 20 17.5
snapkv 7.5 25 22.5
tova 7.5 15 15
P
for task in niah_single_1 niah_single_2 niah_multikey_1; do
  row oneshot aware snapkv $task 100
  row oneshot aware tova $task 100
done
while read -r method noise essay; do
  row block:128 agnostic "$method" niah_single_1 "$noise"
  row block:128 agnostic "$method" niah_single_2 "$essay"
done <<'P'
random 40 40
streaming 30 30
knorm 0 10
keydiff 100 70
valuediff 100 40
P
right_exactly_when_held 4500
exit $bad
