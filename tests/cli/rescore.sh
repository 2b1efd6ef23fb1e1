#!/usr/bin/env bash
# rescore.sh - stored answers scored again: nothing changes with the same metrics, an older version is
# refused by `run` and brought up to date, one task at a time.
. tests/cli/common.inc
. tests/cli/proof.inc
suite s '"methods":["streaming","keydiff"],"tasks":["ruler/niah_single_2@320","ruler/niah_multivalue@512"],
  "budgets":[{"keep":0.5}],"defaults":{"n":4,"max_new_tokens":24}'
run_suite s a 0
cp "$T/a.db" "$T/same.db"
again() { "$KVAUDIT" run --rescore --db "$T/$1.db" "${@:2}"; }
SCORES="SELECT outcome_id, score FROM outcome ORDER BY 1"
ROWS="SELECT outcome_id, metric, version, value, extracted FROM score ORDER BY 1, 2, 3"

check same_metrics 0 again same
has says_what_it_did "$T/out" "0 scores change"
hasnt no_score_changes "$T/out" " 1 scores change"
is second_metrics_are_scored_too "$(grep -c word_match "$T/out")" 2
is scores_are_the_same "$(sql same "$SCORES")" "$(sql a "$SCORES")"
is rows_are_the_same "$(sql same "$ROWS")" "$(sql a "$ROWS")"
count an_event_tells same 1 "SELECT count(*) FROM event WHERE msg LIKE 'answers were scored again%'"

# ---- a file scored by version 1 of match_all, which gave everything half
now=$(sql a "SELECT metric_version FROM task LIMIT 1")
older() { # DB: a file whose scores are of another version
  cp "$T/a.db" "$T/$1.db"
  sqlite3 "$T/$1.db" "UPDATE task SET metric_version = 0;
    UPDATE outcome SET score = 0.5 WHERE status = 'ok';
    UPDATE score SET version = 0, value = 0.5 WHERE metric = 'match_all';"
}
older old
check run_refuses_the_older_version 4 "$KVAUDIT" run "$T/s.json" --set defaults.n=5 --db "$T/old.db" --progress none
has names_the_command "$T/err" "kvaudit run --rescore"
has names_both_versions "$T/err" "match_all version 0, this program has match_all version $now"
before=$(sql old "$SCORES; $ROWS")
check dry_run 0 again old --dry-run
has dry_run_says_what_would_change "$T/out" "ruler/niah_single_2@320 match_all: version 0 to $now, 16 answers, 16 scores change, mean 0.5000 to"
is dry_run_changes_nothing "$(sql old "$SCORES; $ROWS")" "$before"
check up_to_date 0 again old
is scores_are_as_measured "$(sql old "$SCORES")" "$(sql a "$SCORES")"
is new_rows_are_as_measured "$(sql old "${ROWS/FROM score/FROM score WHERE NOT (metric = \'match_all\' AND version = 0)}")" "$(sql a "$ROWS")"
count old_rows_stay old "$(sql a "SELECT count(*) FROM score WHERE metric = 'match_all'")" \
  "SELECT count(*) FROM score WHERE metric = 'match_all' AND version = 0"
count tasks_carry_the_version old 0 "SELECT count(*) FROM task WHERE metric_version <> $now"
run_suite s old 0
has then_nothing_is_to_do "$T/old.err" "0 to do"
"$KVAUDIT" report --db "$T/old.db" --json >"$T/old.json"
"$KVAUDIT" report --db "$T/a.db" --json >"$T/a.json"
if have_jq reports_agree; then
  for x in a old; do jq -S '[.. | objects | .score? // empty]' "$T/$x.json" >"$T/$x.scores"; done
  same reports_agree "$T/a.scores" "$T/old.scores"
fi

# ---- one metric only
older one
sqlite3 "$T/one.db" "UPDATE score SET value = 0.25 WHERE metric = 'word_match'"
check one_metric 0 again one --metric word_match
count the_other_metric_stays one 0 "SELECT count(*) FROM score WHERE metric = 'match_all' AND version <> 0"
count outcome_scores_stay one 0 "SELECT count(*) FROM outcome WHERE status = 'ok' AND score <> 0.5"
is one_metric_is_as_measured "$(sql one "SELECT outcome_id, value FROM score WHERE metric = 'word_match' ORDER BY 1")" \
  "$(sql a "SELECT outcome_id, value FROM score WHERE metric = 'word_match' ORDER BY 1")"
check json 0 again one --dry-run --json
if have_jq json_reads; then
  is json_reads "$(jq -r '.schema, .dry_run, ([.scores[] | select(.metric == "match_all") | .changed] | add)' "$T/out" | tr '\n' ' ')" \
    "kvaudit.rescore/1 true 32 "
fi

# ---- what cannot be scored is left as it is, the rest is done
older hole
sqlite3 "$T/hole.db" "DELETE FROM generation WHERE outcome_id = (SELECT min(outcome_id) FROM outcome
  JOIN cell USING(cell_id) JOIN task USING(task_id) WHERE name = 'niah_single_2' AND status = 'ok')"
check a_text_is_missing 5 again hole
has the_task_is_named "$T/err" "ruler/niah_single_2 is left as it is: outcome"
count that_task_is_untouched hole 0 "SELECT count(*) FROM score JOIN outcome USING(outcome_id) JOIN cell USING(cell_id)
  JOIN task USING(task_id) WHERE name = 'niah_single_2' AND score.metric = 'match_all' AND version <> 0"
count the_other_task_is_done hole "$now" "SELECT metric_version FROM task WHERE name = 'niah_multivalue'"

# ---- class names and post-processing are stored with the sample
printf '%s\n' '{"context":"a b c d e f g h","question":"Which?","answers":["cat"],"metric":"classification","classes":["cat","dog"],"post":"first_line"}' >"$T/c.jsonl"
suite c "\"methods\":[\"streaming\"],\"tasks\":[\"jsonl:$T/c.jsonl\"],\"budgets\":[{\"keep\":0.5}],\"defaults\":{\"n\":1,\"max_new_tokens\":4}"
run_suite c c 0
check classes_are_there 0 again c
has post_is_stored <(sql c "SELECT meta_json FROM sample") '"post":"first_line"'
sqlite3 "$T/c.db" "UPDATE sample SET meta_json = json_remove(meta_json, '\$.classes')"
check without_class_names 5 again c
has class_names_are_missing "$T/err" "class names"

# ---- refusals
check a_part_is_no_argument 2 again a --only task='*'
has a_part_is_named "$T/err" "takes no --only 'task=*'"
check a_suite_is_no_argument 2 "$KVAUDIT" run "$T/s.json" --rescore --db "$T/a.db"
has says_why "$T/err" "takes no suite"
check metric_needs_rescore 2 "$KVAUDIT" run "$T/s.json" --metric match_all --db "$T/a.db"
check unknown_metric 2 again a --metric nonsense
has unknown_metric_is_named "$T/err" "nonsense"
check metric_nobody_used 2 again a --metric rouge_l
check no_file 3 again none
[ -e "$T/none.db" ] && no no_file_is_made || ok no_file_is_made
exit $bad
