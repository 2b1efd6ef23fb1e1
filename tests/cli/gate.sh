#!/usr/bin/env bash
# gate.sh - a model that is at its guess floor in every task is not swept on; what looks wrong with
# a sweep is said in the end, by a resumed run, too.
. tests/cli/common.inc
. tests/cli/proof.inc
for i in $(seq 1 40); do
  printf '{"context":"The grass is green. One of the special magic numbers for amber-lantern is: %d. The sky is blue. Here we go. There and back again.","question":" What is the special magic number for amber-lantern mentioned in the provided text? ","answer_prefix":"The special magic number for amber-lantern mentioned in the provided text is","answers":["zebra"],"max_new_tokens":2}\n' \
    $((4812000 + i)) >>"$T/hopeless.jsonl"
  sed -n "${i}p" "$T/hopeless.jsonl" | sed "s/zebra/$((4812000 + i))/" >>"$T/easy.jsonl"
done
rest='"methods":["keydiff"],"budgets":[{"keep":0.5}],"defaults":{"n":40}'
suite bad "$rest,\"tasks\":[\"jsonl:hopeless.jsonl\"]"
run_suite bad bad 5 --jobs 1
has the_sweep_says_why "$T/bad.err" "the sweep of builtin:retrieval stopped"
has a_prompt_is_shown "$T/bad.err" "mentioned in the provided text is"
has its_answer_is_shown "$T/bad.err" "answer   4812001"
has what_was_expected "$T/bad.err" "expected zebra"
is three_prompts "$(grep -c '^    prompt' "$T/bad.err")" 3
count it_stopped_after_ten bad 1 "SELECT count(*) BETWEEN 10 AND 12 FROM outcome WHERE cell_id IN (SELECT cell_id FROM cell WHERE enforce = 'dense' AND method_id IN (SELECT method_id FROM method WHERE name = 'dense'))"
count what_was_measured_stays bad ok "SELECT DISTINCT status FROM outcome"
has below_floor_is_named "$T/bad.err" "jsonl:hopeless.jsonl on builtin:retrieval is below its floor"
done_before=$(sql bad "SELECT count(*) FROM outcome")
run_suite bad bad 5 --jobs 1
count a_resumed_run_measures_nothing_more bad "$done_before" "SELECT count(*) FROM outcome"
run_suite bad bad 0 --jobs 2 --keep-going
count keep_going_measures_all bad 120 "SELECT count(*) FROM outcome"
has still_named "$T/bad.err" "is below its floor: 0.0 % with the full cache (40 samples)"
run_suite bad bad 0
has named_when_nothing_is_to_do "$T/bad.err" "is below its floor"
run_suite bad limited 0 --limit 20

# one task that works keeps the gate open
suite both "$rest,\"tasks\":[\"jsonl:hopeless.jsonl\",\"jsonl:easy.jsonl\"]"
run_suite both both 0 --jobs 2
has only_the_one_is_named "$T/both.err" "jsonl:hopeless.jsonl on"
hasnt the_other_is_not "$T/both.err" "jsonl:easy.jsonl on builtin:retrieval is below"

# another model of the suite goes on
suite two "$rest,\"models\":[\"builtin:retrieval\",\"builtin:tiny-llama\"],\"tasks\":[\"jsonl:easy.jsonl\"]"
run_suite two two 5 --jobs 1
has the_other_model_stopped "$T/two.err" "the sweep of builtin:tiny-llama stopped"
hasnt the_able_one_did_not "$T/two.err" "the sweep of builtin:retrieval stopped"
count the_able_one_is_whole two 120 "SELECT count(*) FROM outcome JOIN cell USING(cell_id) JOIN model USING(model_id) WHERE model.name LIKE '%retrieval%'"

# the needle stays at both budgets: the answers are the same, and that is worth a word
suite same "\"methods\":[\"streaming:sinks=24\"],\"budgets\":[{\"keep\":0.9},{\"keep\":0.8}],\"tasks\":[\"jsonl:easy.jsonl\"],\"defaults\":{\"n\":12}"
run_suite same same 0 --jobs 2 --set defaults.max_new_tokens=1
has same_answers_are_told "$T/same.err" "gave the same 12 answers at keep=0.9 and keep=0.8"
has length_is_told "$T/same.err" "100 % of the answers ended by length"
suite differ "\"methods\":[\"streaming\"],\"budgets\":[{\"keep\":0.9},{\"keep\":0.3}],\"tasks\":[\"jsonl:easy.jsonl\"],\"defaults\":{\"n\":12}"
run_suite differ differ 0 --jobs 2
hasnt different_answers_are_not "$T/differ.err" "gave the same"
exit $bad
