#!/usr/bin/env bash
# real_filters.sh - doctor's filters on a real model against other implementations' answers.
. tests/cli/common.inc
O=$SHARED/oracle
if ! "$KVAUDIT" fetch smollm2-135m --offline >/dev/null 2>&1; then
  skip tokenizer_of_smollm2 "the model is not in the cache (kvaudit fetch smollm2-135m)"
  skip nll_of_smollm2 "the model is not in the cache"
  exit 0
fi
command -v jq >/dev/null || { skip real_filters "no jq"; exit 0; }
if [ ! -e "$O/tokenizer-smollm2.jsonl" ]; then
  skip tokenizer_of_smollm2 "no $O"
  exit 0
fi
for special in false true; do
  opt=
  [ $special = true ] && opt=--special
  jq -c "select(.parse_special == $special) | .text" "$O/tokenizer-smollm2.jsonl" >"$T/in"
  jq -c "select(.parse_special == $special) | .ids" "$O/tokenizer-smollm2.jsonl" >"$T/want"
  "$KVAUDIT" doctor --model smollm2-135m --tokenize $opt <"$T/in" >"$T/out"
  same "ids_with_special_$special" "$T/out" "$T/want"
done
jq -c 'select(.n <= 64) | .ids' "$O/logits-smollm2.jsonl" >"$T/in"
jq -c 'select(.n <= 64) | .nll_hf' "$O/logits-smollm2.jsonl" >"$T/want"
"$KVAUDIT" doctor --model smollm2-135m --nll --numerics ref <"$T/in" >"$T/out"
is nll_within_3e_4 "$(paste -d' ' "$T/out" "$T/want" | jq -s -c '[., []] | .[0] as $v | [range(0; $v | length; 2) as $i | range($v[$i] | length) as $k | ($v[$i][$k] - $v[$i + 1][$k]) | fabs] | (length > 0) and (max < 3e-4)')" true
exit $bad
