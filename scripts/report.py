#!/usr/bin/env python3
"""Makes one self-contained page of what configurations measured.

report.py OUT.html RESULT.json... [--compile COMPILE.json]

RESULT.json: written by `configurations --out`. COMPILE.json: written by bench/compile_time.py. The page
has no script and loads nothing; it opens anywhere.
"""
import argparse
import collections
import html
import json
import math
import re
import statistics
import sys

AXES = ("staging", "slicing", "copy", "tag", "completion", "quarantine", "transport")
ONE_BLOCK = "one block"
NOISE = 0.03  # smaller differences are none
ABOUT = {
    "B-small": "gpt-oss-120b TP8, 8k",
    "B-mid": "Llama-3.1-8B TP1, 8k",
    "B-large": "Llama-3.1-70B TP8, 128k",
    "B-mla": "DeepSeek-V3, 32k",
    "B-state": "Nemotron-H-56B, 8k",
    "B-swa": "Gemma-3-27B, 32k",
    "B-worst": "Llama-3.1-8B TP8, one token a page",
    ONE_BLOCK: "one block, time to landed",
}
SAFE, DIGESTED, LESS = "#2563a8", "#0d8050", "#b9770e"
STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:1480px;padding:1.2em;color:#1b1f24}
h1{font-size:1.6em;margin:0}h2{margin:1.6em 0 .3em;border-bottom:2px solid #d0d7de}h3{margin:1.2em 0 .3em}
table{border-collapse:collapse;font-size:13px;margin:.4em 0}
td,th{padding:3px 8px;border-bottom:1px solid #e3e7eb;text-align:right;white-space:nowrap}
th{background:#f3f5f7;text-align:right;vertical-align:bottom}
td:first-child,th:first-child,td.l,th.l{text-align:left}
td.wrap{white-space:normal;min-width:250px}tr.default td{font-weight:600;background:#eef4fb}
.best{outline:2px solid #0d8050;outline-offset:-2px;font-weight:600}
.loses{color:#b3261e;font-weight:600}.even{color:#57606a}.note{color:#57606a;font-size:13px}
.tag{border-radius:3px;padding:0 5px;color:#fff;font-size:12px}
summary{cursor:pointer;font-weight:600;margin:.6em 0}svg{max-width:100%}
"""


def key_of(row):
    return tuple(row[a] for a in AXES)


class Group:
    """The configurations of one place: one result file, one carrier."""

    def __init__(self, title, rows, configurations):
        self.title = title
        self.all = configurations
        self.default = next((c for c in configurations if c["default"]), None)
        self.loads = [w for w in rows if w["kind"] == "workload"]

    def run(self, configuration, load):
        return configuration["runs"].get(load["workload"])

    def ratio(self, configuration, load):
        run = self.run(configuration, load)
        return run["to_default"] if run else None

    def default_run(self, load):
        """What the default did beside the others: its own run alone may have had better weather."""
        runs = [run for run in (self.run(c, load) for c in self.all) if run]
        if not runs:
            return None
        return {"gb_s": statistics.median(r["gb_s"] / r["to_default"] for r in runs),
                "p50_us": statistics.median(r["p50_us"] * r["to_default"] for r in runs)}

    def change(self, c):
        """What is different from the default, as axes and their policies."""
        return [a for a in AXES if c[a] != self.default[a]]

    def label(self, c):
        changed = [c[a] for a in self.change(c)]
        return ", ".join(changed) if changed else "the default"

    def best(self, load, never_silent):
        """The fastest of those that are faster than the default three times out of four; of what is
        within NOISE of it the one that changes least: with a hundred configurations the very first
        is luck as well. The default if there is none."""
        some = [c for c in self.all if c["never_silent"] == never_silent and self.run(c, load)
                and (c is self.default or self.run(c, load)["to_default_q1"] > 1)]
        if not some:
            return None
        top = max(self.ratio(c, load) for c in some)
        near = [c for c in some if self.ratio(c, load) >= (1 - NOISE) * top]
        return min(near, key=lambda c: (len(self.change(c)), -self.ratio(c, load)))


def load_groups(paths):
    groups, documents = [], []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        documents.append(document)
        rows = document["rows"]
        configurations = {}
        for row in rows:
            if row["kind"] == "configuration":
                configurations[row["id"]] = dict(row, runs={})
            elif row["kind"] == "run":
                configurations[row["id"]]["runs"][row["workload"]] = row
        places = collections.OrderedDict()
        for c in configurations.values():
            places.setdefault(c["carrier"], []).append(c)
        gpu = any(c["staging"] in ("PinnedHost", "Device") for c in configurations.values())
        for carrier, some in places.items():
            memory = "KV on GPU" if gpu else "KV in host memory"
            name = {"loopback": "both ranks in one process (Loopback)", "tcp": "UCX over tcp",
                    "posix": "UCX over shared memory"}[carrier]
            group = Group(f"{memory}, {name}", rows, some)
            if group.default:
                groups.append(group)
    return groups, documents


def text(value):
    return html.escape(str(value))


def colour(c):
    if not c["never_silent"]:
        return LESS
    return SAFE if "integrity_checked" in c["lacks"] else DIGESTED


def badge(c):
    if c["never_silent"]:
        word = "never silent" if "integrity_checked" in c["lacks"] else "never silent, digests"
    else:
        word = "can be silently wrong"
    return f'<span class="tag" style="background:{colour(c)}">{word}</span>'


def size_of(n):
    return f"{n / (1 << 20):.1f} MiB" if n < 10 << 20 else f"{n / (1 << 20):.0f} MiB"


def speed(run, load):
    if load["workload"] == ONE_BLOCK:
        return f'{run["p50_us"]:.0f} µs'
    return f'{run["gb_s"]:.2f} GB/s'


def spread(run):
    return run["to_default_q1"], run["to_default_q3"]


def choice_table(g):
    """For each workload: what to take, and where the default loses."""
    out = ["<table><tr><th>workload</th><th class=l>model</th><th>default</th>"
           "<th class=l>fastest that is never silent</th><th></th><th>default reaches</th>"
           "<th class=l>faster still, but can be silently wrong</th></tr>"]
    for load in g.loads:
        base = g.default_run(load)
        best = g.best(load, True)
        if not base or not best:
            continue
        ratio = g.ratio(best, load)
        if best is g.default:
            verdict, now, reach = "the default", "", '<span class="even">100 %</span>'
        else:
            verdict, now = text(g.label(best)), speed(g.run(best, load), load)
            reach = f'<span class="loses">{100 / ratio:.0f} %</span>'
        unsafe = g.best(load, False)
        more = ""
        if unsafe and g.ratio(unsafe, load) > 1.05 * max(ratio, 1):
            more = f"{text(g.label(unsafe))} ({g.ratio(unsafe, load) / max(ratio, 1):.2f} x)"
        out.append(f'<tr><td>{text(load["workload"])}</td>'
                   f'<td class=l>{text(ABOUT.get(load["workload"], ""))}</td>'
                   f'<td>{speed(base, load)}</td><td class=l>{verdict}</td>'
                   f'<td>{now}</td><td>{reach}</td>'
                   f'<td class=l>{more or "&ndash;"}</td></tr>')
    return "\n".join(out + ["</table>"])


def strip_plot(g):
    """Each configuration as a dot: how many times as fast as the default."""
    ratios = [g.ratio(c, load) for c in g.all for load in g.loads if g.run(c, load)]
    low = min(0.5, min(ratios)) * 0.93
    high = max(2.0, max(ratios)) * 1.07
    left, width, row, top = 96, 700, 52, 26
    height = top + row * len(g.loads) + 34

    def x(ratio):
        return left + width * (math.log(ratio) - math.log(low)) / (math.log(high) - math.log(low))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1120 {height}" width="1120" '
           f'height="{height}" font-family="system-ui,sans-serif" font-size="12">',
           f'<rect width="1120" height="{height}" fill="#fff"/>']
    bottom = height - 30
    for tick in (0.1, 0.25, 0.5, 0.7, 1, 1.4, 2, 3, 4, 8, 16, 32):
        if low < tick < high:
            stroke = ('stroke="#1b1f24" stroke-width="1.5"' if tick == 1 else 'stroke="#e3e7eb"')
            out.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top}" y2="{bottom}" '
                       f'{stroke}/><text x="{x(tick):.1f}" y="{bottom + 16}" '
                       f'text-anchor="middle" fill="#57606a">{tick:g} x</text>')
    out.append(f'<text x="{x(1):.1f}" y="{top - 8}" text-anchor="middle" font-weight="600">'
               "the default</text>")
    for i, load in enumerate(g.loads):
        middle = top + row * i + row / 2
        out.append(f'<text x="{left - 12}" y="{middle + 4}" text-anchor="end">'
                   f'{text(load["workload"])}</text>')
        dots = [c for c in g.all if g.run(c, load)]
        for k, c in enumerate(sorted(dots, key=lambda c: c["never_silent"])):
            y = middle + (k * 7 % 15 - 7) * 1.9
            out.append(f'<circle cx="{x(g.ratio(c, load)):.1f}" cy="{y:.1f}" r="3.4" '
                       f'fill="{colour(c)}" fill-opacity="0.55"><title>{text(g.label(c))}: '
                       f'{speed(g.run(c, load), load)}, {g.ratio(c, load):.2f} x'
                       "</title></circle>")
        best = g.best(load, True)
        if best:
            shown = g.default_run(load) if best is g.default else g.run(best, load)
            at = x(g.ratio(best, load))
            out.append(f'<circle cx="{at:.1f}" cy="{middle}" r="6" fill="none" '
                       f'stroke="{colour(best)}" stroke-width="2"/>'
                       f'<line x1="{at + 7:.1f}" x2="{left + width + 16}" y1="{middle}" '
                       f'y2="{middle}" stroke="{colour(best)}" stroke-dasharray="2 3"/>'
                       f'<text x="{left + width + 20}" y="{middle - 2}" fill="{colour(best)}">'
                       f'{text(g.label(best))}</text>'
                       f'<text x="{left + width + 20}" y="{middle + 13}" fill="#57606a">'
                       f'{g.ratio(best, load):.2f} x, {speed(shown, load)}</text>')
    out.append("</svg>")
    return "\n".join(out)


def shade(ratio):
    strength = min(abs(math.log(ratio)) / math.log(3), 1)
    red, green, blue = (13, 128, 80) if ratio > 1 else (179, 38, 30)
    return f"background:rgba({red},{green},{blue},{0.55 * strength:.2f})"


def cells(g, c, hints):
    out = []
    for load in g.loads:
        run = g.run(c, load)
        if not run:
            out.append("<td></td>")
            continue
        best = g.best(load, True) is c
        low, high = spread(run)
        hint = (f' title="{speed(run, load)}, p50 {run["p50_us"]:.0f} us, p99 {run["p99_us"]:.0f} us, '
                f'{low:.2f} to {high:.2f} x the default"') if hints else ""
        out.append(f'<td style="{shade(run["to_default"])}"{" class=best" if best else ""}{hint}>'
                   f'{run["to_default"]:.2f}</td>')
    return "".join(out)


def costs(g, c, compiled):
    block = c["runs"].get(ONE_BLOCK)
    latency = f'<td>{block["p50_us"]:.0f}</td><td>{block["p99_us"]:.0f}</td>' if block else \
        "<td></td><td></td>"
    cost = compiled.get(key_of(c))
    build = f'<td>{cost["seconds"]:.1f} s</td><td>{cost["text_bytes"] >> 10} KiB</td>' if cost \
        else "<td></td><td></td>"
    lacks = [guarantee for guarantee in c["lacks"] if guarantee != "integrity_checked"]
    lost = "no " + ", ".join(lacks).replace("_", " ") if lacks else ""
    return (f'{latency}<td>{size_of(c["staging_bytes"])}</td>{build}'
            f'<td class="l wrap">{badge(c)} {text(lost)}</td>')


def head(g, first):
    loads = "".join(f'<th>{text(load["workload"])}</th>' for load in g.loads)
    return (f"<tr><th>{first}</th>{loads}<th>block p50 µs</th><th>p99 µs</th><th>staging a rank</th>"
            "<th>compile</th><th>code</th><th class=l>guarantees</th></tr>")


def one_change_table(g, compiled):
    out = ["<table>", head(g, "instead of the default")]
    # Staging may bring a copy engine of its own.
    near = [c for c in g.all if len(g.change(c)) <= 1 or g.change(c) == ["staging", "copy"]]
    near.sort(key=lambda c: (AXES.index(g.change(c)[0]) if g.change(c) else -1))
    for c in near:
        changed = g.change(c)
        name = f"{changed[0]}: {g.label(c)}" if changed else "the default"
        out.append(f'<tr{"" if changed else " class=default"}><td>{text(name)}</td>{cells(g, c, True)}'
                   f"{costs(g, c, compiled)}</tr>")
    return "\n".join(out + ["</table>"])


def full_table(g, compiled):
    def middle(c):
        return statistics.median(run["to_default"] for run in c["runs"].values())
    out = ["<table>", head(g, "configuration")]
    for c in sorted(g.all, key=middle, reverse=True):
        name = ", ".join(c[a] for a in AXES[:6])
        out.append(f'<tr{" class=default" if c is g.default else ""}><td>{text(name)}</td>'
                   f"{cells(g, c, False)}{costs(g, c, compiled)}</tr>")
    return "\n".join(out + ["</table>"])


def page(groups, documents, compiled, compile_note):
    count = sum(len(g.all) for g in groups)
    out = ["<!doctype html><html lang=en><meta charset=utf-8>",
           "<meta name=viewport content='width=device-width'>",
           f"<title>B10 configurations</title><style>{STYLE}</style>",
           "<h1>Which B10 configuration?</h1>",
           f"<p>{count} combinations of policies moved the KV layouts of real models; every byte of "
           "every destination pool was checked after every transfer. <b>Find where your KV is, then "
           "your model's row: the fourth column is what to take.</b> Speeds are medians; what is "
           "compared is the ratio to the default, which ran in turn with each configuration; where nothing was "
           "faster three times out of four, the default stays. "
           f"<span class=tag style='background:{SAFE}'>never silent</span> no wrong byte is ever "
           f"reported as right; <span class=tag style='background:{DIGESTED}'>digests</span> nor "
           "one that memory or network changed; "
           f"<span class=tag style='background:{LESS}'>can be silently wrong</span> gives such a "
           "guarantee up, and is here to show what that would buy.</p><p class=note>"]
    out += [f'<a href="#g{i}">{text(g.title)}</a> ({len(g.all)}) &nbsp; '
            for i, g in enumerate(groups)]
    out.append("</p>")
    for i, g in enumerate(groups):
        out += [f'<h2 id="g{i}">{text(g.title)}</h2>',
                "<p>The default: <b>" + text(", ".join(g.default[a] for a in AXES)) + "</b>, "
                f"{len(g.all)} configurations.</p>", choice_table(g), strip_plot(g),
                "<h3>What one change does</h3>",
                "<p class=note>Speed as a multiple of the default's (outlined: the fastest that is "
                "never silent). Point at a cell for GB/s, p50, p99 and the quartiles.</p>",
                one_change_table(g, compiled),
                f"<details><summary>All {len(g.all)} configurations, by their median ratio</summary>",
                full_table(g, compiled), "</details>"]
    out.append("<h2>How it was measured</h2><ul>")
    for d in documents:
        out.append("<li>" + "<br>".join(
            f"<b>{k}</b> {text(d[k])}" for k in
            ("machine", "system", "commit", "date", "load", "command", "ucx", "lanes") if d[k]))
    loads = {load["workload"]: load for g in groups for load in g.loads}
    out.append("<li>Transfers: " + "; ".join(
        f'{text(n)} {load["bytes"] / (1 << 20):.1f} MiB in {load["spans"]} spans, '
        f'{load["repeats"]} times' for n, load in loads.items()) +
        ". Both ranks are in one process, a thread each. From the call until both ranks know. With "
        "fewer than 100 repeats p99 is the slowest.")
    out.append("<li>Staging a rank: as much as one transfer in each direction needs at full depth. "
               "Pools of GPU scratch come on top.")
    if compile_note:
        out.append(f"<li>{text(compile_note)}")
    return "\n".join(out + ["</ul></html>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("results", nargs="+")
    parser.add_argument("--compile")
    args = parser.parse_args()
    groups, documents = load_groups(args.results)
    if not groups:
        sys.exit("report.py: no group of configurations with a default to compare with")
    compiled, note = {}, ""
    if args.compile:
        with open(args.compile, encoding="utf-8") as file:
            document = json.load(file)
        note = document["what"]
        compiled = {key_of(row): row for row in document["rows"] if row["kind"] == "combination"}
    with open(args.out, "w", encoding="utf-8") as file:
        file.write(page(groups, documents, compiled, note))
    print(f"{args.out}: {sum(len(g.all) for g in groups)} configurations in {len(groups)} places")


if __name__ == "__main__":
    main()
