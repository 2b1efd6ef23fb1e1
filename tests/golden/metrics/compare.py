#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""compare.py - random pairs scored by the public packages that the official scorers use.

    python3 -m venv a && a/bin/pip install rouge==1.0.1 fuzzywuzzy==0.18.0
    python3 -m venv b && b/bin/pip install fuzzywuzzy==0.18.0 python-Levenshtein==0.27.5
    cd tests/golden/metrics
    a/bin/python compare.py write 1 240 > pairs.jsonl
    b/bin/python compare.py write 2 240 > pairs-indel.jsonl
    a/bin/python compare.py check 3 20000 build/kvaudit      (the same in b)

`write SEED N` prints a line on the versions, then N lines with prediction, answer and
scores; `check SEED N KVAUDIT` scores N pairs with `kvaudit score` too and says where they
differ. Without python-Levenshtein fuzzywuzzy works on difflib (code_sim), with it on its
ratio (code_sim_indel). qa_f1, retrieval, count, match_all and word_match come from
Python's own str and re, written here from the description of the metrics.
"""
import collections
import importlib.metadata
import json
import random
import re
import string
import subprocess
import sys
import unicodedata
import warnings

warnings.filterwarnings("ignore")
from fuzzywuzzy import fuzz

INDEL = "StringMatcher" in str(fuzz.SequenceMatcher)
sys.setrecursionlimit(20000)

WORDS = ("a an the The AN cat cats sat on mat New York x y z x1 42 19 046 1,268 "
         "Paragraph well-known it's It\u2019s \u201cquote\u201d caf\u00e9 na\u00efve \u00c9T\u00c9 "
         "\u039f\u0394\u039f\u03a3 \u03bf\u03b4\u03bf\u03c2 \u03a3\u03a3 \u0130zmir i\u0307 "
         "\u1e9e stra\u00dfe \u01c5 \u0661\u0662 x\u00b2 \u2163 \u24b6 \u65e5\u672c\u8a9e "
         "\ud55c\uad6d \U0001f600 \U00010400 e\u0301 a\u0308 _ __init__ #c // `k` i+=1; "
         "if(x): return self.x % !? ... $3.50 Dr. e.g. \ufffd").split(" ")
BLANKS = [" "] * 30 + ["  ", "\n", "\n\n", "\t", "\u00a0", "\u2003", "\u3000", "\x1c", "\x1f", "\x85",
                       "\u200b", ". ", ".", " . ", ".\n", "\r\n", "\x00", "\x07"]


def text(r, n):
    return "".join(r.choice(WORDS) + r.choice(BLANKS) for _ in range(n))


def edited(r, s):
    s = list(s)
    for _ in range(r.randint(0, 6)):
        if not s:
            break
        i, j = sorted(r.randrange(len(s) + 1) for _ in range(2))
        j = min(j, i + 8)
        k = r.randrange(5)
        if k == 0:
            del s[i:j]
        elif k == 1:
            s[i:i] = s[j:j + 5]
        elif k == 2:
            s[i:j] = reversed(s[i:j])
        elif k == 3:
            s[i:i] = text(r, 1)
        else:
            s[i:j] = "".join(s[i:j]).swapcase()
    return "".join(s)


def pair(r):
    kind = r.randrange(10)
    if kind == 0:  # few characters, long enough for difflib's popular ones
        chars = r.choice(["ab", "abc", "abcdefgh", "ab .", string.ascii_letters])
        b = "".join(r.choice(chars) for _ in range(r.randint(150, 420)))
        return (edited(r, b) if r.random() < .5 else
                "".join(r.choice(chars) for _ in range(r.randint(0, 420)))), b
    if kind == 1:  # very short
        return text(r, r.randint(0, 2)), text(r, r.randint(0, 2))
    if kind == 2:  # empty, dots and blanks
        return tuple("".join(r.choice([".", " ", "\n", "x", ""]) for _ in range(r.randint(0, 5)))
                     for _ in range(2))
    if kind == 3:  # lines of code
        b = "".join(r.choice(["    ", "self.", "x", "=", "(", ")", "foo", "[i]", "1", " "])
                    for _ in range(r.randint(1, 25)))
        return "\n" * r.randint(0, 2) + r.choice(["", "# no\n", "```\n", "  \n"]) + edited(r, b) + "\nz", b
    if kind == 4:  # numbers
        n = str(r.randint(1, 30))
        a = " ".join(r.choice([n, str(r.randint(1, 30)), "Paragraph", "0" + n]) for _ in range(r.randint(0, 5)))
        return a, r.choice(["Paragraph " + n, n, text(r, 1) + "Paragraph " + n])
    if kind == 5:  # more words than a machine word has bits
        v = ["w%d" % i for i in range(r.choice([5, 40, 150]))]
        return tuple(" ".join(r.choice(v) + r.choice(["", "", "", "", "", ".", ","])
                              for _ in range(r.randint(60, 160))) for _ in range(2))
    b = text(r, r.randint(1, 20))
    return (edited(r, b) if kind < 9 else text(r, r.randint(1, 20))), b


def words(s):
    s = "".join(c for c in s.lower() if c not in string.punctuation)
    return re.sub(r"\b(?:the|an?)\b", " ", s).split()


def qa_f1(prediction, answer):
    p, a = words(prediction), words(answer)
    same = sum((collections.Counter(p) & collections.Counter(a)).values())
    if not same:
        return 0.0
    precision, recall = same / len(p), same / len(a)
    return 2 * precision * recall / (precision + recall)


def share(prediction, number):
    runs = re.findall(r"\d+", prediction)
    return runs.count(number) / len(runs) if runs else 0.0


def retrieval(prediction, answer):
    found = re.search(r"Paragraph (\d+)", answer)
    return share(prediction, found.group(1)) if found else 0.0


def ruler(prediction):
    return re.sub("[\0-\x1f]", "\n", prediction.strip()).strip().lower()


def match_all(prediction, answer):
    return float(answer.lower() in ruler(prediction))


def word_match(prediction, answer):
    if not answer:
        return 1.0
    word = re.escape(answer.lower())
    return float(re.search(r"(?<![^\W_])" + word + r"(?![^\W_])", ruler(prediction)) is not None)


def code(prediction, answer):
    line = next((x for x in prediction.lstrip("\n").split("\n")
                 if not ("`" in x or "#" in x or "//" in x)), "")
    return fuzz.ratio(line, answer) / 100


if INDEL:
    SCORES = {"code_sim_indel": code}
else:
    from rouge import Rouge

    ROUGE = Rouge(metrics=["rouge-l"])

    def rouge_l(prediction, answer):
        try:
            return ROUGE.get_scores([prediction], [answer], avg=True)["rouge-l"]["f"]
        except ValueError:  # a side without sentences
            return 0.0

    SCORES = {"rouge_l": rouge_l, "code_sim": code, "qa_f1": qa_f1, "retrieval": retrieval,
              "count": share, "match_all": match_all, "word_match": word_match}


def pairs(seed, n):
    r = random.Random(seed)
    out = []
    while len(out) < n:
        prediction, answer = pair(r)
        if "\0" not in answer:  # a reference is a C string
            out.append((prediction, answer))
    return out


def versions():
    names = ["fuzzywuzzy", "python-Levenshtein"] if INDEL else ["fuzzywuzzy", "rouge"]
    return {"python": sys.version.split()[0], "unicode": unicodedata.unidata_version,
            **{name: importlib.metadata.version(name) for name in names}}


def write(seed, n):
    print(json.dumps({"made_by": f"compare.py write {seed} {n}", **versions()}))
    for prediction, answer in pairs(seed, n):
        scores = {name: f(prediction, answer) for name, f in SCORES.items()}
        print(json.dumps({"prediction": prediction, "answer": answer, "scores": scores}))


def check(seed, n, kvaudit):
    rows = pairs(seed, n)
    given = "".join(json.dumps({"prediction": p, "answers": [a]}) + "\n" for p, a in rows)
    print(json.dumps(versions()))
    for name, f in SCORES.items():
        run = subprocess.run([kvaudit, "score", name, "-"], input=given, text=True,
                             stdout=subprocess.PIPE, check=True, stderr=subprocess.DEVNULL)
        got = [json.loads(line)["score"] for line in run.stdout.split("\n")[:-1]]
        want = [f(p, a) for p, a in rows]
        bad = [i for i in range(n) if got[i] != want[i]]
        worst = max((abs(got[i] - want[i]) for i in bad), default=0)
        zero = sum(x == 0 for x in want)
        print(f"{name}: {n} pairs, {zero} of them 0, mean {sum(want) / n:.6f}, "
              f"{len(bad)} differ, at most by {worst:.3g}")
        for i in bad[:3]:
            print("   ", got[i], want[i], ascii(rows[i]))


if sys.argv[1] == "write":
    write(int(sys.argv[2]), int(sys.argv[3]))
else:
    check(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
