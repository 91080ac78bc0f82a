#!/usr/bin/env python3
"""Dual-Dedup's experiment: three jobs read 4 KiB pages at random from a slow disk, d percent are duplicates.

The disk is a loop device whose reads the kernel throttles (cgroup v1 blkio), so that it has the rate of a
hard disk, or a multiple of it, exactly. Needs root. The pool lies on it; the volume is read over NBD.
The measure is throughput at d over throughput at 0: with the device as the bottleneck, 1 / (1 - d).
"""
import argparse
import datetime
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import measure
import servers

PAGE_BYTES = 4096
THROTTLE = Path("/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device")


def main():
    args = parse_args()
    if os.geteuid() or not THROTTLE.exists():
        sys.exit("dual_dedup: needs root and cgroup v1 blkio throttling: skipped")
    work = measure.bench_dir() / "work-dual-dedup"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    records = []
    with Disk(work, args.mib) as disk:
        for round_number in range(args.rounds):
            for percent in args.duplicates:
                record = {"d": percent, "round": round_number, **measure_one(args, disk, work, percent)}
                records.append(record)
                print(json.dumps(record), flush=True)
    shutil.rmtree(work)
    result = {"benchmark": "dual_dedup", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": measure.command_of("bench/dual_dedup.py", sys.argv[1:]), "mib": args.mib, "iops": args.iops,
              "records": records}
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1))
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


class Disk:
    """An ext4 file system on a loop device whose reads can be throttled."""

    def __init__(self, work, mib):
        self.file, self.point, self.bytes = work / "disk", work / "point", (mib * 2 + 2048) << 20

    def __enter__(self):
        with open(self.file, "wb") as file:
            file.truncate(self.bytes)
        self.loop = subprocess.run(["losetup", "--show", "-f", "--direct-io=on", self.file], check=True, capture_output=True,
                                   text=True).stdout.strip()
        subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.loop], check=True)
        self.point.mkdir()
        subprocess.run(["mount", self.loop, self.point], check=True)
        device = os.stat(self.loop).st_rdev
        self.number = f"{os.major(device)}:{os.minor(device)}"
        return self

    def throttle(self, iops):
        THROTTLE.write_text(f"{self.number} {iops}")

    def reads(self):
        return int(Path(f"/sys/block/{Path(self.loop).name}/stat").read_text().split()[0])

    def __exit__(self, *_):
        self.throttle(0)
        subprocess.run(["umount", self.point])
        subprocess.run(["losetup", "-d", self.loop])


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
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    server.start()
    disk.throttle(args.iops)
    reads, third = disk.reads(), (args.mib << 20) // 3 // PAGE_BYTES * PAGE_BYTES
    try:
        start = time.monotonic()
        done = subprocess.run(["fio", "--name=job", "--ioengine=nbd", f"--uri={server.uri}", "--rw=randread", "--bs=4k",
                               "--iodepth=1", "--numjobs=3", f"--offset_increment={third}", f"--size={third}",
                               f"--runtime={args.seconds}", f"--randseed={percent + 1}", "--group_reporting",
                               "--output-format=json"], check=True, capture_output=True, text=True)
        seconds = time.monotonic() - start
    finally:
        disk.throttle(0)
        server.stop()
    read = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["read"]
    return {"iops": read["iops"], "p95_us": read["clat_ns"]["percentile"]["95.000000"] / 1000, "seconds": seconds,
            "pages": read["total_ios"], "device_reads": disk.reads() - reads}


def table(records):
    base = [r for r in records if r["d"] == 0]
    rows = ["| d, % | reads/s | to d = 0 | 1 / (1 - d) | p95, us | to d = 0 | device reads a page |", "|---|---|---|---|---|---|---|"]
    middle = lambda runs, key: sorted(r[key] for r in runs)[len(runs) // 2]
    for percent in sorted({r["d"] for r in records}):
        runs = [r for r in records if r["d"] == percent]
        iops, p95 = middle(runs, "iops"), middle(runs, "p95_us")
        ratios = (f"{iops / middle(base, 'iops'):.2f}", f"{p95 / middle(base, 'p95_us') - 1:+.0%}") if base else ("", "")
        rows.append(f"| {percent} | {iops:,.0f} | {ratios[0]} | {100 / (100 - percent):.2f} | {p95:,.0f} | {ratios[1]} | "
                    f"{middle(runs, 'device_reads') / middle(runs, 'pages'):.2f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
