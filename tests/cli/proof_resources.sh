#!/usr/bin/env bash
# proof_resources.sh - alone, in a wave, with 1 or 2 workers or threads, any chunk, any instruction set:
# the same tokens, answer nats (all bits), kept sets, spans and failures. Among the cells are some
# that end after one token, some that go on, one that fails in every wave (its bytes hold no entry).
. tests/cli/common.inc
. tests/cli/proof.inc
rest="\"methods\":[\"random\",\"streaming\",\"knorm\",\"keydiff+adakv\",\"h2o+chunk\",
  \"tova\",\"snapkv:window=16+adakv\"],
  \"tasks\":[\"ruler/niah_single_1@256\",\"ruler/vt@400\"],
  \"budgets\":[{\"keep\":0.4},{\"tokens\":100},{\"bytes\":200}],
  \"schedules\":[\"oneshot\",\"layerwise\",\"block:64\",\"chunked:96+decode:2\",\"oneshot+decode:1\"],\"visibility\":[\"agnostic\",\"aware\"],
  \"defaults\":{\"n\":1,\"max_new_tokens\":8,\"max_attempts\":1}"
suite s "$rest"
run_suite s base 5 --wave 64 --jobs 1
outcomes base >"$T/base.txt"
count some_end_early_and_some_go_on base 1 "SELECT count(DISTINCT n_gen) >= 4 AND min(n_gen) = 1 FROM outcome WHERE status = 'ok'"
count one_budget_fails base 1 "SELECT count(*) > 50 FROM outcome WHERE status = 'error'"
none only_that_budget_fails base "SELECT slug, status, error FROM outcome JOIN cell USING(cell_id)
  WHERE (status <> 'ok') <> (budget_kind = 'bytes')"
has the_failure_has_a_reason "$T/base.err" "first failure: builtin:retrieval/"

try() { # NAME OPTIONS
  local name=$1
  shift
  run_suite s "$name" 5 "$@"
  outcomes "$name" >"$T/$name.txt"
  same "${name}_changes_nothing" "$T/$name.txt" "$T/base.txt"
  rm -f "$T/$name.txt"
}
try wave_1 --wave 1 --jobs 2
try wave_3_chunk_7 --wave 3 --chunk 7 --jobs 2
try chunk_64 --chunk 64 --jobs 2 --threads 2
try jobs_1_threads_2 --jobs 1 --threads 2 --chunk 256
KVAUDIT_JOBS=2 try jobs_by_environment
for isa in scalar avx2 avx512; do
  KVAUDIT_CPU=$isa "$KVAUDIT" doctor >/dev/null 2>"$T/isa"
  if KVAUDIT_CPU=$isa "$KVAUDIT" doctor --model builtin:tiny-llama >/dev/null 2>&1; then
    KVAUDIT_CPU=$isa try "isa_$isa" --jobs 2 --chunk 100
  else
    skip "isa_$isa" "this processor has no $isa"
  fi
done

# cells measured one suite at a time equal those measured together
suite one "${rest/'"random","streaming","knorm","keydiff+adakv","h2o+chunk",
  "tova","snapkv:window=16+adakv"'/'"tova"'}"
run_suite one one 5 --jobs 2
outcomes one >"$T/one.txt"
if [ "$(wc -l <"$T/one.txt")" -lt "$(wc -l <"$T/base.txt")" ] &&
  [ -z "$(comm -23 "$T/one.txt" "$T/base.txt")" ]; then
  ok a_method_by_itself_is_the_same
else
  no a_method_by_itself_is_the_same "$(comm -23 "$T/one.txt" "$T/base.txt" | head -2 | cut -c1-400)"
fi
exit $bad
