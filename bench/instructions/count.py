#!/usr/bin/env python3
"""P8: instructions for each chunk of a WRITE over Loopback, by B10 and by the same protocol written by hand.

count.py PROGRAM [--few N] [--many N]     PROGRAM: `instructions`, built with -O2 -g1. Needs valgrind.

Counts a WRITE of few chunks and one of many; their difference is what chunks cost, without the set-up.
"""
import argparse
import re
import subprocess
import tempfile

COPIES = re.compile(r"memcpy|memmove|past_cache|emmintrin|avx[0-9a-z]*intrin")


def count(program, how, chunks):
    """(all, copies) of one WRITE [instructions]"""
    function = "by_b10" if how == "b10" else "by_hand"
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["valgrind", "--tool=callgrind", f"--toggle-collect=*{function}*",
                        f"--callgrind-out-file={file.name}", program, how, str(chunks)],
                       check=True, capture_output=True)
        text = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", file.name],
                              check=True, capture_output=True, text=True).stdout
    total = copies = 0
    for line in text.splitlines():
        match = re.match(r"\s*([\d,]+) \(\s*[\d.]+%\)\s+(.*)", line)
        if not match:
            continue
        n = int(match[1].replace(",", ""))
        if match[2].startswith("PROGRAM TOTALS"):
            total = n
        elif COPIES.search(match[2].split(" [")[0].split(":")[0]) or "memcpy" in match[2][:90]:
            copies += n
    return total, copies


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--few", type=int, default=256)
    parser.add_argument("--many", type=int, default=1280)
    args = parser.parse_args()
    print("| a chunk of 16 KiB | instructions | of which copies | all else |\n|---|---|---|---|")
    rest = {}
    for how in ("b10", "by-hand"):
        few, many = count(args.program, how, args.few), count(args.program, how, args.many)
        total, copies = ((b - a) / (args.many - args.few) for a, b in zip(few, many))
        rest[how] = total - copies
        print(f"| {how} | {total:.0f} | {copies:.0f} | {total - copies:.0f} |")
    print(f"\nB10 executes {rest['b10'] - rest['by-hand']:.0f} instructions a chunk more than the same "
          f"protocol by hand, {rest['b10'] / rest['by-hand']:.2f} times as many beside the copies.")


if __name__ == "__main__":
    main()
