#!/usr/bin/env python3
"""Dual-Dedup's experiment: three jobs read 4 KiB pages at random from a slow disk, d percent are duplicates.

The disk is a loop device whose reads the kernel throttles (cgroup v1 blkio), so that it has the rate of a
hard disk, or a multiple of it, exactly. Needs root. The pool lies on it; the volume is read over NBD.
The measure is throughput at d over throughput at 0: with the device as the bottleneck, 1 / (1 - d).
"""
import argparse
import json
import random
import shutil
import time
from pathlib import Path

import measure
import servers
import slow_disk

PAGE_BYTES = 4096


def main():
    args = parse_args()
    records = []
    with slow_disk.room("dual_dedup", args.mib) as (work, disk):
        for round_number in range(args.rounds):
            for percent in args.duplicates:
                record = {"d": percent, "round": round_number, **measure_one(args, disk, work, percent)}
                records.append(record)
                print(json.dumps(record), flush=True)
    measure.save(args.json, "dual_dedup", mib=args.mib, iops=args.iops, records=records)
    print(table(records))


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--mib", type=int, default=1024, help="of pages, all jobs together")
    parser.add_argument("--iops", type=int, default=1000, help="reads a second that the disk does; a hard disk does 120")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--memory", default="3G")
    parser.add_argument("--duplicates", type=lambda text: [int(d) for d in text.split(",")], default=[0, 5, 25, 90])
    parser.add_argument("--quintet", default=str(checkout / "target" / "release" / "quintet"), help="the binary")
    parser.add_argument("--json", help="write the raw results here")
    return parser.parse_args()


def make_pages(path, mib, percent):
    """Of a hundred pages, so many have the bytes of one of the others, anywhere on the disk."""
    dice, count = random.Random(percent), (mib << 20) // PAGE_BYTES
    numbers = list(range(count))
    copies = dice.sample(numbers, count * percent // 100)
    originals = list(set(numbers).difference(copies))
    content = {page: dice.choice(originals) for page in copies}
    with open(path, "wb") as file:
        for page in numbers:
            file.write(random.Random(content.get(page, page)).randbytes(PAGE_BYTES))


def measure_one(args, disk, work, percent):
    """Each of the jobs reads a third of the device once, in random order, from cold, for so many seconds."""
    room, source = disk.point / "room", work / "pages"
    shutil.rmtree(room, ignore_errors=True)
    make_pages(source, args.mib, percent)
    server = servers.Quintet(args, room, args.mib << 20)
    server.fill(source)
    source.unlink()
    measure.drop_caches()
    server.start()
    disk.throttle(args.iops)
    reads, third = disk.reads(), (args.mib << 20) // 3 // PAGE_BYTES * PAGE_BYTES
    try:
        start = time.monotonic()
        read = slow_disk.fio(server, "--iodepth=1", "--numjobs=3", f"--offset_increment={third}", f"--size={third}",
                             f"--runtime={args.seconds}", f"--randseed={percent + 1}", "--group_reporting")
        seconds = time.monotonic() - start
    finally:
        disk.throttle(0)
        server.stop()
    return {"iops": read["iops"], "p95_us": read["clat_ns"]["percentile"]["95.000000"] / 1000, "seconds": seconds,
            "pages": read["total_ios"], "device_reads": disk.reads() - reads}


def table(records):
    base = [r for r in records if r["d"] == 0]
    rows = ["| d, % | reads/s | to d = 0 | 1 / (1 - d) | p95, us | to d = 0 | device reads a page |", "|---|---|---|---|---|---|---|"]
    for percent in sorted({r["d"] for r in records}):
        runs = [r for r in records if r["d"] == percent]
        iops, p95 = measure.middle(runs, "iops"), measure.middle(runs, "p95_us")
        ratios = (f"{iops / measure.middle(base, 'iops'):.2f}", f"{p95 / measure.middle(base, 'p95_us') - 1:+.0%}") if base else ("", "")
        rows.append(f"| {percent} | {iops:,.0f} | {ratios[0]} | {100 / (100 - percent):.2f} | {p95:,.0f} | {ratios[1]} | "
                    f"{measure.middle(runs, 'device_reads') / measure.middle(runs, 'pages'):.2f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
