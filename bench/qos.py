#!/usr/bin/env python3
"""Clients read at random from a slow disk while a scrub, or nothing, goes on beside: what their latencies become.

The disk is a loop device that the kernel throttles (cgroup v1 blkio) to the requests and bytes of a hard disk.
Needs root. The clients send at random times (Poisson), so many requests a second whatever the latency.
With and without the scrub in turn; a third way has the floor of the scrub at 20 % and no idle time to itself,
to show what the shares are good for.
"""
import argparse
import json
import os
import time
from pathlib import Path

import measure
import servers
import slow_disk

WAYS = {"alone": None, "scrub": (), "scrub, floor 20 %": ("floor.scrub=20",)}


def main():
    args = parse_args()
    records = []
    with slow_disk.room("qos", args.mib) as (work, disk):
        server = prepare(args, disk, work)
        for round_number in range(args.rounds):
            for used in args.used:
                for way in WAYS:
                    record = {"used": used, "way": way, "round": round_number, **measure_one(args, disk, server, used, way)}
                    records.append(record)
                    print(json.dumps(record), flush=True)
    measure.save(args.json, "qos", records=records)
    print(table(records))


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=1024, help="size of the volume")
    parser.add_argument("--iops", type=int, default=120, help="reads a second that the disk does")
    parser.add_argument("--mb-per-s", type=int, default=150, help="megabytes a second that it does")
    parser.add_argument("--seconds", type=int, default=30, help="of each measure")
    parser.add_argument("--used", type=lambda text: [int(u) for u in text.split(",")], default=[30, 60],
                        help="percent of the disk's reads that clients ask for")
    parser.add_argument("--memory", default="64M")
    parser.add_argument("--quintet", default=str(checkout / "target" / "release" / "quintet"), help="the binary")
    parser.add_argument("--json", help="write the raw results here")
    return parser.parse_args()


def prepare(args, disk, work):
    """A pool on the disk with one volume of bytes that neither compress nor repeat."""
    source = work / "bytes"
    with open(source, "wb") as file:
        for _ in range(args.mib):
            file.write(os.urandom(1 << 20))
    server = servers.Quintet(args, disk.point / "room", args.mib << 20)
    server.fill(source)
    source.unlink()
    return server


def flow(server, name):
    shown = json.loads(server.command("qos", "show", "--json").splitlines()[0])
    return next(flow for flow in shown["flows"] if flow["flow"] == name)


def measure_one(args, disk, server, used, way):
    server.start()
    try:
        server.command("qos", "set", "device=disk", *(WAYS[way] or ()))
        # Recipes and index: a running server has them in memory.
        fio(server, "--runtime=3", "--time_based", "--iodepth=16")
        measure.drop_caches()
        disk.throttle(args.iops, args.mb_per_s * 1_000_000)
        if WAYS[way] is not None:
            server.command("scrub", "start")
        time.sleep(1)
        before, reads, start = flow(server, "scrub"), disk.reads(), time.monotonic()
        rate = args.iops * used // 100
        job = fio(server, f"--rate_iops={rate}", "--rate_process=poisson", f"--runtime={args.seconds}", "--time_based",
                  "--iodepth=32", f"--randseed={used}")
        seconds, reads, after = time.monotonic() - start, disk.reads() - reads, flow(server, "scrub")
        if WAYS[way] is not None:
            server.command("scrub", "pause")
    finally:
        disk.throttle(0)
        server.stop()
    percentile = job["clat_ns"]["percentile"]
    return {"iops": job["iops"], "mean_ms": job["clat_ns"]["mean"] / 1e6, "p50_ms": percentile["50.000000"] / 1e6,
            "p99_ms": percentile["99.000000"] / 1e6, "device_reads_per_s": reads / seconds,
            "scrub_mib_per_s": (after["read_bytes"] - before["read_bytes"]) / seconds / (1 << 20),
            "scrub_turns": after["turns"] - before["turns"]}


def fio(server, *words):
    return slow_disk.fio(server, "--norandommap", "--randrepeat=0", *words)


def table(records):
    rows = ["| clients ask for | beside | reads/s | mean, ms | p99, ms | to alone | device reads/s | scrub, MiB/s |",
            "|---|---|---|---|---|---|---|---|"]
    for used in sorted({r["used"] for r in records}):
        alone = measure.middle([r for r in records if r["used"] == used and r["way"] == "alone"], "p99_ms")
        for way in WAYS:
            runs = [r for r in records if (r["used"], r["way"]) == (used, way)]
            p99 = measure.middle(runs, "p99_ms")
            rows.append(f"| {used} % | {way} | {measure.middle(runs, 'iops'):.1f} | {measure.middle(runs, 'mean_ms'):.2f} | {p99:.1f} | "
                        f"{p99 / alone:.2f} | {measure.middle(runs, 'device_reads_per_s'):.1f} | {measure.middle(runs, 'scrub_mib_per_s'):.2f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
