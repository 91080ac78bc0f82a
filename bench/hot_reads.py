#!/usr/bin/env python3
"""A database's random reads on a clone, then `defrag`, then the same reads cold.

An image that compresses to a half is imported as by default into an encrypted pool, and cloned. Hot
are --percent of the image's pages of --page-kib, chosen at random, always the same ones. The load:
`serve` at its defaults, reads of 4 KiB in hot pages over NBD, every hot block as likely as the
others, depth 16, for --load-seconds. Then `quintet defrag`, as a user would start it beside the
server. Measured is a server that was just started, page caches dropped: one 4 KiB of each hot page
in random order, depth 16. Rows: nbdkit on the raw file, a pool without load and defrag, the pool
with both; interleaved rounds. Needs root (to drop the page cache).
"""
import argparse
import datetime
import json
import os
import random
import shutil
import statistics
import sys
import time
from pathlib import Path

import measure
import servers
import serving

KIB = 1024
DEPTH, LOAD_READS = 16, 200_000
BAR_RATE, BAR_WRITTEN = 0.9, 0.03
ROWS = ("nbdkit-file", "quintet-before", "quintet-after")


def main():
    args = parse_args()
    if os.geteuid():
        sys.exit("hot_reads: needs root: skipped")
    work = measure.bench_dir() / "work-hot-reads"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    source = work / "half"
    serving.make_data(source, args.mib << 20, serving.DATA["half"])
    rooms = {row: (servers.NbdkitFile if row == ROWS[0] else servers.Quintet)(args, work / row, args.mib << 20) for row in ROWS}
    hot = HotPages(args, work)
    result = {"benchmark": "hot_reads", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": measure.command_of("bench/hot_reads.py", sys.argv[1:]), "machine": measure.machine(work),
              "mib": args.mib, "rounds": args.rounds, "versions": {row: room.version for row, room in rooms.items()},
              "records": []}
    try:
        for row, room in rooms.items():
            room.take(source)
            if row != ROWS[0]:
                room.command("volume", "clone", servers.IMAGE, servers.EXPORT)
        source.unlink()
        result["defrag"] = load_and_defrag(args, rooms[ROWS[2]], hot)
        print(json.dumps(result["defrag"]), flush=True)
        for round_number in range(args.rounds):
            for row in ROWS[round_number % 3:] + ROWS[:round_number % 3]:
                measure.settle(args.quiet_wait)
                record = cold_reads(rooms[row], hot.once(round_number), round_number)
                serving.keep(args, result, {**record, "tool": row, "round": round_number})
    finally:
        for room in rooms.values():
            room.stop()
        shutil.rmtree(work, ignore_errors=True)
    print(table(args, result))


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load-seconds", type=int, default=3600)
    parser.add_argument("--mib", type=int, default=4096, help="size of the image")
    parser.add_argument("--page-kib", type=int, default=16, help="size of a hot page")
    parser.add_argument("--percent", type=float, default=2, help="of the pages are hot")
    parser.add_argument("--quintet", default=str(checkout / "target" / "release" / "quintet"), help="the binary")
    parser.add_argument("--json", help="write the raw results here")
    parser.add_argument("--quiet-wait", type=float, default=30)
    parser.set_defaults(memory=None)
    return parser.parse_args()


class HotPages:
    """The hot pages, and orders of reads in them as files that fio replays."""

    def __init__(self, args, work):
        self.log, self.blocks = work / "reads", args.page_kib // 4
        pages = args.mib * KIB // args.page_kib
        self.pages = random.Random(1).sample(range(pages), int(pages * args.percent / 100))

    def write(self, blocks):
        reads = "".join(f"hot read {block * 4 * KIB} {4 * KIB}\n" for block in blocks)
        self.log.write_text(f"fio version 2 iolog\nhot add\nhot open\n{reads}hot close\n")
        return self.log

    def once(self, seed):
        """One block of each page."""
        dice = random.Random(seed)
        return self.write(page * self.blocks + dice.randrange(self.blocks) for page in dice.sample(self.pages, len(self.pages)))

    def load(self, seed):
        dice = random.Random(seed)
        return self.write(page * self.blocks + dice.randrange(self.blocks) for page in dice.choices(self.pages, k=LOAD_READS))


def replay(room, log, round_number):
    record = serving.fio(room.uri, "hot-cold", [f"--read_iolog={log}", f"--iodepth={DEPTH}"], round_number, room.process)
    if not record["ok"]:
        raise RuntimeError(record["error"])
    return record


def load_and_defrag(args, room, hot):
    """What the load read and `defrag` wrote."""
    room.start()
    measure.drop_caches()
    start, reads = time.monotonic(), 0
    while time.monotonic() - start < args.load_seconds:
        reads += replay(room, hot.load(reads), 0)["requests"]
    loaded = time.monotonic() - start
    written, cpu, start = room.process.written_bytes(), room.process.cpu_seconds(), time.monotonic()
    lines = room.command("defrag", "--json").splitlines()
    os.sync()
    defrag = {"load_reads": reads, "load_s": round(loaded, 1), "wall_s": round(time.monotonic() - start, 2),
              "cpu_s": round(room.process.cpu_seconds() - cpu, 2),
              "written_bytes": room.process.written_bytes() - written, "summary": json.loads(lines[-1])}
    room.stop()
    return defrag


def cold_reads(room, log, round_number):
    room.start()
    measure.drop_caches()
    read, cpu = room.process.read_bytes(), room.process.cpu_seconds()
    record = replay(room, log, round_number)
    record["read_per_request"] = (room.process.read_bytes() - read) / record["requests"]
    record["cpu_per_request_us"] = (room.process.cpu_seconds() - cpu) * 1e6 / record["requests"]
    room.stop()
    return record


def table(args, result):
    middle = lambda row, key: statistics.median(r[key] for r in result["records"] if r["tool"] == row)
    base = middle(ROWS[0], "iops")
    lines = ["| | reads a second | of nbdkit | least and most | KiB read for 4 KiB | CPU for 4 KiB, us |", "|---|---|---|---|---|---|"]
    for row in ROWS:
        rates = [r["iops"] for r in result["records"] if r["tool"] == row]
        ratio = middle(row, "iops") / base
        short = ", short" if row == ROWS[2] and ratio < BAR_RATE else ""
        lines.append(f"| {row} | {middle(row, 'iops'):,.0f} | {ratio:.2f}{short} | {min(rates):,.0f} to {max(rates):,.0f} | "
                     f"{middle(row, 'read_per_request') / KIB:.1f} | {middle(row, 'cpu_per_request_us'):.0f} |")
    defrag = result["defrag"]
    share = defrag["written_bytes"] / (args.mib << 20)
    lines.append(f"\nThe load read {defrag['load_reads']:,} times in {defrag['load_s']:.0f} s; defrag took {defrag['wall_s']} s and wrote "
                 f"{defrag['written_bytes'] / 1e6:.1f} MB, {share:.2%} of the image (bar {BAR_WRITTEN:.0%}{'' if share <= BAR_WRITTEN else ', short'}).")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
