#!/usr/bin/env bash
# analyze.sh - files that methods read, made from a model, and refused for another.
. tests/cli/common.inc
M=builtin:tiny-llama

check no_kind 2 "$KVAUDIT" analyze
has no_kind_says_which "$T/err" "known is qfilter"
check unknown_kind 2 "$KVAUDIT" analyze qfiltre $M -o "$T/f.json"
has nearest_kind "$T/err" "did you mean 'qfilter'?"
check no_file 2 "$KVAUDIT" analyze qfilter $M
has no_file_says_so "$T/err" "--out FILE"
check qfilter 0 "$KVAUDIT" analyze qfilter $M -o "$T/f.json" --sequences 2 --length 64
empty qfilter_stdout "$T/out"
has qfilter_kind "$T/f.json" '"kind":"qfilter"'
has qfilter_says_how "$T/f.json" "Emerson's essays), 2 sequences of 64 tokens, 128 queries"
cp "$T/f.json" "$T/g.json"
check qfilter_again 0 "$KVAUDIT" analyze qfilter $M -o "$T/f.json" --sequences 2 --length 64
same qfilter_is_repeatable "$T/f.json" "$T/g.json"
printf 'too short' >"$T/short"
check short_text 2 "$KVAUDIT" analyze qfilter $M -o "$T/s.json" --text "$T/short"
has short_text_says_what_is_needed "$T/err" "20 sequences of 2048 need"
[ -e "$T/s.json" ] && no short_text_leaves_no_file || ok short_text_leaves_no_file
check no_text 3 "$KVAUDIT" analyze qfilter $M -o "$T/s.json" --text "$T/none"
check no_directory 3 "$KVAUDIT" analyze qfilter $M -o "$T/none/f.json" --sequences 1 --length 64
exit $bad
