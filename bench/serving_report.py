#!/usr/bin/env python3
"""Turns the raw results of serving.py, and of dual_dedup.py, into docs/evaluation/serving.md and its plot.

Every figure between the marks comes from the JSON; nothing is typed in. Text outside of them is kept.
Bars that Quintet misses say "short".
"""
import argparse
import json
import statistics
from pathlib import Path
from xml.sax.saxutils import escape

import measure

MIB = 1 << 20
BEGIN, END = "<!-- measured: from here -->", "<!-- measured: to here -->"
FIGURES = (("iops", "IOPS", 0), ("mb_per_s", "MB/s", 0), ("p99_us", "p99, us", 0), ("wall_s", "s", 3),
           ("read_per_request", "KiB read for 4 KiB", 1), ("cpu_per_request_us", "CPU for 4 KiB, us", 0),
           ("rss_bytes", "peak RSS, MiB", 0), ("written_per_given", "bytes written a byte", 2))
SCALES = {"rss_bytes": 1 / MIB, "read_per_request": 1 / 1024}
OWN = ("quintet", "quintet-plain")


def main():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("serving", help="JSON of serving.py")
    parser.add_argument("mounts", nargs="?", help="JSON of serve_ro.py: for the mounts of restic and borg")
    parser.add_argument("--out", default=str(checkout / "docs" / "evaluation"))
    args = parser.parse_args()
    result = json.loads(Path(args.serving).read_text())
    mounts = json.loads(Path(args.mounts).read_text()) if args.mounts else None
    out, groups = Path(args.out), grouped(result["records"])
    page = out / "serving.md"
    old = page.read_text() if page.exists() else f"# Serving, side by side\n\n{BEGIN}\n{END}\n"
    if BEGIN not in old:
        old = old.rstrip() + f"\n\n{BEGIN}\n{END}\n"
    before, after = old.split(BEGIN)[0], old.split(END)[1]
    body = measured(result, mounts, groups).replace(str(measure.bench_dir()), "$QUINTET_BENCH_DIR")
    page.write_text(f"{before}{BEGIN}\n{body}\n{END}{after}")
    (out / "serving.svg").write_text(plot(groups))


def grouped(records):
    """{test: {tool: {figure: (median, least, most)}}} of the runs that succeeded."""
    runs = {}
    for record in records:
        if record["ok"]:
            if record.get("given_bytes"):
                record["written_per_given"] = record["written_bytes"] / record["given_bytes"]
            runs.setdefault(record["test"], {}).setdefault(record["tool"], []).append(record)
    return {test: {tool: {key: spread([r[key] for r in of if r.get(key) is not None]) for key in of[0]
                          if isinstance(of[0][key], (int, float)) and not isinstance(of[0][key], bool)}
                   for tool, of in tools.items()} for test, tools in runs.items()}


def spread(values):
    return statistics.median(values), min(values), max(values)


def bars(groups, mounts):
    """(title, wanted, measured, passed)"""
    def get(test, tool, figure):
        return groups.get(test, {}).get(tool, {}).get(figure, (None,))[0]

    def against(test, figure, other, factor, own="quintet", other_test=None, lower=False):
        ours, theirs = get(test, own, figure), get(other_test or test, other, figure)
        if not ours or not theirs:
            return
        ratio, sign = ours / theirs, "<=" if lower else ">="
        passed = ratio <= factor if lower else ratio >= factor
        yield f"{test}, {own}" + (", p99" if figure == "p99_us" else ""), f"{sign} {factor:g}x {other}", f"{ratio:.2f}x", passed

    for own in OWN:
        for depth in (1, 16, 32):
            yield from against(f"cached-qd{depth}", "iops", "nbdkit-file", 1.0, own)
            yield from against(f"cached-qd{depth}", "iops", "qemu-nbd", 1.1, own)
            yield from against(f"cached-qd{depth}", "p99_us", "nbdkit-file", 1.0, own, lower=True)
            yield from against(f"cold-qd{depth}", "iops", "raw-device", 0.6, own)
            yield from against(f"cold-qd{depth}", "iops", "nbdkit-file", 0.9, own)
        for data, sequential in (("incompressible", 0.95), ("half", 0.9)):
            for depth in (1, 16, 32):
                yield from against(f"imported-{data}-qd{depth}", "iops", "nbdkit-file", 0.9, own)
            yield from against(f"read-imported-{data}", "mb_per_s", "nbdkit-file", sequential, own)
            yield from against(f"read-{data}", "mb_per_s", "nbdkit-file", 0.8, own)
            yield from against(f"write-{data}", "mb_per_s", "nbdkit-file", 0.6, own)
            yield from against(f"read-cold-{data}", "mb_per_s", "nbdkit-file", sequential, own, f"device-read-{data}")
        yield from against("write-qd16", "iops", "nbdkit-file", 1.0, own)
        yield from against("write-qd16-flush32", "iops", "qemu-nbd-qcow2", 1.0, own)
        for state, variant in (("cold", "tier"), ("cached", "tier"), ("cached", "policy")):
            bare, other = (get(f"costs-{state}-{name}", own, "iops") for name in ("bare", variant))
            if bare and other:
                title = f"{state} random reads with a {variant}, {own}"
                yield title, ">= 0.97x without", f"{other / bare:.2f}x", other / bare >= 0.97
        for figure, wanted, limit, unit in (("wall_s", "< 50 ms", 0.05, 1e3), ("stored_bytes", "< 64 KiB", 65536, 1 / 1024)):
            if (value := get("clone-1TiB", own, figure)) is not None:
                yield f"clone of 1 TiB, {own}", wanted, f"{value * unit:.1f}", value < limit
        if (rss := get("hammer-50GiB", own, "rss_bytes")) is not None:
            limit = get("hammer-50GiB", own, "budget_bytes")
            yield f"memory, 50 GiB hammered, {own}", "<= 1.25x the budget", f"{rss / limit:.2f}x", rss <= 1.25 * limit
    if mounts:
        of = {(r["tool"], r["test"]): r["iops"] for r in mounts["records"] if r["ok"] and "iops" in r}
        for tool in ("restic-mount", "borg-mount"):
            rival, ours = of.get((tool, "mount-qd1")), get("cached-qd1", "quintet", "iops")
            if rival and ours:
                yield f"random reads against {tool}", ">= 500x", f"{ours / rival:.0f}x", ours / rival >= 500


def measured(result, mounts, groups):
    m = result["machine"]
    lines = [f"- Machine: {m['cpu']}, {m['cores']} cores, {m['memory_bytes'] / 2**30:.0f} GiB memory, Linux {m['kernel']}, "
             f"{m['mount_options']}",
             f"- Device of {result['mib']} MiB; {result['rounds']} interleaved rounds, {result['seconds']} s each; {result['date']}",
             "- " + "; ".join(f"{name}: {version}" for name, version in result["versions"].items()),
             f"- To regenerate: `{result['command']}`, `bench/serving_report.py SERVING.json [SERVE_RO.json]`"]
    rows = ["| bar | wanted | measured | |", "|---|---|---|---|"]
    rows += [f"| {t} | {w} | {v} | {'PASS' if ok else 'short'} |" for t, w, v, ok in bars(groups, mounts)]
    sections = ["\n".join(lines), "## Against the bars", "\n".join(rows), "![Requests a second](serving.svg)", "## All figures"]
    sections += [f"**{test}**\n\n" + table(tools) for test, tools in groups.items()]
    failed = [r for r in result["records"] if not r["ok"]]
    if failed:
        sections += ["## Runs that failed", "\n".join(f"- {r['tool']} {r['test']}: `{r['error'].strip()[-200:]}`" for r in failed)]
    return "\n\n".join(sections)


def table(tools):
    used = [f for f in FIGURES if any(f[0] in figures for figures in tools.values())]
    rows = ["| server | " + " | ".join(title for _, title, _ in used) + " |", "|---" * (len(used) + 1) + "|"]
    for tool, figures in tools.items():
        cells = []
        for key, _, digits in used:
            scale = SCALES.get(key, 1)
            of = figures.get(key)
            cells.append(f"{of[0] * scale:,.{digits}f} [{of[1] * scale:,.{digits}f}..{of[2] * scale:,.{digits}f}]" if of else "")
        rows.append(f"| {tool} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def plot(groups):
    """A panel for each test, a bar for each server; every panel has its own scale."""
    width, label, row, y, out = 760, 130, 18, 10, []
    for test, tools in groups.items():
        key = next((k for k in ("iops", "mb_per_s") if any(k in f for f in tools.values())), None)
        if not key:
            continue
        most = max(f[key][2] for f in tools.values() if key in f)
        out.append(f'<text x="10" y="{y + 16}" font-weight="bold">{escape(test)} ({"requests/s" if key == "iops" else "MB/s"})</text>')
        y += 28
        for tool, figures in sorted(tools.items(), key=lambda item: -item[1].get(key, (0,))[0]):
            if key not in figures:
                continue
            middle, least, longest = (v * (width - label - 110) / most for v in figures[key])
            colour = "#c2410c" if tool in OWN else "#64748b"
            out.append(f'<text x="{label - 6}" y="{y + 13}" text-anchor="end">{escape(tool)}</text>'
                       f'<rect x="{label}" y="{y + 2}" width="{middle:.1f}" height="{row - 4}" fill="{colour}"/>'
                       f'<line x1="{label + least:.1f}" x2="{label + longest:.1f}" y1="{y + 9}" y2="{y + 9}" stroke="#000"/>'
                       f'<text x="{label + longest + 6:.1f}" y="{y + 13}">{figures[key][0]:,.0f}</text>')
            y += row
        y += 8
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" font-family="sans-serif" font-size="12">\n'
            '<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(out) + "\n</svg>\n")


if __name__ == "__main__":
    main()
