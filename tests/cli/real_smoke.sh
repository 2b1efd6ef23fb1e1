#!/usr/bin/env bash
# real_smoke.sh - small-models.md 5b on SmolLM2-135M: the full cache answers everything, keydiff's answers
# cost half a nat less than random's at keep 0.5, and a budget above the context is the full cache.
. tests/cli/common.inc
. tests/cli/proof.inc
. tests/cli/real.inc
smoke() { sed "s/\"methods\".*/\"methods\": [\"keydiff\", \"random\"],/; s/\"budgets\".*/\"budgets\": [$1]/" configs/smoke.json >"$T/$2.json"; }
smoke '{"keep": 0.5}' smoke
check probes_tell_the_time 0 "$KVAUDIT" run "$T/smoke.json" --dry-run --probe --db "$T/smoke.db"
has probed_model_is_said "$T/out" "(smollm2-135m by two probe prompts"
if [ -e "$T/smoke.db" ]; then no probes_make_no_file; else ok probes_make_no_file; fi
run_suite smoke smoke 0 --jobs 2 --limit 4
none dense_answers_everything smoke "$FLAT SELECT slug, idx, text FROM x WHERE method = 'dense' AND score < 1"
none nothing_failed smoke "SELECT status, error FROM outcome WHERE status <> 'ok'"
d=$(sql smoke "$FLAT SELECT printf('%.3f', (SELECT avg(CAST(nll AS REAL)) FROM x WHERE method LIKE 'keydiff%') -
  (SELECT avg(CAST(nll AS REAL)) FROM x WHERE method LIKE 'random%'))")
echo "gold_nll of keydiff minus random: $d"
awk -v d="$d" 'BEGIN {exit !(d < -0.5)}' && ok keydiff_beats_random_by_half_a_nat || no keydiff_beats_random_by_half_a_nat "$d"
d=$(sql smoke "$FLAT SELECT printf('%.3f', avg(CAST(nll AS REAL))) FROM x WHERE method = 'blind'")
echo "gold_nll of blind: $d"
awk -v d="$d" 'BEGIN {exit !(d > 1.5 && d < 4)}' && ok blind_guesses_digits || no blind_guesses_digits "$d"
smoke '{"tokens": 100000}' whole
run_suite whole smoke 0 --jobs 2 --limit 1
none a_budget_above_the_context_is_the_full_cache smoke "$FLAT SELECT p.slug, p.idx FROM x p JOIN x q ON q.method = 'dense'
  AND p.sample_id = q.sample_id WHERE p.budget = 100000 AND (p.ids, p.nll, p.kept_fnv, p.stop)
  IS NOT (q.ids, q.nll, q.kept_fnv, q.stop)"
exit $bad
