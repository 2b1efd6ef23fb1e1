#!/usr/bin/env bash
# proof_perf_reps.sh - repeated timing: as many rows as asked for, cells in the order A B B A, yardsticks before
# and after, a sitting whole or not at all, and no outcome changed.
. tests/cli/common.inc
. tests/cli/proof.inc
rest='"methods":["keydiff","tova"],"tasks":["ruler/niah_single_2@320"],"budgets":[{"keep":0.5}],
  "defaults":{"n":2,"max_new_tokens":6}'
suite p "$rest,\"perf_reps\":7"
suite q "$rest"
run_suite p p 0 --jobs 2
count three_cells p "7 7 7" "SELECT group_concat(n, ' ') FROM (SELECT count(*) AS n FROM perf_rep WHERE phase = 'total' GROUP BY cell_id)"
for phase in ttft evict decode; do
  none "each_run_has_$phase" p "SELECT * FROM perf_rep t WHERE phase = 'total' AND NOT EXISTS (SELECT 1 FROM perf_rep x
    WHERE x.phase = '$phase' AND (x.cell_id, x.run_id, x.rep, x.ord) = (t.cell_id, t.run_id, t.rep, t.ord))"
done
none parts_add_up p "SELECT * FROM perf_rep t JOIN perf_rep f USING(cell_id, run_id, rep) JOIN perf_rep d USING(cell_id, run_id, rep)
  JOIN perf_rep e USING(cell_id, run_id, rep) WHERE t.phase = 'total' AND f.phase = 'ttft' AND d.phase = 'decode' AND e.phase = 'evict'
  AND (t.ns <> f.ns + d.ns OR f.ns <= e.ns OR d.ns <= 0 OR e.ns < 0 OR t.work <> f.work + d.work)"
none work_is_tokens p "SELECT p.phase, p.work, o.n_ctx, o.n_question, o.n_gen FROM perf_rep p JOIN outcome o USING(cell_id)
  JOIN sample s USING(sample_id) WHERE s.idx = 0 AND p.work <> CASE phase WHEN 'ttft' THEN n_ctx + n_question
  WHEN 'evict' THEN n_cut WHEN 'decode' THEN n_gen - 1 WHEN 'total' THEN n_ctx + n_question + n_gen - 1 ELSE p.work END"
none dense_evicts_nothing p "SELECT min(ns) FROM perf_rep JOIN cell USING(cell_id) WHERE enforce = 'dense' AND phase = 'evict'
  HAVING min(ns) > 100000"
# A B C C B A A B C ...: places of the runs, in order
count order p "ABCCBAABCCBAABCCBAABC" "WITH l AS (SELECT cell_id, char(64 + row_number() OVER (ORDER BY min(ord))) AS c
  FROM perf_rep WHERE phase = 'total' GROUP BY cell_id)
  SELECT group_concat(c, '') FROM (SELECT c FROM perf_rep JOIN l USING(cell_id) WHERE phase = 'total' ORDER BY ord)"
count yardsticks p "calib_copy 10 1,calib_gemm 10 1" "SELECT group_concat(phase || ' ' || n || ' ' || w, ',') FROM
  (SELECT phase, count(*) AS n, max(work) AS w FROM perf_rep WHERE phase LIKE 'calib_%' AND ns > 0 GROUP BY phase ORDER BY phase)"
count yardsticks_before_and_after p "5 5" "WITH t AS (SELECT min(ord) AS lo, max(ord) AS hi FROM perf_rep WHERE phase = 'total')
  SELECT sum(ord < lo) || ' ' || sum(ord > hi) FROM perf_rep, t WHERE phase = 'calib_gemm'"
none sensors_are_sane p "SELECT * FROM perf_rep WHERE temp_c NOT BETWEEN 1 AND 150 OR clock_mhz NOT BETWEEN 10 AND 20000"
count first_sample_has_its_row p 3 "SELECT count(*) FROM timing WHERE exec = 'alone'"
outcomes p >"$T/p.txt"
run_suite q q 0 --jobs 2
outcomes q >"$T/q.txt"
same timing_changes_no_outcome "$T/p.txt" "$T/q.txt"
run_suite p p 0
has nothing_left "$T/p.err" "0 to do, 0 to time alone"
# asked for later; and again when a cell lacks its sitting, of which the other cells are no part
run_suite p q 0
count added_later q 21 "SELECT count(*) FROM perf_rep WHERE phase = 'total'"
sqlite3 "$T/q.db" "DELETE FROM perf_rep WHERE cell_id = (SELECT cell_id FROM cell WHERE enforce = 'dense' AND slug LIKE '%dense/dense%')"
run_suite p q 0
has one_left "$T/q.err" "0 to do, 1 to time alone"
count made_good q "7 7 7" "SELECT group_concat(n, ' ') FROM (SELECT count(*) AS n FROM perf_rep WHERE phase = 'total' GROUP BY cell_id)"
outcomes q >"$T/q.txt"
same outcomes_stay "$T/p.txt" "$T/q.txt"
# killed in a sitting: none of it is stored, and it is made good
suite long '"methods":["keydiff","tova"],"tasks":["ruler/niah_single_2@1024"],"budgets":[{"keep":0.5}],
  "defaults":{"n":1,"perf_reps":1000}'
"$KVAUDIT" run "$T/long.json" --db "$T/k.db" --progress none >"$T/out" 2>"$T/err" &
pid=$!
timed_alone() { [ "$(sql k "SELECT count(*) FROM timing WHERE exec = 'alone'")" = 3 ]; }
until_true timed_alone
kill -INT $pid
wait $pid
is interrupted_exit $? 130
count no_part_is_stored k 0 "SELECT count(*) FROM perf_rep"
run_suite long k 0 --set defaults.perf_reps=6
count made_good_after_a_stop k 18 "SELECT count(*) FROM perf_rep WHERE phase = 'total'"
# the cell that is timed is another for every budget, blind cells are none
for n in 1 5 -1 1001; do
  suite bad "$rest,\"perf_reps\":$n"
  check "refused_$n" 2 "$KVAUDIT" run "$T/bad.json" --db "$T/none.db"
done
suite bad '"methods":["tova"],"tasks":["ruler/niah_single_2@320"],"budgets":[{"keep":0.5}],"defaults":{"perf_reps":5}'
check too_few 2 "$KVAUDIT" run "$T/bad.json" --db "$T/none.db"
has too_few_says_why "$T/err" "/defaults/perf_reps: 5 is too few to compare times; 0, or at least 6"
exit $bad
