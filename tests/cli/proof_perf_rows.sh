#!/usr/bin/env bash
# proof_perf_rows.sh - timed cells run alone: rows for exactly the first `perf` samples of a cell, their
# tokens equal the shared ones (the database refuses others), times and peaks are there; shared
# rows carry none of them.
. tests/cli/common.inc
. tests/cli/proof.inc
rest="\"methods\":[$SCORERS],\"tasks\":[\"ruler/vt@400\",\"ruler/niah_single_2@400\"],
  \"budgets\":[{\"keep\":0.5},{\"tokens\":64}],\"defaults\":{\"n\":3,\"max_new_tokens\":8},
  \"schedules\":[\"oneshot\",\"oneshot+decode:2\",\"block:100\"],
  \"visibility\":[\"agnostic\",\"aware\",\"full\"]"
suite p "$rest,\"perf\":2"
suite q "$rest"
run_suite p p 0 --jobs 2
none all_ok p "SELECT status, error FROM outcome WHERE status <> 'ok'"
none alone_rows_for_the_first_samples p "$FLAT SELECT slug, schedule, idx FROM x WHERE
  ((SELECT count(*) FROM memory m WHERE m.outcome_id = x.oid AND exec = 'alone') +
   (SELECT count(*) FROM timing t WHERE t.outcome_id = x.oid AND exec = 'alone'))
  <> CASE WHEN idx < 2 AND method <> 'blind' THEN 2 ELSE 0 END"
none every_outcome_has_shared_rows p "$FLAT SELECT slug FROM x WHERE method <> 'blind' AND
  (NOT EXISTS (SELECT 1 FROM memory m WHERE m.outcome_id = x.oid AND exec = 'shared') OR
   NOT EXISTS (SELECT 1 FROM timing t WHERE t.outcome_id = x.oid AND exec = 'shared'))"
none alone_rows_have_times p "SELECT outcome_id FROM timing JOIN outcome USING(outcome_id) WHERE exec = 'alone' AND
  (ttft_ns IS NULL OR ttft_ns <= 0 OR prefill_ns IS NULL OR prefill_ns <= 0 OR prefill_ns > ttft_ns
   OR (n_gen > 1) <> (decode_ns IS NOT NULL) OR (decode_p50_ns IS NOT NULL AND
   decode_p50_ns > decode_p99_ns))"
none alone_rows_have_peaks p "SELECT outcome_id FROM memory WHERE exec = 'alone' AND
  (host_peak_bytes IS NULL OR host_peak_bytes < kv_peak_bytes OR kv_peak_bytes < kv_alloc_bytes)"
none shared_rows_have_no_times p "SELECT outcome_id FROM timing WHERE exec = 'shared' AND
  (ttft_ns IS NOT NULL OR prefill_ns IS NOT NULL OR question_ns IS NOT NULL OR decode_ns IS NOT NULL
   OR decode_p50_ns IS NOT NULL OR decode_p99_ns IS NOT NULL)"
none shared_rows_have_no_peaks p "SELECT outcome_id FROM memory WHERE exec = 'shared' AND
  (host_peak_bytes IS NOT NULL OR dev_peak_bytes IS NOT NULL)"
# what the store claims does not depend on how the cell was run
none bytes_of_both_rows_agree p "$FLAT SELECT slug, schedule, a.kv_live_bytes, s.kv_live_bytes,
  a.kv_alloc_bytes, s.kv_alloc_bytes, a.kv_meta_bytes, s.kv_meta_bytes FROM x
  JOIN memory a ON a.outcome_id = x.oid AND a.exec = 'alone'
  JOIN memory s ON s.outcome_id = x.oid AND s.exec = 'shared'
  WHERE (a.kv_dense_bytes, a.kv_budget_bytes, a.kv_live_bytes, a.kv_alloc_bytes, a.entries_kept,
    a.entries_masked) IS NOT (s.kv_dense_bytes, s.kv_budget_bytes, s.kv_live_bytes, s.kv_alloc_bytes,
    s.entries_kept, s.entries_masked)"
none no_audit_bit_but_the_witness p "SELECT outcome_id, exec, audit FROM memory WHERE audit & ~16 <> 0"
outcomes p >"$T/p.txt"
run_suite q q 0 --jobs 2
outcomes q >"$T/q.txt"
same timing_changes_no_outcome "$T/p.txt" "$T/q.txt"
# asking for times later adds rows and measures nothing twice
run_suite p q 0 --jobs 2
count times_added_later q "$(sql p "SELECT count(*) FROM timing WHERE exec = 'alone'")" \
  "SELECT count(*) FROM timing WHERE exec = 'alone'"
outcomes q >"$T/q.txt"
same times_added_later_change_no_outcome "$T/p.txt" "$T/q.txt"
run_suite p q 0
has nothing_left "$T/q.err" "0 to do, 0 to time alone"
exit $bad
