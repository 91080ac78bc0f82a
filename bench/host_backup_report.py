#!/usr/bin/env python3
"""Writes docs/evaluation/host-backup.md and host-backup.svg from the results of host_backup.py, with its bars."""
import argparse
import json
import statistics
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

COLOURS = {"quintet": "#1b6ca8", "quintet-tree": "#7fb3d5", "quintet-foreground": "#a9cce3", "restic": "#d68910", "borg": "#a04000", "kopia": "#7d6608"}


def rows(records):
    """A row for each overlap and tool: medians of the rounds."""
    keys = [key for key, value in records[0].items() if isinstance(value, (int, float)) and key not in ("round", "overlap")]
    cells = sorted({(record["overlap"], list(COLOURS).index(record["tool"])) for record in records})
    for overlap, number in cells:
        tool = list(COLOURS)[number]
        runs = [record for record in records if (record["overlap"], record["tool"]) == (overlap, tool)]
        yield {"overlap": overlap, "tool": tool, **{key: statistics.median(run[key] for run in runs) for key in keys}}


def verdict(is_met):
    return "met" if is_met else "**short**"


def page(results):
    table = list(rows(results["records"]))
    machine, first = results["machine"], table[0]
    lines = [
        "# Backups beside a web server", "",
        textwrap.fill(f"Made by `{results['command']}` and `bench/host_backup_report.py`; `bench/host_backup.py --help` says what is measured. {results['date'][:10]}, "
        f"Linux {machine['kernel']}, {machine['cores']} processors ({machine['cpu']}), a disk with arms in real time "
        f"({round(first['total_bytes'] / 2**20)} files of 1 MiB, ext4), rounds: {1 + max(r['round'] for r in results['records'])}. {results['note']}", 118, break_on_hyphens=False, break_long_words=False), "",
        "![Device reads saved, and latencies](host-backup.svg)", "",
        "| overlap | tool | seconds | in memory before | device reads saved | hot set kept | p50 alone, beside | p99 alone, beside | requests beside |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in table:
        lines.append(
            f"| {row['overlap']} % | {row['tool']} | {row['seconds']:.0f} | {100 * row['cached_share']:.0f} % | {100 * row['saved_share']:.0f} % | "
            f"{100 * row['hot_kept_share']:.0f} % | {row['p50_alone_ms']:.0f}, {row['p50_beside_ms']:.0f} ms ({row['p50_beside_ms'] / row['p50_alone_ms']:.2f}) | "
            f"{row['p99_alone_ms']:.0f}, {row['p99_beside_ms']:.0f} ms ({row['p99_beside_ms'] / row['p99_alone_ms']:.2f}) | {row['requests_beside']:.0f} |")
    ours = [row for row in table if row["tool"] == "quintet"]
    lines += ["", "Bars of `quintet backup --background`, at each overlap:", "", "| bar | " + " | ".join(f"{row['overlap']} %" for row in ours) + " |", "|---|" + "---|" * len(ours)]
    bars = [
        ("saved within 10 points of what was in memory", lambda row: row["saved_share"] >= row["cached_share"] - 0.1),
        ("p99 at most 1.1 x", lambda row: row["p99_beside_ms"] <= 1.1 * row["p99_alone_ms"]),
        ("95 % of the hot set kept", lambda row: row["hot_kept_share"] >= 0.95),
    ]
    lines += [f"| {name} | " + " | ".join(verdict(is_met(row)) for row in ours) + " |" for name, is_met in bars]
    return "\n".join(lines) + "\n"


def plot(results):
    """For each overlap and tool two bars: device reads saved in percent, and p99 beside against alone (1 is 20 units)."""
    table, out, y = list(rows(results["records"])), [], 40
    out.append('<text x="150" y="20">device reads saved (line: in memory before), percent</text><text x="520" y="20">p99 beside a backup, against alone (line: 1.1)</text>')
    for row in table:
        colour = COLOURS[row["tool"]]
        out.append(f'<text x="10" y="{y + 12}">{row["overlap"]} % {escape(row["tool"])}</text>')
        out.append(f'<rect x="150" y="{y}" width="{max(0, 300 * row["saved_share"]):.0f}" height="14" fill="{colour}"/>')
        out.append(f'<rect x="{150 + 300 * row["cached_share"]:.0f}" y="{y - 2}" width="2" height="18"/>')
        out.append(f'<rect x="520" y="{y}" width="{min(300, 60 * row["p99_beside_ms"] / row["p99_alone_ms"]):.0f}" height="14" fill="{colour}"/>')
        out.append(f'<rect x="{520 + 66}" y="{y - 2}" width="2" height="18"/>')
        y += 22
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="840" height="{y + 10}" font-family="sans-serif" font-size="12">\n'
            '<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(out) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="of host_backup.py --json")
    parser.add_argument("--note", default="", help="a sentence about the machine: quiet, or what ran beside")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent.parent / "docs" / "evaluation")
    args = parser.parse_args()
    results = {**json.loads(args.results.read_text()), "note": args.note}
    (args.out / "host-backup.md").write_text(page(results))
    (args.out / "host-backup.svg").write_text(plot(results))


if __name__ == "__main__":
    main()
