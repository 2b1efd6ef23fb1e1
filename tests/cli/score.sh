#!/usr/bin/env bash
# score.sh - given predictions scored: fields, post-processing, bad lines, streams.
. tests/cli/common.inc

line() { printf '%s\n' "$@"; }

line '{"prediction":"The Bob Dylan.","answers":["Bob Dylan","x"],"id":7}' \
  '{"pred":"New York New York","outputs":"New York","_id":{"a":[1]}}' >"$T/qa"
check scores 0 "$KVAUDIT" score qa_f1 "$T/qa"
line '{"line":1,"id":7,"score":1.0}' '{"line":2,"_id":{"a":[1]},"score":0.66666666666666663}' >"$T/want"
same lines_answer_lines "$T/out" "$T/want"
has summary_on_stderr "$T/err" "qa_f1, version 1: 83.33 of 100"
has summary_counts "$T/err" "n = 2"
check standard_input 0 "$KVAUDIT" score qa_f1 - <"$T/qa"
same stdin_is_the_file "$T/out" "$T/want"
check out_file 0 "$KVAUDIT" score qa_f1 "$T/qa" -o "$T/to" --quiet
empty out_leaves_stdout_empty "$T/out"
empty quiet "$T/err"
same out_holds_lines "$T/to" "$T/want"
check json 0 "$KVAUDIT" score qa_f1 "$T/qa" --json
if have_jq json; then
  is json_schema "$(jq -r .schema "$T/out")" kvaudit.score/1
  is json_mean "$(jq -c '[.n, .errors, .no_answer, (.mean * 1000 | round)]' "$T/out")" "[2,0,0,833]"
  is json_interval "$(jq -c '.ci95[0] < .mean and .mean < .ci95[1]' "$T/out")" true
fi
(printf '\xef\xbb\xbf'; head -1 "$T/qa" | tr '\n' '\r'; printf '\n\n  \n'; tail -1 "$T/qa" | tr -d '\n') >"$T/bom"
check blank_lines_mark_and_no_last_feed 0 "$KVAUDIT" score qa_f1 "$T/bom"
is their_numbers_stay "$(grep -o '"line":[0-9]*' "$T/out" | tr '\n' ' ')" '"line":1 "line":4 '

# post-processing: by profile and data set, or the same for all
line '{"prediction":"\n\n x\ny","answers":" x","dataset":"samsum"}' '{"prediction":"\n x","answers":" x","dataset":"lcc"}' \
  '{"prediction":" x\n","answers":"x","dataset":"lcc"}' '{"prediction":" x","answers":"x","dataset":"samsum_e"}' >"$T/post"
scores() { "$KVAUDIT" score code_sim "$T/post" "$@" 2>/dev/null | sed 's/.*"score":\([^,}]*\).*/\1/' | tr '\n' ' '; }
is official_post "$(scores)" "1.0 1.0 0.67000000000000004 0.67000000000000004 "
is kvpress_post "$(scores --profile kvpress)" "0.67000000000000004 0.67000000000000004 1.0 0.67000000000000004 "
is post_for_all "$(scores --post strip)" "0.67000000000000004 0.67000000000000004 1.0 1.0 "
is no_post "$(scores --post none)" "1.0 1.0 0.67000000000000004 0.67000000000000004 "
check kvpress_needs_a_set 2 "$KVAUDIT" score qa_f1 "$T/qa" --profile kvpress
has kvpress_asks_for_it "$T/err" 'no "dataset"'
check unknown_dataset 2 "$KVAUDIT" score qa_f1 "$T/qa" --dataset samsun
has nearest_dataset "$T/err" "did you mean 'samsum'?"
line '{"prediction":"trec\nFood","answers":"trec","all_classes":["trec","Food"]}' >"$T/class"
check classes 0 "$KVAUDIT" score classification "$T/class"
has both_lines_count "$T/out" '"score":0.5'
check dataset_of_all 0 "$KVAUDIT" score classification "$T/class" --dataset trec
has first_line_only "$T/out" '"score":1.0'
check extracted 0 "$KVAUDIT" score code_sim - <<<'{"prediction":"# a\nb \u00e9","answers":"b"}'
has the_line_is_told "$T/out" '"how":"line","extracted":"b é"'

# bad lines: named, answered, counted; the others are scored
line '{"prediction":"x","answers":["x"]}' '[1]' '{"prediction":"x"' '{"answers":["x"]}' '{"prediction":1,"answers":["x"]}' \
  '{"prediction":"x"}' '{"prediction":"x","answers":[1]}' '{"prediction":"x","answers":{"a":1}}' \
  '{"prediction":"\ud800","answers":["x"]}' '{"prediction":"x","answers":["a\u0000"]}' \
  '{"prediction":"x","answers":["x"],"dataset":"vcsum"}' '{"prediction":"x","answers":["x"],"dataset":3}' \
  '{"prediction":"x","prediction":"y","answers":["x"]}' >"$T/bad"
printf '{"prediction":"\xff","answers":["x"]}\n{"prediction":"a\\u0000x","answers":"A\\nX"}\n' >>"$T/bad"
check bad_lines 2 "$KVAUDIT" score match_all "$T/bad"
is every_line_is_answered "$(wc -l <"$T/out")" 15
is errors_are_named "$(grep -c "^kvaudit: $T/bad:[0-9]*: " "$T/err")" 13
is good_lines_are_scored "$(grep -c '"score":1.0' "$T/out")" 2
has said_at_the_end "$T/err" "13 of 15 lines cannot be scored and count as 0"
has they_count_as_0 "$T/err" "13.33 of 100"
has they_are_in_n "$T/err" "n = 15"
n=2
while IFS='|' read -r name text; do
  has "$name" <(grep "^kvaudit: $T/bad:$n: " "$T/err") "$text"
  n=$((n + 1))
done <<'END'
no_object|not a JSON object
cut_short|column
no_prediction|no "prediction"
number_for_prediction|"prediction" is not a text
no_answers|no "answers"
number_for_answer|"answers" is not a text or a list of texts
object_for_answers|"answers" is not a text or a list of texts
lone_surrogate|invalid Unicode
nul_in_answer|a NUL inside "answers"
chinese|vcsum is Chinese
number_for_dataset|"dataset" is not a text
twice|duplicate
invalid_utf8|unable to decode byte 0xff
END
check classes_are_needed 2 "$KVAUDIT" score classification "$T/qa"
has classes_are_asked_for "$T/err" 'no "all_classes"'
line '{"prediction":"x","answers":[]}' '{"prediction":"x","answers":["x",null]}' '{"prediction":"x","answers":["x"]}' >"$T/none"
check no_reference_counts_as_0 0 "$KVAUDIT" score match_all "$T/none"
is no_reference_is_flagged "$(grep -c '"score":0.0,"flag":"no_answer"' "$T/out")" 2
has no_reference_is_said "$T/err" "2 of 3 have no reference and count as 0"
yes '[]' | head -30 >"$T/many"
check many_bad_lines 2 "$KVAUDIT" score match_all "$T/many"
has the_rest_is_counted "$T/err" "and 10 more"
is all_are_answered "$(grep -c '"error"' "$T/out")" 30

# the command line
check unknown_metric 2 "$KVAUDIT" score rogue_l "$T/qa"
has nearest_metric "$T/err" "did you mean 'rouge_l'?"
check far_metric 2 "$KVAUDIT" score zzzzzzzzz "$T/qa"
has far_metric_points_to_list "$T/err" "kvaudit list metrics"
check unknown_profile 2 "$KVAUDIT" score qa_f1 "$T/qa" --profile kvpres
has nearest_profile "$T/err" "did you mean 'kvpress'?"
check unknown_post 2 "$KVAUDIT" score qa_f1 "$T/qa" --post stripp
has nearest_post "$T/err" "did you mean 'strip'?"
check no_file 2 "$KVAUDIT" score qa_f1
check two_files 2 "$KVAUDIT" score qa_f1 "$T/qa" "$T/qa"
check missing_file 3 "$KVAUDIT" score qa_f1 "$T/no"
check a_directory 3 "$KVAUDIT" score qa_f1 "$T"
check out_not_writable 3 "$KVAUDIT" score qa_f1 "$T/qa" -o "$T/no/such"
cp "$T/qa" "$T/kept"
check out_is_the_input 2 "$KVAUDIT" score qa_f1 "$T/kept" -o "$T/kept"
same the_input_is_kept "$T/kept" "$T/qa"
: >"$T/empty"
check empty_file 2 "$KVAUDIT" score qa_f1 "$T/empty"
has empty_file_says_so "$T/err" "no predictions"
if [ -e /dev/full ]; then
  "$KVAUDIT" score qa_f1 "$T/qa" >/dev/full 2>"$T/err"
  is full_disk_is_exit_3 $? 3
fi

# megabytes
(printf '{"answers":["'; head -c 1000000 /dev/zero | tr '\0' x; printf '"],"prediction":"'
  head -c 1000000 /dev/zero | tr '\0' x; printf '"}\n') >"$T/long"
for m in match_all word_match qa_f1 rouge_l code_sim code_sim_indel; do
  check "megabyte_$m" 0 "$KVAUDIT" score $m "$T/long"
  has "megabyte_${m}_is_equal" "$T/out" '"score":'
done

# every metric is listed
check list_metrics 0 "$KVAUDIT" list metrics
for m in match_all match_part word_match qa_f1 rouge_l classification retrieval count code_sim code_sim_indel; do
  has "list_$m" "$T/out" "$m "
done
exit $bad
