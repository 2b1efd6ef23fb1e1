#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""make_official.py - writes official.tsv by running RULER's own generators.

    git clone https://github.com/NVIDIA/RULER && python3 -m venv v && \
    v/bin/pip install numpy scipy tqdm wonderwords==2.2.0
    v/bin/python tests/golden/tasks/make_official.py RULER > tests/golden/tasks/official.tsv

Nothing of RULER is changed or copied: the scripts run as they are, from a temporary
checkout of the two commits, beside stand-ins for what they import: a tokenizer (`ws`: runs
of non-space characters, `by`: bytes), NLTK's sent_tokenize (splitter simple-v1), NeMo's
manifest writer. Essays and QA files are those the program carries (configs/data).
Columns: dialect, task, tokenizer, max_len, seed, n, size, lengths, answers0, sha256 of
input + answer_prefix + "\\n" over the samples.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

COMMITS = {"r2024": "e40fae1", "r2025": "c3f5e3b"}
HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "..", "..", "configs", "data")

STAND_INS = {
    "tokenizer.py": '''
import os
class Tokenizer:
    def text_to_tokens(self, text):
        return text.split() if os.environ["COUNT"] == "ws" else list(text.encode())
def select_tokenizer(kind, path):
    return Tokenizer()
''',
    "nemo/collections/asr/parts/utils/manifest_utils.py": '''
import json
def read_manifest(path):
    return [json.loads(line) for line in open(path)]
def write_manifest(path, rows):
    with open(path, "w") as f:
        for row in rows:
            f.write(json.dumps(row) + "\\n")
''',
    "nltk/tokenize.py": r'''
SHORT = set("Mr Mrs Ms Dr St Sr Jr Prof vs etc e.g i.e cf No Vol Fig Mt Gen Col Capt".split())
def sent_tokenize(text):
    out, start, i = [], 0, 0
    while i < len(text):
        if text[i] not in ".!?":
            i += 1
            continue
        mark = i
        while i < len(text) and text[i] in ".!?":
            i += 1
        while i < len(text) and text[i] in "\"')]}":
            i += 1
        if i >= len(text) or text[i] != " ":
            continue
        after = i + 1
        while after < len(text) and text[after] in "\"'([":
            after += 1
        c = text[after:after + 1]
        if not ("A" <= c <= "Z" or "0" <= c <= "9"):
            continue
        if i == mark + 1 and text[mark] == ".":
            word = text[start:mark].rsplit(" ", 1)[-1].lstrip("\"'([")
            if word in SHORT or (len(word) == 1 and "A" <= word <= "Z"):
                continue
        out.append(text[start:i])
        start = i = i + 1
    return out + [text[start:]] if text[start:] else out
''',
}

NIAH = {  # haystack, key, value, k, v, q
    "niah_single_1": ("noise", "words", "numbers", 1, 1, 1),
    "niah_single_2": ("essay", "words", "numbers", 1, 1, 1),
    "niah_single_3": ("essay", "words", "uuids", 1, 1, 1),
    "niah_multikey_1": ("essay", "words", "numbers", 4, 1, 1),
    "niah_multikey_2": ("needle", "words", "numbers", 1, 1, 1),
    "niah_multikey_3": ("needle", "uuids", "uuids", 1, 1, 1),
    "niah_multivalue": ("essay", "words", "numbers", 1, 4, 1),
    "niah_multiquery": ("essay", "words", "numbers", 1, 1, 4),
}
OTHER = {
    "vt": ("variable_tracking", ["--num_chains", "1", "--num_hops", "4", "--add_fewshot"]),
    "cwe": ("common_words_extraction",
            ["--freq_cw", "30", "--freq_ucw", "3", "--num_cw", "10"]),
    "fwe": ("freq_words_extraction", ["--alpha", "2.0"]),
    "qa_1": ("qa", ["--dataset", "squad"]),
    "qa_2": ("qa", ["--dataset", "hotpotqa"]),
}
SIZE = re.compile(r"(?:Final optimal haystack size \(number of \w+\)|Num haystack|Num noises|"
                  r"num_words|Number of documents|num_example_words):\s*(?:'[^\n]*\n"
                  r"Arguments: \()?(\d+)")


def arguments(dialect, task):
    if task in NIAH:
        hay, key, value, k, v, q = NIAH[task]
        if dialect == "r2024" and hay == "noise":
            hay = "repeat"
        return "niah", ["--type_haystack", hay, "--type_needle_k", key, "--type_needle_v",
                        value, "--num_needle_k", str(k), "--num_needle_v", str(v),
                        "--num_needle_q", str(q)]
    script, more = OTHER[task]
    if task == "vt" and dialect == "r2025":
        more = more + ["--type_haystack", "noise"]
    return script, more


def run(root, dialect, task, count, max_len, seed, n):
    script, more = arguments(dialect, task)
    base = os.path.join(root, dialect, "scripts", "data", "synthetic")
    constants = {}
    exec(open(os.path.join(base, "constants.py")).read(), constants)
    spec = constants["TASKS"][script]
    out = os.path.join(root, "out")
    command = [sys.executable, os.path.join(base, script + ".py"), "--save_dir", out,
               "--save_name", task, "--subset", "validation", "--tokenizer_path", "-",
               "--tokenizer_type", "-", "--max_seq_length", str(max_len),
               "--tokens_to_generate", str(spec["tokens_to_generate"]), "--num_samples",
               str(n), "--random_seed", str(seed), "--template",
               spec["template"] + spec["answer_prefix"]] + more
    environ = dict(os.environ, COUNT=count, PYTHONPATH=os.path.join(root, "stand-ins"))
    from pathlib import Path
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(done.stderr)
    rows = [json.loads(line) for line in open(Path(out) / task / "validation.jsonl")]
    digest = hashlib.sha256("".join(
        row["input"] + row.get("answer_prefix", "") + "\n" for row in rows).encode())
    size = SIZE.findall(done.stdout + done.stderr)[-1]
    print(dialect, task, count, max_len, seed, n, size,
          ",".join(str(row["length"]) for row in rows),
          json.dumps(rows[0]["outputs"]), digest.hexdigest(), sep="\t", flush=True)


def main():
    ruler = sys.argv[1]
    with tempfile.TemporaryDirectory() as root:
        for dialect, commit in COMMITS.items():
            tar = subprocess.run(["git", "-C", ruler, "archive", commit, "scripts/data"],
                                 check=True, capture_output=True).stdout
            os.makedirs(os.path.join(root, dialect))
            subprocess.run(["tar", "x", "-C", os.path.join(root, dialect)], input=tar,
                           check=True)
            base = os.path.join(root, dialect, "scripts", "data", "synthetic", "json")
            essays = open(os.path.join(DATA, "emerson_essays.txt")).read()
            for name, text in (("PaulGrahamEssays", json.dumps({"text": essays})),
                               ("english_words", json.dumps(
                                   {str(i): "word%d" % i for i in range(30000)})),
                               ("squad", open(DATA + "/qa_mini_squad.json").read()),
                               ("hotpotqa", open(DATA + "/qa_mini_hotpot.json").read())):
                with open(os.path.join(base, name + ".json"), "w") as f:
                    f.write(text)
        for name, text in STAND_INS.items():
            path = os.path.join(root, "stand-ins", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)
        print("dialect task tokenizer max_len seed n size lengths answers0 sha256".replace(
            " ", "\t"))
        for dialect in COMMITS:
            for task in list(NIAH) + list(OTHER):
                qa = task.startswith("qa")
                small = 1000 if qa else 1536 if task == "vt" else 900
                run(root, dialect, task, "ws", small, 1, 6)
                run(root, dialect, task, "ws", 1800 if qa else 6000, 4294967295, 4)
                if task != "vt":  # whose example never fits into 500 bytes
                    run(root, dialect, task, "by", 9000, 3, 4)
            # nothing but needles is left; a short chain of noise; more documents than
            # there are (r2024 mixes them up)
        run(root, "r2024", "niah_single_2", "ws", 640, 5, 4)
        run(root, "r2024", "niah_multiquery", "ws", 640, 5, 4)
        run(root, "r2024", "qa_1", "ws", 3000, 11, 12)
        run(root, "r2025", "qa_1", "ws", 5000, 11, 6)
        run(root, "r2025", "cwe", "ws", 65536, 2, 2)
        run(root, "r2025", "niah_multikey_1", "ws", 200000, 8, 2)


if __name__ == "__main__":
    main()
