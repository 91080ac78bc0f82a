#!/usr/bin/env python3
"""4 KiB reads and writes at a depth of 16 over iSCSI through `quintet serve`, beside tgt and beside NBD of the same server.

The pool is on disk, encrypted, and has one volume full of random bytes; the server has a write cache over iSCSI. tgt serves
a file with the same bytes on the same disk, at its defaults: write-back. All three over TCP on loopback. Clients: iscsi-perf
(random reads; it does not speak NBD) and `qemu-img bench` in steps of 70,001 blocks, so that no request follows the one
before. Rows are interleaved, and each ratio is the median of the ratios of single rounds. Before each run everything is
written back. Needs root (tgt, qemu-block-extra, libiscsi-bin).
"""
import argparse
import datetime
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import measure
import servers

MIB = 1 << 20
STEP = 4096 * 70001
# What is wanted of ours: (client, direction, other server): speed against the other.
BARS = {("iscsi-perf", "read", "tgt"): 1.5, ("qemu-img", "read", "tgt"): 1.5, ("qemu-img", "write", "tgt"): 1.0,
        ("qemu-img", "read", "nbd"): 0.8, ("qemu-img", "write", "nbd"): 0.8}
# (client, direction): who is measured with it.
RUNS = {("iscsi-perf", "read"): ("quintet", "tgt"), ("qemu-img", "read"): ("quintet", "tgt", "nbd"),
        ("qemu-img", "write"): ("quintet", "tgt", "nbd")}


def main():
    args = parse_args()
    missing = [name for name in ("tgtd", "tgtadm", "iscsi-perf", "qemu-img") if not shutil.which(name)]
    if missing or os.geteuid():
        sys.exit(f"iscsi: needs root, tgtd, iscsi-perf and qemu-img; missing: {', '.join(missing) or 'root'}: skipped")
    work = measure.bench_dir() / "work-iscsi"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    source = work / "file"
    with open("/dev/urandom", "rb", buffering=MIB) as noise, open(source, "wb") as file:
        for _ in range(args.mib):
            file.write(noise.read(MIB))
    result = {"benchmark": "iscsi", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": measure.command_of("bench/iscsi.py", sys.argv[1:]), "machine": measure.machine(work),
              "version": measure.first_line([args.quintet, "--version"]), "tgt": measure.first_line(["tgtd", "--version"]),
              "records": []}
    both = []
    try:
        both.append(Quintet(args, work, source))
        both.append(Tgt(args, work, source))
        measure_all(args, work, both, result)
    finally:
        for server in both:
            server.stop()
        shutil.rmtree(work, ignore_errors=True)
    result["load"] = os.getloadavg()
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1))
    print(table(result["records"]))


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=100_000, help="of each run of qemu-img")
    parser.add_argument("--seconds", type=int, default=3, help="of each run of iscsi-perf")
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--mib", type=int, default=512, help="size of the volume")
    parser.add_argument("--memory", default="3G", help="passed to `quintet serve --memory`")
    parser.add_argument("--priority", type=str.split, default=[],
                        help="before servers and clients, such as 'nice -n -15', where others have the machine too")
    parser.add_argument("--quintet", default=str(checkout / "target" / "release" / "quintet"), help="the binary")
    parser.add_argument("--json", help="write the raw results here")
    return parser.parse_args()


class Quintet:
    """A server of one volume, over iSCSI and NBD."""

    def __init__(self, args, work, source):
        env = {**os.environ, "QUINTET_PASSWORD": "measured", "QUINTET_REPOSITORY": str(work / "pool"), "HOME": str(work)}
        servers.say(args.quintet, env, "init")
        servers.say(args.quintet, env, "volume", "create", "disk", "--size", args.mib * MIB)
        log = work / "quintet.log"
        words = ["serve", "--memory", args.memory, "--iscsi-write-cache", "--iscsi-listen", "127.0.0.1:0",
                 "--nbd-listen", "127.0.0.1:0"]
        self.process = servers.Process([*args.priority, args.quintet, *words], env, log, lambda: "\nserving" in "\n" + log.read_text())
        said = log.read_text()
        self.uris = {"quintet": f"{re.search(r'iscsi://[0-9.:]+', said)[0]}/iqn.2026-11.org.quintet:disk/0",
                     "nbd": f"{re.search(r'nbd://[0-9.:]+', said)[0]}/disk"}
        fill(source, self.uris["nbd"])

    def stop(self):
        self.process.stop()


class Tgt:
    """tgt over the file itself."""

    def __init__(self, args, work, source):
        self.control = str(random.randrange(100, 1000))
        port = random.randrange(20000, 22000)
        words = ["tgtd", "-f", "-C", self.control, "--iscsi", f"portal=127.0.0.1:{port}"]
        self.process = servers.Process([*args.priority, *words], dict(os.environ), work / "tgt.log", self.answers)
        target = ("--lld", "iscsi", "--mode", "target", "--tid", "1")
        self.tell(*target, "--op", "new", "-T", "iqn.2026-11.org.tgt:disk")
        self.tell("--lld", "iscsi", "--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", source)
        self.tell(*target, "--op", "bind", "-I", "ALL")
        self.uris = {"tgt": f"iscsi://127.0.0.1:{port}/iqn.2026-11.org.tgt:disk/1"}

    def answers(self):
        return subprocess.run(["tgtadm", "-C", self.control, "--op", "show", "--mode", "system"], check=False,
                              capture_output=True).returncode == 0

    def tell(self, *words):
        subprocess.run(["tgtadm", "-C", self.control, *map(str, words)], check=True)

    def stop(self):
        # It does not end on a signal that it can catch while it has sessions.
        self.process.child.kill()
        self.process.stop()


def fill(source, uri):
    subprocess.run(["qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", source, uri], check=True)
    subprocess.run(["qemu-img", "compare", "-f", "raw", "-F", "raw", source, uri], check=True, stdout=subprocess.DEVNULL)


def measure_all(args, work, both, result):
    found = {name: SimpleNamespace(uri=uri, process=server.process) for server in both for name, uri in server.uris.items()}
    for number in range(args.rounds):
        for (client, direction), names in RUNS.items():
            shift = number % len(names)
            for name in names[shift:] + names[:shift]:
                settle(work, both)
                record = {"round": number, "client": client, "direction": direction, "server": name,
                          **CLIENTS[client](args, found[name], direction)}
                result["records"].append(record)
                print(json.dumps(record), flush=True)


def settle(work, both):
    """What was written is on the disk, and no server works any more (not longer than ten seconds)."""
    subprocess.run(["sync", "-f", work], check=True)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        before = sum(server.process.cpu_seconds() for server in both)
        time.sleep(0.3)
        if sum(server.process.cpu_seconds() for server in both) - before < 0.03:
            return


def qemu_img(args, server, direction):
    write = ["-w", "--pattern=7"] if direction == "write" else []
    words = ["qemu-img", "bench", "-f", "raw", "-t", "none", "-n", *write, "-d", args.depth, "-s", 4096, "-S", STEP,
             "-c", args.requests, server.uri]
    cpu = server.process.cpu_seconds()
    done = subprocess.run([*args.priority, *map(str, words)], check=True, capture_output=True, text=True, timeout=300)
    seconds = float(re.search(r"Run completed in ([0-9.]+) seconds", done.stdout)[1])
    return figures(args.requests, seconds, server.process.cpu_seconds() - cpu)


def iscsi_perf(args, server, direction):
    cpu = server.process.cpu_seconds()
    words = ["iscsi-perf", "-m", args.depth, "-b", 8, "-t", args.seconds, "-r", server.uri]
    done = subprocess.run([*args.priority, *map(str, words)], check=True, capture_output=True, text=True, timeout=300)
    rate = int(re.findall(r"iops average ([0-9]+)", done.stdout + done.stderr)[-1])
    return figures(rate * args.seconds, args.seconds, server.process.cpu_seconds() - cpu)


CLIENTS = {"qemu-img": qemu_img, "iscsi-perf": iscsi_perf}


def figures(requests, seconds, cpu):
    return {"rate": requests / seconds, "cpu_us": cpu * 1e6 / requests, "load": os.getloadavg()[0]}


def table(records):
    """The rows of the page."""
    lines = ["| client, workload | over iSCSI | CPU of the server | against | speed | CPU | bar | |", "|---" * 8 + "|"]
    of = {(r["round"], r["client"], r["direction"], r["server"]): r for r in records}
    for (client, direction, other), bar in BARS.items():
        pairs = [(r, of[number, client, direction, other]) for (number, *key), r in of.items()
                 if key == [client, direction, "quintet"]]
        middle = lambda key: statistics.median(ours[key] for ours, _ in pairs)
        ratio = lambda key: statistics.median(ours[key] / theirs[key] for ours, theirs in pairs)
        speeds = [ours["rate"] / theirs["rate"] for ours, theirs in pairs]
        lines.append(f"| `{client}`, {direction}s | {middle('rate'):,.0f} a second | {middle('cpu_us'):.1f} us | {other} | "
                     f"{ratio('rate'):.2f} [{min(speeds):.2f}..{max(speeds):.2f}] | {ratio('cpu_us'):.2f} | {bar} | "
                     f"{'PASS' if ratio('rate') >= bar else 'short'} |")
    lines.append(f"\nLoad average {min(r['load'] for r in records):.0f} to {max(r['load'] for r in records):.0f}.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
