#!/usr/bin/env python3
"""Clients read at random from a slow disk while maintenance, or nothing, goes on beside: what their latencies become.

The disk is a model with arms, in real time (`--disk arms`), or a loop device that the kernel throttles to the requests and
bytes of a hard disk (`--disk throttled`; cgroup v1 blkio). Needs root. The clients send at random times (Poisson), so
many requests a second whatever the latency. Beside them in turn: nothing; a scrub; a scrub, collections that find containers
of which half is needed, and a copy to a pool on another disk; restores of a tree, or checks of the pool, in processes of their own. The server
shares as it does by itself.
"""
import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import measure
import servers
import slow_disk

WAYS = {"alone": (), "scrub": ("scrub",), "scrub, gc, copy": ("scrub", "gc", "copy"), "restore": ("restore",), "check": ("check",)}
DISKS = {"arms": slow_disk.DiskWithArms, "throttled": slow_disk.Disk}
FLOWS = ("scrub", "collect", "replication")
# Those in processes of their own.
APART = {"restore", "check"}
# What collections find work in, beside the volume that clients read.
CHURNED_MIB = 256
# A tree beside it, in files of some MiB.
TREE_MIB, FILE_MIB = 768, 4


def main():
    args = parse_args()
    records = []
    with slow_disk.room("qos", args.mib + CHURNED_MIB + TREE_MIB, DISKS[args.disk]) as (work, disk):
        server = prepare(args, disk, work)
        for round_number in range(args.rounds):
            for used in args.used:
                for way in args.ways:
                    record = {"used": used, "way": way, "round": round_number, **measure_one(args, disk, server, used, way, work)}
                    records.append(record)
                    print(json.dumps(record), flush=True)
    measure.save(args.json, "qos", records=records)
    print(table(records))


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=1024, help="size of the volume")
    parser.add_argument("--disk", choices=DISKS, default="arms")
    parser.add_argument("--ways", type=lambda text: text.split(";"), default=list(WAYS), help="of: " + "; ".join(WAYS))
    parser.add_argument("--iops", type=int, default=120, help="reads a second that the disk does; that with arms does as many alone, and more when it can choose")
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
    if any(APART & set(WAYS[way]) for way in args.ways):
        tree = work / "tree"
        tree.mkdir()
        for number in range(TREE_MIB // FILE_MIB):
            (tree / str(number)).write_bytes(os.urandom(FILE_MIB << 20))
        server.command("backup", tree)
        shutil.rmtree(tree)
    return server


def measure_one(args, disk, server, used, way, work):
    tasks = WAYS[way]
    server.start()
    try:
        # Its own gc would begin in the one cell or the other, as garbage grows.
        server.command("qos", "set", "device=disk", "gc=off")
        # In all ways that are compared: they find an index that is as large, and as much of it in memory.
        if any("gc" in WAYS[way] for way in args.ways):
            churn(server)
        # Recipes and index: a running server has them in memory.
        fio(server, "--runtime=3", "--time_based", "--iodepth=16")
        os.sync()
        measure.drop_caches()
        disk.throttle(args.iops, args.mb_per_s * 1_000_000)
        with Beside(server, work / "copies", tasks) as beside:
            # What maintenance read while it had the disk to itself is in the system's memory.
            measure.drop_caches()
            begun, before, reads, busy, start = beside.restored(), flows(server), disk.reads(), disk.busy_seconds(), time.monotonic()
            rate = args.iops * used // 100
            job = fio(server, f"--rate_iops={rate}", "--rate_process=poisson", f"--runtime={args.seconds}", "--time_based",
                      "--iodepth=32", f"--randseed={used}")
            seconds, after, restored = time.monotonic() - start, flows(server), beside.restored() - begun
            reads, busy = disk.reads() - reads, disk.busy_seconds() - busy
    finally:
        disk.throttle(0)
        server.stop()
    percentile = job["clat_ns"]["percentile"]
    grown = lambda name, *keys: sum(after[name][key] - before[name][key] for key in keys) / seconds
    return {"iops": job["iops"], "mean_ms": job["clat_ns"]["mean"] / 1e6, "p50_ms": percentile["50.000000"] / 1e6,
            "p99_ms": percentile["99.000000"] / 1e6, "device_reads_per_s": reads / seconds, "device_busy": busy / seconds,
            "restored_mib_per_s": restored / seconds / (1 << 20), "leased": {name: flow.get("leased_bytes", 0) for name, flow in after.items()},
            "mib_per_s": {name: grown(name, "read_bytes", "written_bytes") / (1 << 20) for name in FLOWS},
            "clients_waited_s_per_s": grown("random", "wait_seconds"), "clients_busy_s_per_s": grown("random", "busy_seconds")}


def flows(server):
    """What each kind of request has had of the device."""
    shown = json.loads(server.command("qos", "show", "--json").splitlines()[0])
    return {flow["flow"]: flow for flow in shown["flows"]}


def churn(server):
    """Half of another volume is written anew, here and there: its old containers are half needed."""
    if "churned" not in server.command("volume", "list").split():
        server.command("volume", "create", "churned", "--size", f"{CHURNED_MIB}M")
        write(server, "--rw=write", "--bs=1M")
    write(server, "--rw=randwrite", "--bs=16k", f"--io_size={CHURNED_MIB // 2}M")
    # What volumes have written is their own, and not maintenance: until all of it is in containers. The journal keeps
    # the slot that it is in.
    wait_until(lambda: not unfolded(server), "checkpoints")


def unfolded(server):
    """Pieces of volumes that are in the journal only."""
    return sum(volume.get("pieces_unfolded", 0) for volume in map(json.loads, server.command("volume", "list", "--json").splitlines()))


def wait_until(is_so, what, seconds=600):
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not done after {seconds} s")
        time.sleep(0.1)


def write(server, *words):
    uri = server.uri.replace(f"/{servers.EXPORT}?", "/churned?")
    subprocess.run(["fio", "--name=churn", "--ioengine=nbd", f"--uri={uri}", "--iodepth=16", "--refill_buffers", "--end_fsync=1", *words],
                   check=True, capture_output=True)


class Again:
    """A command in a process of its own, again and again, each time with nothing in memory; a restore's bytes are counted."""

    def __init__(self, server, target, *words):
        self.server, self.target, self.words = server, target, words
        self.child, self.stopping, self.done_bytes, self.counting = None, False, 0, threading.Lock()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopping:
            with self.counting:
                self.done_bytes += self.in_target()
                shutil.rmtree(self.target, ignore_errors=True)
            measure.drop_caches()
            self.child = subprocess.Popen([self.server.program, *self.words], env=self.server.env(), stdout=subprocess.DEVNULL)
            if self.child.wait() and not self.stopping:
                raise RuntimeError(f"{self.words} failed")

    def in_target(self):
        size = 0
        for folder, _, names in os.walk(self.target):
            for name in names:
                # It may get its name just now.
                with contextlib.suppress(FileNotFoundError):
                    size += os.lstat(os.path.join(folder, name)).st_blocks * 512
        return size

    def restored(self):
        with self.counting:
            return self.done_bytes + self.in_target()

    def stop(self):
        self.stopping = True
        self.child.kill()
        self.thread.join()
        shutil.rmtree(self.target, ignore_errors=True)


class Beside:
    """Maintenance in the server, and processes beside it, for as long as this lasts.

    A scrub or a copy that comes to its end begins again: a task that has nothing left to do measures nothing.
    """

    def __init__(self, server, copies, tasks):
        self.server, self.copies, self.tasks, self.apart = server, copies, tasks, None
        self.children, self.threads, self.ending, self.begun = [], [], threading.Event(), threading.Lock()

    def __enter__(self):
        if "scrub" in self.tasks:
            self.keep(self.scrub)
        if "copy" in self.tasks:
            name = f"{servers.EXPORT}@{time.monotonic_ns()}"
            self.server.command("volume", "snapshot", name)
            self.keep(lambda: self.copy(name))
        if "gc" in self.tasks:
            self.begin("gc", "--max-unused", "0")
            # It has marked what is needed, and stores.
            stored = flows(self.server)["collect"]["written_bytes"]
            wait_until(lambda: flows(self.server)["collect"]["written_bytes"] > stored, "marking")
        restored = self.copies.with_name("restored")
        if "restore" in self.tasks:
            self.apart = Again(self.server, restored, "restore", "latest", "--target", str(restored))
        if "check" in self.tasks:
            self.apart = Again(self.server, restored, "check", "--read-data")
        return self

    def keep(self, task):
        """Does it again and again, in a thread."""
        def run():
            while not self.ending.is_set():
                task()
        thread = threading.Thread(target=run)
        thread.start()
        self.threads.append(thread)

    def scrub(self):
        self.server.command("scrub", "start")
        self.ending.wait(1)

    def copy(self, name):
        shutil.rmtree(self.copies, ignore_errors=True)
        self.server.command("init", "-r", str(self.copies))
        child = self.begin("copy", name, "--to", str(self.copies), "--to-password-command", "echo measured")
        if child and child.wait() and not self.ending.is_set():
            raise RuntimeError("copy failed")

    def restored(self):
        return self.apart.restored() if self.apart else 0

    def begin(self, *words):
        with self.begun:
            if self.ending.is_set():
                return None
            child = subprocess.Popen([self.server.program, *words], env=self.server.env(), stdout=subprocess.DEVNULL)
            self.children.append(child)
            return child

    def __exit__(self, *_):
        if self.apart:
            self.apart.stop()
        with self.begun:
            self.ending.set()
        for child in self.children:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
            child.wait(60)
        for thread in self.threads:
            thread.join()
        if "scrub" in self.tasks:
            self.server.command("scrub", "pause")


def fio(server, *words):
    return slow_disk.fio(server, "--norandommap", "--randrepeat=0", *words)


def table(records):
    rows = ["| clients ask for | beside | reads/s | device busy, % | mean, ms | p99, ms | p99 to alone | scrub, gc, copy, MiB/s | restored, MiB/s |",
            "|---|---|---|---|---|---|---|---|---|"]
    for used in sorted({r["used"] for r in records}):
        of = lambda way: [r for r in records if (r["used"], r["way"]) == (used, way)]
        for way in (way for way in WAYS if of(way)):
            runs = of(way)
            p99, least, most = measure.middle(runs, "p99_ms"), min(r["p99_ms"] for r in runs), max(r["p99_ms"] for r in runs)
            ratio = f"{p99 / measure.middle(of('alone'), 'p99_ms'):.2f}" if of("alone") else ""
            moved = ", ".join(f"{measure.middle([r['mib_per_s'] for r in runs], name):.2f}" for name in FLOWS)
            rows.append(f"| {used} % | {way} | {measure.middle(runs, 'iops'):.1f} | {measure.middle(runs, 'device_busy') * 100:.0f} | "
                        f"{measure.middle(runs, 'mean_ms'):.2f} | {p99:.1f} [{least:.1f}..{most:.1f}] | {ratio} | {moved} | {measure.middle(runs, 'restored_mib_per_s'):.1f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
