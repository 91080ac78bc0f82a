#!/usr/bin/env python3
"""Clients read at random from a slow disk while a scrub, or nothing, goes on beside: what their latencies become.

The disk is a loop device that the kernel throttles (cgroup v1 blkio) to the requests and bytes of a hard disk.
Needs root. The clients send at random times (Poisson), so many requests a second whatever the latency.
With and without the scrub in turn; a third way has the floor of the scrub at 20 % and no idle time to itself,
to show what the shares are good for. `--floor` sets other floors.
"""
import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import dual_dedup
import measure
import servers

BYTES = Path("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device")
WAYS = {"alone": None, "scrub": (), "scrub, floor 20 %": ("floor.scrub=20",)}


def main():
    args = parse_args()
    if os.geteuid() or not dual_dedup.THROTTLE.exists():
        sys.exit("qos: needs root and cgroup v1 blkio throttling: skipped")
    work = measure.bench_dir() / "work-qos"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    records = []
    with dual_dedup.Disk(work, args.mib) as disk:
        server = prepare(args, disk, work)
        for round_number in range(args.rounds):
            for used in args.used:
                for way in WAYS:
                    record = {"used": used, "way": way, "round": round_number, **measure_one(args, disk, server, used, way)}
                    records.append(record)
                    print(json.dumps(record), flush=True)
    shutil.rmtree(work)
    result = {"benchmark": "qos", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": measure.command_of("bench/qos.py", sys.argv[1:]), "records": records}
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1))
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


def command(args, server, *words):
    done = subprocess.run([args.quintet, *words], env=server.env(), check=True, capture_output=True, text=True)
    return done.stdout


def throttle(args, disk, on):
    disk.throttle(args.iops if on else 0)
    BYTES.write_text(f"{disk.number} {args.mb_per_s * 1_000_000 if on else 0}")


def flow(args, server, name):
    shown = json.loads(command(args, server, "qos", "show", "--json").splitlines()[0])
    return next(flow for flow in shown["flows"] if flow["flow"] == name)


def measure_one(args, disk, server, used, way):
    server.start()
    try:
        command(args, server, "qos", "set", "device=disk", *(WAYS[way] or ()))
        # Recipes and index: a running server has them in memory.
        fio(server, "--runtime=3", "--time_based", "--iodepth=16")
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
        throttle(args, disk, True)
        if WAYS[way] is not None:
            command(args, server, "scrub", "start")
        time.sleep(1)
        before, reads, start = flow(args, server, "scrub"), disk.reads(), time.monotonic()
        rate = args.iops * used // 100
        job = fio(server, f"--rate_iops={rate}", "--rate_process=poisson", f"--runtime={args.seconds}", "--time_based",
                  "--iodepth=32", f"--randseed={used}")
        seconds, reads, after = time.monotonic() - start, disk.reads() - reads, flow(args, server, "scrub")
        if WAYS[way] is not None:
            command(args, server, "scrub", "pause")
    finally:
        throttle(args, disk, False)
        server.stop()
    percentile = job["clat_ns"]["percentile"]
    return {"iops": job["iops"], "mean_ms": job["clat_ns"]["mean"] / 1e6, "p50_ms": percentile["50.000000"] / 1e6,
            "p99_ms": percentile["99.000000"] / 1e6, "device_reads_per_s": reads / seconds,
            "scrub_mib_per_s": (after["read_bytes"] - before["read_bytes"]) / seconds / (1 << 20),
            "scrub_turns": after["turns"] - before["turns"]}


def fio(server, *words):
    done = subprocess.run(["fio", "--name=job", "--ioengine=nbd", f"--uri={server.uri}", "--rw=randread", "--bs=4k", "--norandommap",
                           "--randrepeat=0", "--output-format=json", *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["read"]


def table(records):
    rows = ["| clients ask for | beside | reads/s | mean, ms | p99, ms | to alone | device reads/s | scrub, MiB/s |",
            "|---|---|---|---|---|---|---|---|"]
    middle = lambda runs, key: sorted(r[key] for r in runs)[len(runs) // 2]
    for used in sorted({r["used"] for r in records}):
        alone = middle([r for r in records if r["used"] == used and r["way"] == "alone"], "p99_ms")
        for way in WAYS:
            runs = [r for r in records if (r["used"], r["way"]) == (used, way)]
            p99 = middle(runs, "p99_ms")
            rows.append(f"| {used} % | {way} | {middle(runs, 'iops'):.1f} | {middle(runs, 'mean_ms'):.2f} | {p99:.1f} | "
                        f"{p99 / alone:.2f} | {middle(runs, 'device_reads_per_s'):.1f} | {middle(runs, 'scrub_mib_per_s'):.2f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
