#!/usr/bin/env bash
# real_resources.sh - SmolLM2: alone, in a wave, with two threads or workers, odd chunks, every
# instruction set: the same tokens, answer nats (all bits) and kept sets, beside a cell that fails.
. tests/cli/common.inc
. tests/cli/proof.inc
. tests/cli/real.inc
short_sample 6 >"$T/short.jsonl"
sed 's/7300215/4812907/g; s/"max_new_tokens":6/"max_new_tokens":1/' "$T/short.jsonl" >>"$T/short.jsonl"
suite s "\"models\":[\"smollm2-135m\"],\"methods\":[\"random\",\"keydiff+adakv\",\"snapkv:window=16\"],
  \"tasks\":[\"jsonl:$T/short.jsonl\"],\"budgets\":[{\"keep\":0.5},{\"bytes\":500}],
  \"schedules\":[\"oneshot\",\"block:64\",\"oneshot+decode:2\"],\"defaults\":{\"n\":2,\"max_attempts\":1}"
run_suite s base 5 --jobs 1
outcomes base >"$T/base.txt"
count one_budget_fails base 1 "$FLAT SELECT sum(status <> 'ok') = sum(budget_kind = 'bytes') AND count(*) > 30 FROM x"
try() { # NAME OPTIONS
  local name=$1
  shift
  run_suite s "$name" 5 "$@"
  outcomes "$name" >"$T/$name.txt"
  same "${name}_changes_nothing" "$T/$name.txt" "$T/base.txt"
}
try wave_1_chunk_7 --wave 1 --chunk 7 --jobs 2
try wave_4_threads_2 --wave 4 --jobs 1 --threads 2 --chunk 64
for isa in scalar avx2 avx512; do
  if KVAUDIT_CPU=$isa "$KVAUDIT" doctor --model builtin:tiny-llama >/dev/null 2>&1; then
    KVAUDIT_CPU=$isa try "isa_$isa" --jobs 2
  else
    skip "isa_$isa" "this processor has no $isa"
  fi
done
exit $bad
