#!/usr/bin/env python3
"""Breaks one safety rule at a time in a copy of the tree and shows which test notices.

usage: scripts/mutants.py [NAME...]     all, or only those named. Exit 1 if one survives.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# name, file, what is there, what it becomes, test file, the test that must fail
MUTANTS = [
    ("registry", "include/b10/core/lane_services.hpp", "if (!registry_.reserve(all))",
     "if (!registry_.reserve(all) && false)", "safety", "S6 "),
    ("deadline fence", "include/b10/core/fence.hpp", "if (stopped_ == Reason::none) return;",
     "if (stopped_ == Reason::none || stopped_ == Reason::deadline) return;", "safety", "S9 "),
    ("RESULT after copy", "include/b10/core/receive_pipeline.hpp",
     "if (copy == CopyState::pending) return false;", "", "safety", "S2 "),
    ("grant check", "include/b10/core/lane_services.hpp",
     "if (auto* why = std::get_if<std::string>(&verdict)) throw Error(Reason::refused, *why);",
     "if (std::get_if<std::string>(&verdict))\n"
     "      return std::make_shared<GrantRecord>(t.control.request, std::make_shared<GrantState>(),"
     " std::vector<LocalSpan>{});", "bad_input", "C09 "),
    ("drop, not recycle", "include/b10/core/pen.hpp", "c.staging.drop(std::move(v));",
     "c.staging.recycle(std::move(v));", "safety", "S4 "),
    ("chunk identity", "include/b10/core/receive_pipeline.hpp", "if (!h || *h != want)",
     "if (!h)", "integrity", "another identity"),
    ("chunk length", "include/b10/core/receive_pipeline.hpp",
     "op.bytes() != wire::data_header_bytes + c.bytes ||", "", "integrity", "length"),
]


def run(name, file, old, new, test, expected):
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        for part in ("include", "policies", "tests"):
            shutil.copytree(ROOT / part, tree / part)
        target = tree / file
        text = target.read_text()
        if text.count(old) != 1:
            return f"BROKEN MUTANT: {file} holds its text {text.count(old)} times"
        target.write_text(text.replace(old, new))
        roots = [f"-I{tree / part}" for part in ("include", "policies", "tests")]
        program = tree / "test"
        subprocess.run(["g++", "-std=c++20", "-O1", "-w", *roots, tree / f"tests/{test}_test.cpp",
                        tree / "tests/support/main.cpp", "-o", program], check=True)
        try:
            done = subprocess.run([program], capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return "killed: the tests do not end any more"
        if done.returncode == 0:
            return "SURVIVED"
        # Catch wraps titles, so spaces are compared loosely.
        seen = " ".join(done.stdout.split())
        return f"killed by \"{expected.strip()}\"" if expected in seen else "KILLED BY ANOTHER TEST"


def main():
    wanted = sys.argv[1:]
    bad = 0
    for mutant in MUTANTS:
        if wanted and mutant[0] not in wanted:
            continue
        result = run(*mutant)
        bad += not result.startswith("killed")
        print(f"{mutant[0]:20} {result}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
