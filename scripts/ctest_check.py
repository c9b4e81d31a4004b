#!/usr/bin/env python3
"""Checks what CI relies on in the list of tests (R39, R44, R45).

ctest_check.py BUILD   asks ctest of a built tree
ctest_check.py --self-test

A label or name that a preset or a page selects by exists; every test has a time limit; a test that
needs a GPU can be skipped, so that it says why instead of failing where there is none.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def selectors(root):
    """(where, "label" or "name", regular expression) for each that a file of the project uses."""
    for preset in json.loads((root / "CMakePresets.json").read_text())["testPresets"]:
        for sense in preset.get("filter", {}).values():
            for kind in ("label", "name"):
                if kind in sense:
                    yield f"preset {preset['name']}", kind, sense[kind]
    for page in ("CONTRIBUTING.md", "README.md", "Makefile", ".ci/run", "scripts/test.sh"):
        for call in re.findall(r"ctest[^\n`]*", (root / page).read_text()):
            for flag, value in re.findall(r"-(LE|L|R|E)\s+(\S+)", call):
                yield page, "label" if flag[0] == "L" else "name", value


def faults(tests, used):
    tests = [(t["name"], {p["name"]: p["value"] for p in t.get("properties", [])}) for t in tests]
    for where, kind, pattern in used:
        found = any(re.search(pattern, text) for name, properties in tests
                    for text in ([name] if kind == "name" else properties.get("LABELS", [])))
        if not found:
            yield f"{where} selects by {kind} '{pattern}', which fits no test"
    for name, properties in tests:
        if not properties.get("TIMEOUT"):
            yield f"'{name}' has no TIMEOUT"
        if "gpu" in properties.get("LABELS", []) and "SKIP_REGULAR_EXPRESSION" not in properties:
            yield f"'{name}' needs a GPU and has no SKIP_REGULAR_EXPRESSION"


def self_test():
    def test(name, **properties):
        return {"name": name, "properties": [{"name": k, "value": v} for k, v in properties.items()]}

    good = [test("Ttl keeps", LABELS=["unit"], TIMEOUT=1.0)]
    used = [("x", "label", "unit"), ("x", "name", "Ttl")]
    assert not list(faults(good, used))
    assert list(faults(good, [("x", "label", "nightly")]))
    assert list(faults(good, [("x", "name", "Nothing")]))
    assert list(faults([test("a", LABELS=["unit"])], []))
    assert list(faults([test("a", LABELS=["gpu"], TIMEOUT=1.0)], []))
    assert ("preset asan", "label", "static") in list(selectors(ROOT))


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    listed = subprocess.run(["ctest", "--test-dir", sys.argv[1], "--show-only=json-v1"],
                            check=True, capture_output=True, text=True).stdout
    found = list(faults(json.loads(listed)["tests"], selectors(ROOT)))
    print("\n".join(found))
    sys.exit(bool(found))


main()
