#!/usr/bin/env python3
"""Reads of 4 KiB at random from an imported image on a disk with arms, beside the disk itself.

The disk is the model of slow_disk.py, with ext4 on it. The image does not compress, so that a read
needs one region of 16 KiB. Rows: `raw` reads the image's file past the page cache, `quintet` reads
the image over NBD from a server at its defaults that was just started; depth 1, page caches dropped,
the same places in both, interleaved rounds. Needs root.
"""
import argparse
import datetime
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import measure
import slow_disk

ROWS = ("raw", "quintet")
BAR = 0.9


def main():
    args = parse_args()
    result = {"benchmark": "arms", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": measure.command_of("bench/arms.py", sys.argv[1:]), "records": []}
    with slow_disk.room("arms", args.mib, slow_disk.DiskWithArms) as (work, disk):
        result["machine"] = measure.machine(work)
        bench = Reads(args, work, disk)
        for number in range(args.rounds):
            for row in ROWS if number % 2 else ROWS[::-1]:
                record = {"row": row, "round": number, **bench.measure(row, number)}
                result["records"].append(record)
                print(json.dumps(record), flush=True)
                if args.json:
                    Path(args.json).write_text(json.dumps(result, indent=1))
    summary(result["records"])


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=20, help="of reads in each row")
    parser.add_argument("--mib", type=int, default=2048, help="size of the image; the model keeps three times as much in memory")
    parser.add_argument("--quintet", default=str(checkout / "target" / "release" / "quintet"), help="the binary")
    parser.add_argument("--json", help="write the raw results here")
    return parser.parse_args()


class Reads:
    def __init__(self, args, work, disk):
        self.args, self.disk, self.socket = args, disk, work / "nbd"
        self.file = disk.point / "image"
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(work), "QUINTET_PASSWORD": "bench",
                            "QUINTET_REPOSITORY": str(disk.point / "pool")}
        subprocess.run(f"head -c {args.mib}M /dev/urandom > {self.file}", shell=True, check=True)
        for words in (("init",), ("import", str(self.file), "image")):
            subprocess.run([args.quintet, *words], env=self.environment, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)

    def measure(self, row, number):
        words = ["--time_based", f"--runtime={self.args.seconds}", f"--randseed={number + 1}", f"--size={self.args.mib}M"]
        if row == "raw":
            measure.drop_caches()
            return self.reads(lambda: fio("--ioengine=psync", "--direct=1", f"--filename={self.file}", *words))
        self.socket.unlink(missing_ok=True)
        server = subprocess.Popen([self.args.quintet, "serve", "--nbd-socket", str(self.socket)], env=self.environment,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while not self.socket.exists():
                if time.monotonic() > deadline or server.poll() is not None:
                    sys.exit("quintet serve does not start")
                time.sleep(0.05)
            measure.drop_caches()
            client = SimpleNamespace(uri=f"nbd+unix:///image?socket={self.socket}")
            return self.reads(lambda: slow_disk.fio(client, *words))
        finally:
            server.terminate()
            server.wait()

    def reads(self, run):
        before = self.disk.usage()
        read = run()
        used = {key: after - before[key] for key, after in self.disk.usage().items()}
        return {"per_second": round(read["iops"], 1), "reads": read["total_ios"], "device": used}


def fio(*words):
    done = subprocess.run(["fio", "--name=job", "--rw=randread", "--bs=4k", "--output-format=json", *words], check=True,
                          capture_output=True, text=True)
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["read"]


def summary(records):
    print("| | reads a second | least and most | of raw | device: requests and KiB for a read |")
    print("|---|---|---|---|---|")
    of = {row: [r for r in records if r["row"] == row] for row in ROWS}
    middle = {row: statistics.median(r["per_second"] for r in own) for row, own in of.items()}
    for row, own in of.items():
        rates, reads = [r["per_second"] for r in own], sum(r["reads"] for r in own)
        requests, kib = (sum(r["device"][key] for r in own) / reads for key in ("reads", "read_bytes"))
        ratio = middle[row] / middle["raw"]
        short = ", short" if row == "quintet" and ratio < BAR else ""
        print(f"| {row} | {middle[row]:.0f} | {min(rates):.0f} to {max(rates):.0f} | {ratio:.2f}{short} | "
              f"{requests:.2f}; {kib / 1024:.0f} |")


if __name__ == "__main__":
    main()
