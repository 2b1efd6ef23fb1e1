#!/usr/bin/env bash
# proof_simt_run.sh - the program with the device backend, its kernels emulated: a run with --backend cuda
# stores the outcomes of the CPU's run: kept sets, tokens, hits; nats to 1e-3, for the caches are f16 and a last
# bit decides how a key is rounded (tests/simt/test_engine.c holds f32 caches to 2e-5).
. tests/cli/common.inc
. tests/cli/proof.inc
: "${B:?}"
CPU=$KVAUDIT
EMULATED=$PWD/$B/simt/kvaudit
[ -x "$EMULATED" ] || { skip simt_run "the emulated program is not built"; exit 0; }

# the item has 128 tokens at most; every schedule has its cell
suite r '"methods":["snapkv:window=16","keydiff","streaming","knorm+adakv"],"tasks":["ruler/niah_single_1@128"],
  "budgets":[{"keep":0.5}],"defaults":{"n":1,"max_new_tokens":4}'
suite t '"models":["builtin:tiny-llama"],"methods":["snapkv:window=8+adakv","h2o"],
  "tasks":["ruler/niah_single_1@512"],"budgets":[{"tokens":40}],"schedules":["oneshot","block:64+decode:1"],
  "defaults":{"n":1,"max_new_tokens":4}'

suite d '"models":["builtin:tiny-llama"],"methods":["snapkv:window=8+adakv"],"tasks":["ruler/niah_single_1@512"],
  "budgets":[{"tokens":40}],"defaults":{"n":1,"max_new_tokens":6},
  "sampling":{"temperature":0.8,"top_p":0.95,"top_k":50,"samples":3}'

# what both stored of each outcome, and where their nats differ
WHAT="SELECT hex(c.digest), hex(s.digest), o.rep, o.status, o.stop, o.n_ctx, o.n_question, o.n_gen, o.n_cut,
  o.kept_fnv, hex(g.token_ids), m.kv_live_bytes, m.kv_alloc_bytes,
  (SELECT group_concat(metric || '=' || value, ' ') FROM (SELECT * FROM score x
   WHERE x.outcome_id = o.outcome_id AND metric NOT LIKE '%nll%' ORDER BY metric))
  FROM outcome o JOIN cell c USING(cell_id) JOIN sample s USING(sample_id)
  LEFT JOIN generation g USING(outcome_id) LEFT JOIN memory m USING(outcome_id) ORDER BY 1, 2, 3"
NATS="SELECT count(*) || ' ' || coalesce(max(abs(x.value - y.value)), 9) FROM
  (SELECT c.digest cd, s.digest sd, v.metric, v.value FROM score v JOIN outcome o USING(outcome_id)
   JOIN cell c USING(cell_id) JOIN sample s USING(sample_id) WHERE metric LIKE '%nll%') x JOIN
  (SELECT c.digest cd, s.digest sd, v.metric, v.value FROM other.score v JOIN other.outcome o USING(outcome_id)
   JOIN other.cell c USING(cell_id) JOIN other.sample s USING(sample_id) WHERE metric LIKE '%nll%') y
  USING(cd, sd, metric)"
for name in r t d; do
  KVAUDIT=$CPU run_suite $name ${name}_cpu 0
  KVAUDIT=$EMULATED run_suite $name ${name}_cuda 0 --backend cuda
  sql ${name}_cpu "$WHAT" >"$T/cpu"
  sql ${name}_cuda "$WHAT" >"$T/cuda"
  [ -s "$T/cpu" ] && ok ${name}_has_outcomes || no ${name}_has_outcomes
  same ${name}_outcomes_are_those_of_the_cpu "$T/cpu" "$T/cuda"
  read -r n apart < <(sqlite3 -batch "$T/${name}_cpu.db" "ATTACH '$T/${name}_cuda.db' AS other; $NATS")
  is ${name}_nats_agree "$(awk -v n="$n" -v a="$apart" 'BEGIN {print((n > 0 && a <= 1e-3) ? "yes" : n " " a)}')" yes
done
ENV="SELECT DISTINCT gpu_name, gpu_count, gpu_bytes, driver, cuda_runtime FROM env"
is the_device_is_stored "$(sql r_cuda "$ENV")" 'emulator|1|68719476736|13.0|13.0'
is a_host_has_none "$(sql r_cpu "$ENV")" '|0|||'
DEVICE='emulator (8.0), 64.0 GiB, CUDA driver 13.0, runtime 13.0'
has a_run_names_its_device "$T/r_cuda.err" "device: $DEVICE"
hasnt the_cpu_is_no_device "$T/r_cpu.err" device:
check doctor_finds_it 0 "$EMULATED" doctor --backend cuda
has doctor_names_it "$T/out" "$DEVICE"
check a_page_shows_it 0 "$CPU" report --db "$T/r_cuda.db" -o "$T/page"
has the_page_names_the_device "$T/page/index.html" emulator
is the_backend_is_stored "$(sql r_cuda "SELECT DISTINCT backend FROM env")" cuda
is what_was_chosen_is_stored "$(sql r_cuda "SELECT detail_json->>'$.products' FROM env")" '{"plain loops":""}'
# alone, the driver's counter witnesses the account; a bf16 cell is another cell
suite b '"methods":["keydiff"],"tasks":["ruler/niah_single_1@128"],"numerics":"bf16","budgets":[{"keep":0.5}],
  "perf":1,"defaults":{"n":1,"max_new_tokens":2}'
KVAUDIT=$EMULATED run_suite b b_cuda 0 --backend cuda
is the_driver_is_the_witness "$(sql b_cuda "SELECT count(*) > 0, min(dev_delta_bytes) > 0, max(audit) FROM memory
  WHERE exec = 'alone'")" '1|1|0'
is parts_are_timed_by_events "$(sql b_cuda "SELECT DISTINCT clock FROM timing")" events
is parts_on_the_cpu_by_the_clock "$(sql r_cpu "SELECT DISTINCT clock FROM timing")" monotonic
is parts_are_within_the_whole "$(sql b_cuda "SELECT count(*) > 0, min(prefill_ns > 0), min(question_ns > 0),
  min(prefill_ns + score_ns + evict_ns + question_ns <= ttft_ns) FROM timing WHERE exec = 'alone'")" '1|1|1|1'
is numerics_are_stored "$(sql b_cuda "SELECT DISTINCT numerics FROM cell")" bf16
KVAUDIT=$CPU run_suite b b_cpu 3
has bf16_wants_a_device "$T/b_cpu.err" 'bf16 products are those of a device'
hasnt no_mistake_of_the_emulator "$T/t_cuda.err" simt:
check without_it_an_ordinary_error 3 "$CPU" run "$T/r.json" --db "$T/x.db" --backend cuda
has says_how "$T/err" "make cuda"
exit $bad
