#!/usr/bin/env python3
"""Backups beside a web server (Duet, SOSP'15, section 6): `quintet backup` with what is in memory first, and in the order of the
tree, beside restic, borg and kopia.

Files of 1 MiB lie on ext4 on a disk with arms (slow_disk.py). A load opens a file of its hot set at random, reads it whole, and
appends 128 KiB to a log, at a rate that keeps the disk busy for --busy of the time. The hot set is 25 to 100 % of the files
("overlap": all files are backed up). The load and the tool share the memory of a cgroup, page cache included. Pools are on the
disk of this folder's benchmarks; what a tool leaves of its pool in the page cache takes memory from the load.

For each overlap and tool: memory is emptied, the load runs alone, then beside one backup, then the tool's pool is deleted. Device
reads of a tool are those that the kernel counts for its processes. Needs root, the memory cgroup (version 1), and FUSE.
"""
import argparse
import ctypes
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import measure
import slow_disk
import tools

FILE_BYTES, APPEND_BYTES = 1 << 20, 128 << 10
GROUP = Path("/sys/fs/cgroup/memory/quintet-host-backup")
LOG_BYTES_MAX = 64 << 20
LETTERS = bytes(b"acgt"[number % 4] for number in range(256))


class Cached(tools.Quintet):
    name, note = "quintet", "--background"

    def backup_argv(self, source, force):
        return [self.program, "backup", "--background", source]


class Foreground(tools.Quintet):
    name, note = "quintet-foreground", "without --background"


class InTree(tools.Quintet):
    name, note = "quintet-tree", "--background --order=tree"

    def backup_argv(self, source, force):
        return [self.program, "backup", "--background", "--order=tree", source]


TOOLS = {tool.name: tool for tool in (Cached, InTree, Foreground, tools.Restic, tools.Borg, tools.Kopia)}


class Load:
    """The web server: arrivals of a Poisson process, served by threads of this process. Latencies count from the arrival."""

    def __init__(self, files, log, per_second, seed):
        self.files, self.log, self.per_second = files, log, per_second
        self.dice, self.latencies, self.stopped = random.Random(seed), [], False
        self.waiting, self.ready = [], threading.Condition()
        self.threads = [threading.Thread(target=self.serve, daemon=True) for _ in range(16)]
        self.threads.append(threading.Thread(target=self.arrive, daemon=True))

    def arrive(self):
        at = time.monotonic()
        while not self.stopped:
            at += self.dice.expovariate(self.per_second)
            time.sleep(max(0, at - time.monotonic()))
            with self.ready:
                self.waiting.append((at, self.dice.choice(self.files)))
                self.ready.notify()

    def serve(self):
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        line = b"x" * APPEND_BYTES
        while True:
            with self.ready:
                while not self.waiting and not self.stopped:
                    self.ready.wait()
                if self.stopped:
                    break
                at, path = self.waiting.pop(0)
            with open(path, "rb", buffering=0) as file:
                while file.read(APPEND_BYTES):
                    pass
            self.latencies.append((at, time.monotonic() - at))
            if os.fstat(log).st_size > LOG_BYTES_MAX:
                os.truncate(self.log, 0)
            os.write(log, line)
        os.close(log)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        with self.ready:
            self.stopped = True
            self.ready.notify_all()
        for thread in self.threads:
            thread.join()

    def between(self, begin, end):
        """Latencies in ms of the requests that arrived then."""
        return sorted(1000 * latency for at, latency in list(self.latencies) if begin <= at < end)


def share(latencies, part):
    return latencies[min(len(latencies) - 1, int(len(latencies) * part))] if latencies else None


def enter_group(mib):
    """This process, and what it starts, may use so much memory, the page cache included."""
    GROUP.mkdir(exist_ok=True)
    (GROUP / "memory.limit_in_bytes").write_text(str(mib << 20))
    (GROUP / "cgroup.procs").write_text(str(os.getpid()))


def leave_group():
    (GROUP.parent / "cgroup.procs").write_text(str(os.getpid()))
    GROUP.rmdir()


def cached_bytes(paths):
    """What mincore knows of these files, without an open mapping of ours bringing anything in."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    pages, total = (ctypes.c_ubyte * (FILE_BYTES // 4096))(), 0
    for path in paths:
        file = os.open(path, os.O_RDONLY | os.O_NOATIME)
        at = libc.mmap(None, FILE_BYTES, 1, 1, file, 0)
        os.close(file)
        if libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(FILE_BYTES), pages) == 0:
            total += 4096 * sum(page & 1 for page in pages)
        libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(FILE_BYTES))
    return total


def back_up(tool, source, log):
    """Seconds, and bytes that its processes read from devices. Input and output are counted when a child has been waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    argv, folder = tool.backup(source, False)
    with open(log, "ab") as out:
        status = subprocess.run(list(map(str, argv)), env=tool.env(), cwd=folder, stdout=out, stderr=out, check=False).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"seconds": time.monotonic() - begin, "read_bytes": (after.ru_inblock - before.ru_inblock) * 512, "exit_code": status}


def cell(args, disk, files, kind, overlap, work):
    """One tool at one overlap."""
    room = work / "room"
    shutil.rmtree(room, ignore_errors=True)
    (room / "home").mkdir(parents=True)
    tool, log = kind(room, args.quintet if issubclass(kind, tools.Quintet) else None), work / f"{kind.name}.log"
    for argv in tool.init():
        with open(log, "ab") as out:
            subprocess.run(list(map(str, argv)), env=tool.env(), check=True, stdout=out, stderr=out)
    measure.drop_caches()
    hot = random.Random(7).sample(files, len(files) * overlap // 100)
    enter_group(args.memory_mib)
    try:
        with Load(hot, disk.point / "log", args.per_second, args.seed) as load:
            time.sleep(args.warm_seconds)
            quiet = time.monotonic()
            busy = disk.busy_seconds()
            time.sleep(args.alone_seconds)
            begin = time.monotonic()
            busy = (disk.busy_seconds() - busy) / (begin - quiet)
            cached = cached_bytes(files)
            hot_before = cached_bytes(hot)
            begin = time.monotonic()
            done = back_up(tool, disk.point / "tree", log)
            end = time.monotonic()
            hot_after = cached_bytes(hot)
            alone, beside = load.between(quiet, begin), load.between(begin, end)
    finally:
        leave_group()
    shutil.rmtree(room)
    total = len(files) * FILE_BYTES
    return {
        "tool": kind.name, "overlap": overlap, **done, "busy_alone": busy, "total_bytes": total, "cached_bytes_before": cached,
        "saved_share": 1 - done["read_bytes"] / total, "cached_share": cached / total, "hot_kept_share": hot_after / max(hot_before, 1),
        "requests_alone": len(alone), "requests_beside": len(beside), "p50_alone_ms": share(alone, 0.5), "p50_beside_ms": share(beside, 0.5),
        "p99_alone_ms": share(alone, 0.99), "p99_beside_ms": share(beside, 0.99),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=2048, help="files of 1 MiB")
    parser.add_argument("--memory-mib", type=int, default=1024, help="page cache and memory of load and tool together")
    parser.add_argument("--overlaps", default="25,50,75,100")
    parser.add_argument("--tools", default="quintet,quintet-tree,restic,borg,kopia")
    parser.add_argument("--per-second", type=float, default=12, help="requests of the load")
    parser.add_argument("--warm-seconds", type=float, default=40)
    parser.add_argument("--alone-seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quintet", default=str(slow_disk.CHECKOUT / "target/release/quintet"))
    parser.add_argument("--json", type=Path, help="results")
    args = parser.parse_args()
    if not GROUP.parent.joinpath("memory.limit_in_bytes").exists():
        sys.exit("host_backup: needs the memory cgroup (version 1): skipped")
    records = []
    with slow_disk.room("host_backup", args.mib, slow_disk.DiskWithArms) as (work, disk):
        tree = disk.point / "tree"
        dice, files = random.Random(3), []
        for number in range(args.mib):
            folder = tree / f"{number % 64:02}"
            folder.mkdir(parents=True, exist_ok=True)
            files.append(folder / f"{number:05}")
            # Four letters: compression makes a quarter of it.
            files[-1].write_bytes(dice.randbytes(FILE_BYTES).translate(LETTERS))
        os.sync()
        for round_number in range(args.rounds):
            for overlap in map(int, args.overlaps.split(",")):
                for name in args.tools.split(","):
                    record = {"round": round_number, **cell(args, disk, files, TOOLS[name], overlap, work)}
                    records.append(record)
                    print(json.dumps({key: round(value, 3) if isinstance(value, float) else value for key, value in record.items()}), flush=True)
        measure.save(args.json, "host_backup", machine=measure.machine("/"), records=records)


if __name__ == "__main__":
    main()
