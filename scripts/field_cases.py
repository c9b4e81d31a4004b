#!/usr/bin/env python3
"""The field cases (failures that others have met) and the tests that carry their numbers.

usage: scripts/field_cases.py           prints the table of docs/reliability/field-cases.md
       scripts/field_cases.py --check   names cases without a test and without a reason; exits 1 if there is one
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# number: (what went wrong elsewhere, how titles begin of tests that keep the rule under another name, or why there is
# no test)
CASES = {
    1: ("pages reused while a cancelled write is still under way", ()),
    2: ("a wide id folded into a narrow tag", ()),
    3: ("the first of several failed writers frees the pages of all", ()),
    4: ("pages read before the kernel that fills them has ended", ()),
    5: ("a lost notification is waited for for ever", ()),
    6: ("lists of a windowed group taken for suffixes", ("R17 ", "R18 ")),
    7: ("prefix reuse aligned by count instead of position", ("R11 ", "R15 ", "R16 ")),
    8: ("a message half received when its sender dies", ()),
    9: ("failed, made-up or replayed references end in data", ()),
    10: ("quarantine without a way back; deadlines that run while queueing", ()),
    11: ("two nodes with one identity", ()),
    12: ("ids taken from clients, twice or empty", ()),
    14: ("local ids used as wire ids", ()),
    15: ("receives that match more than their own tag", ()),
    17: ("a peer restarts at its address and its old state stays", ()),
    18: ("a fleet that fails after one side was replaced", ()),
    20: ("a slot number as identity of side data", ("AUX is told by its identity",)),
    21: ("addresses of one process followed in another", ()),
    23: ("deferred work on pages that have gone", ()),
    24: ("two sides with clocks but no common expiry", ()),
    26: ("release taken for abort", ()),
    27: ("a late callback into what a timeout has freed", ()),
    29: ("completion inferred from the order of arrival", ()),
    30: ("completions matched by position", ()),
    32: ("announced read as complete", ("R9 ", "R10 ")),
    33: ("part of a load published before all of it is there", ()),
    35: ("control messages dropped beyond a size", ()),
    36: ("staging that is never given back", ()),
    38: ("ranks with nothing to send are waited for", ("Over all senders each byte",)),
    39: ("the deadline looked at before what has arrived", ()),
    41: ("one silent peer stops all others", ()),
    42: ("cleaning up only when there is new work", ()),
    44: ("a deadline that progress moves", ()),
    45: ("cancel at any step", ()),
    47: ("a send that nobody receives", ()),
    48: ("closed, though the last message was there", ()),
    50: ("events that come twice end the process", ()),
    51: ("guarantees that depend on an endpoint option", ()),
    53: ("in progress for ever with a stuck peer", ()),
    54: ("memory of a dead peer stays mapped", ()),
    56: ("layouts that differ, unnoticed", ("R34 a difference",)),
    57: ("block sizes that differ, unnoticed", ("R34 a mismatch",)),
    59: ("equal shares assumed of unequal writers", ("A rank talks to",)),
    60: ("an impossible pair found by its first request", ()),
    62: ("a block sent twice at the edge of a chunk", ("R13 ", "R21 ")),
    63: ("null blocks and groups of other sizes", ("R18 windowed groups", "R18 a windowed group")),
    65: ("unbounded batches of tiny pieces", ()),
    66: ("32-bit offsets and sums", ()),
    68: ("a shorter or longer message taken for the whole", ()),
    69: ("requests larger than the staging; staging that fills up", ()),
    71: ("memory that is registered but not usable", ()),
    72: ("GPU pools of several handles",
         "needs a GPU; only kernels and copies touch KV memory, never the transport"),
    74: ("two clocks in one subtraction", ()),
    75: ("one time limit with two meanings", ("R32 ",)),
    77: ("shutdown that waits for the peer", ()),
    78: ("handles that nobody frees", ()),
    80: ("settings that both sides must share, checked by none", ()),
    81: ("versions that differ fail late", ()),
    83: ("failures that no counter names", ()),
    84: ("corruption that nothing sees", ("One bit changed in any frame",)),
    86: ("references without an owner", ()),
    87: ("habits of one slice in a protocol of many", ("R8 ", "R12 ", "R20 ", "R27 ")),
}


def titles():
    """(file, title) of each test."""
    for path in sorted((ROOT / "tests").rglob("*_test.c*")):
        for case in re.findall(r'TEST_CASE(?:_SIG)?\(\s*"((?:[^"\\]|\\.|"\s*")*)"', path.read_text()):
            yield path.relative_to(ROOT / "tests").as_posix(), re.sub(r'"\s*"', "", case)


def numbered(title):
    """The case numbers at the start of a title, which may begin with others: "S7 C18 two processes"."""
    words = re.match(r"((?:[A-Z]\d+ )*)", title)[1].split()
    return [int(w[1:]) for w in words if w[0] == "C"]


def rows():
    """(number, what, tests under the number, tests of the same rule, reason)"""
    tests = list(titles())
    for number, (what, also) in CASES.items():
        own = [t for t in tests if number in numbered(t[1])]
        reason = also if isinstance(also, str) else ""
        rules = [] if reason else [t for t in tests if also and t[1].startswith(also) and t not in own]
        yield number, what, own, rules, reason


def main():
    if sys.argv[1:] == ["--check"]:
        missing = [f"C{n:02} {what}: no test carries the number" for n, what, own, rules, reason in rows()
                   if not (own or rules or reason)]
        unknown = sorted({n for _, title in titles() for n in numbered(title)} - set(CASES))
        missing += [f"C{n:02}: a test carries it, but it is not in this list" for n in unknown]
        print("\n".join(missing) or f"field cases: {len(CASES)} of them, each tested or explained")
        return 1 if missing else 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    print("| case | what went wrong elsewhere | here |\n|---|---|---|")
    for number, what, own, rules, reason in rows():
        shown = [f"{title} (`{file}`)" for file, title in own]
        shown += [f"by rule: {title} (`{file}`)" for file, title in rules]
        print(f"| C{number:02} | {what} | {'<br>'.join(shown) or reason} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
