#!/usr/bin/env bash
# spans.sh - how much of each labelled span is still held: what random keeps of evidence is its share
# (within 4 standard errors), the full cache keeps everything, payload lies inside evidence, and the
# counts agree with the traced bitmaps.
. tests/cli/common.inc
. tests/cli/proof.inc
suite s "\"methods\":[\"random\",\"keydiff\"],\"tasks\":[\"ruler/niah_single_2@400\",\"ruler/niah_multikey_1@400\"],
  \"budgets\":[{\"keep\":0.5}],\"schedules\":[\"oneshot\",\"block:64\"],\"defaults\":{\"n\":24,\"max_new_tokens\":2}"
run_suite s s 0 --jobs 2 --trace-kept 4
# kept[layer][head] as rows: k.kept is u16 little-endian, layer major
HEADS="h AS (SELECT outcome_id, span, n_tok, n_layer, n_kv_head, value AS i,
  (instr('0123456789ABCDEF', substr(hex(kept), 4 * value + 1, 1)) - 1) * 16 +
  instr('0123456789ABCDEF', substr(hex(kept), 4 * value + 2, 1)) - 1 AS held
  FROM span_kept, generate_series(0, n_layer * n_kv_head - 1))"
none dense_keeps_everything s "$FLAT, $HEADS SELECT x.slug, span, held, n_tok FROM h JOIN x ON oid = h.outcome_id
  WHERE method = 'dense' AND held <> h.n_tok"
none nothing_holds_more_than_there_is s "WITH $HEADS SELECT outcome_id, span FROM h WHERE held > n_tok"
for schedule in oneshot block:64; do
  r=$(sql s "$FLAT, $HEADS SELECT sum(held) * 1.0 / sum(n_tok), sum(n_tok) FROM h JOIN x ON oid = h.outcome_id
    WHERE method LIKE 'random%' AND span LIKE 'E%' AND schedule = '$schedule'")
  awk -F'|' '{ se = sqrt(0.25 / $2); d = $1 - 0.5; exit !($2 > 2000 && d < 4 * se && -d < 4 * se) }' <<<"$r" &&
    ok "random_keeps_half_of_the_evidence_$schedule" || no "random_keeps_half_of_the_evidence_$schedule $r"
done
SPAN="p AS (SELECT sample_id, json_extract(j.value, '\$.id') AS id, json_extract(j.value, '\$.kind') AS kind,
  json_extract(j.value, '\$.match') AS of, json_extract(j.value, '\$.tok[0]') AS t0,
  json_extract(j.value, '\$.tok[1]') AS t1 FROM sample s, json_each(s.meta_json, '\$.spans') j)"
none payload_lies_inside_evidence s "WITH $SPAN SELECT a.sample_id, a.id, a.t0, a.t1, b.t0, b.t1 FROM p a JOIN p b
  ON a.sample_id = b.sample_id AND a.of = b.id WHERE a.kind = 'P' AND (a.t0 < b.t0 OR a.t1 > b.t1)"
none payload_survives_only_with_evidence s "$FLAT, $SPAN, $HEADS SELECT x.slug, a.span, a.held, b.held FROM h a
  JOIN x ON oid = a.outcome_id JOIN p ON p.sample_id = x.sample_id AND p.id = a.span AND p.kind = 'P'
  JOIN h b ON b.outcome_id = a.outcome_id AND b.span = p.of AND b.i = a.i WHERE a.held > b.held"
none every_span_is_counted s "$FLAT, $SPAN SELECT x.slug, p.id FROM x JOIN p USING(sample_id) WHERE method <> 'blind'
  AND NOT EXISTS (SELECT 1 FROM span_kept k WHERE k.outcome_id = x.oid AND k.span = p.id AND k.n_tok = p.t1 - p.t0)"
count only_asked_samples_are_traced s "0 3" "SELECT min(idx) || ' ' || max(idx) FROM kept JOIN outcome USING(outcome_id) JOIN sample USING(sample_id)"
bit=$(held "i / n_kv_head" "(i % n_kv_head)" pos.value)
none counts_agree_with_bitmaps s "$FLAT, $SPAN, $HEADS SELECT x.slug, p.id, h.i, h.held,
  (SELECT sum($bit) FROM generate_series(p.t0, p.t1 - 1) pos) AS bits FROM h JOIN x ON oid = h.outcome_id
  JOIN p ON p.sample_id = x.sample_id AND p.id = h.span WHERE idx < 4 AND method <> 'blind' AND held IS NOT bits"
exit $bad
