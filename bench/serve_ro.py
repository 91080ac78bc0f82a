#!/usr/bin/env python3
"""Reading an image at random, 4 KiB at a time, without restoring it.

NBD servers over a unix socket (raw file behind nbdkit and qemu-nbd, a backup behind Quintet), and the
mounts of restic and borg, which are what their users have instead. Page cache warm throughout.
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
import servers as catalogue
import tools as toolbox

BLOCK_BYTES = 4096


def main():
    args = parse_args()
    measure.own_mounts()
    image, work = measure.bench_dir() / "corpus" / "disk.img", measure.bench_dir() / "work-serve"
    if not image.exists():
        sys.exit(f"serve_ro: no {image}: run bench/corpus.sh first")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    measure.warm(image)
    servers = prepare(args, image, work)
    result = {"benchmark": "serve_ro", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": measure.command_of("bench/serve_ro.py", sys.argv[1:]), "machine": measure.machine(work),
              "rounds": args.rounds, "seconds": args.seconds, "versions": {s.name: s.version for s in servers},
              "records": []}
    try:
        for round_number in range(args.rounds):
            shift = round_number % max(1, len(servers))
            for server in servers[shift:] + servers[:shift]:
                measure.settle(args.quiet_wait)
                for record in server.measure(args.seconds, round_number):
                    record.update(tool=server.name, round=round_number)
                    result["records"].append(record)
                    print(json.dumps(record), flush=True)
                if args.json:
                    Path(args.json).write_text(json.dumps(result, indent=1))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print_summary(result["records"])


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10, help="of each measurement")
    parser.add_argument("--tools", type=lambda text: text.split(","), default=list(PREPARE),
                        help="comma list of: " + ",".join(PREPARE))
    parser.add_argument("--quintet", default=str(checkout / "target" / "release" / "quintet"), help="the binary")
    parser.add_argument("--memory", help="passed to `quintet serve --read-only` and `quintet mount`")
    parser.add_argument("--json", help="write the raw results here")
    parser.add_argument("--quiet-wait", type=float, default=30)
    return parser.parse_args()


def prepare(args, image, work):
    """Makes one backup for each store that needs one. A server that cannot be had is left out, aloud."""
    servers = []
    for name in args.tools:
        try:
            servers.append(PREPARE[name](args, image, work))
        except (KeyError, RuntimeError, OSError) as error:
            print(f"serve_ro: {name}: {error}: skipped")
    return servers


def program(name):
    found = measure.find_program(name)
    if not found:
        raise RuntimeError("not installed")
    return found


def backed_up(kind, binary, image, work):
    room = work / kind.name
    tool = kind(room, binary)
    if room.exists():
        return tool
    (room / "home").mkdir(parents=True)
    for argv in [*tool.init(), tool.backup(image, force=False)[0]]:
        if measure.run(argv, tool.env(), None, room / "log")["code"] != 0:
            raise RuntimeError("cannot back up: " + (room / "log").read_text()[-500:])
    return tool


class NbdServer:
    def __init__(self, name, version, image, work, argv, env=None):
        self.name, self.version, self.image, self.argv = name, version, image, argv
        self.env = env or dict(os.environ)
        self.socket, self.log = work / f"{name}.sock", work / f"{name}.log"

    def measure(self, seconds, round_number):
        self.socket.unlink(missing_ok=True)
        try:
            process = catalogue.Process([str(word).format(socket=self.socket) for word in self.argv], self.env, self.log,
                                        self.socket.exists)
        except RuntimeError as error:
            return [{"test": "start", "ok": False, "error": str(error)}]
        uri = f"nbd+unix:///{toolbox.IMAGE_NAME}?socket={self.socket}"
        try:
            # Warm-up over the whole device: caches of the server fill, and a fast server of wrong bytes is found out.
            warm = subprocess.run(["sh", "-c", 'nbdcopy "$1" - | cmp - "$2"', "sh", uri, self.image],
                                  capture_output=True, text=True)
            if warm.returncode:
                return [{"test": "warm-up", "ok": False, "error": (warm.stdout + warm.stderr)[-500:]}]
            records = [fio(uri, depth, seconds, round_number) for depth in (1, 32)]
            for record in records:
                record["rss_bytes"] = process.status("VmHWM")
            return records
        finally:
            process.stop()


def fio(uri, depth, seconds, round_number):
    busy = measure.busy_seconds()
    done = subprocess.run(["fio", "--name=read", "--ioengine=nbd", f"--uri={uri}", "--rw=randread",
                           f"--bs={BLOCK_BYTES}", f"--iodepth={depth}", "--time_based", f"--runtime={seconds}",
                           "--norandommap", f"--randseed={round_number + 1}", "--output-format=json"],
                          capture_output=True, text=True)
    record = {"test": f"nbd-qd{depth}", "ok": done.returncode == 0, "cpu_s": measure.busy_seconds() - busy}
    if not record["ok"]:
        return {**record, "error": done.stderr[-500:]}
    read = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["read"]
    return {**record, "iops": read["iops"], "p99_us": read["clat_ns"]["percentile"]["99.000000"] / 1000}


class Mount:
    """A mounted backup, read one block at a time. A new mount each round and no reading ahead of the
    measurement: a file read once would come from the kernel's page cache, not from the program."""

    def __init__(self, name, version, tool, argv, image, work):
        self.name, self.version, self.tool, self.argv = name, version, tool, argv
        self.below = [str(image).lstrip("/"), toolbox.IMAGE_NAME]
        self.point, self.log = work / f"{name}.mnt", work / f"{name}.log"
        self.point.mkdir()

    def file(self):
        """The snapshot's directory differs by tool; below it is the path of the source, or the name of the image."""
        places = [f"{above}/{below}" for above in ("snapshots/latest", "*") for below in self.below]
        return next((path for place in places for path in self.point.glob(place)), None)

    def measure(self, seconds, round_number):
        try:
            process = catalogue.Process(self.argv + [self.point], self.tool.env(), self.log, self.file)
        except RuntimeError as error:
            return [{"test": "start", "ok": False, "error": str(error)}]
        try:
            reads, wall = pread_loop(self.file(), seconds, round_number)
            return [{"test": "mount-qd1", "ok": True, "iops": reads / wall, "rss_bytes": process.status("VmHWM")}]
        finally:
            subprocess.run(["fusermount3", "-u", self.point], capture_output=True)
            process.stop()


def pread_loop(path, seconds, round_number):
    dice, file = random.Random(round_number), os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        blocks, reads, start = os.fstat(file).st_size // BLOCK_BYTES, 0, time.monotonic()
        while (wall := time.monotonic() - start) < seconds:
            if len(os.pread(file, BLOCK_BYTES, dice.randrange(blocks) * BLOCK_BYTES)) != BLOCK_BYTES:
                raise RuntimeError("short read")
            reads += 1
        return reads, wall
    finally:
        os.close(file)


def nbdkit(args, image, work):
    tool = program("nbdkit")
    return NbdServer("nbdkit-file", measure.first_line([tool, "--version"]), image, work,
                     [tool, "-f", "-r", "-U", "{socket}", "file", image])


def qemu_nbd(args, image, work):
    tool = program("qemu-nbd")
    return NbdServer("qemu-nbd", measure.first_line([tool, "--version"]), image, work,
                     [tool, "-t", "-r", "-f", "raw", "--aio=io_uring", "--cache=writeback", "-e", "8",
                      "-x", toolbox.IMAGE_NAME, "-k", "{socket}", image])


def quintet(args, image, work):
    if not os.access(args.quintet, os.X_OK):
        raise RuntimeError("not built")
    tool = backed_up(toolbox.Quintet, args.quintet, image, work)
    memory = ["--memory", args.memory] if args.memory else []
    return NbdServer("quintet", measure.first_line([args.quintet, "--version"]), image, work,
                     [args.quintet, "serve", "--read-only", *memory, "--nbd-socket", "{socket}"], tool.env())


def quintet_mount(args, image, work):
    if not os.access(args.quintet, os.X_OK):
        raise RuntimeError("not built")
    tool = backed_up(toolbox.Quintet, args.quintet, image, work)
    memory = ["--memory", args.memory] if args.memory else []
    return Mount("quintet-mount", measure.first_line([args.quintet, "--version"]), tool,
                 [args.quintet, "mount", "--read-only", *memory], image, work)


def restic_mount(args, image, work):
    binary = program("restic")
    tool = backed_up(toolbox.Restic, binary, image, work)
    return Mount("restic-mount", measure.first_line([binary, "version"]), tool, [binary, "mount"], image, work)


def borg_mount(args, image, work):
    binary = program("borg")
    tool = backed_up(toolbox.Borg, binary, image, work)
    return Mount("borg-mount", measure.first_line([binary, "--version"]), tool,
                 [binary, "mount", "--foreground", tool.repo], image, work)


PREPARE = {"nbdkit-file": nbdkit, "qemu-nbd": qemu_nbd, "quintet": quintet,
           "quintet-mount": quintet_mount, "restic-mount": restic_mount, "borg-mount": borg_mount}


def print_summary(records):
    print()
    for (test, tool), figures in sorted(measure.summarise_iops(records).items()):
        print(f"{test:10} {tool:13} {figures['median']:10.0f} IOPS [{figures['min']:.0f}..{figures['max']:.0f}] "
              f"rss {figures['rss_bytes'] / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
