#!/usr/bin/env bash
# visibility.sh - agnostic, aware and full move the cut and nothing else. On the retrieval model a
# scorer that has seen the question finds the needle, one that has not does not.
. tests/cli/common.inc
. tests/cli/proof.inc
suite v "\"methods\":[\"snapkv\",\"tova\"],\"tasks\":[\"ruler/niah_single_1@512\",\"ruler/niah_multikey_1@512\"],
  \"budgets\":[{\"keep\":0.25}],\"schedules\":[\"oneshot\",\"block:128\"],
  \"visibility\":[\"agnostic\",\"aware\",\"full\"],\"defaults\":{\"n\":20,\"max_new_tokens\":4}"
run_suite v v 0 --jobs 2
none dense_is_right v "$FLAT SELECT slug, idx FROM x WHERE method = 'dense' AND score < 1"
count dense_is_stored_once v "agnostic 2" "SELECT DISTINCT visibility || ' ' || count(*) FROM cell WHERE enforce = 'dense' AND budget_kind = 'dense' AND method_id IN (SELECT method_id FROM method WHERE name = 'dense')"
none aware_oneshot_finds_every_needle v "$FLAT SELECT slug, idx FROM x WHERE schedule = 'oneshot' AND
  visibility <> 'agnostic' AND method <> 'dense' AND score < 1"
count agnostic_does_not v 1 "$FLAT SELECT max(a) <= 0.55 FROM (SELECT avg(score) AS a FROM x WHERE
  visibility = 'agnostic' AND budget_kind = 'keep' GROUP BY method, task_id, schedule)"
none lengths_do_not_move v "$FLAT SELECT task_id, idx FROM x WHERE method <> 'blind' GROUP BY task_id, idx
  HAVING count(DISTINCT n_ctx) > 1 OR count(DISTINCT n_question) > 1"
none agnostic_cuts_after_the_context v "$FLAT SELECT slug FROM x WHERE visibility = 'agnostic' AND
  method <> 'blind' AND n_cut <> n_ctx"
none aware_cuts_inside_the_question v "$FLAT SELECT slug FROM x WHERE visibility = 'aware' AND
  (n_cut <= n_ctx OR n_cut >= n_ctx + n_question)"
none full_cuts_after_the_prompt v "$FLAT SELECT slug FROM x WHERE visibility = 'full' AND
  n_cut <> n_ctx + n_question"
none one_sample_for_all v "$FLAT SELECT task_id, idx FROM x GROUP BY task_id, idx HAVING count(DISTINCT sample_id) > 1"
exit $bad
