#!/usr/bin/env python3
"""One volume in memory as a file of a FUSE mount: by crates/fuse, and by the crate `fuser`, side by side.

Both mounts stay for the whole run; fio asks them in turn, in rotated order, so that other load hits all alike.
Prints a table in Markdown: medians, and each median over that of crates/fuse. Needs root, fio, and

    cargo build --release -p fuse --example fuse_memory
    cargo build --release --manifest-path bench/fuse_libraries/Cargo.toml
"""
import argparse
import contextlib
import datetime
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import measure

CHECKOUT = Path(__file__).resolve().parent.parent
MIB = 1 << 20
# Name: (fio's rw, block size, depth, jobs, direct).
WORKLOADS = {
    "4 KiB direct reads, depth 1": ("randread", "4k", 1, 1, True),
    "4 KiB direct reads, depth 16": ("randread", "4k", 16, 1, True),
    "4 KiB direct reads, 4 jobs of depth 1": ("randread", "4k", 1, 4, True),
    "4 KiB direct writes, depth 1": ("randwrite", "4k", 1, 1, True),
    "1 MiB direct reads in order": ("read", "1m", 1, 1, True),
    "1 MiB direct writes in order": ("write", "1m", 1, 1, True),
    "128 KiB buffered reads in order, cold": ("read", "128k", 1, 1, False),
}


def main():
    args = parse_args()
    measure.own_mounts()
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {}
        for name, command in commands(args).items():
            servers[name] = start(stack, args, place, name, command)
        found = {}
        for mount, _ in servers.values():
            fio(args, mount, 0, "write", "1m", 1, 1, True)
        names = list(servers)
        for round_number in range(args.rounds):
            for workload in WORKLOADS:
                shift = round_number % len(names)
                for name in names[shift:] + names[:shift]:
                    figures = measured(args, servers[name], WORKLOADS[workload])
                    found.setdefault((workload, name), []).append(figures)
        print_table(args, names, found)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement")
    parser.add_argument("--mib", type=int, default=256, help="size of the volume")
    parser.add_argument("--ours", default=str(CHECKOUT / "target/release/examples/fuse_memory"))
    parser.add_argument("--fuser", default=str(CHECKOUT / "bench/fuse_libraries/target/release/fuse-libraries"))
    parser.add_argument("--before", default="", help="put before servers and fio, as in 'chrt -r 10'")
    return parser.parse_args()


def commands(args):
    return {
        "crates/fuse": [args.ours, "--threads", "16"],
        "fuser, 16 threads": [args.fuser, "--threads", "16"],
        "fuser, 16 threads, own fds": [args.fuser, "--threads", "16", "--clone-fd"],
        "fuser, 1 thread": [args.fuser, "--threads", "1"],
    }


def directory_of(place, name):
    return place / name.replace("/", "-").replace(" ", "-").replace(",", "")


def start(stack, args, place, name, command):
    """Mounts one server. It is unmounted at the end, whatever happens."""
    mount = directory_of(place, name)
    mount.mkdir()
    argv = args.before.split() + command + ["--size", str(args.mib * MIB), str(mount)]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)

    def stop():
        subprocess.run(["umount", "-l", str(mount)], stderr=subprocess.DEVNULL, check=False)
        server.wait(timeout=20)

    stack.callback(stop)
    if server.stdout.readline().strip() != "ready":
        raise SystemExit(f"{name} does not start")
    return mount, server


def measured(args, running, workload):
    """One run: units a second (requests of 4 KiB, MiB of larger ones), and the server's CPU in us a unit."""
    mount, server = running
    before = cpu_seconds(server.pid)
    report = fio(args, mount, args.seconds, *workload)
    used = cpu_seconds(server.pid) - before
    job = report["write" if "write" in workload[0] else "read"]
    is_small = workload[1] == "4k"
    units = job["total_ios"] if is_small else job["io_bytes"] / MIB
    rate = job["iops"] if is_small else job["bw_bytes"] / MIB
    return {"rate": rate, "cpu_us": used * 1e6 / max(1, units)}


def fio(args, mount, seconds, mode, block, depth, jobs, direct):
    """Runs fio over the whole file; `seconds` 0: once."""
    argv = args.before.split() + [
        "fio", "--name=run", f"--filename={mount}/disk", f"--rw={mode}", f"--bs={block}", f"--size={args.mib}m",
        f"--iodepth={depth}", f"--numjobs={jobs}", f"--direct={int(direct)}", "--thread", "--group_reporting",
        f"--ioengine={'libaio' if direct else 'psync'}", "--output-format=json", "--invalidate=1"]
    if seconds:
        # Both file systems drop the kernel's pages when the file is opened, and fio opens it for each pass.
        argv += [f"--runtime={seconds}", "--time_based"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=mount.parent)
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / measure.TICKS


def print_table(args, names, found):
    machine = measure.machine("/")
    date = datetime.datetime.now(datetime.timezone.utc).date()
    print(f"{date}, {machine['cores']} cores of {machine['cpu']}, Linux {machine['kernel']}; "
          f"{measure.first_line(['fio', '--version'])}; servers and fio by `{args.before}`; {args.rounds} rounds of "
          f"{args.seconds} s, interleaved; load at the end {os.getloadavg()[0]:.0f}\n")
    print("Medians, slowest and fastest round; and the median over that of crates/fuse.\n")
    head = "| workload | " + " | ".join(names) + " |\n|---|" + "---|" * len(names)
    print(head)
    for workload in WORKLOADS:
        ours = statistics.median(run["rate"] for run in found[workload, names[0]])
        unit = "a second" if WORKLOADS[workload][1] == "4k" else "MiB/s"
        print(f"| {workload}, {unit} | " + " | ".join(cell(found[workload, name], ours) for name in names) + " |")
    print(f"\nCPU time of the server, us a request of 4 KiB or a MiB.\n\n{head}")
    for workload in WORKLOADS:
        costs = (statistics.median(run["cpu_us"] for run in found[workload, name]) for name in names)
        print(f"| {workload} | " + " | ".join(f"{cost:.1f}" for cost in costs) + " |")


def cell(runs, ours):
    rates = [run["rate"] for run in runs]
    middle = statistics.median(rates)
    return f"{middle:,.0f} [{min(rates):,.0f}..{max(rates):,.0f}] {middle / ours:.2f}x"


if __name__ == "__main__":
    main()
