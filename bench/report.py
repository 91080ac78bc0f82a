#!/usr/bin/env python3
"""Turns the raw results of ingest.py and serve_ro.py into the evaluation page and its plot.

Every figure on the page comes from the JSON; nothing is typed in. Bars that Quintet misses say "short".
"""
import argparse
import json
from pathlib import Path
from xml.sax.saxutils import escape

import measure

MIB = 1 << 20
PART_TITLES = {"image": "Image", "tree": "Tree"}
OP_TITLES = {"first": "first backup", "unchanged": "second backup, unchanged", "forced": "second backup, re-read",
             "changed": "backup after one changed file", "restore": "restore", "scan": "metadata scan (find)"}


def main():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ingest", help="JSON of ingest.py")
    parser.add_argument("serve", nargs="?", help="JSON of serve_ro.py")
    parser.add_argument("--out", default=str(checkout / "docs" / "evaluation"), help="directory of ingest.md and ingest.svg")
    args = parser.parse_args()
    ingest = json.loads(Path(args.ingest).read_text())
    serve = json.loads(Path(args.serve).read_text()) if args.serve else None
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    # Error messages may quote paths: the page names no directory of the machine.
    (out / "ingest.md").write_text(page(ingest, serve).replace(str(measure.bench_dir()), "$QUINTET_BENCH_DIR"))
    (out / "ingest.svg").write_text(plot(measure.summarise(ingest["records"])))
    print(out / "ingest.md", out / "ingest.svg")


def page(ingest, serve):
    summary = measure.summarise(ingest["records"])
    iops = measure.summarise_iops(serve["records"]) if serve else {}
    bars = ingest_bars(summary) + serve_bars(iops)
    sections = ["# Ingest, side by side", introduction(ingest, serve), "## Against the bars", bar_table(bars),
                "![Seconds of every tool](ingest.svg)"]
    for part in ("image", "tree"):
        for op in (*OP_TITLES,):
            if tools := summary.get((part, op)):
                sections += [f"## {PART_TITLES[part]}: {OP_TITLES[op]}", op_table(tools, ingest["corpus"][part]["bytes"])]
    if iops:
        sections += ["## Random 4 KiB reads of a backed-up image", iops_table(iops)]
    failed = [r for r in ingest["records"] + (serve["records"] if serve else []) if not r["ok"]]
    if failed:
        sections += ["## Runs that failed", "\n".join(
            f"- {r['tool']} {r.get('part', '')} {r.get('op') or r.get('test')}: `{r['error'].strip()[-200:]}`" for r in failed)]
    return "\n\n".join(sections) + "\n"


def introduction(ingest, serve):
    m, corpus = ingest["machine"], ingest["corpus"]
    lines = [f"- Machine: {m['cpu']}, {m['cores']} cores, {m['memory_bytes'] / 2**30:.0f} GiB memory, Linux {m['kernel']}, "
             f"{m['mount_options']}"]
    if "tree" in corpus:
        lines.append(f"- Tree: {corpus['tree']['files']:,} files, {corpus['tree']['bytes']:,} bytes, parts of /usr")
    if "image" in corpus:
        lines.append(f"- Image: ext4, {corpus['image']['bytes']:,} bytes, {corpus['image']['allocated']:,} allocated")
    lines.append(f"- Date: {ingest['date']}; {ingest['rounds']} interleaved rounds; page cache warm")
    lines.append("- Versions: " + "; ".join(f"{name}: {version}" for name, version in ingest["versions"].items()))
    if serve:
        lines.append("- Servers: " + "; ".join(f"{name}: {version}" for name, version in serve["versions"].items()))
    lines += [f"- {name}: {note}" for name, note in ingest["notes"].items()]
    others = [r["other_cpu_s"] / r["wall_s"] for r in ingest["records"] if r["ok"]]
    lines.append(f"- Other processes used {sum(others) / max(1, len(others)):.2f} cores on average while the tools ran")
    commands = [c["command"] for c in (ingest, serve) if c]
    return "\n".join(lines) + "\n\nTo regenerate: `" + "`, `".join(commands + ["bench/report.py INGEST.json SERVE.json"]) + \
        "`. Seconds are the median of the rounds [min..max]; throughput counts the size of the source; RSS is the largest " \
        "process, the worst round; stored is the sum of file sizes in the repository."


def op_table(tools, source_bytes):
    best = measure.fastest_peer(tools)
    rows = ["| tool | seconds | MB/s | vs fastest peer | sync after, s | peak RSS, MiB | stored, MB |", "|---|---|---|---|---|---|---|"]
    for name, f in sorted(tools.items(), key=lambda item: item[1]["median_s"]):
        speed = f"{best[1] / f['median_s']:.2f}x" if best else ""
        stored = f"{f['stored_bytes'] / 1e6:.1f}" if f["stored_bytes"] else ""
        rows.append(f"| {name} | {f['median_s']:.2f} [{f['min_s']:.2f}..{f['max_s']:.2f}] | "
                    f"{source_bytes / 1e6 / f['median_s']:.0f} | {speed} | {f['sync_s']:.2f} | {f['rss_bytes'] / MIB:.0f} | {stored} |")
    return "\n".join(rows)


def iops_table(iops):
    rows = ["| test | tool | IOPS | runs | peak RSS, MiB |", "|---|---|---|---|---|"]
    for (test, tool), f in sorted(iops.items()):
        rows.append(f"| {test} | {tool} | {f['median']:,.0f} [{f['min']:,.0f}..{f['max']:,.0f}] | {f['runs']} | {f['rss_bytes'] / MIB:.0f} |")
    return "\n".join(rows)


def bar_table(bars):
    rows = ["| bar | wanted | measured | |", "|---|---|---|---|"]
    for title, wanted, measured, passed in bars:
        verdict = "no data" if passed is None else "PASS" if passed else "short"
        rows.append(f"| {title} | {wanted} | {measured} | {verdict} |")
    return "\n".join(rows)


def ingest_bars(summary):
    """(title, wanted, measured, passed or None when a side is missing)"""
    def speed(part, op, factor):
        tools = summary.get((part, op), {})
        title, wanted = f"{part}: {OP_TITLES[op]}", f">= {factor:g}x the fastest peer"
        best = measure.fastest_peer(tools)
        if not best or "quintet" not in tools:
            return title, wanted, "", None
        ratio = best[1] / tools["quintet"]["median_s"]
        return title, wanted, f"{ratio:.2f}x {best[0]}", ratio >= factor

    return [speed("image", "first", 3), speed("tree", "first", 3), speed("image", "unchanged", 1), speed("tree", "unchanged", 1),
            speed("image", "forced", 5), speed("tree", "forced", 5), changed_bar(summary), speed("image", "restore", 2),
            *restore_bars(summary), *(stored_bar(summary, part) for part in ("image", "tree")), rss_bar(summary)]


def changed_bar(summary):
    tools, scan = summary.get(("tree", "changed"), {}), summary.get(("tree", "scan"), {}).get("find")
    title, wanted = "tree: one changed file", "< 2 s + metadata scan"
    if not scan or "quintet" not in tools:
        return title, wanted, "", None
    own, limit = tools["quintet"]["median_s"], 2 + scan["median_s"]
    return title, f"{wanted} = {limit:.2f} s", f"{own:.2f} s", own < limit


def restore_bars(summary):
    tools = summary.get(("tree", "restore"), {})
    best, own, tar = measure.fastest_peer(tools), tools.get("quintet"), tools.get("tar")
    peers = ("tree: restore", "faster than every peer")
    plain = ("tree: restore", "<= 1.1x tar -x")
    yield (*peers, f"{best[1] / own['median_s']:.2f}x {best[0]}", own["median_s"] < best[1]) if own and best else (*peers, "", None)
    yield (*plain, f"{own['median_s'] / tar['median_s']:.2f}x", own["median_s"] <= 1.1 * tar["median_s"]) if own and tar else (*plain, "", None)


def stored_bar(summary, part):
    tools = summary.get((part, "first"), {})
    peers = [(tools[name]["stored_bytes"], name) for name in measure.PEERS if name in tools]
    title, wanted = f"{part}: stored after the first backup", "<= smallest peer + 2 %"
    if not peers or "quintet" not in tools:
        return title, wanted, "", None
    smallest, own = min(peers), tools["quintet"]["stored_bytes"]
    return title, wanted, f"{100 * (own / smallest[0] - 1):+.1f} % of {smallest[1]}", own <= 1.02 * smallest[0]


def rss_bar(summary):
    peaks = [(tools["quintet"]["rss_bytes"], f"{part} {op}") for (part, op), tools in summary.items() if "quintet" in tools]
    title, wanted = "peak RSS, every operation", "<= 512 MiB"
    return (title, wanted, f"{max(peaks)[0] / MIB:.0f} MiB ({max(peaks)[1]})", max(peaks)[0] <= 512 * MIB) if peaks else (title, wanted, "", None)


def serve_bars(iops):
    def against(test, other_test, other, factor):
        own, rival = iops.get((test, "quintet")), iops.get((other_test, other))
        title, wanted = f"4 KiB reads, {test}", f">= {factor:g}x {other}"
        if not own or not rival:
            return title, wanted, "", None
        ratio = own["median"] / rival["median"]
        return title, wanted, f"{ratio:.2f}x", ratio >= factor

    return [against("nbd-qd32", "nbd-qd32", "nbdkit-file", 0.5), against("nbd-qd1", "mount-qd1", "restic-mount", 100),
            against("nbd-qd1", "mount-qd1", "borg-mount", 100)]


def plot(summary):
    """One panel for each operation, one bar for each tool, seconds; every panel has its own scale."""
    panels = [(part, op) for part in ("image", "tree") for op in OP_TITLES if op != "scan" and (part, op) in summary]
    width, label, row, top = 760, 120, 18, 30
    out, y = [], 10
    for part, op in panels:
        tools = sorted(summary[part, op].items(), key=lambda item: item[1]["median_s"])
        longest = max(f["max_s"] for _, f in tools)
        scale = (width - label - 110) / longest
        out.append(f'<text x="10" y="{y + 16}" font-weight="bold">{PART_TITLES[part]}: {escape(OP_TITLES[op])} (s)</text>')
        y += top
        for name, f in tools:
            colour = "#c2410c" if name.startswith("quintet") else "#64748b" if name in measure.PEERS else "#cbd5e1"
            mid = y + row / 2
            out.append(f'<text x="{label - 6}" y="{mid + 4}" text-anchor="end">{escape(name)}</text>'
                       f'<rect x="{label}" y="{y + 2}" width="{f["median_s"] * scale:.1f}" height="{row - 4}" fill="{colour}"/>'
                       f'<line x1="{label + f["min_s"] * scale:.1f}" x2="{label + f["max_s"] * scale:.1f}" y1="{mid}" y2="{mid}" stroke="#000"/>'
                       f'<text x="{label + f["max_s"] * scale + 6:.1f}" y="{mid + 4}">{f["median_s"]:.2f}</text>')
            y += row
        y += 8
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(out) + "\n</svg>\n")


if __name__ == "__main__":
    main()
