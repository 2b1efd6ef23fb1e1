# SPDX-License-Identifier: GPL-3.0-or-later
"""make_results.py - a result file of any size without a model, for measuring reports and merges.

  make_results.py OUT.db [--methods M] [--budgets B] [--tasks T] [--samples N] [--shard I/N] [--seed S]

The cells of each task are the full cache, the blind run and methods x budgets. A shard holds every
N-th sample of all cells, as `kvaudit run --shard` does. The same arguments give the same content:
scores come from SHA-256, so shards written one by one agree with the whole.
"""
import argparse
import hashlib
import json
import os
import random
import sqlite3
import struct

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KEEP = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9]
LAYERS, HEADS, CTX = 30, 3, 4096
DENSE_BYTES = 4096 * 23040


def digest(*words):
    return hashlib.sha256(json.dumps(words).encode()).digest()


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read()


def create(path):
    for tail in ("", "-wal", "-shm", "-journal"):
        if os.path.exists(path + tail):
            os.unlink(path + tail)
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; BEGIN;"
                     + read("db/schema.sql") + read("db/views.sql") + "COMMIT;")
    db.execute("INSERT INTO meta VALUES('created_by', 'make_results.py')")
    return db


def insert(db, table, rows):
    rows = list(rows)
    if rows:
        names = list(rows[0])
        db.executemany(f"INSERT INTO {table}({','.join(names)}) VALUES({','.join('?' * len(names))})",
                       [tuple(row[n] for n in names) for row in rows])


def identities(db, opt):
    insert(db, "env", [dict(digest=digest("env"), perf_digest=digest("perf"), backend="cpu", host="host",
                            cpu_model="cpu", cpu_logical=2, ram_bytes=1 << 33, compiler="gcc",
                            cflags="-O2", git_commit="0" * 12, git_dirty=0, detail_json="{}")])
    insert(db, "model", [dict(digest=digest("model"), name="made-135m", arch="llama", wtype="q4_1",
                              file_bytes=98362432, n_layer=LAYERS, n_head=9, n_kv_head=HEADS, d_k=64,
                              d_v=64, n_ctx_train=8192, tokenizer_sha256=digest("tok"),
                              template_sha256=digest("chat"), detail_json="{}")])
    names = ["dense", "blind"] + [f"method{i:02d}:window=32+uniform" for i in range(opt.methods)]
    insert(db, "method", [dict(digest=digest("method", n), name=n, impl_version=1, oracle=0,
                               params_json="{}") for n in names])
    insert(db, "task", [dict(digest=digest("task", t), suite="ruler", name=f"task_{t:02d}",
                             domain="retrieval", ctx_target=CTX, n_available=None, metric="match_all",
                             metric_version=1, metric_kind="fraction", guess_floor=0.0, gen_json="{}",
                             source_json="{}") for t in range(opt.tasks)])
    uuid = f"{opt.seed:08x}-{opt.index:04x}-4000-8000-{opt.count:012x}"
    insert(db, "run", [dict(uuid=uuid, env_id=1, started_ms=1_000_000 + opt.index, ended_ms=2_000_000,
                            status="done", exit_code=0, shard_i=opt.index, shard_n=opt.count, pid=1,
                            pid_start=1, boot_id="boot", label="made", argv_json="[]",
                            config_json='{"name":"made"}', config_sha256=digest("config", opt.seed))])


def cells(opt):
    """(task, method id, budget kind, budget, enforce, quality of its answers)"""
    for t in range(opt.tasks):
        yield t, 1, "dense", 1.0, "dense", 0.85
        yield t, 2, "dense", 1.0, "dense", 0.05
        for m in range(opt.methods):
            for keep in KEEP[-opt.budgets:]:
                yield t, 3 + m, "keep", keep, "physical", 0.85 * min(1, keep + (m % 7) * 0.08)


def put_cells(db, opt):
    spec = ("oneshot", "agnostic", "f32", "f16")
    insert(db, "cell", [dict(digest=digest("cell", t, m, kind, keep), dense_key=digest("dense", t),
                             slug=f"made-135m/m{m}/{kind}{keep:g}/ruler.task_{t:02d}.{CTX}/agnostic",
                             model_id=1, method_id=m, task_id=t + 1, budget_kind=kind, budget=keep,
                             schedule=spec[0], enforce=enforce, visibility=spec[1], numerics=spec[2],
                             kv=spec[3], spec_json=json.dumps({"semantics": 1}))
                        for t, m, kind, keep, enforce, _ in cells(opt)])
    db.execute("INSERT INTO plan SELECT 1, cell_id, ?, 1 FROM cell", (opt.samples,))


def put_outcomes(db, opt):
    text = "The special magic number for the quiet harbour mentioned in the text is "
    spans = [struct.pack(f"<{LAYERS * HEADS}H", *((i * 7 + k) % 9 for i in range(LAYERS * HEADS)))
             for k in range(16)]
    mine = range(opt.index, opt.samples, opt.count)
    sample_of = {}
    for t in range(opt.tasks):
        for idx in mine:
            sample_of[t, idx] = len(sample_of) + 1
    insert(db, "sample", [dict(digest=digest("sample", t, i), task_id=t + 1, idx=i,
                               cluster=digest("context", t, i).hex(), refs_json='["7"]',
                               meta_json=json.dumps({"depth": i % 11 / 10})) for t, i in sample_of])
    outcome, generation, score, memory, timing, span = [], [], [], [], [], []
    n = 0
    for idx in mine:
        for cell, (t, _, kind, keep, _, quality) in enumerate(cells(opt), 1):
            n += 1
            luck = random.Random(f"{opt.seed} {cell} {idx}")
            right = sum(luck.random() < quality for _ in range(4)) / 4
            ids = struct.pack("<16I", *(luck.getrandbits(15) for _ in range(16)))
            outcome.append((n, cell, sample_of[t, idx], 0, 1, "ok", right, CTX, 30, 16, CTX,
                            luck.getrandbits(62), "eos", hashlib.sha256(ids).digest(), 1_500_000))
            generation.append((n, text + str(luck.getrandbits(23)), ids))
            score += [(n, "match_all", 1, right), (n, "gold_nll", 1, 4 * (1 - quality) * luck.random())]
            held = int(DENSE_BYTES * keep)
            memory.append((n, "shared", DENSE_BYTES, held, held, held + 4096, 0, held + 65536,
                           held + 65536, 0, 0, held + 8192, int(CTX * keep) * LAYERS * HEADS, 0, 0))
            timing.append((n, "shared", 1_000_000 + luck.getrandbits(18), 500_000, "monotonic"))
            span.append((n, "E0", 8, LAYERS, HEADS, spans[luck.getrandbits(4)]))
    for table, columns, rows in (
            ("outcome", "outcome_id,cell_id,sample_id,rep,run_id,status,score,n_ctx,n_question,n_gen,n_cut,"
             "kept_fnv,stop,gen_sha256,finished_ms", outcome),
            ("generation", "outcome_id,text,token_ids", generation),
            ("score", "outcome_id,metric,version,value", score),
            ("memory", "outcome_id,exec,kv_dense_bytes,kv_budget_bytes,kv_live_bytes,kv_alloc_bytes,"
             "kv_meta_bytes,kv_peak_bytes,kv_end_bytes,kv_local_bytes,state_bytes,kv_committed_bytes,"
             "entries_kept,entries_masked,audit", memory),
            ("timing", "outcome_id,exec,score_ns,evict_ns,clock", timing),
            ("span_kept", "outcome_id,span,n_tok,n_layer,n_kv_head,kept", span)):
        marks = ",".join("?" * (columns.count(",") + 1))
        db.executemany(f"INSERT INTO {table}({columns}) VALUES({marks})", rows)
    return n


def make(path, **keys):
    """As the command; returns the number of outcomes."""
    opt = argparse.Namespace(methods=24, budgets=4, tasks=5, samples=200, seed=1, index=0, count=1)
    vars(opt).update(keys)
    db = create(path)
    db.execute("BEGIN")
    identities(db, opt)
    put_cells(db, opt)
    n = put_outcomes(db, opt)
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return n


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("out")
    p.add_argument("--methods", type=int, default=24)
    p.add_argument("--budgets", type=int, default=4, choices=range(1, len(KEEP) + 1))
    p.add_argument("--tasks", type=int, default=5)
    p.add_argument("--samples", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--shard", default="0/1", help="I/N")
    a = p.parse_args()
    index, count = (int(x) for x in a.shard.split("/"))
    n = make(a.out, methods=a.methods, budgets=a.budgets, tasks=a.tasks, samples=a.samples, seed=a.seed,
             index=index, count=count)
    print(f"{a.out}: {n} outcomes")


if __name__ == "__main__":
    main()
