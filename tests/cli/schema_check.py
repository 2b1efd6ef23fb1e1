#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""schema_check.py SCHEMA FILE: the part of JSON Schema that reports/schema/ uses, in the standard
library; where the package jsonschema is installed it is asked too, and must agree."""
import json
import re
import sys

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool}


def of_type(v, name):
    if name == "null":
        return v is None
    if name in ("number", "integer"):
        whole = isinstance(v, int) or (isinstance(v, float) and v == int(v) if name == "integer" and v == v else True)
        return isinstance(v, (int, float)) and not isinstance(v, bool) and (name == "number" or whole)
    return isinstance(v, TYPES[name])


def check(v, s, root, at):
    if "$ref" in s:
        return check(v, root["$defs"][s["$ref"].split("/")[-1]], root, at)
    unknown = set(s) - {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "pattern",
                        "minItems", "minimum", "exclusiveMinimum", "exclusiveMaximum", "$schema", "$id", "title",
                        "description", "$defs"}
    if unknown:
        yield f"{at}: the schema says {sorted(unknown)}, which is not read here"
    if "const" in s and v != s["const"] or "enum" in s and v not in s["enum"]:
        yield f"{at}: {v!r} is not one of the values"
    types = s.get("type", [])
    if types and not any(of_type(v, t) for t in ([types] if isinstance(types, str) else types)):
        yield f"{at}: {v!r} is no {types}"
        return
    if isinstance(v, str) and "pattern" in s and not re.search(s["pattern"], v):
        yield f"{at}: {v!r} does not match {s['pattern']}"
    if isinstance(v, (int, float)) and not isinstance(v, bool):
        if v < s.get("minimum", v) or v <= s.get("exclusiveMinimum", v - 1) or v >= s.get("exclusiveMaximum", v + 1):
            yield f"{at}: {v} is out of range"
    if isinstance(v, list):
        if len(v) < s.get("minItems", 0):
            yield f"{at}: too short"
        for i, x in enumerate(v):
            yield from check(x, s.get("items", {}), root, f"{at}/{i}")
    if isinstance(v, dict):
        for k in s.get("required", []):
            if k not in v:
                yield f"{at}: {k} is missing"
        for k, x in v.items():
            if k in s.get("properties", {}):
                yield from check(x, s["properties"][k], root, f"{at}/{k}")
            elif s.get("additionalProperties") is False:
                yield f"{at}: {k} is not in the schema"
            elif isinstance(s.get("additionalProperties"), dict):
                yield from check(x, s["additionalProperties"], root, f"{at}/{k}")


def main():
    with open(sys.argv[1]) as f:
        schema = json.load(f)
    with open(sys.argv[2]) as f:
        value = json.load(f)
    bad = list(check(value, schema, schema, ""))
    for line in bad[:5]:
        print(line)
    try:
        import jsonschema
    except ImportError:
        jsonschema = None
    if jsonschema:
        theirs = list(jsonschema.Draft202012Validator(schema).iter_errors(value))
        for e in theirs[:5]:
            print("jsonschema:", e.message[:200])
        if bool(theirs) != bool(bad):
            print("jsonschema and schema_check.py disagree")
            return 1
        bad += theirs
    return 1 if bad else 0


sys.exit(main())
