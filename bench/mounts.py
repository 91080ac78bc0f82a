#!/usr/bin/env python3
"""Cold reads of 4 KiB at random, one at a time, of a large file in a mounted backup, beside restic and borg.

Each tool has a backup of a directory with two files, one that does not compress and one that
compresses to a half, in an encrypted repository, with the tool's defaults. Before each measurement
the mount is started anew and the system's page cache is dropped. No block is read twice, and fio
advises the system against read-ahead. Needs root (to drop the page cache) and fio; bench/peers.sh
installs restic and borg.
"""
import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import measure
import serve_ro
import servers
import serving
import tools as toolbox

BAR = 100
MOUNTS = {"quintet": (toolbox.Quintet, lambda tool: ["mount"]), "restic": (toolbox.Restic, lambda tool: ["mount"]),
          "borg": (toolbox.Borg, lambda tool: ["mount", "--foreground", tool.repo])}


def main():
    args = parse_args()
    if os.geteuid():
        sys.exit("mounts: needs root: skipped")
    measure.own_mounts()
    work = measure.bench_dir() / "work-mounts"
    shutil.rmtree(work, ignore_errors=True)
    files = work / "files"
    files.mkdir(parents=True)
    for name, percent in serving.DATA.items():
        serving.make_data(files / name, args.mib * serving.MIB, percent)
    try:
        backups = prepare(args, files, work)
        result = {"benchmark": "mounts", "command": measure.command_of("bench/mounts.py", sys.argv[1:]),
                  "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                  "machine": measure.machine(work), "mib": args.mib, "rounds": args.rounds, "seconds": args.seconds,
                  "versions": {name: measure.first_line([tool.program, *tool.version_args]) for name, tool in backups.items()},
                  "records": []}
        for round_number in range(args.rounds):
            shift = round_number % max(1, len(backups))
            order = list(backups)
            for name in order[shift:] + order[:shift]:
                for data in serving.DATA:
                    measure.settle(args.quiet_wait)
                    record = cold_reads(args, name, backups[name], files / data, work, round_number)
                    serving.keep(args, result, {**record, "tool": name, "round": round_number})
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(table(result["records"]))


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=6, help="of each measurement")
    parser.add_argument("--mib", type=int, default=2048, help="size of each file")
    parser.add_argument("--tools", type=lambda text: text.split(","), default=list(MOUNTS),
                        help="comma list of: " + ",".join(MOUNTS))
    parser.add_argument("--quintet", default=str(checkout / "target" / "release" / "quintet"), help="the binary")
    parser.add_argument("--json", help="write the raw results here")
    parser.add_argument("--quiet-wait", type=float, default=30)
    return parser.parse_args()


def prepare(args, files, work):
    """{name: tool with a backup of the files}. A tool that cannot be had is left out, aloud."""
    backups = {}
    for name in args.tools:
        try:
            binary = args.quintet if name == "quintet" else serve_ro.program(name)
            backups[name] = serve_ro.backed_up(MOUNTS[name][0], binary, files, work)
        except (KeyError, RuntimeError, OSError) as error:
            print(f"mounts: {name}: {error}: skipped")
    return backups


def cold_reads(args, name, tool, source, work, round_number):
    """One mount, and fio on a file in it."""
    point = work / "mount"
    point.mkdir(exist_ok=True)
    below = str(source).lstrip("/")
    # A tool has its snapshots in a directory, or has nothing else.
    found = lambda: next((path for above in ("snapshots/latest", "*") for path in point.glob(f"{above}/{below}")), None)
    process = servers.Process([tool.program, *MOUNTS[name][1](tool), point], tool.env(), work / f"{name}.log", found)
    try:
        path = found()
        measure.drop_caches()
        read, cpu = process.read_bytes(), process.cpu_seconds()
        words = serving.once(args, 1, "--ioengine=psync", "--readonly", "--filename=" + str(path).replace(":", r"\:"))
        record = serving.fio(None, source.name, words, round_number, process)
        if record["ok"] and record["requests"]:
            record["read_per_request"] = (process.read_bytes() - read) / record["requests"]
            record["cpu_per_request_us"] = (process.cpu_seconds() - cpu) * 1e6 / record["requests"]
        return record
    finally:
        subprocess.run(["fusermount3", "-u", point], capture_output=True, check=False)
        process.stop()


def table(records):
    lines = ["| file | mount | reads a second, each round | median | KiB read for 4 KiB | CPU for 4 KiB, us | Quintet's rate, bar 100 times |",
             "|---|---|---|---|---|---|---|"]
    good = [record for record in records if record["ok"]]
    middle = lambda key, **of: statistics.median([r[key] for r in good if all(r[k] == v for k, v in of.items())] or [0])
    for data, tool in dict.fromkeys((r["test"], r["tool"]) for r in sorted(good, key=lambda r: r["test"])):
        own = [r["iops"] for r in good if (r["test"], r["tool"]) == (data, tool)]
        of = {"test": data, "tool": tool}
        ratio = middle("iops", test=data, tool="quintet") / middle("iops", **of)
        verdict = "" if tool == "quintet" else f"{ratio:.0f} times" + ("" if ratio >= BAR else ", short")
        lines.append(f"| {data} | {tool} | {'; '.join(f'{rate:,.0f}' for rate in own)} | {middle('iops', **of):,.0f} | "
                     f"{middle('read_per_request', **of) / 1024:,.0f} | {middle('cpu_per_request_us', **of):,.0f} | {verdict} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
