#!/usr/bin/python3
"""What a scrub of a real server has not to read, because clients read it (Duet, SOSP'15).

An image of noise lies in a pool on a slow disk (a loop device whose reads the kernel throttles). Clients read objects of the size of a container at random over NBD,
of a part of the image (overlap), so many for each object that the scrub gets through (smaller objects leave containers half read). The measure is the part of the scrub's bytes that readers had
verified, beside the same counts of `cargo run -p duet --example shared_reads`. Needs root and the distribution's python3-libnbd. See README.md.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import nbd

import measure
import servers
import slow_disk

MIB = 1 << 20
# Percent from the device with one task, by overlap and reads an object: the table of docs/evaluation/duet.md.
EXPECTED = {25: {1: 79, 2: 76, 4: 75, 8: 75}, 50: {1: 66, 2: 56, 4: 50, 8: 50},
            75: {1: 57, 2: 36, 4: 30, 8: 25}, 100: {1: 53, 2: 24, 4: 10, 8: 4}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--object-mib", type=int, default=16)
    parser.add_argument("--iops", type=int, default=6000, help="reads a second that the disk does")
    parser.add_argument("--scrub", default="24M", help="bytes a second that the scrub reads at most")
    parser.add_argument("--reads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 4])
    parser.add_argument("--overlap", type=lambda text: [int(n) for n in text.split(",")], default=[25, 50, 75, 100])
    parser.add_argument("--quintet", default=str(Path(__file__).resolve().parent.parent / "target" / "release" / "quintet"))
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = []
    with slow_disk.room("duet_share", args.mib) as (_, disk):
        pool = Pool(args, disk.point)
        for reads in args.reads:
            for overlap in args.overlap:
                disk.throttle(args.iops)
                try:
                    row = pool.scrub(reads, overlap)
                finally:
                    disk.throttle(0)
                    pool.stop()
                rows.append({"reads": reads, "overlap": overlap, "expected": EXPECTED[overlap].get(reads), **row})
                print(json.dumps(rows[-1]), flush=True)
    print("| reads an object | overlap | from the device, % | model, % | scrub took, s |\n|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['reads']} | {row['overlap']} % | {row['device']:.0f} | {row['expected']} | {row['seconds']:.0f} |")
    if args.json:
        Path(args.json).write_text(json.dumps({"command": sys.argv, "machine": measure.machine(measure.bench_dir()), "rows": rows}, indent=1))


class Pool:
    def __init__(self, args, room):
        self.args, self.room, self.server = args, room, None
        self.env = dict(os.environ, QUINTET_REPOSITORY=str(room / "pool"), QUINTET_PASSWORD="measured", HOME=str(room))
        self.command("init")
        source = room / "image"
        with open(source, "wb") as file:
            for number in range(args.mib):
                file.write(random.Random(number).randbytes(MIB))
        self.command("import", str(source), "image", "--region-size", "128K")
        source.unlink()

    def command(self, *words):
        return servers.say(self.args.quintet, self.env, *words)

    def stop(self):
        if self.server:
            self.server.terminate()
            self.server.wait()
            self.server = None

    def pass_under_way(self):
        """(Bytes done so far, the last pass), as the server says."""
        said = json.loads(self.command("scrub", "status", "--json").splitlines()[-1])
        now = said.get("pass")
        return None if now is None else now["read_bytes"] + now["verified_by_readers_bytes"], said.get("last")

    def scrub(self, reads, overlap):
        """A pass from cold beside the clients."""
        measure.drop_caches()
        socket = self.room / "nbd"
        socket.unlink(missing_ok=True)
        # About a tenth of the data stays in memory, as in the model.
        memory = f"{max(64, self.args.mib // 6)}M"
        self.server = subprocess.Popen([self.args.quintet, "serve", "--memory", memory, "--nbd-socket", str(socket)], env=self.env,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not socket.exists():
            time.sleep(0.05)
        disk = nbd.NBD()
        disk.connect_uri(f"nbd+unix:///image?socket={socket}")
        self.command("scrub", "start", "--limit", self.args.scrub)
        dice, done_reads, started = random.Random(overlap), 0, time.monotonic()
        size = self.args.object_mib * MIB
        objects = self.args.mib * MIB // size
        while True:
            done, last = self.pass_under_way()
            if done is None:
                break
            while done_reads < done * reads // size:
                start = dice.randrange(objects * overlap // 100) * 77 % objects * size
                for offset in range(start, start + size, MIB):
                    disk.pread(MIB, offset)
                done_reads += 1
            time.sleep(0.05)
        disk.shutdown()
        both = last["read_bytes"] + last["verified_by_readers_bytes"]
        return {"device": last["read_bytes"] * 100 / both, "seconds": time.monotonic() - started, "client_reads": done_reads}


if __name__ == "__main__":
    main()
