#!/usr/bin/env bash
# doctor.sh - the machine, a model, and the two filters, on builtin models.
. tests/cli/common.inc
export KVAUDIT_CACHE=$T/cache
M=builtin:tiny-llama

check machine 0 "$KVAUDIT" doctor
has machine_cpu "$T/out" cpu
has machine_model_absent "$T/out" "kvaudit fetch smollm2-135m"
KVAUDIT_CACHE=/dev/null/x check cache_not_writable_is_no 1 "$KVAUDIT" doctor
has cache_missing "$T/out" MISSING
PATH=/nonexistent check no_tools_are_no_failure 0 "$KVAUDIT" doctor
has gnuplot_absent "$T/out" "reports have no figures"
check model 0 "$KVAUDIT" doctor --model $M
has model_shape "$T/out" "3 layers, 4 heads, 2 KV heads of 16"
check unknown_model 2 "$KVAUDIT" doctor --model builtin:tiny-lama
has nearest_model "$T/err" "did you mean 'builtin:tiny-llama'?"
check missing_file 3 "$KVAUDIT" doctor --model "$T/none.gguf"
printf 'GGUFnonsense' >"$T/bad.gguf"
check damaged_file 3 "$KVAUDIT" doctor --model "$T/bad.gguf"
check not_fetched 3 "$KVAUDIT" doctor --model smollm2-135m
has not_fetched_says_how "$T/err" "kvaudit fetch smollm2-135m"
check filter_needs_model 2 "$KVAUDIT" doctor --nll
check one_filter 2 "$KVAUDIT" doctor --nll --tokenize --model $M
check unknown_numerics 2 "$KVAUDIT" doctor --model $M --numerics bf17
check unknown_kv 2 "$KVAUDIT" doctor --model $M --kv f64
check extra_word 2 "$KVAUDIT" doctor $M

printf '"ab"\n""\n"\\u00e4"\n' >"$T/in"
check tokenize 0 "$KVAUDIT" doctor --model $M --tokenize <"$T/in"
is tokenize_bytes "$(tr '\n' ' ' <"$T/out")" "[97,98] [] [195,164] "
printf '"a"\n7\n' >"$T/in"
check tokenize_no_string 3 "$KVAUDIT" doctor --model $M --tokenize <"$T/in"
is tokenize_answers_before_the_error "$(cat "$T/out")" "[97]"
has tokenize_names_the_line "$T/err" "line 2"
printf '[256,97,98,99]\n[5]\n' >"$T/in"
check nll 0 "$KVAUDIT" doctor --model $M --nll <"$T/in"
is nll_lines "$(wc -l <"$T/out")" 2
is nll_of_one_id "$(tail -1 "$T/out")" "[]"
cp "$T/out" "$T/f32"
for isa in scalar avx2; do
  KVAUDIT_CPU=$isa "$KVAUDIT" doctor --model $M --nll <"$T/in" >"$T/isa" 2>/dev/null
  same "nll_has_the_same_bits_on_$isa" "$T/isa" "$T/f32"
done
check nll_ref 0 "$KVAUDIT" doctor --model $M --nll --numerics ref <"$T/in"
printf '[256,999999]\n' >"$T/in"
check nll_id_out_of_range 3 "$KVAUDIT" doctor --model $M --nll <"$T/in"
printf '[256,' >"$T/in"
check nll_no_json 3 "$KVAUDIT" doctor --model $M --nll <"$T/in"
if have_jq doctor_json; then
  is json_machine "$("$KVAUDIT" doctor --json | jq -r '.schema + " " + (.ok | tostring)')" "kvaudit.doctor/1 true"
  is json_model "$("$KVAUDIT" doctor --model $M --json | jq -r '.schema + " " + .sha256')" "kvaudit.model/1 9c602b483f51ab42e787e120d95f5d2e9c44a04daa4440bae5d29b40f70e9e0c"
  # 600 ids cross two step borders: the sum of a prefix does not depend on what follows
  jq -nc '[range(600) | (. * 37) % 250]' >"$T/in"
  jq -c '.[0:300]' "$T/in" >"$T/in2"
  "$KVAUDIT" doctor --model $M --nll <"$T/in" | jq -c '.[0:299]' >"$T/a"
  "$KVAUDIT" doctor --model $M --nll <"$T/in2" | jq -c . >"$T/b"
  same nll_of_a_prefix "$T/a" "$T/b"
fi
exit $bad
