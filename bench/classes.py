#!/usr/bin/env python3
"""The loads of Differentiated Storage Services in real time: ext4 in a volume, by class and without.

The pool is on the disk with arms of slow_disk.py; `quintet serve --mount` serves the volume, and ext4 is in it over a loop
device. The fast tier is a directory on this machine's disk. Each row and load has a new pool, and little memory. What the
machine keeps of the pool's files is dropped all the time, and the file system is mounted anew before each phase. Needs root.

A tier may write an eighth of its size at once, and three times its size a day (docs/policies.md). A run of a minute cannot
fill it. So --flash, the part of the data that it may hold, is the part that it may write at once; --by-size makes it the size.
"""
import argparse
import contextlib
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import measure
import servers
import slow_disk
from class_loads import LOADS, MIB

VOLUME_MIB = 640
# A day's budget is three capacities; an eighth may be written at once.
AT_ONCE = 8
POLICIES = ("t1", "t2", "t3", "t4", "t5", "vm-images", "adaptive", "auto")
ROWS = ("no tier", "no policy", *POLICIES)
WAITS_SECONDS_MAX = 60


def main():
    args = parse_args()
    result = {"benchmark": "classes", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": measure.command_of("bench/classes.py", sys.argv[1:]), "rounds": args.rounds, "flash": args.flash,
              "version": measure.first_line([args.quintet, "--version"]), "records": []}
    with slow_disk.room("classes", args.disk_mib, SmallDisk) as (work, disk):
        result["machine"] = measure.machine(work)
        for number in range(args.rounds):
            for name in args.loads:
                load = LOADS[name](args.mib)
                for row in args.rows if number % 2 == 0 else args.rows[::-1]:
                    record = {"load": name, "row": row, "round": number, **measure_row(args, work, disk, load, row)}
                    result["records"].append(record)
                    print(json.dumps({key: record[key] for key in ("load", "row", "round", "seconds", "device")}), flush=True)
                    if args.json:
                        Path(args.json).write_text(json.dumps(result, indent=1))
    print(tables(result["records"]))


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    listed = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=64, help="size of the files, about")
    parser.add_argument("--flash", type=float, default=0.6, help="part of the data that the tier may hold")
    parser.add_argument("--by-size", action="store_true", help="the tier has this size, and may write an eighth of it at once")
    parser.add_argument("--disk-mib", type=int, default=1536)
    parser.add_argument("--loads", type=listed, default=["pool", "mail", "untar"], help="comma list of: " + ",".join(LOADS))
    parser.add_argument("--rows", type=listed, default=list(ROWS), help="comma list of: " + ",".join(ROWS) + ", or any policy")
    parser.add_argument("--memory", default="80M", help="passed to `quintet serve --memory`")
    parser.add_argument("--priority", type=str.split, default=[],
                        help="before the server, such as 'nice -n -15', where others have the machine too")
    parser.add_argument("--quintet", default=str(checkout / "target" / "release" / "quintet"), help="the binary")
    parser.add_argument("--json", help="write the raw results here")
    return parser.parse_args()


class SmallDisk(slow_disk.DiskWithArms):
    """Its bytes are in memory: no more than needed."""

    def __init__(self, work, mib):
        super().__init__(work, mib)
        self.bytes = mib * MIB


class Room:
    """A pool with one volume and ext4 in it, and its server."""

    def __init__(self, args, work, disk, load, row):
        self.args, self.work, self.row = args, work, row
        self.pool, self.fast, self.mount, self.inner = (disk.point / "pool", work / "fast", work / "mount", work / "inner")
        self.log = work / "serve.log"
        self.env = {**os.environ, "QUINTET_PASSWORD": "measured", "QUINTET_REPOSITORY": str(self.pool), "HOME": str(work)}
        self.clear()
        self.mount.mkdir(exist_ok=True)
        self.inner.mkdir(exist_ok=True)
        self.command("init")
        self.command("volume", "create", "disk", "--size", f"{VOLUME_MIB}M")
        size = load.data_bytes * args.flash * (1 if args.by_size else AT_ONCE)
        tier = [] if row == "no tier" else ["--fast", self.fast, "--fast-size", f"{max(64, int(size) // MIB)}M"]
        self.words = ["serve", "--mount", self.mount, "--memory", args.memory, "--journal", "16M", "--qos", "gc=off", "scrub=off", *tier,
                      *self.policy()]

    def policy(self):
        if self.row == "even":
            return ["--policy", even_policy(self, "t5")]
        return {"no tier": [], "no policy": [], "auto": ["--policy", "adaptive"]}.get(self.row, ["--policy", self.row])

    def clear(self):
        for folder in (self.pool, self.fast):
            shutil.rmtree(folder, ignore_errors=True)
        self.fast.mkdir()

    def command(self, *words):
        return servers.say(self.args.quintet, self.env, *words)

    @contextlib.contextmanager
    def served(self):
        """The volume's file stays open: what is known of a volume is forgotten when its last client leaves."""
        self.log.write_text("")
        server = servers.Process([*self.args.priority, self.args.quintet, *self.words], self.env, self.log,
                                 lambda: "\nserving" in "\n" + self.log.read_text())
        if self.row == "auto":
            self.command("policy", "set", "auto")
        file = os.open(self.mount / "volumes" / "disk", os.O_RDONLY)
        try:
            yield
        finally:
            # A server whose file backs a mounted file system must not end.
            if os.path.ismount(self.inner):
                unmount(self.inner)
            os.close(file)
            server.stop()

    @contextlib.contextmanager
    def mounted(self):
        loop = subprocess.run(["losetup", "-f", "--show", "--direct-io=on", self.mount / "volumes" / "disk"], check=True,
                              capture_output=True, text=True).stdout.strip()
        try:
            subprocess.run(["mount", loop, self.inner], check=True)
        finally:
            subprocess.run(["losetup", "-d", loop], check=True)
        try:
            yield self.inner
            subprocess.run(["sync", "-f", self.inner], check=True)
        finally:
            unmount(self.inner)

    def format(self):
        subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.mount / "volumes" / "disk"],
                       check=True)

    def classes(self):
        """What each class did since the server began."""
        lines = [json.loads(line) for line in self.command("policy", "status", "--json").splitlines()]
        return next((line["classes"] for line in lines if "classes" in line), [])

    def learned(self):
        """Waits until the file system in the volume was read, as far as a policy asks for it."""
        deadline = time.monotonic() + WAITS_SECONDS_MAX
        while self.policy() and time.monotonic() < deadline:
            if '"complete":true' in self.command("policy", "status", "--json"):
                return
            time.sleep(0.2)


def unmount(point):
    """When this program is interrupted, a command that uses the mount ends a little later."""
    deadline = time.monotonic() + WAITS_SECONDS_MAX
    while subprocess.run(["umount", point], check=False, stderr=subprocess.DEVNULL, timeout=120).returncode:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{point} stays in use; its server is left running")
        time.sleep(0.5)


def even_policy(room, name):
    """The rules of a policy that ships, all equally important, as everything is without one: says which class a hit has."""
    lines = room.command("policy", "show", name).splitlines()
    rows = [line.rsplit(",", 2)[0] + ",150,1.00" if line[:1].isdigit() else line for line in lines if not line.startswith("# fast:")]
    path = room.work / "even.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@contextlib.contextmanager
def nothing_in_memory(folder):
    """The machine keeps nothing of these files: it has more memory than they have bytes."""
    over = threading.Event()

    def drop():
        while not over.wait(0.5):
            for path in folder.rglob("*"):
                with contextlib.suppress(OSError):
                    file = os.open(path, os.O_RDONLY)
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                    os.close(file)

    thread = threading.Thread(target=drop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def measure_row(args, work, disk, load, row):
    room = Room(args, work, disk, load, row)
    restart = next((n for n, (name, _) in enumerate(load.phases) if name == getattr(load, "restart_before", None)), len(load.phases))
    parts = [load.phases[:restart], load.phases[restart:]]
    seconds, classes, device = {}, [], {}
    with nothing_in_memory(room.pool):
        for number, part in enumerate(parts):
            if not part:
                continue
            with room.served():
                if number == 0:
                    room.format()
                    with room.mounted() as root:
                        load.prepare(root)
                with room.mounted():
                    room.learned()
                before = disk.usage()
                seconds.update(timed(room, part))
                device = {key: after - before[key] for key, after in disk.usage().items()}
                classes = room.classes()
    room.clear()
    return {"seconds": seconds, "device": device, "classes": classes, "load_average": os.getloadavg()[0]}


def timed(room, phases):
    """{name: seconds}, each with the end of its mount: all is written then."""
    for name, phase in phases:
        start = time.monotonic()
        with room.mounted() as root:
            phase(root)
        yield name, round(time.monotonic() - start, 2)


def tables(records):
    """A table for each load: medians of the rounds; ratios of whole times, round by round, to the tier without a policy."""
    lines = []
    for name in dict.fromkeys(r["load"] for r in records):
        of = {(r["row"], r["round"]): r for r in records if r["load"] == name}
        rows, phases = list(dict.fromkeys(row for row, _ in of)), list(next(iter(of.values()))["seconds"])
        whole = {key: sum(r["seconds"].values()) for key, r in of.items()}
        lines += ["", f"### {LOADS[name].title}", "", "| | " + " | ".join(f"{phase}, s" for phase in phases) +
                  " | all, s | of no policy | device reads | hits of the tier, chunks |", "|---" * (len(phases) + 5) + "|"]
        for row in rows:
            own = [r for (other, _), r in of.items() if other == row]
            middle = lambda pick: statistics.median(map(pick, own))
            ratios = [whole["no policy", n] / whole[row, n] for other, n in of if other == row and ("no policy", n) in of]
            ratio = f"{statistics.median(ratios):.2f}" if ratios else ""
            # Without a policy the server counts no hits by class.
            hits = f"{middle(lambda r: sum(c['tier_hits'] for c in r['classes'])):,.0f}" if all(r["classes"] for r in own) else ""
            cells = [f"{middle(lambda r, p=phase: r['seconds'][p]):.1f}" for phase in phases]
            lines.append(f"| {row} | " + " | ".join(cells) + f" | {middle(lambda r: sum(r['seconds'].values())):.1f} | {ratio} | "
                         f"{middle(lambda r: r['device']['reads']):,.0f} | {hits} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
