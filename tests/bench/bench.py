# SPDX-License-Identifier: GPL-3.0-or-later
"""bench.py - measures, compares with targets, prints one table. Called by run.sh.

Ratios to peers come from runs alternated in one sitting (A B B A), medians of each side; peaks and
products are best of several. A missed target is a row of the table, never a failure.

  BENCH_ROUNDS  rounds of A B B A at 512 tokens (default 2; one at 4,096)
  BENCH_ONLY    only groups of rows whose name holds this text:
                engine, wave, product, sweep, share, memory, tasks, report, page, merge, commit, profile
"""
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
import page_browser  # noqa: E402
from make_results import make
from table import Row, Table, UNMEASURED, machine

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TEXT = os.path.join(ROOT, "configs/data/emerson_essays.txt")
PEERS = os.path.join(HERE, "peers")
MODEL = "smollm2-135m"
SWEEP_TASK = "ruler/niah_single_2@4096"
SEED = 7
MAX_NEW = 16
SCORED = {
    "match_all": {"prediction": "2191066, 2130789 and 4694634", "answers": ["2191066", "1987737"]},
    "qa_f1": {"prediction": "It was the old lighthouse keeper who", "answers": ["the keeper"]},
    "rouge_l": {"prediction": "The council met on Monday. It voted for the new bridge. " * 4,
                "answers": ["On Monday the council voted for a bridge over the river. " * 4]},
    "code_sim": {"prediction": "    return self.cache.get(key, default)",
                 "answers": ["    return self._cache.get(name, default)"]},
    "math500": {"prediction": "so the answer is \\boxed{\\frac{14}{3}} and not",
                "answers": ["\\frac{28}{6}"]},
}
# share of the dense prefill that scoring, selecting and compacting may take; None: stated
SHARES = {
    "random": 5.0, "streaming": 5.0, "knorm": 5.0, "keydiff": 5.0, "manifoldkv": 5.0,
    "valuediff": 5.0, "lagkv": 5.0, "leverage": 5.0, "cur": 5.0, "tova": 5.0, "snapkv": 5.0,
    "snapkv+adakv": 5.0, "snapkv+global": 5.0, "pyramidkv": 5.0, "snapkv+cake": 5.0,
    "criticalkv": 10.0, "ada_critical": 10.0, "defensivekv": 10.0, "obcache": 10.0,
    "expected_attention": 10.0, "compactor": 15.0, "h2o": 35.0, "observed": 35.0, "kvzip": None,
}
COLLECT = {"expected_attention", "compactor", "h2o", "observed", "kvzip"}
SETTLE = 0.3  # seconds: threads of a peer stop spinning before the other side is timed


class Server:
    """A process that answers commands with `key value` lines (bench_engine.c, peers/)."""

    def __init__(self, argv, log, env=None):
        self.name = os.path.basename(argv[0])
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=log, text=True, env=env)

    def __call__(self, command):
        answer = {}
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line == "\n":
                return answer
            key, _, value = line.rstrip("\n").partition(" ")
            answer[key] = value
        raise SystemExit(f"bench: {self.name} ended at '{command}'; see the log")

    def seconds(self, command):
        return float(self(command)["seconds"])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def median(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


class Bench:
    def __init__(self):
        build = os.environ["B"]
        self.program = os.path.abspath(os.environ["KVAUDIT"])
        self.engine_path = os.path.join(build, "tests/bench/bench_engine")
        self.dir = os.path.join(os.path.dirname(self.program), "bench")
        os.makedirs(self.dir, exist_ok=True)
        self.log = open(os.path.join(self.dir, "log"), "w")
        self.model = os.environ["BENCH_MODEL"]
        self.python = os.environ.get("PEERS_PYTHON", "")
        self.rounds = int(os.environ.get("BENCH_ROUNDS", "2"))
        self.only = os.environ.get("BENCH_ONLY", "")
        self.versions = []
        self.table = Table()
        self.engine = Server([self.engine_path, self.model, TEXT, "1"], self.log)
        info = self.engine("info")
        self.isa, self.token_gflop = info["isa"], float(info["token_gflop"])
        self.single = None  # tokens per second of one session of 128 entries
        self.cores = len(os.sched_getaffinity(0))

    def path(self, name):
        return os.path.join(self.dir, name)

    def say(self, what):
        print(f"bench: {what}", file=sys.stderr, flush=True)

    def peer(self, script, *args):
        env = dict(os.environ, TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1",
                   HF_HUB_DISABLE_PROGRESS_BARS="1", TQDM_DISABLE="1")
        server = Server([self.python, os.path.join(PEERS, script), self.model, *args],
                        self.log, env)
        info = server("info")
        self.versions.append(f"{info['version']} ({info['features']})")
        server.features = info["features"]
        return server

    def kvaudit(self, *args):
        argv = [self.program, *args]
        print("$", shlex.join(argv), file=self.log, flush=True)
        start = time.monotonic()
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=self.log, text=True)
        if done.returncode not in (0, 1):
            raise SystemExit(f"bench: {shlex.join(argv)} returned {done.returncode}; see the log")
        return time.monotonic() - start, done.stdout

    # ---- prefill and decode, one session --------------------------------------------------

    def turn(self, times, side, n, steps):
        """One turn of one side: prefill, then decode behind it."""
        server, threads = side
        if threads:
            server(f"threads {threads}")
        time.sleep(SETTLE)
        times.setdefault(("prefill", n), []).append(server.seconds(f"prefill {n}"))
        if steps:
            times.setdefault(("decode", n), []).append(server.seconds(f"decode {steps}"))

    def rows_engine(self):
        ours, sides = {}, {}
        llama = torch = None
        if self.python:
            ids = self.path("ids")
            with open(ids, "w") as f:
                f.write(self.engine("ids 4096")["ids"])
            llama = self.peer("peer_llamacpp.py", ids, "1")
            torch = self.peer("peer_torch.py", ids)
        own = (self.engine, 0)
        for n, rounds, steps in ((512, self.rounds, 64), (4096, 1, 32)):
            self.say(f"prefill and decode at {n} tokens")
            if n == 512:  # unmeasured: touches every page of the weights
                for server in filter(None, (self.engine, llama, torch)):
                    server(f"prefill {n}")
            for _ in range(rounds):
                self.turn(ours, own, n, steps)
                if llama:
                    other = sides.setdefault("llama", {})
                    self.turn(other, (llama, 0), n, steps)
                    self.turn(other, (llama, 0), n, steps)
                self.turn(ours, own, n, steps)
                if torch:
                    for threads in (1, 2):
                        self.turn(sides.setdefault(f"torch{threads}", {}), (torch, threads), n,
                                  steps // 4 if threads == 1 else 0)
        amx = bool(llama) and "AMX" in llama.features
        for what, n, target in (("prefill", 512, 0.8 if amx else 2.5),
                                ("prefill", 4096, 0.8 if amx else 2.5),
                                ("decode", 512, 0.7), ("decode", 4096, None)):
            unit = n if what == "prefill" else 1
            rate = {name: unit / median(times[what, n]) if times.get((what, n)) else None
                    for name, times in {"ours": ours, **sides}.items()}
            row = Row(f"{what} {n} tokens, 1 thread" if what == "prefill"
                      else f"decode after {n} tokens, 1 thread", "tok/s", rate["ours"])
            for name in ("llama", "torch1", "torch2"):
                if what == "decode" and name == "torch2":
                    continue
                row.peers[name] = rate.get(name) if self.python else UNMEASURED
            row.against("llama", target)
            self.table.add(row)
        for server in filter(None, (llama, torch)):
            server.close()

    # ---- waves ------------------------------------------------------------------------------

    def rows_wave(self):
        self.say("waves of sessions")
        sizes, times = (1, 6, 12, 24, 48), {}
        for turn in range(2):
            for n in sizes if turn == 0 else reversed(sizes):
                times.setdefault(n, []).append(self.engine.seconds(f"wave {n} 24"))
        rate = {n: n / median(times[n]) for n in sizes}
        self.single = rate[1]
        for n in sizes:
            row = Row(f"wave of {n}, 128 kept entries each" if n > 1
                      else "one session of 128 kept entries", "tok/s", rate[n])
            if n > 1:
                row.reach(rate[n] / rate[1], 5.0 if n == 24 else None, "x one session")
            self.table.add(row)

    # ---- products ---------------------------------------------------------------------------

    def rows_product(self):
        self.say("products")
        peak, product = 0.0, {128: 0.0, 512: 0.0}
        for _ in range(3):
            peak = max(peak, float(self.engine("peak")["gflops"]))
            for m in product:
                product[m] = max(product[m], float(self.engine(f"product {m}")["gflops"]))
        self.table.add(Row(f"FMA peak, one core, {self.isa}", "GFLOP/s", peak))
        for m, value in product.items():
            row = Row(f"product, m = {m}", "GFLOP/s", value)
            row.reach(100 * value / peak, 75.0, "% of the peak")
            self.table.add(row)
        if self.single:
            used = self.single * self.token_gflop
            self.table.note(
                f"One session of 128 entries already keeps {100 * used / peak:.0f} % of the FMA "
                f"peak busy ({self.token_gflop:.3f} GFLOP a token), so that no wave in exact f32 can "
                f"exceed {peak / used:.1f} x its tokens per second on this core, attention apart.")

    # ---- sweeps -----------------------------------------------------------------------------

    def suite(self, name, **keys):
        path = self.path(name + ".json")
        keys = {"schema": 1, "name": "bench-" + name, "models": [MODEL], "blind": False, **keys}
        keys["defaults"] = {"seed": SEED, "max_new_tokens": MAX_NEW, **keys["defaults"]}
        with open(path, "w") as f:
            json.dump(keys, f, indent=1)
        for end in ("", "-wal", "-shm"):
            if os.path.exists(self.path(name + ".db" + end)):
                os.remove(self.path(name + ".db" + end))
        return path, self.path(name + ".db")

    def run_suite(self, name, jobs, **keys):
        suite, db = self.suite(name, **keys)
        seconds, _ = self.kvaudit("run", suite, "--db", db, "--jobs", str(jobs), "--progress",
                                  "none", "-q")
        return seconds, sqlite3.connect(db)

    def rows_sweep(self):
        samples = self.cores
        kvpress = None
        outcomes = [("snapkv", 0.25), ("keydiff", 0.5), ("tova", 0.1), ("keydiff", 0.75)]
        spent = []
        if self.python:
            self.say("kvpress is loaded")
            lines = self.path("samples.jsonl")
            self.kvaudit("generate", SWEEP_TASK, "-n", str(samples), "--seed", str(SEED),
                         "--tokenizer", MODEL, "--max-new-tokens", str(MAX_NEW), "-o", lines)
            kvpress = self.peer("peer_kvpress.py", lines)
            kvpress(f"threads {self.cores}")
            kvpress("outcome snapkv 0.5 0 1")  # unmeasured
        same = []
        for cells, methods, keeps in (
                (12, ["snapkv", "keydiff", "tova"], [0.1, 0.25, 0.5, 0.75]),
                (48, ["snapkv", "keydiff", "tova", "knorm", "valuediff", "snapkv+adakv"],
                 [0.05, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.75])):
            self.say(f"sweep of {cells} cells a sample, {samples} samples")
            time.sleep(SETTLE)
            seconds, db = self.run_suite(
                f"sweep{cells}", self.cores, defaults={"n": samples}, dense=False,
                methods=methods, tasks=[SWEEP_TASK], budgets=[{"keep": k} for k in keeps])
            done, = db.execute("SELECT count(*) FROM outcome WHERE status = 'ok'").fetchone()
            if done != cells * samples:
                self.say(f"{done} of {cells * samples} outcomes are ok; see the log")
            row = Row(f"sweep, {cells} cells a sample, {self.cores} cores", "outcomes/h",
                      3600 * done / seconds)
            if kvpress:
                for i, (press, keep) in enumerate(outcomes[:2] if cells == 12 else outcomes[2:]):
                    answer = kvpress(f"outcome {press} {keep} {i % samples} {MAX_NEW}")
                    spent.append(float(answer["seconds"]))
                    same.append((press, keep, i % samples, json.loads(answer["answer"])))
            self.table.add(row)
        for row, target in zip(self.table.rows[-2:], (15.0, 30.0)):
            row.peers["kvpress"] = (3600 * len(spent) / sum(spent) if kvpress else UNMEASURED)
            row.against("kvpress", target)
        if kvpress:
            kvpress.close()
            self.table.note(
                f"kvpress runs every cell by itself: {len(spent)} outcomes took "
                f"{min(spent):.1f} to {max(spent):.1f} s each (loading apart), extrapolated to an "
                "hour. kvaudit's time is that of the whole command, start and packing included.")
            self.table.note(self.answers(db, same))

    def answers(self, db, same):
        """How many answers of the peer are those of our cells (kvpress keeps an f32 cache)."""
        equal = 0
        for press, keep, index, answer in same:
            text = db.execute(
                "SELECT g.text FROM generation g JOIN outcome USING(outcome_id) "
                "JOIN sample s USING(sample_id) JOIN cell c USING(cell_id) JOIN method m "
                "USING(method_id) WHERE s.idx = ? AND c.budget = ? AND m.name LIKE ?",
                (index, keep, press + ":%+uniform")).fetchone()
            print("answers", press, keep, index, repr(answer), repr(text), file=self.log)
            equal += text is not None and text[0].strip() == answer.strip()
        return f"Of these {len(same)} answers {equal} are letter for letter those of kvaudit's cells."

    # ---- cells that run alone -----------------------------------------------------------------

    def rows_share(self):
        self.say("scoring, selecting and compacting beside the prefill")
        _, db = self.run_suite("share", 1, defaults={"n": 1, "perf": 1},
                               methods=list(SHARES), tasks=[SWEEP_TASK],
                               budgets=[{"keep": 0.25}])
        found = {name: (prefill, spent) for name, prefill, spent in db.execute(
            "SELECT c.slug, t.prefill_ns, t.score_ns + t.evict_ns FROM timing t JOIN outcome "
            "USING(outcome_id) JOIN cell c USING(cell_id) WHERE t.exec = 'alone'")}
        dense = next((prefill for slug, (prefill, _) in found.items()
                      if slug.split("/")[1] == "dense"), None)
        for method, target in SHARES.items():
            ns = next((ns for slug, ns in found.items() if slug.split("/")[1] == method), None)
            row = Row(f"score + select + compact, {method}, 4,096 tokens", "ms",
                      ns[1] / 1e6 if ns else None)
            if ns and dense:
                # what is summed while the prompt is read counts: the prefill above the dense one
                spent = ns[1] + max(0, ns[0] - dense) if method in COLLECT else ns[1]
                row.ours = spent / 1e6
                row.reach(100 * spent / dense, target, "% of the dense prefill", most=True)
            self.table.add(row)

    def rows_memory(self):
        self.say("resident memory")
        _, db = self.run_suite("memory", 1, defaults={"n": 1, "perf": 1}, methods=["keydiff"],
                               tasks=[SWEEP_TASK], budgets=[{"keep": 0.25}],
                               schedules="block:256")
        found = {enforce: (host, kv) for enforce, host, kv in db.execute(
            "SELECT c.enforce, m.host_peak_bytes, m.kv_peak_bytes FROM memory m JOIN outcome "
            "USING(outcome_id) JOIN cell c USING(cell_id) WHERE m.exec = 'alone'")}
        (dense, kv_dense), (cut, kv_cut) = found["dense"], found["physical"]
        claimed, seen = kv_dense - kv_cut, dense - cut
        slack = max(2 << 20, 0.02 * claimed)
        mib = 1 / (1 << 20)
        self.table.add(Row("peak resident memory, dense, 4,096 tokens in chunks of 256", "MiB",
                           dense * mib))
        row = Row("peak resident memory, keep 0.25, block:256", "MiB", cut * mib)
        row.target = f"dense - {claimed * mib:.1f} MiB (what the store claims), +- {slack * mib:.1f}"
        row.decide(abs(seen - claimed) <= slack, f"{seen * mib:.1f} MiB below dense")
        self.table.add(row)

    # ---- samples and scores -------------------------------------------------------------------

    def seconds_of_samples(self, task, dialect, n):
        """Seconds for n samples behind the first 20: start, model file and search apart."""
        def run(count):
            return self.kvaudit("generate", f"ruler/{task}@4096", "-n", str(count), "--dialect",
                                dialect, "--seed", "42", "--tokenizer", MODEL, "-o", os.devnull)[0]
        return run(20 + n) - run(20)

    def rows_tasks(self):
        self.say("samples and scores")
        megabytes = os.path.getsize(TEXT) / 1e6
        peer = None
        if self.python:
            try:
                peer = self.peer("peer_lmeval.py", TEXT)
            except (SystemExit, KeyError, OSError) as why:
                self.table.note(f"lm-eval could not be started ({why}).")
        row = Row("tokenising English text, 1 thread", "MB/s",
                  megabytes / self.engine.seconds("tokenise 5"))
        row.reach(row.ours, 5.0, "MB/s")
        if peer:
            row.peers["lmeval"] = megabytes / peer.seconds("tokenise 2")
        self.table.add(row)
        for task in ("niah_single_1", "niah_single_2", "niah_multikey_1", "niah_multikey_2",
                     "niah_multikey_3", "niah_multiquery", "vt", "cwe", "fwe"):
            for dialect in ("kva1", "r2024", "r2025"):
                n = 200
                row = Row(f"generate {task}, 4,096 tokens, {dialect}", "samples/s",
                          n / self.seconds_of_samples(task, dialect, n))
                row.reach(row.ours, 100.0, "samples/s")
                if peer and dialect == "r2024" and task in (
                        "niah_single_1", "niah_multikey_2", "niah_multikey_3", "vt", "cwe", "fwe"):
                    peer(f"samples {task} 4096 20")
                    few = peer.seconds(f"samples {task} 4096 5")
                    row.peers["lmeval"] = 40 / (peer.seconds(f"samples {task} 4096 45") - few)
                self.table.add(row)
        if peer:
            peer.close()
        for metric, line in SCORED.items():
            path = self.path("predictions.jsonl")
            with open(path, "w") as f:
                for i in range(100000):
                    f.write(json.dumps(dict(line, prediction=line["prediction"] + f" {i}")) + "\n")
            seconds, _ = self.kvaudit("score", metric, path, "-o", os.devnull)
            row = Row(f"score 100,000 predictions, {metric}", "s", seconds)
            row.reach(seconds, 10.0, "s", most=True)
            self.table.add(row)

    # ---- a report over 100,000 outcomes ---------------------------------------------------------

    def rows_report(self):
        """510 cells of 200 samples, 10,000 resamples, page and figures: wall time, peak, size."""
        self.say("report")
        results, page = self.path("results.db"), self.path("report")
        subprocess.run([sys.executable, os.path.join(HERE, "make_results.py"), results,
                        "--methods", "25", "--budgets", "4", "--tasks", "5", "--samples", "200"],
                       check=True, stdout=self.log, stderr=self.log)
        start = time.monotonic()
        child = subprocess.Popen([self.program, "report", "--db", results, "-o", page, "--force"],
                                 stdout=self.log, stderr=self.log)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"bench: report returned {child.returncode}; see the log")
        size = os.path.getsize(os.path.join(page, "index.html"))
        for name, unit, ours, most in (
                ("report over 102,000 outcomes, 510 cells", "s", seconds, 30.0),
                ("its peak memory", "MB", usage.ru_maxrss / 1024, 500.0),
                ("its page", "MB", size / 1e6, 2.0)):
            row = Row(name, unit, ours)
            row.reach(ours, most, unit, most=True)
            self.table.add(row)

    def rows_page(self):
        """The page of 510 cells with its figures: bytes, and sorting 10,000 rows in Chromium."""
        self.say("page")
        results, page = self.path("cells.db"), self.path("page")
        make(results, methods=25, budgets=4, tasks=5, samples=20)
        self.kvaudit("report", "--db", results, "-o", page, "--force")
        size = os.path.getsize(os.path.join(page, "index.html"))
        row = Row("page of 510 cells, figures inside", "MB", size / 1e6)
        row.reach(size / 1e6, 2.0, "MB", most=True)
        self.table.add(row)
        row = Row(f"sorting {page_browser.ROWS:,} rows of a table in Chromium", "s", None)
        if not page_browser.program():
            self.table.note("Sorting was not measured: no Chromium here.")
            return
        try:
            with page_browser.Browser() as browser:
                opened = browser.open("file://" + os.path.join(page, "index.html"))
                told = opened.eval(page_browser.LARGE)
        except (page_browser.BrowserError, OSError) as e:
            self.table.note(f"Sorting was not measured: Chromium cannot start: {e}.")
            return
        if not told["good"] or told["rows"] != page_browser.ROWS:
            raise SystemExit(f"bench: the page sorted wrongly: {told}")
        row.ours = told["ms"] / 1e3
        row.reach(row.ours, 1.0, "s", most=True)
        self.table.add(row)

    # ---- database -------------------------------------------------------------------------------

    def rows_merge(self):
        self.say("merge of 16 databases")
        parts, outcomes = [self.path(f"part-{i}.db") for i in range(16)], 0
        for i, part in enumerate(parts):
            outcomes += make(part, samples=330, index=i, count=16)
        best = None
        for _ in range(3):
            for end in ("", "-wal", "-shm"):
                if os.path.exists(self.path("merged.db" + end)):
                    os.remove(self.path("merged.db" + end))
            seconds, _ = self.kvaudit("merge", self.path("merged.db"), *parts)
            best = seconds if best is None else min(best, seconds)
        row = Row(f"merge: 16 databases, {outcomes:,} outcomes, checked", "outcomes/s", outcomes / best)
        row.reach(outcomes / best, 50000, "outcomes/s")
        self.table.add(row)
        for path in parts + [self.path("merged.db")]:
            os.remove(path)

    def rows_commit(self):
        self.say("commits of the quickstart")
        suite = os.path.join(ROOT, "configs/quickstart.json")
        db = self.suite("commit", defaults={"n": 1})[1]
        argv = [self.program, "run", suite, "--db", db, "--progress", "none", "-v"]
        print("$", shlex.join(argv), file=self.log, flush=True)
        start = time.monotonic()
        done = subprocess.run(argv, stdout=self.log, stderr=subprocess.PIPE, text=True)
        wall = time.monotonic() - start
        told = re.search(r"(\d+) commits took ([\d.]+) s", done.stderr)
        if done.returncode or not told:
            raise SystemExit(f"bench: {shlex.join(argv)} returned {done.returncode}: {done.stderr[-500:]}")
        share = 100 * float(told.group(2)) / wall
        row = Row(f"commits of the quickstart, {told.group(1)} in {wall:.0f} s", "%", share)
        row.reach(share, 1, "% of the wall time", most=True)
        self.table.add(row)

    def rows_profile(self):
        self.say("profile")
        for command, title in (
                ("prefill 512", "prefill of 512 tokens"), ("decode 32", "decode after 512 tokens"),
                ("prefill 4096", "prefill of 4,096 tokens"),
                ("decode 32", "decode after 4,096 tokens"),
                ("wave 24 16", "wave of 24 sessions of 128 kept entries")):
            what = command.split()[0]
            shares = sorted(((float(v), k[len(what) + 1:]) for k, v in
                             self.engine("profile " + command).items() if not k.endswith("_s")),
                            reverse=True)
            self.table.note(f"Where the time goes, {title}: " + ", ".join(
                f"{name} {100 * share:.1f} %" for share, name in shares if share >= 0.0005) + ".")

    # ---- all ------------------------------------------------------------------------------------

    def main(self):
        start = time.monotonic()
        load = os.getloadavg()[0]
        for group in ("engine", "wave", "product", "sweep", "share", "memory", "tasks", "report",
                      "page", "merge", "commit", "profile"):
            if self.only in group:
                getattr(self, "rows_" + group)()
        self.engine.close()
        _, about = self.kvaudit("--version")
        facts = machine(self.isa, self.cores, load, about)
        if self.versions:
            facts.append(("peers", "; ".join(dict.fromkeys(self.versions))))
        facts.append(("measured", time.strftime("%Y-%m-%d", time.gmtime())
                      + f", {time.monotonic() - start:.0f} s"))
        markdown = self.table.markdown(facts)
        with open(self.path("bench.md"), "w") as f:
            f.write(markdown)
        with open(self.path("bench.tsv"), "w") as f:
            f.write(self.table.tsv(facts))
        print(markdown)
        print(f"bench: also in {self.path('bench.md')} and bench.tsv", file=sys.stderr)


if __name__ == "__main__":
    Bench().main()
