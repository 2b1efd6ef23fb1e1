#!/usr/bin/env bash
# real_mask.sh - mask equals physical bit for bit in ref on SmolLM2, one method per schedule, about 100
# tokens; the masked run holds dense bytes.
. tests/cli/common.inc
. tests/cli/proof.inc
. tests/cli/real.inc
short_sample 5 >"$T/short.jsonl"
pairs() { # DB METHOD SCHEDULES
  suite "$1" "\"models\":[\"smollm2-135m\"],\"methods\":[\"$2\"],\"tasks\":[\"jsonl:$T/short.jsonl\"],
    \"budgets\":[{\"keep\":0.5}],\"schedules\":[$3],\"enforce\":[\"physical\",\"mask\"],
    \"numerics\":\"ref\",\"dense\":false,\"blind\":false,\"defaults\":{\"n\":1}"
  run_suite "$1" "$1" 0 --jobs 1
}
pairs one snapkv:window=16+adakv '"oneshot","oneshot+decode:1"' >"$T/one.log" &
pairs two tova '"block:48","block:48+decode:2"'
wait
cat "$T/one.log"
grep -q '^not ok' "$T/one.log" && bad=1
for m in one two; do
count two_pairs_$m $m 2 "SELECT count(*) FROM (${PARTNERS})"
none mask_equals_physical_$m $m "$PARTNERS WHERE $DIFFER"
none masked_holds_dense_bytes_$m $m "SELECT slug, kv_alloc_bytes, kv_dense_bytes FROM memory JOIN outcome USING(outcome_id)
  JOIN cell USING(cell_id) WHERE enforce = 'mask' AND (kv_alloc_bytes < kv_dense_bytes OR entries_masked = 0)"
none physical_holds_its_budget_$m $m "SELECT slug, kv_live_bytes, kv_budget_bytes FROM memory JOIN outcome USING(outcome_id)
  JOIN cell USING(cell_id) WHERE enforce = 'physical' AND (kv_live_bytes > kv_budget_bytes OR audit <> 0)"
done
exit $bad
