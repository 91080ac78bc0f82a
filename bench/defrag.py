#!/usr/bin/python3
"""The defragmentation benchmark: FragPicker's file (SOSP'21, section 5) as a volume.

Of every 256 KiB of the volume, 128 are 32 pieces of 4 KiB that were written at different times among writes to another volume,
and 128 were written at once. Copies of the pool are defragmented by what was read (sequentially, or 128 KiB of every 416), by
--bypass, and rewritten as a whole; then each is read again, with cold caches of server and system, in interleaved rounds.
Reported are the medians of MB/s, of the server's CPU time, read calls and bytes from the device, the bytes copied, and the device reads
that defrag counts. See README.md.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import nbd

import servers

KIB = 1024
BLOCK = 256 * KIB
PIECE = 4 * KIB


class Pool:
    def __init__(self, program, path):
        self.program, self.path = program, Path(path)
        self.environment = dict(os.environ, QUINTET_REPOSITORY=str(path), QUINTET_PASSWORD="x")

    def run(self, *arguments):
        return servers.say(self.program, self.environment, *arguments)

    def serve(self):
        self.socket = str(self.path) + ".nbd"
        command = [self.program, "serve", "--nbd-socket", self.socket, "--memory", "32M"]
        self.server = subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(400):
            try:
                return self.connect("disk")
            except nbd.Error:
                time.sleep(0.05)
        sys.exit("the server does not answer")

    def connect(self, export):
        handle = nbd.NBD()
        handle.set_export_name(export)
        handle.connect_unix(self.socket)
        return handle

    def stop(self):
        self.server.terminate()
        self.server.wait()

    def forget_cached(self):
        for path in self.path.rglob("*"):
            if path.is_file():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def copy(self, to):
        shutil.copytree(self.path, to, ignore=shutil.ignore_patterns("*.nbd"))
        return Pool(self.program, to)


def make(pool, mib):
    """Writes the volume; a snapshot of a small volume makes each checkpoint."""
    pool.run("init")
    blocks = mib * 1024 // 256
    pool.run("volume", "create", "disk", "--size", f"{mib}M")
    pool.run("volume", "create", "other", "--size", f"{mib}M")
    shuffle = random.Random(1)
    pieces = [block * BLOCK + n * PIECE for block in range(blocks) for n in range(32)]
    shuffle.shuffle(pieces)
    disk = pool.serve()
    other = pool.connect("other")
    step = max(1, len(pieces) // 64)
    for start in range(0, len(pieces), step):
        for offset in pieces[start:start + step]:
            disk.pwrite(shuffle.randbytes(PIECE), offset)
            other.pwrite(shuffle.randbytes(PIECE), shuffle.randrange(blocks * 64) * PIECE)
        disk.flush()
        pool.run("volume", "snapshot", f"disk@{start}")
    for block in range(blocks):
        disk.pwrite(shuffle.randbytes(BLOCK // 2), block * BLOCK + BLOCK // 2)
    disk.flush()
    pool.stop()
    snapshots = [json.loads(line) for line in pool.run("snapshots", "--json").splitlines()]
    names = [s["id"] for s in snapshots if s.get("message_type") == "snapshot"]
    if names:
        pool.run("forget", *names)


def requests(kind, mib):
    stride = 128 if kind == "sequential" else 416
    return [(at, 128 * KIB) for at in range(0, mib * KIB * KIB - 128 * KIB + 1, stride * KIB)]


def spent(process):
    """CPU seconds, read calls, and bytes that came from the device."""
    stat = Path(f"/proc/{process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
    io = dict(line.split(": ") for line in Path(f"/proc/{process.pid}/io").read_text().splitlines())
    cpu = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    return cpu, int(io["syscr"]), int(io["read_bytes"])


def read(pool, kind, mib):
    """MB/s with cold caches, and what the server spent."""
    pool.forget_cached()
    disk = pool.serve()
    wanted = requests(kind, mib)
    before = spent(pool.server)
    started = time.perf_counter()
    for offset, length in wanted:
        disk.pread(length, offset)
    took = time.perf_counter() - started
    after = spent(pool.server)
    disk.shutdown()
    pool.stop()
    return (len(wanted) * 128 * KIB / took / 1e6, *(b - a for a, b in zip(before, after)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    scratch = Path(args.scratch)
    scratch.mkdir(parents=True)
    try:
        base = Pool(args.program, scratch / "base")
        make(base, args.mib)
        for kind in ("sequential", "stride"):
            read(base, kind, args.mib) if kind == "sequential" else None
            ways = {"before": base}
            traced = base.copy(scratch / f"{kind}-traced")
            for path in (traced.path / "cache").glob("trace.*"):
                path.unlink()
            read(traced, kind, args.mib)
            summaries = {}
            for way, arguments in (("traced", ["--hot", "100", "disk"]), ("bypass", ["--bypass", "disk"]), ("whole", ["--whole", "disk"])):
                pool = traced if way == "traced" else base.copy(scratch / f"{kind}-{way}")
                lines = pool.run("defrag", "--json", *arguments).splitlines()
                summaries[way] = json.loads(lines[-1])
                ways[way] = pool
            speeds = {way: [] for way in ways}
            for _ in range(args.rounds):
                for way, pool in ways.items():
                    speeds[way].append(read(pool, kind, args.mib))
            print(f"{kind}:")
            whole = summaries["whole"]["copied_bytes"]
            for way in ways:
                speed, cpu, calls, got = (statistics.median(column) for column in zip(*speeds[way]))
                copied = summaries[way]["copied_bytes"] if way in summaries else 0
                reads = summaries[way]["after"]["device_reads"] if way in summaries else summaries["bypass"]["before"]["device_reads"]
                print(f"  {way:8} {speed:7.1f} MB/s  CPU {cpu:5.2f} s  {calls:6.0f} reads  {got / 1e6:6.1f} MB from the device  copied {copied / 1e6:7.1f} MB ({copied * 100 / whole:.1f} %)  device reads {reads:.0f}")
            for way in ways:
                if way != "before":
                    shutil.rmtree(ways[way].path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
