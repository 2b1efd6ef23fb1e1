#!/usr/bin/env bash
# generate.sh - samples as JSON lines: reproducible, independent of each other, fed as counted.
. tests/cli/common.inc

check one_by_default 0 "$KVAUDIT" generate ruler/niah_single_1@256
is one_line "$(wc -l <"$T/out")" 1
empty no_message "$T/err"
"$KVAUDIT" generate ruler/niah_single_2 --ctx 512 -n 4 --seed 7 >"$T/a"
"$KVAUDIT" generate ruler/niah_single_2@512 -n 4 --seed=7 --out "$T/b" >"$T/none"
same ctx_option_is_the_suffix "$T/a" "$T/b"
empty out_leaves_stdout_empty "$T/none"
"$KVAUDIT" generate ruler/niah_single_2@512 -n 2 --first 2 --seed 7 >"$T/c"
tail -2 "$T/a" >"$T/d"
same items_do_not_depend_on_each_other "$T/c" "$T/d"
"$KVAUDIT" generate ruler/niah_single_2@512 --seed 8 >"$T/e"
if cmp -s "$T/e" <(head -1 "$T/a"); then no seed_changes_items; else ok seed_changes_items; fi
# seeds end where a suite's do
check the_largest_seed 0 "$KVAUDIT" generate ruler/niah_single_2@512 --seed 4611686018427387903
cp "$T/out" "$T/largest"
check its_lower_half 0 "$KVAUDIT" generate ruler/niah_single_2@512 --seed 4294967295
if cmp -s "$T/largest" "$T/out"; then no no_seed_is_narrowed; else ok no_seed_is_narrowed; fi
for s in 4611686018427387904 -1 7x; do check "no_seed_$s" 2 "$KVAUDIT" generate ruler/niah_single_2@512 --seed=$s; done
has the_range_is_said "$T/err" "--seed wants a whole number in 0..4611686018427387903, not '7x'"
check unknown_task 2 "$KVAUDIT" generate ruler/niah_singel_1@256
has nearest_task "$T/err" "ruler/niah_single_1"
check two_lengths 2 "$KVAUDIT" generate ruler/vt@256 --ctx 512
check no_task 2 "$KVAUDIT" generate
check too_small 2 "$KVAUDIT" generate ruler/niah_single_1@16
check missing_jsonl 3 "$KVAUDIT" generate "jsonl:$T/none.jsonl"
check bad_words 2 "$KVAUDIT" generate ruler/niah_single_1@256 --words 9
check out_not_writable 3 "$KVAUDIT" generate ruler/vt@256 --out "$T/no/such/dir"
check unknown_tokenizer 2 "$KVAUDIT" generate ruler/vt@256 --tokenizer builtin:retreival
has nearest_tokenizer "$T/err" "builtin:retrieval"
check by_bytes 0 "$KVAUDIT" generate ruler/vt@2048 --tokenizer by
if have_jq record; then
  is schema "$(head -1 "$T/a" | jq -r .schema)" kvaudit.sample/1
  is indexes "$(jq -c .idx "$T/a" | tr '\n' ' ')" "0 1 2 3 "
  is bytes_tokenizer "$(jq -r .tokenizer.id "$T/out")" by
  "$KVAUDIT" generate ruler/vt@512 -n 3 --tokens builtin:retrieval >"$T/t"
  is ids_are_there "$(jq -c 'select((.context_ids | length) > 0 and (.question_ids | length) > 0) | .idx' "$T/t" | wc -l)" 3
  is bos_first "$(jq -c '.context_ids[0]' "$T/t" | sort -u)" 0
  # length counts everything fed and the answer
  is length_is_what_is_fed "$(jq -c '.length == (.context_ids | length) + (.question_ids | length) + .max_new_tokens' "$T/t" | sort -u)" true
  is spans_lie_inside "$(jq -c '.context_ids as $c | all(.spans[]; .tok[1] <= ($c | length))' "$T/t" | sort -u)" true
  jq -c 'del(.context_ids, .question_ids)' "$T/t" >"$T/u"
  "$KVAUDIT" generate ruler/vt@512 -n 3 --tokenizer builtin:retrieval | jq -c . >"$T/v"
  same ids_are_an_addition "$T/u" "$T/v"
  jq -c . "$T/u" >"$T/own.jsonl"
  (cd "$T" && "$KVAUDIT" generate jsonl:own.jsonl -n 9 2>"$T/warn") >"$T/w"
  is jsonl_reads_what_was_written "$(jq -r .question "$T/w" | md5sum)" "$(jq -r .question "$T/u" | md5sum)"
  has jsonl_has_three "$T/warn" "3 samples"
fi
exit $bad
