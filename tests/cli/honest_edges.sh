#!/usr/bin/env bash
# honest_edges.sh - edges where a run could quietly say something else: full visibility against dense,
# ragged budgets while decoding, exit codes of later calls, records that cannot be fed, paths.
. tests/cli/common.inc
. tests/cli/proof.inc

# a budget above the context is dense, bit for bit, whatever the cut sees
suite big "\"methods\":[\"keydiff\",\"snapkv\"],\"tasks\":[\"ruler/niah_single_2@512\"],\"budgets\":[{\"tokens\":100000}],
  \"schedules\":[\"oneshot\",\"block:128\"],\"visibility\":[\"agnostic\",\"aware\",\"full\"],\"defaults\":{\"n\":4,\"max_new_tokens\":4}"
run_suite big big 0 --jobs 2
none budget_above_the_context_is_dense_in_every_visibility big "$FLAT SELECT p.slug, p.nll, q.nll FROM x p JOIN x q
  ON q.method = 'dense' AND p.method NOT IN ('dense', 'blind') AND p.sample_id = q.sample_id
  WHERE (p.ids, p.nll, p.score) IS NOT (q.ids, q.nll, q.score)"

# allocators that compare heads move entries between KV heads while decoding: inside their cap
suite ragged "\"methods\":[\"snapkv:window=8+global\",\"knorm+adakv\",\"keydiff+adakv\"],\"tasks\":[\"ruler/niah_single_2@256\"],
  \"budgets\":[{\"tokens\":29},{\"tokens\":40},{\"tokens\":61}],\"schedules\":[\"oneshot+decode:1\",\"oneshot+decode:4\"],
  \"defaults\":{\"n\":6,\"max_new_tokens\":40}"
run_suite ragged ragged 0 --jobs 2

# the same with a question of one token, where the first cut leaves no page to spare
text=$(for i in $(seq 1 30); do printf 'line %d of a text. ' $i; done)
printf '{"context":"%s","question":"b","answer_prefix":"","answers":["c"],"max_new_tokens":40}\n' "$text" >"$T/tight.jsonl"
suite tight "\"models\":[\"builtin:tiny-llama\"],\"methods\":[\"snapkv:window=8+global\",\"knorm+adakv\",\"keydiff+adakv\"],
  \"tasks\":[\"jsonl:tight.jsonl\"],\"budgets\":[{\"tokens\":29},{\"tokens\":30},{\"tokens\":61},{\"tokens\":62}],
  \"schedules\":[\"oneshot+decode:1\",\"oneshot+decode:4\"],\"blind\":false"
run_suite tight tight 0

# a shared row's peak is what the cell holds alone: no gold rows, the query ring included
printf '{"context":"%s","question":"b","answer_prefix":"","answers":["c"],"gold":" %s","max_new_tokens":3}\n' "$text" "${text:0:200}" >"$T/gold.jsonl"
suite peak "\"models\":[\"builtin:tiny-llama\"],\"methods\":[\"snapkv:window=32\",\"knorm\"],\"tasks\":[\"jsonl:gold.jsonl\"],
  \"budgets\":[{\"tokens\":64}],\"schedules\":[\"block:16\"],\"blind\":false,\"perf\":1"
run_suite peak peak 0
count both_rows_are_there peak 3 "SELECT count(*) FROM memory s JOIN memory a USING(outcome_id) WHERE s.exec = 'shared' AND a.exec = 'alone'"
none shared_peak_is_the_peak_alone peak "SELECT s.kv_peak_bytes, a.kv_peak_bytes FROM memory s JOIN memory a USING(outcome_id)
  WHERE s.exec = 'shared' AND a.exec = 'alone' AND s.kv_peak_bytes <> a.kv_peak_bytes"
none no_peak_below_what_is_held peak "SELECT exec, kv_peak_bytes, kv_alloc_bytes + kv_meta_bytes FROM memory
  WHERE kv_peak_bytes < kv_alloc_bytes + kv_meta_bytes"

# random choices differ by context: two contexts of one length do not lose the same positions
for w in green brown; do
  printf '{"context":"The grass is %s and the sky is blue and the sun is warm today.","question":"b","answer_prefix":"","answers":["c"],"max_new_tokens":2}\n' $w
done >"$T/twins.jsonl"
suite twins "\"methods\":[\"random\"],\"tasks\":[\"jsonl:twins.jsonl\"],\"budgets\":[{\"keep\":0.5}],\"blind\":false"
run_suite twins twins 0
count twins_have_one_length twins 1 "SELECT count(DISTINCT n_ctx) FROM outcome"
count twins_lose_other_positions twins 2 "$FLAT SELECT count(DISTINCT kept_fnv) FROM x WHERE method LIKE 'random%'"

# a suite with outcomes that cannot be had says so in every call
printf '{"context":"The grass is green.","question":"What?","answer_prefix":" A","answers":["1"],"max_new_tokens":200000}\n' >"$T/long.jsonl"
suite long "\"methods\":[\"knorm\"],\"tasks\":[\"jsonl:long.jsonl\"],\"budgets\":[{\"tokens\":4}]"
run_suite long long 5
run_suite long long 5
grep -q '0 to do' "$T/long.err" && ok second_call_has_nothing_to_do || no "second_call_has_nothing_to_do $(cat "$T/long.err")"

# one record with an id outside the vocabulary fails alone, and is stored
printf '%s\n%s\n' \
  '{"context_ids":[0,256,300,301,302,303,304,305],"question_ids":[28,24592],"answers":["1"],"max_new_tokens":2}' \
  '{"context_ids":[0,256,300,301,302,303,304,305],"question_ids":[28,999999],"answers":["1"],"max_new_tokens":2}' >"$T/ids.jsonl"
suite ids "\"methods\":[\"knorm\"],\"tasks\":[\"jsonl:ids.jsonl\"],\"budgets\":[{\"tokens\":4}],\"blind\":false"
run_suite ids ids 5
count good_neighbour_is_measured ids 2 "SELECT count(*) FROM outcome o JOIN sample s USING(sample_id) WHERE s.idx = 0 AND status = 'ok'"
count bad_record_is_stored_as_failed ids 2 "SELECT count(*) FROM outcome o JOIN sample s USING(sample_id) WHERE s.idx = 1 AND status = 'error' AND error LIKE '%999999%'"

# own samples are their bytes: another spelling of the path resumes
suite spell "\"methods\":[\"knorm\"],\"tasks\":[\"jsonl:./ids.jsonl\"],\"budgets\":[{\"tokens\":4}],\"blind\":false"
"$KVAUDIT" run "$T/spell.json" --db "$T/ids.db" --dry-run >"$T/dry" 2>&1
grep -q '2 done' "$T/dry" && ok another_spelling_resumes || no "another_spelling_resumes $(head -c 300 "$T/dry")"

# --sample finds files of a suite elsewhere, from any directory
mkdir -p "$T/sub"
printf '{"context":"One of the special magic numbers for ab-cd is: 4812907. The sky is blue.","question":"What?","answer_prefix":" A","answers":["4812907"],"max_new_tokens":2}\n' >"$T/sub/own.jsonl"
printf '{"schema":1,"name":"sub","models":["builtin:retrieval"],"methods":["knorm"],"tasks":["jsonl:own.jsonl"],"budgets":[{"tokens":8}]}\n' >"$T/sub/s.json"
"$KVAUDIT" run "$T/sub/s.json" --db "$T/sub.db" --progress none 2>/dev/null
"$KVAUDIT" report --db "$T/sub.db" --sample 'jsonl/own.jsonl#0' >"$T/sample" 2>&1
grep -q 'special magic numbers for ab-cd' "$T/sample" && ok sample_is_made_again_elsewhere || no "sample_is_made_again_elsewhere $(head -c 300 "$T/sample")"
exit $bad
