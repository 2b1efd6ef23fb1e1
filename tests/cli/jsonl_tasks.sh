#!/usr/bin/env bash
# jsonl_tasks.sh - the user's own samples: two questions on one context share one prefill and answer as
# they would from files of their own; token ids in place of text give the same answers.
. tests/cli/common.inc
. tests/cli/proof.inc
CTX="The grass is green. One of the special magic numbers for amber-lantern is: 4812907. The sky is blue.
 One of the special magic numbers for quiet-anvil is: 7300215. Here we go. There and back again."
CTX=$(tr '\n' ' ' <<<"$CTX")
record() { # KEY VALUE [CONTEXT]
  printf '{"context":"%s","question":" What is the special magic number for %s mentioned in the provided text? ","answer_prefix":"The special magic number for %s mentioned in the provided text is","answers":["%s"],"max_new_tokens":4}\n' \
    "${3:-$CTX}" "$1" "$1" "$2"
}
record amber-lantern 4812907 >"$T/one.jsonl"
record quiet-anvil 7300215 >"$T/two.jsonl"
cat "$T/one.jsonl" "$T/two.jsonl" >"$T/both.jsonl"
rest='"methods":["streaming","keydiff","snapkv:window=4+adakv","tova"],"visibility":["agnostic","aware"],
  "budgets":[{"keep":0.5}],"schedules":["oneshot","block:16","oneshot+decode:1"]'
task() { suite "$1" "$rest,\"tasks\":[\"jsonl:$T/$1.jsonl\"],\"defaults\":{\"n\":$2}"; }
task one 1; task two 1; task both 2
for s in one two both; do run_suite $s $s 0 --jobs 2; done
count one_unit_for_two_questions both 1 "SELECT count(*) FROM unit_time"
count one_cluster both 1 "SELECT count(DISTINCT cluster) FROM sample"
count two_samples both 2 "SELECT count(*) FROM sample"
none dense_answers_both both "$FLAT SELECT idx, text FROM x WHERE method = 'dense' AND score < 1"
# rows without what names the file
answers() { # DB IDX: the digest of a cell covers its task, so cells are named by what they are
  sql "$1" "$FLAT SELECT method, budget_kind, schedule, visibility, n_ctx, n_question, n_cut, kept_fnv, ids, nll,
    score, stop FROM x WHERE idx = $2 ORDER BY 1, 2, 3, 4"
}
answers both 0 >"$T/b0"; answers both 1 >"$T/b1"; answers one 0 >"$T/o"; answers two 0 >"$T/w"
same the_first_question_answers_as_by_itself "$T/b0" "$T/o"
same the_second_question_answers_as_by_itself "$T/b1" "$T/w"
count the_context_was_fed_once both 1 "SELECT (SELECT sum(n_rows) FROM unit_time) < 2 * (SELECT sum(n_gen + n_question + n_ctx) FROM outcome)"

# the exact ids, from the program's own filter: same answers
if have_jq ids; then
  "$KVAUDIT" generate "jsonl:$T/both.jsonl" -n 2 --tokens builtin:retrieval >"$T/gen" 2>"$T/gen.err" &&
    ok generate_tokens || no generate_tokens "$(head -1 "$T/gen.err")"
  jq -c '{context_ids, question_ids, answers, max_new_tokens, gold: (" " + .answers[0])}' "$T/gen" >"$T/ids.jsonl"
  task ids 2
  run_suite ids ids 0 --jobs 2
  # words cannot be read back from ids, and all of a question given as ids is visible
  for i in 0 1; do
    sql ids "$FLAT SELECT method, schedule, n_ctx, n_question, n_cut, kept_fnv, ids FROM x WHERE idx = $i AND
      visibility = 'agnostic' AND method <> 'blind' ORDER BY 1, 2" >"$T/i"
    sql both "$FLAT SELECT method, schedule, n_ctx, n_question, n_cut, kept_fnv, ids FROM x WHERE idx = $i AND
      visibility = 'agnostic' AND method <> 'blind' ORDER BY 1, 2" >"$T/t"
    same "ids_answer_as_text_$i" "$T/i" "$T/t"
  done
fi

# what a record can have wrong is said with file and line
bad_record() { # NAME TEXT CODE WORDS
  printf '%s\n%s\n' "$(head -1 "$T/one.jsonl")" "$2" >"$T/bad.jsonl"
  suite bad "$rest,\"tasks\":[\"jsonl:$T/bad.jsonl\"],\"defaults\":{\"n\":2}"
  "$KVAUDIT" run "$T/bad.json" --db "$T/$1.db" --progress none >"$T/out" 2>"$T/err"
  is "$1_exit" $? "$3"
  has "$1_message" "$T/err" "$4"
}
bad_record cut_record '{"context":"a","question":' 2 "bad.jsonl:2"
bad_record misspelt_key '{"contxt":"a","context":"a","question":"b","answers":["c"]}' 2 "bad.jsonl:2"
bad_record no_answers '{"context":"a","question":"b"}' 2 "bad.jsonl:2"
bad_record id_out_of_range '{"context_ids":[0,99999],"question_ids":[4],"answers":["c"]}' 5 "outside the vocabulary"
count the_good_record_was_measured id_out_of_range 1 "$FLAT SELECT count(*) > 10 FROM x WHERE idx = 0 AND status = 'ok'"
exit $bad
