#!/usr/bin/env python3
"""The space benchmark: a history of backups, most of it forgotten, and what it takes to get the space back.

A tree of files of noise changes for some generations: some files are replaced, some are changed inside, some go, some
come. Every tool backs up every generation, forgets all but the newest few, and collects. Measured are wall time, CPU
time and peak memory of the collection, the bytes before and after it, and the least that could be stored. Then the newest generation is
restored and compared. Rounds are interleaved.

With `--beside-backups` the tree changes once more, and it is backed up while the space is collected. A tool that locks the
repository for itself waits for the lock; one whose documentation forbids a backup beside what is measured here makes it afterwards. Measured is until
when both are done, and by how much the backup is later than the last one that ran alone. Quintet does both through a server; where its
`gc` says that something stays in the trash because the backup held it back, another `gc` deletes that, which counts; so does the server's CPU time. Kopia's collection may
be asked to be one that is safe beside others (`--kopia-safety full`), which gives little back at once. See README.md.
"""
import argparse
import contextlib
import datetime
import filecmp
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import measure
import tools as toolbox

TOOLS = ("quintet", "restic", "kopia", "rustic")
# What a backup and a collection side by side need: restic's prune locks the repository for itself, whoever comes first.
BESIDE_ARGS = {"restic": ["--retry-lock", "1h"]}
# Collections that give space back at once only because nobody else may use the repository: kopia's `--safety=none` and
# rustic's `--instant-delete` say so.
ALONE = ("kopia", "rustic")
# Kopia's first run notes what is not needed and rewrites short packs, the second deletes.
KOPIA_RUNS = 2
# Quintet says so of what a backup held back.
STAYS = "in the trash; later runs delete them"
# Begins so much later than the collection.
BESIDE_AFTER_S = 0.2


class Source:
    """The tree, the same history for every tool and round."""

    def __init__(self, top, args):
        self.top, self.args, self.random = Path(top), args, random.Random(2026)
        self.files, self.named = [], 0
        for _ in range(args.files):
            self.add()

    def add(self):
        path = self.top / f"{self.named % 32:02}" / f"f{self.named}"
        self.named += 1
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.contents())
        self.files.append(path)

    def contents(self):
        size = self.random.randrange(4096, 2 * self.args.file_kib * 1024)
        if self.args.compressible:
            return self.random.randbytes(size // 2).hex().encode()
        return self.random.randbytes(size)

    def change(self):
        count = max(1, len(self.files) * self.args.percent // 100)
        for path in self.random.sample(self.files, count):
            kind = self.random.randrange(4)
            if kind == 0:
                path.unlink()
                self.files.remove(path)
                self.add()
            elif kind == 1:
                path.write_bytes(self.contents())
            else:
                at = self.random.randrange(max(1, path.stat().st_size - 4096))
                with open(path, "r+b") as file:
                    file.seek(at)
                    file.write(self.random.randbytes(4096))


class Image:
    """A disk image, the same history for every tool and round."""

    def __init__(self, top, args):
        self.top, self.args, self.random = Path(top) / "disk.raw", args, random.Random(2026)
        self.top.parent.mkdir(parents=True)
        with open(self.top, "wb") as file:
            for _ in range(args.image_mib):
                file.write(self.random.randbytes(1 << 20))
        self.files = [self.top]

    def change(self):
        left = (self.args.image_mib << 20) * self.args.percent // 100
        with open(self.top, "r+b") as file:
            while left > 0:
                size = self.random.randrange(1, 32) * 4096
                file.seek(self.random.randrange(self.args.image_mib * 256 - 32) * 4096)
                file.write(self.random.randbytes(size))
                left -= size


def forget_and_collect(tool, args):
    """Command lines: what is not measured, then what is."""
    keep = args.keep
    if tool.name == "quintet":
        return ([[tool.program, "forget", "--keep-last", str(keep)]],
                [[tool.program, "gc", "--trash-period", "0", "--max-unused", str(args.max_unused)]])
    if tool.name == "restic":
        return ([[tool.program, "forget", "--keep-last", str(keep)]], [[tool.program, "prune"]])
    if tool.name == "rustic":
        return ([[tool.program, "forget", "--keep-last", str(keep)]],
                [[tool.program, "prune", "--instant-delete", "--keep-delete", "0s", "--keep-pack", "0s"]])
    # What only a time protects does not go in a safe run: two safe runs a day apart would be the usual way.
    policy = ["--keep-latest", str(keep), "--keep-hourly", "0", "--keep-daily", "0", "--keep-weekly", "0",
              "--keep-monthly", "0", "--keep-annual", "0"]
    return ([[tool.program, "policy", "set", "--global", *policy], [tool.program, "snapshot", "expire", "--all", "--delete"]],
            [[tool.program, "maintenance", "run", "--full", f"--safety={args.kopia_safety}"]] * KOPIA_RUNS)


def main():
    args = parse_args()
    work = measure.bench_dir() / "work-gc"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    names = [name for name in args.tools if os.access(program_of(name, args) or "", os.X_OK)]
    result = {"benchmark": "gc", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": measure.command_of("bench/gc.py", sys.argv[1:]), "machine": measure.machine(work), "versions": {
                  name: measure.first_line([program_of(name, args), *toolbox.TOOLS[name].version_args]) for name in names},
              "records": []}
    for round_number in range(args.rounds):
        shift = round_number % max(1, len(names))
        for name in names[shift:] + names[:shift]:
            record = one(name, work, args)
            record["round"] = round_number
            result["records"].append(record)
            print(json.dumps(record), flush=True)
            if args.json:
                Path(args.json).write_text(json.dumps(result, indent=1))
    shutil.rmtree(work, ignore_errors=True)
    print_summary(result, names)


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=lambda text: text.split(","), default=list(TOOLS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--file-kib", type=int, default=128, help="mean size")
    parser.add_argument("--image-mib", type=int, help="one disk image of this size instead of a tree")
    parser.add_argument("--compressible", action="store_true", help="files of hexadecimal digits, which shrink to half")
    parser.add_argument("--percent", type=int, default=8, help="files, or bytes of the image, that change between two generations")
    parser.add_argument("--generations", type=int, default=12)
    parser.add_argument("--keep", type=int, default=3)
    parser.add_argument("--quintet", default=str(checkout / "target" / "release" / "quintet"))
    parser.add_argument("--beside-backups", action="store_true", help="back one more generation up at the same time")
    parser.add_argument("--max-unused", type=int, default=5, help="percent that quintet's gc may leave unused")
    parser.add_argument("--kopia-safety", choices=("none", "full"), default="none",
                        help="none: gives space back at once, and nobody else may use the repository; full: beside others")
    parser.add_argument("--json", help="write the raw results here, after every run")
    parser.add_argument("--quiet-wait", type=float, default=5)
    return parser.parse_args()


def program_of(name, args):
    return make(name, "/", args).program


def make(name, room, args):
    kind = toolbox.TOOLS[name]
    return kind(room, args.quintet if name == "quintet" else None)


def one(name, work, args):
    room = work / "room"
    shutil.rmtree(room, ignore_errors=True)
    (room / "home").mkdir(parents=True)
    source = (Image if args.image_mib else Source)(room / "source", args)
    tool = make(name, room, args)
    log = room / "log"

    def step(argv, cwd=None, log=log):
        done = measure.run([str(word) for word in argv], tool.env(), cwd, log)
        if done["code"] != 0:
            raise SystemExit(f"gc: {' '.join(map(str, argv))}: exit {done['code']}\n{log.read_text(errors='replace')[-2000:]}")
        return done

    for argv in tool.init():
        step(argv)
    for generation in range(args.generations):
        if generation:
            source.change()
        argv, cwd = tool.backup(source.top, False)
        alone = step(argv, cwd)
    before = measure.walk_sizes(tool.repo)[2]
    first, measured = forget_and_collect(tool, args)
    for argv in first:
        step(argv)
    if args.beside_backups:
        source.change()
    measure.settle(args.quiet_wait)
    beside = {}
    if args.beside_backups:
        argv, cwd = tool.backup(source.top, False)
        argv += BESIDE_ARGS.get(name, [])
        measured = [line + BESIDE_ARGS.get(name, []) for line in measured]
        if name == "quintet":
            with serving(tool, room / "serve.log") as server:
                is_left = lambda: STAYS in log.read_text()
                runs, beside = collect_beside(measured, is_left, step, argv, cwd, False, room)
                runs[0].update(user_s=runs[0]["user_s"] + cpu_seconds(server.pid), rss_bytes=peak_rss_bytes(server.pid))
        else:
            is_alone = name in ALONE and not (name == "kopia" and args.kopia_safety == "full")
            runs, beside = collect_beside(measured, lambda: False, step, argv, cwd, is_alone, room)
        beside["alone_s"] = alone["wall_s"]
    else:
        runs = [step(argv) for argv in measured]
    target = room / "target"
    target.mkdir()
    argv, cwd = tool.restore(source.top, str(target))
    step(argv, cwd)
    same(source, tool.restored(source.top, target))
    return {"tool": name, "wall_s": sum(run["wall_s"] for run in runs), "cpu_s": sum(run["user_s"] + run["sys_s"] for run in runs) + beside.get("backup_cpu_s", 0),
            "rss_mib": max(run["rss_bytes"] for run in runs) / 1048576, "before_bytes": before,
            "after_bytes": measure.walk_sizes(tool.repo)[2], "newest_bytes": sum(path.stat().st_size for path in source.files), **beside}


@contextlib.contextmanager
def serving(tool, log):
    """Quintet's server, which runs the commands of others."""
    with open(log, "wb") as out:
        server = subprocess.Popen([tool.program, "serve"], env=tool.env(), stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        while server.poll() is None and not re.search("^serving", log.read_text(), re.MULTILINE):
            time.sleep(0.02)
        yield server
    finally:
        server.terminate()
        server.wait()


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / measure.TICKS


def peak_rss_bytes(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) * 1024


def collect_beside(measured, is_left, step, backup, cwd, is_alone, room):
    """Runs the collection and a backup at once, or one after the other; then the collection again if it left something. What
    collecting cost, and the times of the backup and of all."""
    runs, failed, began = [], [], time.monotonic()

    def collect():
        try:
            runs.extend(step(argv) for argv in measured)
        except SystemExit as why:
            failed.append(why)

    collecting = threading.Thread(target=collect)
    collecting.start()
    if is_alone:
        collecting.join()
    wanted = began + BESIDE_AFTER_S
    time.sleep(max(0, wanted - time.monotonic()))
    done = step(backup, cwd, room / "backup.log")
    backup_s = time.monotonic() - wanted
    collecting.join()
    if failed:
        raise failed[0]
    if is_left():
        runs += [step(argv) for argv in measured]
    return runs, {"backup_cpu_s": done["user_s"] + done["sys_s"], "backup_s": backup_s, "backup_run_s": done["wall_s"], "both_s": time.monotonic() - began}


def same(source, restored):
    for path in source.files:
        if not filecmp.cmp(path, restored / path.relative_to(source.top), shallow=False):
            sys.exit(f"gc: {path} came back different")


def print_summary(result, names):
    print("| tool | wall, s | CPU, s | peak RSS, MiB | before, MB | after, MB | given back, MB a CPU s |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        records = [record for record in result["records"] if record["tool"] == name]
        median = lambda key: statistics.median(record[key] for record in records)
        walls = [record["wall_s"] for record in records]
        back = median("before_bytes") - median("after_bytes")
        print(f"| {name} | {median('wall_s'):.2f} [{min(walls):.2f}..{max(walls):.2f}] | {median('cpu_s'):.2f} | "
              f"{median('rss_mib'):.0f} | {median('before_bytes') / 1e6:.1f} | {median('after_bytes') / 1e6:.1f} | "
              f"{back / 1e6 / max(median('cpu_s'), 0.01):.0f} |")
    if not any("both_s" in record for record in result["records"]):
        return
    print("\n| tool | until both are done, s | backup, from when it was wanted, s | the last backup alone, s |")
    print("|---|---|---|---|")
    for name in names:
        records = [record for record in result["records"] if record["tool"] == name]
        median = lambda key: statistics.median(record[key] for record in records)
        both = [record["both_s"] for record in records]
        print(f"| {name} | {median('both_s'):.2f} [{min(both):.2f}..{max(both):.2f}] | {median('backup_s'):.2f} | {median('alone_s'):.2f} |")


if __name__ == "__main__":
    main()
