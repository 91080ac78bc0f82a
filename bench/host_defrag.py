#!/usr/bin/env python3
"""FragPicker's file (SOSP'21, section 5) on ext4, btrfs and xfs: `quintet host defrag` beside the file systems' own tools.

Of every 256 KiB of the file, 128 are 32 pieces of 4 KiB and 128 are one piece. It is read past the page cache with 128 KiB a request:
from begin to end, or 128 KiB of every 416 (stride), or by YCSB-C's choice (Zipf, 0.99, of records of 4 KiB in pages of 128 KiB). Each
tool gets the same image: none; `quintet host defrag run`, with the trace of one such read, and without one (bypass); and e4defrag, `btrfs
filesystem defragment` or xfs_fsr. The device is a model in real time (slow_disk.py): of a disk with arms, or of an SSD, 100 times slower
than that of the paper. `joined` is bypass with --join=always; the others have --join=never. Needs root.

The file system's image is made once in memory, and copied for each tool. The tool works on a copy in memory; its reads and writes are those
of the loop device there. The result is copied to the disk, and read there.
"""
import argparse
import ctypes
import json
import mmap
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import measure
import slow_disk

KIB = 1024
BLOCK, REQUEST, PIECE = 256 * KIB, 128 * KIB, 4 * KIB
TOOLS = ("nothing", "trace", "bypass", "joined", "whole")
WHOLE = {"ext4": ["e4defrag"], "btrfs": ["btrfs", "filesystem", "defragment", "-t", "1G"], "xfs": ["xfs_fsr"]}
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "btrfs": ["mkfs.btrfs", "-q", "-f"], "xfs": ["mkfs.xfs", "-q", "-f"]}


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **options).stdout


def buffer():
    """Memory that direct I/O takes."""
    return mmap.mmap(-1, REQUEST)


def punch(file, offset):
    """Makes a hole of one piece."""
    keep_size, punch_hole = 1, 2
    if ctypes.CDLL(None, use_errno=True).fallocate(file, keep_size | punch_hole, ctypes.c_long(offset), ctypes.c_long(PIECE)):
        raise OSError(ctypes.get_errno(), "cannot punch a hole")


def make_file(point, kind, device, mib):
    """Writes the file so that its pieces are where the paper has them: each piece of 4 KiB lies before one of another file."""
    data, page = buffer(), mmap.mmap(-1, PIECE)
    data.write(os.urandom(REQUEST))
    page.write(os.urandom(PIECE))
    flags = os.O_RDWR | os.O_CREAT | os.O_DIRECT
    file, other = (os.open(point / name, flags, 0o600) for name in ("file", "other"))
    if kind == "ext4":
        # It keeps two growing files apart. So the pieces find nothing free but holes in the other file.
        os.posix_fallocate(other, 0, mib << 20)
        Path(f"/sys/fs/ext4/{Path(device).name}/reserved_clusters").write_text("0")
        fillers = []
        # Extents need some blocks too.
        while (free := os.statvfs(point).f_bfree - 2 * mib - 64) > 0:
            fillers.append(point / f"filler{len(fillers)}")
            filler = os.open(fillers[-1], flags, 0o600)
            try:
                os.posix_fallocate(filler, 0, (free + 1) // 2 * PIECE)
            except OSError:
                break
            finally:
                os.close(filler)
        for piece in range(mib * 128):
            punch(other, piece * 2 * PIECE)
        for block in range(mib * 4):
            for piece in range(32):
                os.pwrite(file, page, block * BLOCK + piece * PIECE)
        for filler in fillers:
            filler.unlink()
        os.sync()
        for block in range(mib * 4):
            os.pwrite(file, data, block * BLOCK + REQUEST)
    else:
        for block in range(mib * 4):
            for piece in range(32):
                os.pwrite(file, page, block * BLOCK + piece * PIECE)
                os.pwrite(other, page, (block * 32 + piece) * PIECE)
            os.pwrite(file, data, block * BLOCK + REQUEST)
    for each in (file, other):
        os.fsync(each)
        os.close(each)


def requests(args, pattern):
    """Offsets of the requests for the file, or for its begin."""
    size = min(args.mib, args.read_mib or args.mib) << 20
    if pattern == "sequential":
        return list(range(0, size, REQUEST))
    if pattern == "stride":
        return list(range(0, size - REQUEST + 1, REQUEST + 288 * KIB))
    windows = size // REQUEST
    dice = random.Random(1)
    order = list(range(windows))
    dice.shuffle(order)
    weights = [1 / (rank + 1) ** 0.99 for rank in range(windows)]
    return [order[n] * REQUEST for n in dice.choices(range(windows), weights, k=args.skewed)]


def read(path, offsets):
    """Megabytes a second."""
    data, file = buffer(), os.open(path, os.O_RDONLY | os.O_DIRECT)
    begin, done = time.monotonic(), 0
    for offset in offsets:
        done += os.preadv(file, [data], offset)
    seconds = time.monotonic() - begin
    os.close(file)
    return done / seconds / 1e6


class Loop:
    """The loop device of a mounted image, and what was read from and written to it."""

    def __init__(self, image, point, kind):
        self.point = point
        self.device = run("losetup", "--show", "-f", "--direct-io=on", image).strip()
        run("mount", "-t", kind, "-o", "noatime", self.device, point)
        run("losetup", "-d", self.device)

    def bytes(self):
        os.sync()
        fields = Path(f"/sys/block/{Path(self.device).name}/stat").read_text().split()
        return int(fields[2]) * 512, int(fields[6]) * 512

    def requests(self):
        """Reads that the device has completed."""
        return int(Path(f"/sys/block/{Path(self.device).name}/stat").read_text().split()[0])

    def unmount(self):
        run("umount", self.point)


def copy_to(image, disk):
    """Copies the parts of an image that are not holes. The disk may have older bytes elsewhere, which no file system reads."""
    with open(image, "rb") as source, open(disk, "r+b") as to:
        end, at = source.seek(0, 2), 0
        while at < end:
            try:
                start = os.lseek(source.fileno(), at, os.SEEK_DATA)
            except OSError:
                return
            at = os.lseek(source.fileno(), start, os.SEEK_HOLE)
            for offset in range(start, at, 1 << 20):
                os.pwrite(to.fileno(), os.pread(source.fileno(), min(1 << 20, at - offset), offset), offset)


def defragment(args, tool, kind, point, work, offsets):
    """Runs the tool. Its trace is of the same reads, made once more by another process."""
    if tool == "nothing":
        return
    if tool == "whole":
        run(*WHOLE[kind], point / "file")
        return
    words = [args.quintet, "host", "defrag", "run", point / "file", "--json"] + args.join * ["--join", "always" if tool == "joined" else "never"]
    if tool == "trace":
        trace = work / "trace"
        plan = work / "offsets"
        plan.write_text(json.dumps(offsets))
        run(args.quintet, "host", "defrag", "trace", point, "-o", trace, "--force", "--", sys.executable, __file__, "--read", point / "file", plan)
        words += ["--trace", trace, "--hot", args.hot_skewed if args.pattern == "skewed" else 100]
    run(*words)


def measure_one(args, tool, kind, image, disk, point, work):
    # All of the file is requested in the trace, whatever is read of it for its speed.
    offsets = requests(argparse.Namespace(**{**vars(args), "read_mib": 0}), args.pattern)
    fast = image.with_name("fast")
    run("cp", "--sparse=always", image, fast)
    loop = Loop(fast, point, kind)
    sums = run("sha256sum", point / "file") if args.verify else None
    before, begin = loop.bytes(), time.monotonic()
    defragment(args, tool, kind, point, work, offsets)
    after, seconds = loop.bytes(), time.monotonic() - begin
    loop.unmount()
    copy_to(fast, disk)
    fast.unlink()
    loop = Loop(disk, point, kind)
    before_read = loop.requests()
    speed = read(point / "file", requests(args, args.pattern))
    read_requests = loop.requests() - before_read
    if args.verify and sums != run("sha256sum", point / "file"):
        sys.exit(f"{kind}, {tool}: other bytes")
    extents = run(args.quintet, "host", "defrag", "analyse", point / "file", "--json").splitlines()[-1]
    loop.unmount()
    return {"file_system": kind, "pattern": args.pattern, "tool": tool, "mb_per_s": speed, "read_requests": read_requests, "seconds": seconds, "read_bytes": after[0] - before[0],
            "written_bytes": after[1] - before[1], "pieces": json.loads(extents)["pieces"]}


def table(records):
    lines = ["| file system | reads | | pieces | MB/s | of whole | reads of the device | written, MB | of whole |",
             "|---|---|---|---|---|---|---|---|---|"]
    groups = {}
    for record in records:
        groups.setdefault((record["file_system"], record["pattern"]), {})[record["tool"]] = record
    for (kind, pattern), tools in groups.items():
        for tool, record in tools.items():
            whole = tools.get("whole")
            speed = f"{record['mb_per_s'] / whole['mb_per_s']:.0%}" if whole else "-"
            share = f"{record['written_bytes'] / whole['written_bytes']:.0%}" if whole and whole["written_bytes"] else "-"
            name = WHOLE[kind][0] if tool == "whole" else tool
            lines.append(f"| {kind} | {pattern} | {name} | {record['pieces']:,} | {record['mb_per_s']:.1f} | {speed} | {record['read_requests']:,} | {record['written_bytes'] / 1e6:,.1f} | {share} |")
    return "\n".join(lines)


def main():
    if sys.argv[1:2] == ["--read"]:
        read(sys.argv[2], json.loads(Path(sys.argv[3]).read_text()))
        return
    args = parse_args()
    if os.geteuid():
        sys.exit("host_defrag: needs root: skipped")
    measure.own_mounts()
    work = measure.bench_dir() / "work-host-defrag"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    # In memory: the disk is the model, and nothing else may be slow.
    memory = Path(args.memory) / "quintet-host-defrag"
    shutil.rmtree(memory, ignore_errors=True)
    memory.mkdir()
    point, records = work / "point", []
    point.mkdir()
    # The file, the other one, a copy of all of it, and what the file system needs.
    disk_mib = args.mib * 3 + 512
    try:
        for kind in args.file_systems:
            image = memory / "image"
            image.unlink(missing_ok=True)
            with open(image, "wb") as file:
                file.truncate(disk_mib << 20)
            run(*MAKE[kind], image)
            loop = Loop(image, point, kind)
            make_file(point, kind, loop.device, args.mib)
            loop.unmount()
            for pattern in args.patterns:
                args.pattern = pattern
                for tool in args.tools:
                    with plain(memory, disk_mib) if args.disk == "memory" else slow_disk.arms(memory, disk_mib, args.disk == "flash") as disk:
                        record = measure_one(args, tool, kind, image, disk, point, work)
                    records.append(record)
                    print(json.dumps(record), flush=True)
    finally:
        subprocess.run(["umount", "-l", point], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(memory, ignore_errors=True)
        shutil.rmtree(work, ignore_errors=True)
    measure.save(args.json, "host_defrag", records=records, machine=measure.machine(Path("/")))
    print(table(records))


class plain:
    """A disk in memory that is as fast as it is."""

    def __init__(self, memory, mib):
        self.path, self.mib = memory / "disk", mib

    def __enter__(self):
        with open(self.path, "wb") as file:
            file.truncate(self.mib << 20)
        return self.path

    def __exit__(self, *_):
        self.path.unlink()


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    target = Path(os.environ.get("CARGO_TARGET_DIR", checkout / "target"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quintet", default=str(target / "release" / "quintet"))
    parser.add_argument("--mib", type=int, default=1024, help="size of the file")
    parser.add_argument("--file-systems", type=lambda text: text.split(","), default=list(WHOLE))
    parser.add_argument("--patterns", type=lambda text: text.split(","), default=["sequential", "stride", "skewed"])
    parser.add_argument("--tools", type=lambda text: text.split(","), default=list(TOOLS))
    parser.add_argument("--skewed", type=int, default=8192, help="requests of the skewed reads")
    parser.add_argument("--hot-skewed", type=int, default=50, help="percent of the ranges that are hot, for the skewed reads")
    parser.add_argument("--disk", choices=("arms", "flash", "memory"), default="arms")
    parser.add_argument("--read-mib", type=int, help="read only so much of the file (default: all)")
    parser.add_argument("--no-join", dest="join", action="store_false", help="for a program without --join")
    parser.add_argument("--memory", default="/dev/shm", help="a folder in memory for the images")
    parser.add_argument("--verify", action="store_true", help="compare all bytes before and after")
    parser.add_argument("--json", help="where the figures go")
    return parser.parse_args()


if __name__ == "__main__":
    main()
