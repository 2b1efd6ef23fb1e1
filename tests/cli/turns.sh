#!/usr/bin/env bash
# turns.sh - several questions on one context: one unit, one prefill; conversations turn by turn,
# resumed in the middle, and what they refuse.
. tests/cli/common.inc
. tests/cli/proof.inc
rest='"methods":["keydiff+adakv","snapkv:window=8"],"budgets":[{"keep":0.5}],"schedules":["oneshot","block:128","oneshot+decode:1"]'
suite apart "$rest,\"tasks\":[\"mt/niah@512\"],\"defaults\":{\"n\":10}"
run_suite apart apart 0 --jobs 2
count two_units apart 2 "SELECT count(*) FROM unit_time"
count two_clusters apart 2 "SELECT count(DISTINCT cluster) FROM sample"
count turns_are_numbered apart "0 1 2 3 4 0 1 2 3 4" "SELECT group_concat(json_extract(meta_json, '\$.turn'), ' ') FROM (SELECT * FROM sample ORDER BY idx)"
none dense_answers_every_question apart "$FLAT SELECT slug, idx, text FROM x WHERE method = 'dense' AND score < 1"
none one_kept_set_for_all_questions apart "$FLAT SELECT slug FROM x JOIN sample USING(sample_id) WHERE
  schedule NOT LIKE '%decode%' AND method <> 'blind' GROUP BY slug, cluster HAVING count(DISTINCT kept_fnv) > 1"
run_suite apart waves 0 --jobs 1 --wave 2
outcomes apart >"$T/a"; outcomes waves >"$T/b"
same workers_and_waves_change_nothing "$T/a" "$T/b"

for history in own golden; do
  suite $history "$rest,\"tasks\":[\"mt/niah:mode=conversation,history=$history@1024\"],\"defaults\":{\"n\":10}"
  run_suite $history $history 0 --jobs 2
  none "${history}_grows" $history "$FLAT SELECT p.slug, p.idx FROM x p JOIN x q ON p.cell_id = q.cell_id AND
    q.idx = p.idx + 1 AND q.idx % 5 > 0 WHERE q.n_question <= p.n_question OR q.n_cut <> p.n_cut OR q.kept_fnv <> p.kept_fnv"
  none "${history}_passes_its_audit" $history "SELECT audit FROM memory WHERE audit <> 0"
  # in two pieces: the third turn of a conversation, then the rest
  run_suite $history "$history-2" 0 --jobs 1 --limit 3
  run_suite $history "$history-2" 0 --jobs 2
  outcomes $history >"$T/a"; outcomes "$history-2" >"$T/b"
  same "${history}_resumes_to_the_same" "$T/a" "$T/b"
  count "${history}_stores_once" "$history-2" 1 "SELECT max(attempt) FROM outcome"
done
suite timed "$rest,\"tasks\":[\"mt/niah:mode=conversation@1024\"],\"defaults\":{\"n\":5,\"perf\":1}"
run_suite timed timed 2
has perf_is_refused "$T/timed.err" "not a conversation of the model's own answers"
suite gold "$rest,\"tasks\":[\"mt/niah:mode=conversation,history=golden@1024\"],\"defaults\":{\"n\":5,\"perf\":2}"
run_suite gold gold 0 --jobs 2
count perf_of_golden_turns gold 2 "SELECT count(DISTINCT s.idx) FROM timing JOIN outcome USING(outcome_id) JOIN sample s USING(sample_id) WHERE exec = 'alone'"
exit $bad
