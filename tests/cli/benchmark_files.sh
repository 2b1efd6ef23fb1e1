#!/usr/bin/env bash
# benchmark_files.sh - LongBench and mathematics from the user's files: found in the cache, prompts as they
# are fed, a record that cannot be used costs its own outcomes only.
. tests/cli/common.inc
. tests/cli/proof.inc
export KVAUDIT_CACHE=$T/cache
mkdir -p "$T/cache/data/longbench" "$T/cache/data/math500"
lcc() { # INPUT ANSWER
  printf '{"context":"One of the special magic numbers for amber-lantern is: 4812907. The sky is blue.\\n","input":"","answers":["%s"],"length":14,"dataset":"lcc","language":"python","_id":"%s","all_classes":null}\n' "$2" "$1"
}
{ lcc a 4812907; echo '{"context":"cut'; lcc c 4812907; } >"$T/cache/data/longbench/lcc.jsonl"
printf '{"problem":"What is $1+1$?","solution":"","answer":"2","subject":"Algebra","level":1,"unique_id":"t/1"}\n' \
  >"$T/cache/data/math500/test.jsonl"

check lcc_is_generated 0 "$KVAUDIT" generate longbench/lcc -n 1
has the_prompt_is_the_official_one "$T/out" 'Please complete the code given below. \nOne of the special'
has the_question_is_its_end "$T/out" '"question":"Next line of code:\n","answer_prefix":""'
has it_is_fed_without_a_template "$T/out" '"raw":true'
check the_middle_is_cut 0 "$KVAUDIT" generate longbench/lcc@20 -n 1 --tokenizer ws
has head_and_tail_are_joined "$T/out" 'given below. \nOne of the specialis: 4812907'
check math_is_generated 0 "$KVAUDIT" generate math/math500:max_total=2048 -n 1
has the_problem_is_the_context "$T/out" '"context":"What is $1+1$?\n"'

check a_bad_record_says_where 3 "$KVAUDIT" generate longbench/lcc -n 3
has a_bad_record_names_its_line "$T/err" 'lcc.jsonl:2: premature end of input'
check no_file_is_an_error 3 "$KVAUDIT" generate longbench/trec
has both_ways_are_said "$T/err" 'longbench/trec.jsonl; name it with --data longbench=PATH'
check chinese_is_refused 2 "$KVAUDIT" generate longbench/vcsum
has chinese_says_why "$T/err" 'is Chinese'
check math_has_no_length 2 "$KVAUDIT" generate math/math500@2048
has math_says_what_bounds_it "$T/err" 'max_total=2048'

suite lcc '"methods":["streaming"],"budgets":[{"keep":0.5}],"tasks":["longbench/lcc"],"defaults":{"n":3,"max_new_tokens":4}'
run_suite lcc lcc 5
has the_failed_record_is_named "$T/lcc.err" 'lcc.jsonl:2: premature end of input'
count the_other_records_have_outcomes lcc 2 "SELECT count(DISTINCT sample_id) FROM outcome WHERE status = 'ok'"
count both_code_scores_are_stored lcc 2 "SELECT count(DISTINCT metric) FROM score WHERE metric LIKE 'code_sim%'"
exit $bad
