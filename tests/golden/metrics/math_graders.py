#!/usr/bin/env python3
"""What public graders say about pairs of a gold answer and a prediction.

Writes math-graders.jsonl beside this file: one pair a line, with the verdict of each
grader and, for pairs that are harmless rewritings, the rewriting's name.

    python3 -m venv v && v/bin/pip install math-verify==0.8.0 sympy==1.14.0 \\
        antlr4-python3-runtime==4.11.0
    v/bin/pip download --no-deps lm-eval==0.4.9.1 && unzip lm_eval-*.whl -d lm
    KVAUDIT_SHARED=... v/bin/python tests/golden/metrics/math_graders.py lm

No package's code is copied; the graders are imported and called.
"""

import ast
import importlib.util
import json
import logging
import os
import re
import sys
import types
from importlib.metadata import version

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.environ.get("KVAUDIT_SHARED", "../shared/data")


def module(root, task):
    """lm-eval's graders need two modules of it that nothing here calls."""
    for name in ("datasets", "lm_eval", "lm_eval.utils"):
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["datasets"].Dataset = object
    sys.modules["lm_eval.utils"].eval_logger = logging.getLogger("lm_eval")
    path = f"{root}/lm_eval/tasks/{task}/utils.py"
    spec = importlib.util.spec_from_file_location(task, path)
    mod = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mod)
    return mod


# ---- harmless rewritings ----

def plain_fraction(gold):
    mixed = re.sub(r"(\d)\\frac", r"\1 \\frac", gold)
    return re.sub(r"\\d?frac\{(-?\d+)\}\{(\d+)\}", r"\1/\2", mixed)


def braced(gold):
    g = re.sub(r"\\frac ?(\d)(\d)(?!\d)", r"\\frac{\1}{\2}", gold)
    g = re.sub(r"\\frac ?(\d)\{", r"\\frac{\1}{", g)
    g = re.sub(r"(\\frac\{\d+\})(\d)", r"\1{\2}", g)
    return re.sub(r"\\sqrt(\d)", r"\\sqrt{\1}", g)


def unblanked(gold):
    """All blanks but those that end a command's name."""
    if "\\text" in gold or "\\mbox" in gold:
        return gold
    keep = re.sub(r"(\\[A-Za-z]+) +(?=[A-Za-z])", "\\1\0", gold)
    return keep.replace(" ", "").replace("\0", " ")


def swapped(gold):
    m = re.fullmatch(r"(\\\{)?(.*?)(\\\})?", gold)
    parts = [p.strip() for p in m.group(2).split(",")]
    if len(parts) < 2 or re.search(r"[()\[\]]|\\!|\\mbox|\d,\d{3}|begin", gold):
        return gold
    return (m.group(1) or "") + ", ".join(reversed(parts)) + (m.group(3) or "")


def sized(gold):
    if "\\left" in gold or "text" in gold:
        return gold
    g = re.sub(r"(?<!\\)([(\[])", r"\\left\1", gold)
    return re.sub(r"(?<!\\)([)\]])", r"\\right\1", g)


def thousands(gold, mark):
    if "(" in gold:
        return gold
    return re.sub(r"(\d),(\\! ?)?(?=\d{3}(\D|$))", r"\1" + mark, gold)


def union_swapped(gold):
    return " \\cup ".join(reversed(gold.split(" \\cup ")))


def plus_minus(gold):
    m = re.fullmatch(r"(\d+) \\pm (.*)", gold)
    return f"{m[1]} + {m[2]}, {m[1]} - {m[2]}" if m else gold


REWRITINGS = {
    "dfrac": lambda g: g.replace("\\frac", "\\dfrac"),
    "tfrac": lambda g: g.replace("\\dfrac", "\\frac").replace("\\frac", "\\tfrac"),
    "slash": plain_fraction,
    "braced": braced,
    "no blanks": unblanked,
    "no degree": lambda g: g.replace("^\\circ", ""),
    "braced degree": lambda g: g.replace("^\\circ", "^{\\circ}"),
    "degree word": lambda g: g.replace("^\\circ", " \\text{ degrees}"),
    "no unit": lambda g: re.sub(r"\s*\\(text|mbox)\{ [a-z ]+\}(\^\d)?$", "", g),
    "no dollar": lambda g: g.replace("\\$", ""),
    "bmatrix": lambda g: g.replace("pmatrix", "bmatrix"),
    "brackets": lambda g: g.replace("\\begin{pmatrix}", "\\left(\\begin{array}{c}").replace(
        "\\end{pmatrix}", "\\end{array}\\right)"),
    "plain text": lambda g: re.sub(r"^\\text\{(.*)\}$", r"\1", g),
    "bold text": lambda g: re.sub(r"^\\text\{", r"\\textbf{", g),
    "left right": sized,
    "no left right": lambda g: re.sub(r"\\(left|right) ?", "", g),
    "no thousands": lambda g: thousands(g, ""),
    "braced thousands": lambda g: thousands(g, "{,}"),
    "list order": swapped,
    "union order": union_swapped,
    "plus minus": plus_minus,
    "base braces": lambda g: re.sub(r"_(\d)$", r"_{\1}", g),
    "no assignment": lambda g: re.sub(r"^[xy] ?(=|\\in) ?", "", g),
    "leading zero": lambda g: re.sub(r"^\.", "0.", g),
    "trailing zero": lambda g: g + (".0" if re.fullmatch(r"-?\d+", g) else
                                    "0" if re.fullmatch(r"\d*\.\d+", g) else ""),
}


def own_pairs():
    """SAME(prediction, gold) and DIFFER(..) of the grader's own tests."""
    source = open(f"{HERE}/../../metrics/test_math_equal.c").read()
    text = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
    for kind, *args in re.findall(rf"(SAME|DIFFER)\(\s*{text},\s*{text}\);", source):
        pred, gold = (
            b"".join(ast.literal_eval("b" + part) for part in
                     re.findall(r'"(?:[^"\\]|\\.)*"', a)).decode()
            for a in args)
        yield {"gold": gold, "pred": pred, "equal": kind == "SAME", "from": "own"}


def pairs():
    read = lambda name: [json.loads(x) for x in open(f"{SHARED}/math500/{name}")]
    golds = sorted({r["answer"] for r in read("test.jsonl")})
    for r in read("equiv-vectors.jsonl"):
        yield {"gold": r["gold"], "pred": r["pred"], "equal": r["equal"], "from": "vector"}
    for g in golds:
        yield {"gold": g, "pred": g, "equal": True, "from": "self"}
    for g in golds:
        for name, f in REWRITINGS.items():
            if f(g) != g:
                yield {"gold": g, "pred": f(g), "equal": True, "from": name}
    yield from own_pairs()


def main():
    minerva = module(sys.argv[1], "minerva_math")
    hendrycks = module(sys.argv[1], "hendrycks_math")
    from math_verify import parse, verify

    def kvpress(gold, pred):
        text = "\\boxed{" + pred + "}"
        return text.split("boxed{")[1].split("}")[0] == gold

    def minerva_says(gold, pred):
        n = minerva.normalize_final_answer
        return minerva.is_equiv(n(pred), n(gold))

    def verify_says(gold, pred):
        box = lambda s: parse("$\\boxed{" + s + "}$", parsing_timeout=20)
        return verify(box(gold), box(pred), timeout_seconds=20)

    graders = {"kvpress": kvpress, "hendrycks": hendrycks.is_equiv,
               "minerva": minerva_says, "math_verify": verify_says}
    with open(f"{HERE}/math-graders.jsonl", "w") as out:
        packages = {"lm-eval": "0.4.9.1", "math-verify": version("math-verify"),
                    "sympy": version("sympy"),
                    "antlr4-python3-runtime": version("antlr4-python3-runtime"),
                    "latex2sympy2_extended": version("latex2sympy2_extended")}
        out.write(json.dumps({"packages": packages}) + "\n")
        for p in pairs():
            for name, f in graders.items():
                args = (p["gold"], p["pred"]) if name != "hendrycks" else (p["pred"], p["gold"])
                p[name] = bool(f(*args))
            p["minerva_normal"] = [minerva.normalize_final_answer(p[k]) for k in ("gold", "pred")]
            out.write(json.dumps(p, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    main()
