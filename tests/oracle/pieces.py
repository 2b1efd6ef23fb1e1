# SPDX-License-Identifier: GPL-3.0-or-later
"""Pieces of pre-tokenizers, computed by the `tokenizers` package (0.22.2) from the published patterns.

    python tests/oracle/pieces.py > tests/golden/models/pieces.jsonl

A line: pre-tokenizer name, text, and the piece lengths in bytes. The patterns are written as in the
tokenizer.json files, with \\s: the package's engine has its own tables.
"""
import json
from tokenizers import Regex, pre_tokenizers

CL100K3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
          r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def split(*patterns):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in patterns])


FAMILIES = {
    "llama-bpe": split(CL100K3),
    "dbrx": split(CL100K3),
    "gpt-4o": split(O200K),
    "tekken": split(TEKKEN),
    "smollm": split(r"\p{N}", GPT2),
    "gpt-2": split(GPT2),
    "default": split(r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
}
TEXTS = [
    "Hello  world, I'll don't WE'RE it\u2019s 'S 'VE",
    "  leading and trailing  ",
    "tab\there\n\nnew\r\nline   \n  x\n",
    "12345678 3.14159 1,000 x86 \u0663\u0664 \u00bd\u00b2",
    "cafe\u0301 caf\u00e9 na\u00efve \u01c5 \u02b0x",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u092a\u0930\u0940\u0915\u094d\u0937\u0923",
    "camelCaseWORDSMixedHTTPServer iPhone",
    "   \n\n   \n",
    "x" + " " * 40 + "y\u00a0\u2003\u3000z\u1680\u2028\u2029",
    "<|im_start|>user\nhi<|im_end|>",
    "https://a.b/c?d=e&f#g //\n/ +=^~|$<>",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \ud55c\uad6d\uc5b4 \u65e5\u672c\u8a9e\u30c6\u30b9\u30c8",
    "emoji \U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 done!!!\n\n\n???",
    "code:\n\tif (a != b) { return a[0]->x; }\n",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "'", "''s", "a'b'c'd", "\n", " ", "", "\u180e a\u180eb",
]
for name, pre in FAMILIES.items():
    for text in TEXTS:
        pieces = [len(p.encode()) for p, _ in pre.pre_tokenize_str(text)] if text else []
        assert sum(pieces) == len(text.encode())
        print(json.dumps({"pre": name, "text": text, "pieces": pieces}))
