#!/usr/bin/python3
"""Marking at scale: what `gc` reads and remembers as snapshots add up.

A volume of 100 GiB holds some data; between two snapshots a few random pages change. After each of some numbers of snapshots the
server is stopped and `gc --dry-run` marks everything: nodes read, memory of the bits, wall and CPU time, peak RSS. With `--collect` the
space is collected then, which merges what the small commits left, and everything is marked again. Needs the distribution's python3-libnbd. See README.md.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbd

import measure
import servers

PAGE = 4096


class Pool:
    def __init__(self, program, room, memory):
        self.program, self.room, self.memory = program, Path(room), memory
        self.env = dict(os.environ, QUINTET_REPOSITORY=str(self.room / "pool"), XDG_CACHE_HOME=str(self.room / "cache"))
        self.server = None
        self.command("init", "--no-encryption")

    def command(self, *args):
        return servers.say(self.program, self.env, *args)

    def start(self):
        socket = self.room / "nbd"
        self.server = subprocess.Popen([self.program, "serve", "--memory", self.memory, "--nbd-socket", str(socket)],
                                       env=self.env, stdout=subprocess.DEVNULL, stderr=open(self.room / "log", "ab"))
        while not socket.exists():
            time.sleep(0.02)
            if self.server.poll() is not None:
                sys.exit((self.room / "log").read_text())
        return f"nbd+unix:///v?socket={socket}"

    def stop(self):
        self.server.terminate()
        self.server.wait()

    def gc(self, *more):
        """Costs of one run, and what it says."""
        log = self.room / "gc.log"
        log.unlink(missing_ok=True)
        cost = measure.run([self.program, "gc", "--trash-period", "0", "--json", "--memory", self.memory, *more],
                           self.env, self.room, log)
        lines = [line for line in log.read_text().splitlines() if '"summary"' in line]
        if cost["code"] or not lines:
            sys.exit(log.read_text())
        return cost, json.loads(lines[-1])


def connect(uri):
    disk = nbd.NBD()
    for _ in range(100):
        try:
            disk.connect_uri(uri)
            return disk
        except nbd.Error:
            time.sleep(0.05)
    sys.exit("no connection")


def row(made, cost, said):
    cpu = cost["user_s"] + cost["sys_s"]
    return {"snapshots": made, "containers": said["containers"], "nodes": said["nodes_read"], "chunks": said["live_chunks"],
            "wall_s": cost["wall_s"], "cpu_s": cpu, "us_a_node": cpu * 1e6 / max(1, said["nodes_read"]),
            "bits_a_chunk": said["mark_memory_bytes"] * 8 / max(1, said["live_chunks"]), "rss_mib": cost["rss_bytes"] / (1 << 20),
            "merged": said["merged_containers"], "copied_mb": said["copied_bytes"] / 1e6, "trash_mb": said["discarded_bytes"] / 1e6}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snapshots", default="100,1000,10000", help="numbers at which to mark")
    parser.add_argument("--data-mib", type=int, default=512, help="what the volume holds before the first snapshot")
    parser.add_argument("--pages", type=int, default=4, help="random pages that change between two snapshots")
    parser.add_argument("--collect", action="store_true", help="also collect, and mark again")
    parser.add_argument("--memory", default="256M")
    parser.add_argument("--json")
    parser.add_argument("--program", default="target/release/quintet")
    args = parser.parse_args()
    room = tempfile.mkdtemp(prefix="quintet-gc-scale.", dir=measure.bench_dir() if measure.bench_dir().exists() else None)
    pool = Pool(os.path.abspath(args.program), room, args.memory)
    dice, rows, made = random.Random(2026), [], 0
    try:
        uri = pool.start()
        pool.command("volume", "create", "v", "--size", "100G")
        disk = connect(uri)
        for number in range(args.data_mib):
            disk.pwrite(dice.randbytes(1 << 20), number << 20)
        for until in map(int, args.snapshots.split(",")):
            while made < until:
                for _ in range(args.pages):
                    disk.pwrite(dice.randbytes(PAGE), dice.randrange(args.data_mib << 8) * PAGE)
                pool.command("volume", "snapshot", f"v@{made}")
                made += 1
            disk.shutdown()
            pool.stop()
            runs = [("mark", ["--dry-run"])]
            if args.collect:
                runs += [("collect", []), ("mark", ["--dry-run"])]
            for run, more in runs:
                rows.append({"run": run, **row(made, *pool.gc(*more))})
                print(json.dumps(rows[-1]), flush=True)
            disk = connect(pool.start())
        pool.stop()
    finally:
        if pool.server and pool.server.poll() is None:
            pool.server.kill()
        shutil.rmtree(room)
    if args.json:
        Path(args.json).write_text(json.dumps({"machine": measure.machine(measure.bench_dir()), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
