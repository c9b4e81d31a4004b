#!/usr/bin/env python3
"""Runs the campaign and writes its figures between the markers of docs/reliability.md:
scripts/reliability.py PROGRAM SEEDS. Exit status: the program's."""
import pathlib
import re
import subprocess
import sys

BEGIN, END = "<!-- campaign: begin -->", "<!-- campaign: end -->"


def processor():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*: (.+)$", info, re.M)
    return name.group(1) if name else "an unnamed processor"


def main():
    program, seeds = sys.argv[1], sys.argv[2]
    page = pathlib.Path(__file__).resolve().parent.parent / "docs" / "reliability.md"
    run = subprocess.run([program, "--policy", "all", "--seeds", seeds], text=True,
                         stdout=subprocess.PIPE, check=False)
    print(run.stdout)
    # B10's figures up to the matrix, the count of cells, and the table of all three sets.
    head = run.stdout[:run.stdout.index("\nTimes a fault struck")].strip()
    cells = re.search(r"^\d+ cells .*$", run.stdout, re.M).group(0)
    table = "\n".join(line for line in run.stdout.splitlines() if line.startswith("|"))
    figures = (f"`make reliability SEEDS={seeds}`, one core of {processor()}:\n\n"
               f"```\n{head}\n\n{cells}\n```\n\n{table}")
    text = page.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{figures}\n{END}{after}")
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
