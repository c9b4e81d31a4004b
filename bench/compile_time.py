#!/usr/bin/env python3
"""Measures what B10 costs a compiler, and the code that comes out.

compile_time.py [--out FILE.json] [--compiler CXX]... [--repeats N]
                [--configurations PROGRAM] [--all]

P12: a source file that includes <b10/transceiver.hpp> and instantiates all of b10::HostTransceiver,
beside one that includes only the std, UCX, OpenSSL and system headers which that brings in.
With --configurations (the benchmark of that name): one combination of policies a source file; those
that differ from the default in at most one axis, or --all. Time: user and system seconds of the
compiler, the least of the repeats; code: text and read-only data of the object file.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDES = [f"-I{ROOT / name}" for name in ("include", "policies", "kernels")]
AXES = ("staging", "slicing", "copy", "tag", "completion", "quarantine", "transport")
HOST = "template class b10::BasicTransceiver<b10::staging::SharedHost<>, b10::tag::Hashed, " \
       "b10::completion::CopyEvent, b10::quarantine::Ttl<120>, b10::transport::Ucx>;\n"


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def ucx_flags():
    try:
        return run(["pkg-config", "--cflags", "ucx"]).split()
    except (OSError, subprocess.CalledProcessError):
        return []


def compile_once(compiler, flags, source, folder):
    """(seconds, object file)"""
    file, out = pathlib.Path(folder) / "one.cpp", pathlib.Path(folder) / "one.o"
    file.write_text(source, encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run([compiler, "-std=c++20", *flags, *INCLUDES, "-DB10_WITH_UCX", *ucx_flags(), "-c", str(file),
         "-o", str(out)])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime), out


def seconds_of(compiler, flags, source, repeats):
    with tempfile.TemporaryDirectory() as folder:
        return min(compile_once(compiler, flags, source, folder)[0] for _ in range(repeats))


def foreign_headers(compiler):
    """Every header that is not B10's and that a header of B10 includes, for the host reference."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "one.cpp"
        file.write_text("#include <b10/transceiver.hpp>\n", encoding="utf-8")
        listed = run([compiler, "-std=c++20", *INCLUDES, "-DB10_WITH_UCX", *ucx_flags(), "-M",
                      str(file)])
    found = set()
    for name in listed.replace("\\\n", " ").split():
        if "/b10/" in name:
            text = pathlib.Path(name).read_text(encoding="utf-8")
            found.update(re.findall(r"^\s*#\s*include\s*(<(?!b10/)[^>]+>)", text, re.M))
    return sorted(header for header in found if not header.startswith("<cuda"))


def p12(compiler, repeats):
    headers = "".join(f"#include {h}\n" for h in foreign_headers(compiler))
    b10 = "#include <b10/transceiver.hpp>\n"
    for flags in (["-fsyntax-only"], ["-O0"], ["-O2"]):
        alone = seconds_of(compiler, flags, headers, repeats)
        included = seconds_of(compiler, flags, b10, repeats)
        reference = seconds_of(compiler, flags, b10 + HOST, repeats)
        yield {"kind": "p12", "compiler": name_of(compiler), "flags": " ".join(flags),
               "headers_s": round(alone, 2), "included_s": round(included, 2),
               "reference_s": round(reference, 2), "included": round(included / alone, 2),
               "p12": round(reference / alone, 2)}


def code_bytes(file):
    """Text and read-only data, as `size` counts them."""
    return int(run(["size", str(file)]).splitlines()[1].split()[0])


def combinations(program, everything):
    """Those to compile: at most one axis away from a default of the same transport."""
    known = [json.loads(line) for line in run([program, "--list"]).splitlines()]
    chosen = {}
    for c in known:
        default = next(d for d in known if d["default"] and d["transport"] == c["transport"])
        if everything or sum(c[a] != default[a] for a in AXES) <= 1:
            chosen.setdefault(c["type"], c)
    return list(chosen.values())


def combination_rows(compiler, program, everything, repeats):
    for c in combinations(program, everything):
        source = ("#include <b10/v1.hpp>\ntemplate class " +
                  c["type"].replace("b10::PolicySet<", "b10::BasicTransceiver<", 1) + ";\n")
        with tempfile.TemporaryDirectory() as folder:
            runs = [compile_once(compiler, ["-O2"], source, folder) for _ in range(repeats)]
            yield {"kind": "combination", **{a: c[a] for a in AXES},
                   "seconds": round(min(r[0] for r in runs), 2), "text_bytes": code_bytes(runs[0][1])}


def name_of(compiler):
    return run([compiler, "--version"]).splitlines()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--compiler", action="append")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--configurations")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    compilers = args.compiler or ["g++"]
    rows = []

    def keep(more):
        for row in more:
            print(json.dumps(row), flush=True)
            rows.append(row)

    for compiler in compilers:
        keep(p12(compiler, args.repeats))
    if args.configurations:
        keep(combination_rows(compilers[0], args.configurations, args.all, args.repeats))
    if args.out:
        document = {
            "what": f"Compile time and code: one combination a source file that includes "
                    f"<b10/transceiver.hpp> and instantiates all of that transceiver, "
                    f"{name_of(compilers[0])} -O2; user and system seconds, the least of "
                    f"{args.repeats}; code is text and read-only data of the object file. "
                    f"Measured for those that differ from the default in one axis.",
            "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
            "commit": run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]).strip(),
            "command": " ".join(sys.argv), "rows": rows}
        pathlib.Path(args.out).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
