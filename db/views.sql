-- views.sql - point estimates for people with an SQLite shell. Intervals, tests and ranks are
-- computed in C from `outcome`. Run after schema.sql in the same transaction.

-- Samples x reps that the largest plan of a cell asked for.
CREATE VIEW v_plan AS SELECT cell_id, max(n_sample*n_rep) AS n_expected FROM plan GROUP BY cell_id;

-- One line a cell with its coverage. score is the mean of the ok outcomes: read n_ok beside it.
CREATE VIEW v_cell AS
SELECT c.cell_id, c.slug, m.name AS model, h.name AS method, h.oracle, c.enforce, t.suite, t.name AS task,
       t.domain, t.ctx_target, c.budget_kind, c.budget, c.schedule, c.visibility, c.numerics, c.kv,
       p.n_expected, count(o.outcome_id) AS n_done, coalesce(sum(o.status='ok'),0) AS n_ok,
       avg(o.score) AS score, avg(CASE WHEN o.status='ok' THEN o.stop='length' END) AS length_stop_share
FROM cell c JOIN model m USING(model_id) JOIN method h USING(method_id) JOIN task t USING(task_id)
LEFT JOIN v_plan p USING(cell_id) LEFT JOIN outcome o USING(cell_id) GROUP BY c.cell_id;

-- Unweighted mean of task means.
CREATE VIEW v_suite AS
SELECT model, method, oracle, enforce, suite, ctx_target, budget_kind, budget, schedule, visibility,
       numerics, kv, count(*) AS n_task, sum(n_ok) AS n_ok, sum(n_expected) AS n_expected,
       avg(score) AS score
FROM v_cell GROUP BY model, method, oracle, enforce, suite, ctx_target, budget_kind, budget, schedule,
       visibility, numerics, kv;

-- The dense partner counts only when it covers as many tasks; blind runs are no partner.
CREATE VIEW v_retention AS
SELECT s.*, d.score AS dense, s.score/nullif(d.score,0) AS retention, 1-s.score/nullif(d.score,0) AS loss
FROM v_suite s LEFT JOIN v_suite d ON d.model=s.model AND d.suite=s.suite
     AND d.ctx_target IS s.ctx_target AND d.numerics=s.numerics AND d.kv=s.kv
     AND d.enforce='dense' AND d.method='dense' AND d.n_task=s.n_task;

-- Peaks are meant to be read from exec = 'alone'.
CREATE VIEW v_memory AS
SELECT o.cell_id, m.exec, count(*) AS n,
       avg(1.0*(kv_alloc_bytes+kv_meta_bytes)/nullif(kv_dense_bytes,0)) AS effective_ratio,
       avg(1.0*kv_live_bytes/nullif(kv_dense_bytes,0)) AS live_ratio, max(kv_peak_bytes) AS kv_peak,
       max(kv_end_bytes) AS kv_end, max(dev_peak_bytes) AS dev_peak,
       sum(entries_masked>0) AS n_masked, sum(audit>0) AS n_audit_fail, sum(audit<0) AS n_unverified
FROM memory m JOIN outcome o USING(outcome_id) GROUP BY o.cell_id, m.exec;

CREATE VIEW v_todo AS
SELECT c.slug, p.n_expected, count(o.outcome_id) AS n_terminal, p.n_expected-count(o.outcome_id) AS n_todo
FROM v_plan p JOIN cell c USING(cell_id)
LEFT JOIN outcome o ON o.cell_id=p.cell_id AND o.status IN('ok','truncated','skipped')
GROUP BY p.cell_id;

PRAGMA user_version = 2;
