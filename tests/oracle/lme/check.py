#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""check.py DIR: are the files of `kvaudit report -f lme -o DIR` those that lm-evaluation-harness reads?

Run in an environment with lm_eval (pip install lm_eval==0.4.13); its answer is committed beside this
file as check.txt. Uses the harness's own declarations of keys, its table printer and its hash."""
import glob
import importlib.metadata
import json
import os
import sys

from lm_eval import result_schema as schema
from lm_eval import utils as names
from lm_eval.utils import hash_string, make_table

bad = []
results = sorted(glob.glob(os.path.join(sys.argv[1], "*", "results_*.json")))
known = set(schema.EvalResults.__annotations__)
sample_keys = set(schema.SampleResult.__annotations__)
n_samples = 0
for path in results:
    with open(path, encoding="utf-8") as f:
        r = json.load(f)
    for key in set(r) - known:
        bad.append(f"{path}: {key} is no key of EvalResults")
    for key in ("results", "configs", "versions", "n-shot", "n-samples", "config", "git_hash", "date"):
        if key not in r:
            bad.append(f"{path}: {key} is missing")
    table = make_table(r)
    for task, metrics in r["results"].items():
        if task not in table:
            bad.append(f"{path}: the harness's table does not show {task}")
        if not any(k.endswith("_stderr,none") for k in metrics):
            bad.append(f"{path}: {task} has no standard error")
    folder = os.path.dirname(path)
    files = glob.glob(os.path.join(folder, "*"))
    if names.get_latest_filename(names.get_results_filenames(files)) != path:
        bad.append(f"{path}: not found by get_latest_filename")
    tasks = {names.sanitize_task_name(t) for t in r["results"]}
    for name in names.get_sample_results_filenames(files):
        if names.get_file_datetime(name) != names.get_file_datetime(path).replace(".json", ""):
            bad.append(f"{name}: another date than {path}")
        if names.get_file_task_name(os.path.basename(name)) not in tasks:
            bad.append(f"{name}: no task of the results")
        with open(name, encoding="utf-8") as f:
            for line in f:
                s = json.loads(line)
                n_samples += 1
                for key in sample_keys - set(s):
                    bad.append(f"{name}: {key} is missing")
                for key in set(s) - sample_keys - set(s["metrics"]):
                    bad.append(f"{name}: {key} is neither declared nor a metric")
                if s["target_hash"] != hash_string(s["target"]):
                    bad.append(f"{name}: target_hash")
                if s["doc_hash"] != hash_string(json.dumps(s["doc"], indent=2, ensure_ascii=False)):
                    bad.append(f"{name}: doc_hash")
                if s["prompt_hash"] != hash_string(s["arguments"]["gen_args_0"]["arg_0"]):
                    bad.append(f"{name}: prompt_hash")
print("lm_eval", importlib.metadata.version("lm_eval"), "python", sys.version.split()[0])
print(len(results), "results files,", n_samples, "samples,", len(bad), "faults")
if results:
    with open(results[-1], encoding="utf-8") as f:
        print(make_table(json.load(f)))
for line in bad[:20]:
    print(line)
sys.exit(1 if bad or not results else 0)
