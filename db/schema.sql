-- schema.sql - tables of schema version 2. Needs SQLite 3.37 (STRICT), tested with 3.40.1.
-- Run inside one transaction, followed by views.sql, which ends with the version.
-- Ids are local to a file; digests (32 raw bytes, SHA-256 of canonical JSON) are not.
PRAGMA application_id = 1263944020; -- 0x4B564154, "KVAT"

CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE env(
  env_id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE CHECK(length(digest)=32),
  perf_digest BLOB NOT NULL CHECK(length(perf_digest)=32), -- only what may change speed
  backend TEXT NOT NULL CHECK(backend IN('cpu','cuda')), host TEXT NOT NULL,
  cpu_model TEXT NOT NULL, cpu_logical INTEGER NOT NULL, ram_bytes INTEGER NOT NULL,
  gpu_name TEXT, gpu_count INTEGER NOT NULL DEFAULT 0, gpu_bytes INTEGER, driver TEXT, cuda_runtime TEXT,
  compiler TEXT NOT NULL, cflags TEXT NOT NULL, git_commit TEXT NOT NULL,
  git_dirty INTEGER NOT NULL CHECK(git_dirty IN(0,1)),
  detail_json TEXT NOT NULL CHECK(json_valid(detail_json))) STRICT;

CREATE TABLE model(
  model_id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE CHECK(length(digest)=32),
  name TEXT NOT NULL, arch TEXT NOT NULL, wtype TEXT NOT NULL, file_bytes INTEGER NOT NULL,
  n_layer INTEGER NOT NULL, n_head INTEGER NOT NULL, n_kv_head INTEGER NOT NULL,
  d_k INTEGER NOT NULL, d_v INTEGER NOT NULL, n_ctx_train INTEGER NOT NULL,
  tokenizer_sha256 BLOB NOT NULL CHECK(length(tokenizer_sha256)=32),
  template_sha256 BLOB NOT NULL CHECK(length(template_sha256)=32),
  detail_json TEXT NOT NULL CHECK(json_valid(detail_json))) STRICT;

-- name is the canonical spec: scorer, wrappers, allocator, every parameter filled in and sorted.
CREATE TABLE method(
  method_id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE CHECK(length(digest)=32),
  name TEXT NOT NULL, impl_version INTEGER NOT NULL,
  oracle INTEGER NOT NULL CHECK(oracle IN(0,1)), -- sees what inference cannot know
  params_json TEXT NOT NULL CHECK(json_valid(params_json))) STRICT;

-- The digest leaves metric and metric_version out: rescoring keeps every generation.
CREATE TABLE task(
  task_id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE CHECK(length(digest)=32),
  suite TEXT NOT NULL, name TEXT NOT NULL, domain TEXT NOT NULL,
  ctx_target INTEGER, n_available INTEGER, -- NULL: none, unlimited
  metric TEXT NOT NULL, metric_version INTEGER NOT NULL,
  metric_kind TEXT NOT NULL CHECK(metric_kind IN('binary','fraction')),
  guess_floor REAL NOT NULL CHECK(guess_floor BETWEEN 0 AND 1),
  gen_json TEXT NOT NULL CHECK(json_valid(gen_json)),
  source_json TEXT NOT NULL CHECK(json_valid(source_json))) STRICT;

-- meta_json holds the labelled spans with bytes and tokens; bytes change with the task only.
CREATE TABLE sample(
  sample_id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE CHECK(length(digest)=32),
  task_id INTEGER NOT NULL REFERENCES task, idx INTEGER NOT NULL CHECK(idx>=0),
  cluster TEXT NOT NULL DEFAULT '', -- hex of the context digest
  refs_json TEXT NOT NULL CHECK(json_valid(refs_json)), meta_json TEXT NOT NULL CHECK(json_valid(meta_json)),
  UNIQUE(task_id, idx)) STRICT;

-- dense_key: digest of all but method, budget, enforce, schedule, visibility; a cell and the full
-- cache it is measured against share it.
CREATE TABLE cell(
  cell_id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE CHECK(length(digest)=32),
  dense_key BLOB NOT NULL CHECK(length(dense_key)=32), slug TEXT NOT NULL,
  model_id INTEGER NOT NULL REFERENCES model, method_id INTEGER NOT NULL REFERENCES method,
  task_id INTEGER NOT NULL REFERENCES task,
  budget_kind TEXT NOT NULL CHECK(budget_kind IN('dense','keep','tokens','bytes')),
  budget REAL NOT NULL CHECK(budget>0),
  schedule TEXT NOT NULL,
  enforce TEXT NOT NULL CHECK(enforce IN('dense','physical','mask','fakekey','padded','union','qhead')),
  visibility TEXT NOT NULL CHECK(visibility IN('agnostic','aware','full')),
  numerics TEXT NOT NULL CHECK(numerics IN('ref','f32','bf16x3','bf16')), kv TEXT NOT NULL,
  spec_json TEXT NOT NULL CHECK(json_valid(spec_json)),
  CHECK(budget_kind<>'keep' OR budget<=1),
  CHECK((budget_kind='dense') = (enforce='dense'))) STRICT;
CREATE INDEX cell_dense_key ON cell(dense_key);

CREATE TABLE run(
  run_id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, env_id INTEGER NOT NULL REFERENCES env,
  started_ms INTEGER NOT NULL, ended_ms INTEGER,
  status TEXT NOT NULL CHECK(status IN('running','done','interrupted','failed','killed')), exit_code INTEGER,
  shard_i INTEGER NOT NULL DEFAULT 0, shard_n INTEGER NOT NULL DEFAULT 1 CHECK(shard_i>=0 AND shard_i<shard_n),
  pid INTEGER NOT NULL, pid_start INTEGER NOT NULL, -- field 22 of /proc/PID/stat
  boot_id TEXT NOT NULL, label TEXT,
  argv_json TEXT NOT NULL CHECK(json_valid(argv_json)), config_json TEXT NOT NULL CHECK(json_valid(config_json)),
  config_sha256 BLOB NOT NULL CHECK(length(config_sha256)=32)) STRICT;

CREATE TABLE plan(run_id INTEGER NOT NULL REFERENCES run, cell_id INTEGER NOT NULL REFERENCES cell,
  n_sample INTEGER NOT NULL CHECK(n_sample>=0), n_rep INTEGER NOT NULL CHECK(n_rep>=1),
  PRIMARY KEY(run_id, cell_id)) STRICT, WITHOUT ROWID;

-- Wall time of one (model, context) unit, for the remaining-time estimate.
CREATE TABLE unit_time(
  run_id INTEGER NOT NULL REFERENCES run, model_id INTEGER NOT NULL REFERENCES model,
  task_id INTEGER NOT NULL REFERENCES task, idx INTEGER NOT NULL, n_cells INTEGER NOT NULL,
  n_ctx INTEGER NOT NULL, n_rows INTEGER NOT NULL, ns INTEGER NOT NULL) STRICT;
CREATE INDEX unit_time_model ON unit_time(model_id, run_id);

-- score is the task's metric and NULL unless ok: else a view averages over the survivors.
-- n_cut: tokens before the last prefill decision; kept_fnv: FNV-1a of (layer, head, positions).
-- gen_sha256: SHA-256 of the token ids as u32 little-endian.
CREATE TABLE outcome(
  outcome_id INTEGER PRIMARY KEY,
  cell_id INTEGER NOT NULL REFERENCES cell, sample_id INTEGER NOT NULL REFERENCES sample,
  rep INTEGER NOT NULL DEFAULT 0 CHECK(rep>=0),
  run_id INTEGER NOT NULL REFERENCES run, attempt INTEGER NOT NULL DEFAULT 1,
  status TEXT NOT NULL CHECK(status IN('ok','oom','timeout','error','nonfinite','truncated','skipped')),
  score REAL CHECK(score BETWEEN 0 AND 1), n_ctx INTEGER, n_question INTEGER, n_gen INTEGER,
  n_cut INTEGER, kept_fnv INTEGER,
  stop TEXT CHECK(stop IN('eos','length','stop','repeat')), gen_sha256 BLOB CHECK(length(gen_sha256)=32),
  finished_ms INTEGER NOT NULL, error TEXT,
  flags INTEGER NOT NULL DEFAULT 0 CHECK(flags>=0), -- bit 1: an allocator fell back
  UNIQUE(cell_id, sample_id, rep), CHECK((status='ok') = (score IS NOT NULL)),
  CHECK(status='ok' OR (stop IS NULL AND gen_sha256 IS NULL)), CHECK(status<>'ok' OR error IS NULL)) STRICT;
CREATE INDEX outcome_sample ON outcome(sample_id);

CREATE TABLE generation(outcome_id INTEGER PRIMARY KEY REFERENCES outcome ON DELETE CASCADE,
  text TEXT NOT NULL, token_ids BLOB) STRICT; -- u32 little-endian

CREATE TABLE score(outcome_id INTEGER NOT NULL REFERENCES outcome ON DELETE CASCADE, metric TEXT NOT NULL,
  version INTEGER NOT NULL, value REAL NOT NULL, extracted TEXT,
  PRIMARY KEY(outcome_id, metric, version)) STRICT, WITHOUT ROWID;

-- exec: shared = measured inside a wave (score_ns and evict_ns only), alone = the cell ran alone.
CREATE TABLE timing(outcome_id INTEGER NOT NULL REFERENCES outcome ON DELETE CASCADE,
  exec TEXT NOT NULL CHECK(exec IN('shared','alone')),
  prefill_ns INTEGER, score_ns INTEGER, evict_ns INTEGER, question_ns INTEGER, ttft_ns INTEGER,
  decode_ns INTEGER, decode_p50_ns INTEGER, decode_p99_ns INTEGER, clock TEXT NOT NULL,
  PRIMARY KEY(outcome_id, exec)) STRICT, WITHOUT ROWID;

-- kv_* cover the compressible layers, after the last prefill decision and trim; kv_local_bytes,
-- state_bytes and kv_committed_bytes stand apart. NULL: not known. audit -1: unverified.
CREATE TABLE memory(outcome_id INTEGER NOT NULL REFERENCES outcome ON DELETE CASCADE,
  exec TEXT NOT NULL CHECK(exec IN('shared','alone')),
  kv_dense_bytes INTEGER NOT NULL, kv_budget_bytes INTEGER NOT NULL, kv_live_bytes INTEGER NOT NULL,
  kv_alloc_bytes INTEGER NOT NULL, kv_meta_bytes INTEGER NOT NULL, kv_peak_bytes INTEGER NOT NULL,
  kv_end_bytes INTEGER NOT NULL, kv_local_bytes INTEGER NOT NULL, state_bytes INTEGER NOT NULL,
  kv_committed_bytes INTEGER NOT NULL,
  scratch_peak_bytes INTEGER, weight_bytes INTEGER, dev_delta_bytes INTEGER, dev_peak_bytes INTEGER,
  host_peak_bytes INTEGER,
  entries_kept INTEGER NOT NULL, entries_masked INTEGER NOT NULL, audit INTEGER NOT NULL CHECK(audit>=-1),
  PRIMARY KEY(outcome_id, exec)) STRICT, WITHOUT ROWID;

-- Traced samples only. Head-major bitmaps over original positions, LSB first, a head padded to bytes.
CREATE TABLE kept(outcome_id INTEGER NOT NULL REFERENCES outcome ON DELETE CASCADE, layer INTEGER NOT NULL,
  n_head INTEGER NOT NULL, n_tok INTEGER NOT NULL, bits BLOB NOT NULL, PRIMARY KEY(outcome_id, layer),
  CHECK(length(bits) = n_head*((n_tok+7)/8))) STRICT, WITHOUT ROWID;

-- Tokens of a labelled span still held, u16 little-endian [n_layer][n_kv_head].
CREATE TABLE span_kept(outcome_id INTEGER NOT NULL REFERENCES outcome ON DELETE CASCADE, span TEXT NOT NULL,
  n_tok INTEGER NOT NULL CHECK(n_tok>0), n_layer INTEGER NOT NULL, n_kv_head INTEGER NOT NULL,
  kept BLOB NOT NULL, PRIMARY KEY(outcome_id, span),
  CHECK(length(kept) = 2*n_layer*n_kv_head)) STRICT, WITHOUT ROWID;

CREATE TABLE perf_rep(cell_id INTEGER NOT NULL REFERENCES cell, run_id INTEGER NOT NULL REFERENCES run, phase TEXT NOT NULL,
  rep INTEGER NOT NULL, ord INTEGER NOT NULL, ns INTEGER NOT NULL, work INTEGER NOT NULL, temp_c INTEGER, clock_mhz INTEGER,
  PRIMARY KEY(cell_id, run_id, phase, rep)) STRICT, WITHOUT ROWID;

CREATE TABLE event(event_id INTEGER PRIMARY KEY, run_id INTEGER REFERENCES run, ts_ms INTEGER NOT NULL,
  level TEXT NOT NULL CHECK(level IN('info','warn','error')), msg TEXT NOT NULL) STRICT;

CREATE TABLE merge_conflict(cell_digest BLOB NOT NULL, sample_digest BLOB NOT NULL, rep INTEGER NOT NULL, src TEXT NOT NULL,
  score REAL, gen_sha256 BLOB, detail_json TEXT NOT NULL CHECK(json_valid(detail_json)),
  PRIMARY KEY(cell_digest, sample_digest, rep, src)) STRICT, WITHOUT ROWID;

-- Instruments. NULL: undefined. def names the definition; keys lead with (run_id, layer).
CREATE TABLE an_geometry(
  run_id INTEGER NOT NULL REFERENCES run, sample_id INTEGER NOT NULL REFERENCES sample,
  cell_id INTEGER NOT NULL REFERENCES cell, layer INTEGER NOT NULL, kv_head INTEGER NOT NULL,
  def TEXT NOT NULL, n INTEGER NOT NULL, include_pos0 INTEGER NOT NULL, key_space TEXT NOT NULL,
  sigma_k REAL, sigma_v REAL, ratio REAL, bos_cosim REAL, bos_cosim_unit REAL, quad TEXT, boundary INTEGER,
  PRIMARY KEY(run_id, layer, kv_head, sample_id, cell_id, def, include_pos0, key_space)) STRICT, WITHOUT ROWID;
CREATE TABLE an_sink(
  run_id INTEGER NOT NULL REFERENCES run, sample_id INTEGER NOT NULL REFERENCES sample,
  cell_id INTEGER NOT NULL REFERENCES cell, layer INTEGER NOT NULL, q_head INTEGER NOT NULL,
  def TEXT NOT NULL, rows INTEGER NOT NULL, alpha0 REAL, alpha1 REAL, alpha2 REAL, alpha3 REAL,
  visible INTEGER, over_tau REAL,
  PRIMARY KEY(run_id, layer, q_head, sample_id, cell_id, def)) STRICT, WITHOUT ROWID;
CREATE TABLE an_perturb(
  run_id INTEGER NOT NULL REFERENCES run, sample_id INTEGER NOT NULL REFERENCES sample,
  cell_id INTEGER NOT NULL REFERENCES cell, layer INTEGER NOT NULL, q_head INTEGER NOT NULL,
  keep REAL NOT NULL, row_kind TEXT NOT NULL, sel TEXT NOT NULL, R REAL, R1 REAL, a34_ok INTEGER, C REAL,
  mmin REAL, l1 REAL, l2 REAL, rel REAL, theta REAL, theta_hat REAL, theta_relax REAL,
  PRIMARY KEY(run_id, layer, q_head, sample_id, cell_id, keep, row_kind, sel)) STRICT, WITHOUT ROWID;
CREATE TABLE an_hidden( -- layer = number of layers for the final state
  run_id INTEGER NOT NULL REFERENCES run, sample_id INTEGER NOT NULL REFERENCES sample,
  cell_id INTEGER NOT NULL REFERENCES cell, layer INTEGER NOT NULL, keep REAL NOT NULL,
  method TEXT NOT NULL, tap TEXT NOT NULL, l1 REAL, l2 REAL, rel REAL,
  PRIMARY KEY(run_id, layer, sample_id, cell_id, keep, method, tap)) STRICT, WITHOUT ROWID;
CREATE TABLE an_ablate(
  run_id INTEGER NOT NULL REFERENCES run, sample_id INTEGER NOT NULL REFERENCES sample,
  cell_id INTEGER NOT NULL REFERENCES cell, cond TEXT NOT NULL, kind TEXT NOT NULL, gamma REAL NOT NULL,
  s0 INTEGER NOT NULL, s1 INTEGER NOT NULL, label TEXT NOT NULL, mask_from TEXT NOT NULL,
  m REAL, i_s REAL, theta REAL, matched INTEGER, ratio_m REAL, ratio_i REAL, logp REAL, score REAL,
  hid_l1 REAL, kl REAL, mean_R REAL, sink_raw REAL, sink_corr REAL, content_raw REAL, content_corr REAL,
  PRIMARY KEY(run_id, sample_id, cell_id, cond, kind, gamma, s0, s1, label, mask_from)) STRICT, WITHOUT ROWID;
CREATE TABLE an_ceiling(
  run_id INTEGER NOT NULL REFERENCES run, sample_id INTEGER NOT NULL REFERENCES sample,
  cell_id INTEGER NOT NULL REFERENCES cell, layer INTEGER NOT NULL, q_head INTEGER NOT NULL,
  row INTEGER NOT NULL, s INTEGER NOT NULL, def TEXT NOT NULL, space TEXT NOT NULL, pool INTEGER NOT NULL,
  e_top REAL, e_opt REAL, e_greedy REAL, e_free REAL, free TEXT, mbar REAL, kappa REAL, gap REAL, pi REAL,
  PRIMARY KEY(run_id, layer, q_head, sample_id, cell_id, row, s, def, space)) STRICT, WITHOUT ROWID;
CREATE TABLE an_ceiling_auc(
  run_id INTEGER NOT NULL REFERENCES run, cell_id INTEGER NOT NULL REFERENCES cell,
  s INTEGER NOT NULL, def TEXT NOT NULL, n_pos INTEGER NOT NULL, n_neg INTEGER NOT NULL, auc REAL,
  PRIMARY KEY(run_id, cell_id, s, def)) STRICT, WITHOUT ROWID;
CREATE TABLE an_alloc(
  run_id INTEGER NOT NULL REFERENCES run, sample_id INTEGER NOT NULL REFERENCES sample,
  cell_id INTEGER NOT NULL REFERENCES cell, rule TEXT NOT NULL, layer INTEGER NOT NULL,
  kv_head INTEGER NOT NULL, budget INTEGER NOT NULL, dropped REAL,
  PRIMARY KEY(run_id, layer, kv_head, sample_id, cell_id, rule)) STRICT, WITHOUT ROWID;
CREATE TABLE an_oracle(
  run_id INTEGER NOT NULL REFERENCES run, sample_id INTEGER NOT NULL REFERENCES sample,
  cell_id INTEGER NOT NULL REFERENCES cell, question INTEGER NOT NULL, layer INTEGER NOT NULL,
  kv_head INTEGER NOT NULL, metric TEXT NOT NULL, keep REAL NOT NULL, loss REAL, loss_star REAL, gap REAL,
  hit_rate REAL, fidelity REAL,
  PRIMARY KEY(run_id, layer, kv_head, sample_id, cell_id, question, metric, keep)) STRICT, WITHOUT ROWID;
CREATE TABLE an_oracle_curve(
  run_id INTEGER NOT NULL REFERENCES run, cell_id INTEGER NOT NULL REFERENCES cell,
  metric TEXT NOT NULL, keep REAL NOT NULL, recall REAL, recall_star REAL,
  PRIMARY KEY(run_id, cell_id, metric, keep)) STRICT, WITHOUT ROWID;
CREATE TABLE an_profile(
  profile_id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL REFERENCES run,
  model_id INTEGER NOT NULL REFERENCES model, scorer TEXT NOT NULL,
  params_json TEXT NOT NULL CHECK(json_valid(params_json)), sink INTEGER NOT NULL, win INTEGER NOT NULL,
  kmax INTEGER NOT NULL, mode TEXT NOT NULL, doc_hash BLOB NOT NULL, doc_tokens INTEGER NOT NULL,
  m INTEGER NOT NULL, path TEXT) STRICT;
CREATE TABLE an_profile_cell(
  profile_id INTEGER NOT NULL REFERENCES an_profile ON DELETE CASCADE, ratio_idx INTEGER NOT NULL,
  layer INTEGER NOT NULL, kv_head INTEGER NOT NULL, removed INTEGER NOT NULL,
  PRIMARY KEY(profile_id, ratio_idx, layer, kv_head)) STRICT, WITHOUT ROWID;
CREATE TABLE an_transfer(
  profile_x INTEGER NOT NULL REFERENCES an_profile, profile_y INTEGER NOT NULL REFERENCES an_profile,
  ratio_idx INTEGER NOT NULL, spearman REAL, mad REAL, regret REAL,
  PRIMARY KEY(profile_x, profile_y, ratio_idx)) STRICT, WITHOUT ROWID;
CREATE TABLE an_leak(
  run_id INTEGER NOT NULL REFERENCES run, sample_id INTEGER NOT NULL REFERENCES sample,
  cell_id INTEGER NOT NULL REFERENCES cell, variant TEXT NOT NULL, kvheads INTEGER NOT NULL,
  changed INTEGER NOT NULL, jaccard REAL,
  PRIMARY KEY(run_id, sample_id, cell_id, variant)) STRICT, WITHOUT ROWID;
CREATE TABLE an_claim(
  run_id INTEGER NOT NULL REFERENCES run, cell_id INTEGER NOT NULL REFERENCES cell,
  method TEXT NOT NULL, impl TEXT NOT NULL, claim TEXT NOT NULL, verdict TEXT NOT NULL, reason TEXT,
  value REAL, threshold REAL, ci_lo REAL, ci_hi REAL, note TEXT,
  PRIMARY KEY(run_id, cell_id, method, impl, claim)) STRICT, WITHOUT ROWID;
