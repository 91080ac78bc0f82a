#!/usr/bin/env python3
"""Disks that machines run from: NBD servers of the same bytes, side by side.

Parts: cached (random reads from memory), cold (random reads from the device; fio on the raw file beside), imported (cold
reads of an image as its tool stores it by default, random and in order; what they cost),
sequential (1 MiB requests, both ways, incompressible and 2:1), writes (random, with and without flushes),
steady (random writes for minutes, and what became of each byte), clone (of a 1 TiB volume), memory
(a budget of 256 MiB while a volume of 50 GiB is written and read).
"""
import argparse
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
import servers as catalogue

MIB = 1 << 20
PARTS = ("cached", "cold", "imported", "sequential", "writes", "steady", "clone", "memory")
DATA = {"incompressible": 100, "half": 50}


def main():
    args = parse_args()
    work = measure.bench_dir() / "work-serving"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    rooms = prepare(args, work)
    result = {"benchmark": "serving", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": measure.command_of("bench/serving.py", sys.argv[1:]), "machine": measure.machine(work),
              "rounds": args.rounds, "seconds": args.seconds, "mib": args.mib,
              "versions": {s.name: s.version for s in rooms}, "records": []}
    try:
        for part in args.parts:
            for round_number in range(args.rounds if part != "steady" else 1):
                shift = round_number % max(1, len(rooms))
                for server in rooms[shift:] + rooms[:shift]:
                    measure_part(args, part, server, work, round_number, result)
                if part == "cold":
                    raw_device(args, work, round_number, result)
    finally:
        for server in rooms:
            server.stop()
        shutil.rmtree(work, ignore_errors=True)
    print_summary(result["records"])


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    listed = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10, help="of each random measurement")
    parser.add_argument("--steady-seconds", type=int, default=600)
    parser.add_argument("--mib", type=int, default=1024, help="size of the device")
    parser.add_argument("--parts", type=listed, default=list(PARTS), help="comma list of: " + ",".join(PARTS))
    parser.add_argument("--tools", type=listed, default=list(catalogue.SERVERS),
                        help="comma list of: " + ",".join(catalogue.SERVERS))
    parser.add_argument("--quintet", default=str(checkout / "target" / "release" / "quintet"), help="the binary")
    parser.add_argument("--old-quintet", help="an older binary, which makes the row quintet-old")
    parser.add_argument("--memory", default="3G", help="passed to `quintet serve --memory`")
    parser.add_argument("--json", help="write the raw results here")
    parser.add_argument("--quiet-wait", type=float, default=30)
    return parser.parse_args()


def prepare(args, work):
    """The data, and a room for each server. What cannot be had is left out, aloud."""
    for name, percent in DATA.items():
        make_data(work / name, args.mib * MIB, percent)
    rooms = []
    for name in args.tools:
        try:
            rooms.append(catalogue.SERVERS[name](args, work / f"room-{name}", args.mib * MIB))
        except (KeyError, RuntimeError, OSError) as error:
            print(f"serving: {name}: {error}: skipped")
    return rooms


def make_data(path, size, percent):
    """Random bytes; of each 4 KiB only so many percent, the rest one letter. Every block is another one."""
    random_bytes = 4096 * percent // 100
    with open(path, "wb") as file, open("/dev/urandom", "rb", buffering=MIB) as source:
        for _ in range(size // MIB):
            blocks = source.read(random_bytes * 256)
            pieces = (blocks[at:at + random_bytes].ljust(4096, b"q") for at in range(0, len(blocks), random_bytes))
            file.write(b"".join(pieces))
    os.sync()


def measure_part(args, part, server, work, round_number, result):
    measure.settle(args.quiet_wait)
    try:
        records = PART[part](args, server, work, round_number)
    except (RuntimeError, subprocess.SubprocessError, OSError) as error:
        records = [{"test": part, "ok": False, "error": str(error)[-500:]}]
    finally:
        server.stop()
    for record in records:
        keep(args, result, {**record, "part": part, "tool": server.name, "round": round_number})


def keep(args, result, record):
    result["records"].append(record)
    print(json.dumps(record), flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1))


def fio(uri, test, words, round_number, process=None):
    busy = measure.busy_seconds()
    done = subprocess.run(["fio", "--name=job", "--bs=4k", "--norandommap", f"--randseed={round_number + 1}",
                           "--refill_buffers", "--buffer_compress_percentage=50", "--buffer_compress_chunk=4k",
                           *(["--ioengine=nbd", f"--uri={uri}"] if uri else []), *words, "--output-format=json"],
                          capture_output=True, text=True)
    record = {"test": test, "ok": done.returncode == 0, "cpu_s": measure.busy_seconds() - busy}
    if not record["ok"]:
        return {**record, "error": done.stderr[-500:]}
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    side = job["write" if "write" in " ".join(words) else "read"]
    if process:
        record["rss_bytes"] = process.status("VmHWM")
    return {**record, "iops": side["iops"], "requests": side["total_ios"], "p99_us": side["clat_ns"]["percentile"]["99.000000"] / 1000,
            "mean_us": side["clat_ns"]["mean"] / 1000}


def timed(args, *words):
    return [f"--rw={words[0]}", f"--iodepth={words[1]}", "--time_based", f"--runtime={args.seconds}", *words[2:]]


def once(args, depth, *words):
    """No block twice: a second read of it would not be cold."""
    return ["--rw=randread", f"--iodepth={depth}", "--norandommap=0", f"--runtime={args.seconds}", f"--size={args.mib}m", *words]


def same_bytes(server, source):
    """A warm-up over the whole device; a fast server of wrong bytes is found out."""
    done = subprocess.run(["sh", "-c", 'nbdcopy "$1" - | cmp - "$2"', "sh", server.uri, source], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("other bytes: " + done.stdout + done.stderr)


def cached(args, server, work, round_number):
    server.fill(work / "half")
    server.start()
    if server.name == "nbdkit-memory":
        subprocess.run(["nbdcopy", "-S", "0", work / "half", server.uri], check=True)
    same_bytes(server, work / "half")
    # Some caches keep a block for good only when it is asked for again.
    same_bytes(server, work / "half")
    return [fio(server.uri, f"cached-qd{depth}", timed(args, "randread", depth), round_number, server.process)
            for depth in (1, 16, 32)]


def cold(args, server, work, round_number):
    if server.name == "nbdkit-memory":
        return []
    server.fill(work / "half")
    records = []
    for depth in (1, 16, 32):
        server.start()
        measure.drop_caches()
        records.append(fio(server.uri, f"cold-qd{depth}", once(args, depth), round_number, server.process))
        server.stop()
    return records


def imported(args, server, work, round_number):
    """What the server reads from its device, and the processor's time that it takes, for each request of 4 KiB. With the
    memory of its default, and four requests for each MiB of the image: many more would find what others have read around
    them, and far fewer mostly the first read of each container."""
    if server.name == "nbdkit-memory":
        return []
    given, args.memory = args.memory, None
    try:
        return [record for name in DATA for record in of_image(args, server, work / name, f"imported-{name}", round_number)]
    finally:
        args.memory = given


def of_image(args, server, source, test, round_number):
    server.take(source)
    records = []
    for depth in (1, 16, 32):
        server.start()
        measure.drop_caches()
        read, cpu = server.process.read_bytes(), server.process.cpu_seconds()
        words = once(args, depth, f"--io_size={args.mib * 16}k")
        record = fio(server.image_uri, f"{test}-qd{depth}", words, round_number, server.process)
        if record["ok"] and record["requests"]:
            record["read_per_request"] = (server.process.read_bytes() - read) / record["requests"]
            record["cpu_per_request_us"] = (server.process.cpu_seconds() - cpu) * 1e6 / record["requests"]
        records.append(record)
        server.stop()
    server.start()
    measure.drop_caches()
    records.append(copy(server, f"read-{test}", args.mib * MIB, "--no-extents", server.image_uri, "null:"))
    server.stop()
    return records


def raw_device(args, work, round_number, result):
    """fio itself on the file, past the page cache: what the device gives."""
    for depth in (1, 16, 32):
        words = once(args, depth, f"--filename={work / 'half'}", "--ioengine=libaio", "--direct=1")
        record = fio(None, f"cold-qd{depth}", words, round_number)
        keep(args, result, {**record, "part": "cold", "tool": "raw-device", "round": round_number})


def copy(server, test, size, *words):
    start = time.monotonic()
    subprocess.run(["nbdcopy", "--request-size", str(MIB), "--connections=1", "--requests=16", *words], check=True,
                   stdout=subprocess.DEVNULL)
    wall = time.monotonic() - start
    return {"test": test, "ok": True, "mb_per_s": size / 1e6 / wall, "rss_bytes": server.process.status("VmHWM")}


def sequential(args, server, work, round_number):
    records = []
    size = args.mib * MIB
    for name in DATA:
        server.make()
        server.start()
        records.append(copy(server, f"write-{name}", size, "--flush", "-S", "0", work / name, server.uri))
        same_bytes(server, work / name)
        records.append(copy(server, f"read-{name}", size, "--no-extents", server.uri, "null:"))
        server.stop()
        if server.name == "nbdkit-memory":
            continue
        # With the memory of its default, as users start it.
        given, args.memory = args.memory, None
        server.start()
        args.memory = given
        measure.drop_caches()
        records.append(copy(server, f"read-cold-{name}", size, "--no-extents", server.uri, "null:"))
        server.stop()
        if server.name == "nbdkit-file":
            measure.drop_caches()
            start = time.monotonic()
            subprocess.run(["dd", f"if={server.room / 'disk'}", "of=/dev/null", "bs=1M", "iflag=direct", "status=none"], check=True)
            records.append({"test": f"device-read-{name}", "ok": True, "mb_per_s": size / 1e6 / (time.monotonic() - start)})
    return records


def writes(args, server, work, round_number):
    server.fill(work / "half")
    server.start()
    same_bytes(server, work / "half")
    records = [fio(server.uri, "write-qd16", timed(args, "randwrite", 16), round_number, server.process)]
    server.stop()
    measure.settle(args.quiet_wait)
    server.start()
    flushing = timed(args, "randwrite", 16, "--fsync=32")
    return records + [fio(server.uri, "write-qd16-flush32", flushing, round_number, server.process)]


def steady(args, server, work, round_number):
    """Many minutes of random writes, with collections beside them, since nothing else gives back what was overwritten; what
    the server wrote for each byte that it was given."""
    if server.name == "nbdkit-memory":
        return []
    server.fill(work / "half")
    server.start()
    before = server.process.written_bytes()
    words = ["--rw=randwrite", "--iodepth=16", "--time_based", f"--runtime={args.steady_seconds}", "--fsync=256"]
    over, collected = threading.Event(), []

    def collect():
        while not over.wait(2):
            collected.append(server.command("gc", "--trash-period", "0", "--json").splitlines()[-1])

    collecting = threading.Thread(target=collect, daemon=True)
    if isinstance(server, catalogue.Quintet):
        collecting.start()
    record = fio(server.uri, "steady", words, round_number, server.process)
    over.set()
    if collected:
        collecting.join()
    if record["ok"]:
        given = record["iops"] * args.steady_seconds * 4096
        record.update(given_bytes=given, written_bytes=server.process.written_bytes() - before)
        record["stored_bytes"] = server.stored_bytes()
        if isinstance(server, catalogue.Quintet):
            record["status"] = server.status()
            record["collections"] = len(collected)
    return [record]


def clone(args, server, work, round_number):
    """Of a TiB, in a running server, ten times: seconds of the command and bytes of the pool."""
    if not isinstance(server, catalogue.Quintet):
        return []
    server.make()
    server.command("volume", "create", "large", "--size", "1T")
    server.start()
    uri = server.uri.replace(catalogue.EXPORT, "large")
    subprocess.run(["fio", "--name=job", "--ioengine=nbd", f"--uri={uri}", "--rw=randwrite", "--bs=64k", "--size=1T",
                    "--io_size=64m", "--iodepth=16", "--end_fsync=1"], check=True, stdout=subprocess.DEVNULL)
    seconds, before = [], server.stored_bytes()
    for number in range(10):
        start = time.monotonic()
        server.command("volume", "clone", "large", f"clone-{number}")
        seconds.append(time.monotonic() - start)
        if number == 0:
            # The first one also folds what was written before.
            before = server.stored_bytes()
    stored = (server.stored_bytes() - before) / 9
    for number in range(10):
        server.command("volume", "delete", f"clone-{number}")
    server.command("volume", "delete", "large")
    return [{"test": "clone-1TiB", "ok": True, "first_s": seconds[0], "wall_s": statistics.median(seconds[1:]),
             "stored_bytes": stored}]


def memory(args, server, work, round_number):
    """Peak memory under a small budget: writes all over a large volume, then reads all over it."""
    if not isinstance(server, catalogue.Quintet):
        return []
    server.make()
    server.command("volume", "create", "wide", "--size", "50G")
    given, args.memory = args.memory, "256M"
    try:
        server.start()
        uri = server.uri.replace(catalogue.EXPORT, "wide")
        records = [fio(uri, f"hammer-{rw}", [f"--rw={rw}", "--iodepth=32", "--time_based", f"--runtime={args.seconds * 6}"],
                       round_number, server.process) for rw in ("randwrite", "randread", "randrw")]
        rss = server.process.status("VmHWM")
    finally:
        args.memory = given
        server.stop()
    server.command("volume", "delete", "wide")
    return records + [{"test": "hammer-50GiB", "ok": all(r["ok"] for r in records), "rss_bytes": rss, "budget_bytes": 256 * MIB,
                       "error": "a load failed"}]


PART = {"cached": cached, "cold": cold, "imported": imported, "sequential": sequential, "writes": writes, "steady": steady,
        "clone": clone, "memory": memory}


def print_summary(records):
    groups = {}
    for record in records:
        if record["ok"]:
            groups.setdefault((record["part"], record["test"]), {}).setdefault(record["tool"], []).append(record)
    for (part, test), tools in groups.items():
        for tool, runs in tools.items():
            figures = {key: statistics.median(r[key] for r in runs) for key in ("iops", "p99_us", "mb_per_s", "wall_s") if key in runs[0]}
            print(f"{part:10} {test:22} {tool:15} " + "  ".join(f"{k} {v:,.1f}" for k, v in figures.items()))


if __name__ == "__main__":
    main()
