#!/usr/bin/env python3
"""From `quintet volume clone` to the login prompt of a Debian that runs from the clone, and the same Debian
from its raw image by nbdkit: one after the other, in rotated order; medians, and the least of each, which other
work on the machine disturbs least.

Rows: quintet-first (a server that was just started, nothing in its caches), quintet-again (another clone in
the same server), nbdkit (a copy of the image that was made before). Images are in the page cache. qemu computes
with TCG, so most of the time is the guest's own; the CPU time of the servers is told apart.

--cold: the first boot of last night's import. The server has just been started, and page caches are
dropped before each boot (qemu, kernel and initial RAM disk are read again before it starts). Rows:
nbdkit, quintet (import by default), quintet-1536k (`import --region-size 1536KiB`, the default
before decision 46; --old-quintet: by a program of that time), each with a pool of its own. They lie on a file system of their own, so the
device's requests and busy time are those of the boot: `here` on a loop device over this machine's
disk, `arms` on the model of a disk with arms (slow_disk.py). Needs root.
"""
import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import measure
import slow_disk

ROWS = ("nbdkit", "quintet-first", "quintet-again")
COLD_ROWS = {"nbdkit": None, "quintet": (), "quintet-1536k": ("--region-size", "1536KiB")}
DISKS = {"here": slow_disk.Disk, "arms": slow_disk.DiskWithArms}
# Of the time and the device's busy time with the old region size.
BAR_SECONDS, BAR_BUSY = 1.0, 0.7
# For a copy of the image and two pools; the disk has twice as much and 2 GiB more.
DISK_MIB = 512
GIB = 1 << 30
BOOT_SECONDS_MAX = 300
PACKAGES = "systemd-sysv,udev,dbus,openssh-server,python3-minimal,iproute2"


def main():
    args = parse_args()
    if args.cold:
        # Again in a mount namespace of its own, before anything else is done.
        measure.own_mounts()
    system = make_system(args)
    work = measure.bench_dir() / "work-boot"
    result = {"benchmark": "boot", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": measure.command_of("bench/boot.py", sys.argv[1:]), "machine": measure.machine(system["image"].parent),
              "qemu": measure.first_line(["qemu-system-x86_64", "--version"]),
              "nbdkit": measure.first_line(["nbdkit", "--version"]), "records": []}
    if args.cold:
        for name in args.cold:
            with slow_disk.room("boot", DISK_MIB, DISKS[name]) as (work, disk):
                measure_cold(args, ColdBoots(args, work, system, disk), name, result)
    else:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        measure_warm(args, Boots(args, work, system), work, result)
    (cold_summary if args.cold else summary)(result["records"])


def measure_warm(args, bench, work, result):
    try:
        bench.fill_pool()
        for number in range(args.rounds):
            # quintet-again needs the server that quintet-first started.
            for row in ("nbdkit", "quintet") if number % 2 else ("quintet", "nbdkit"):
                for record in getattr(bench, row)():
                    keep(args, result, {**record, "round": number})
    finally:
        bench.stop()
        shutil.rmtree(work, ignore_errors=True)


def measure_cold(args, bench, disk, result):
    rows = list(COLD_ROWS)
    try:
        for row in rows:
            bench.store(row)
        for number in range(args.rounds):
            for row in rows[number % 3:] + rows[:number % 3]:
                keep(args, result, {**bench.measure(row), "disk": disk, "round": number})
    finally:
        bench.stop()


def keep(args, result, record):
    result["records"].append(record)
    print(json.dumps(record), flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1))


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quintet", default=str(checkout / "target" / "release" / "quintet"), help="the binary")
    parser.add_argument("--old-quintet", help="binary for quintet-1536k, with --cold; the same one by default")
    parser.add_argument("--kernel", default=str(checkout / "tests" / "guest" / "system.sh"),
                        help="prints the directory of vmlinuz and initrd")
    parser.add_argument("--json", help="write the raw results here")
    parser.add_argument("--cold", type=lambda text: text.split(","), help="comma list of: " + ",".join(DISKS))
    parser.add_argument("--quiet-wait", type=float, default=30)
    return parser.parse_args()


def make_system(args):
    """Paths of kernel, initial RAM disk and the Debian image, which is made once; needs root and mmdebstrap."""
    found = subprocess.run([args.kernel], capture_output=True, text=True)
    if found.returncode != 0:
        sys.exit(f"no kernel: {found.stdout}{found.stderr}")
    image = measure.bench_dir() / "boot" / "debian.img"
    if not image.exists():
        image.parent.mkdir(parents=True, exist_ok=True)
        tree, part = image.parent / "tree", image.with_suffix(".part")
        shutil.rmtree(tree, ignore_errors=True)
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", f"--include={PACKAGES}",
                        "bookworm", str(tree)], check=True)
        with open(part, "wb") as file:
            file.truncate(2 * GIB)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-d", str(tree), str(part)], check=True)
        shutil.rmtree(tree)
        part.rename(image)
    kernel = Path(found.stdout.strip())
    return {"kernel": kernel / "vmlinuz", "initrd": kernel / "initrd", "image": image}


class Boots:
    def __init__(self, args, work, system):
        self.args, self.work, self.system = args, work, system
        self.socket = work / "nbd"
        self.server = None
        self.clones = 0
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(work), "LC_ALL": "C", "QUINTET_PASSWORD": "bench",
                            "QUINTET_REPOSITORY": str(work / "pool")}

    def program(self, *args):
        subprocess.run([self.args.quintet, *args], env=self.environment, check=True, stdout=subprocess.DEVNULL)

    def fill_pool(self):
        self.program("init")
        self.program("import", str(self.system["image"]), "debian")

    def nbdkit(self):
        copy = self.work / "copy.img"
        subprocess.run(["cp", "--sparse=always", str(self.system["image"]), str(copy)], check=True)
        measure.settle(self.args.quiet_wait)
        self.start(["nbdkit", "-f", "-U", str(self.socket), "file", str(copy)])
        record = self.boot("nbdkit", "", lambda: None)
        self.stop()
        copy.unlink()
        return [record]

    def quintet(self):
        measure.warm(self.work / "pool")
        self.start([self.args.quintet, "serve", "--nbd-socket", str(self.socket)])
        records = []
        for row in ("quintet-first", "quintet-again"):
            measure.settle(self.args.quiet_wait)
            self.clones += 1
            name = f"clone{self.clones}"
            records.append(self.boot(row, name, lambda: self.program("volume", "clone", "debian", name)))
        self.stop()
        return records

    def start(self, argv):
        self.socket.unlink(missing_ok=True)
        self.server = subprocess.Popen(argv, env=self.environment, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not self.socket.exists():
            if time.monotonic() > deadline or self.server.poll() is not None:
                sys.exit(f"{argv[0]} does not start")
            time.sleep(0.01)

    def stop(self):
        if self.server:
            self.server.terminate()
            self.server.wait()
            self.server = None

    def boot(self, row, export, first):
        """Seconds from the start of `first` to the prompt, and CPU seconds of both sides and of all others."""
        serial, busy = self.work / "serial", measure.busy_seconds()
        served = cpu_seconds(self.server.pid)
        start = time.monotonic()
        first()
        cloned = time.monotonic() - start
        serial.write_bytes(b"")
        guest = subprocess.Popen(
            ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-m", "512",
             "-smp", "1", "-accel", "tcg", "-cpu", "max", "-kernel", str(self.system["kernel"]),
             "-initrd", str(self.system["initrd"]), "-append", "console=ttyS0 quiet systemd.show_status=0",
             "-drive", f"file=nbd+unix:///{export}?socket={self.socket},format=raw,if=virtio,cache=writeback,discard=unmap",
             "-serial", f"file:{serial}"], stdin=subprocess.DEVNULL)
        try:
            while b"login:" not in serial.read_bytes():
                if time.monotonic() - start > BOOT_SECONDS_MAX or guest.poll() is not None:
                    sys.exit(f"{row}: no login prompt: {serial.read_text(errors='replace')[-2000:]}")
                time.sleep(0.01)
            seconds = time.monotonic() - start
            guest_cpu = cpu_seconds(guest.pid)
            server_cpu = round(cpu_seconds(self.server.pid) - served, 2)
            other = measure.busy_seconds() - busy - guest_cpu - server_cpu
        finally:
            guest.kill()
            guest.wait()
        return {"row": row, "seconds": round(seconds, 3), "clone_seconds": round(cloned, 3),
                "guest_cpu_s": guest_cpu, "server_cpu_s": server_cpu, "other_cpu_s": round(max(other, 0), 2)}


def cpu_seconds(pid):
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / measure.TICKS


class ColdBoots(Boots):
    """Each row has its copy of the image, or its pool, on the disk."""

    def __init__(self, args, work, system, disk):
        super().__init__(args, work, system)
        self.disk = disk

    def store(self, row):
        self.environment["QUINTET_REPOSITORY"] = str(self.disk.point / row)
        if COLD_ROWS[row] is None:
            self.copy = self.disk.point / "copy.img"
            subprocess.run(["cp", "--sparse=always", str(self.system["image"]), str(self.copy)], check=True)
        else:
            self.program("init")
            self.program("import", str(self.system["image"]), "debian", *COLD_ROWS[row])

    def measure(self, row):
        if COLD_ROWS[row] is None:
            # Guests write to it; the next boot is the first one again.
            self.store(row)
            self.start(["nbdkit", "-f", "-U", str(self.socket), "file", str(self.copy)])
            export, first = "", lambda: None
        else:
            self.environment["QUINTET_REPOSITORY"] = str(self.disk.point / row)
            is_old = row == list(COLD_ROWS)[-1] and self.args.old_quintet
            self.start([self.args.old_quintet if is_old else self.args.quintet, "serve", "--nbd-socket", str(self.socket)])
            self.clones += 1
            export = f"clone{self.clones}"
            first = lambda: self.program("volume", "clone", "debian", export)
        measure.settle(self.args.quiet_wait)
        measure.drop_caches()
        for path in (self.system["kernel"], self.system["initrd"], self.args.quintet, shutil.which("qemu-system-x86_64")):
            measure.warm(path)
        measure.first_line(["qemu-system-x86_64", "--version"])
        before = self.disk.usage()
        record = self.boot(row, export, first)
        record.update({key: after - before[key] for key, after in self.disk.usage().items()})
        self.stop()
        if COLD_ROWS[row] is not None:
            self.program("-q", "volume", "delete", export)
        return record


def cold_summary(records):
    print("| disk | | median s | of 1536 KiB | least and most | reads | MB read | MB written | device busy s | of 1536 KiB | CPU of the server s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for disk in dict.fromkeys(record["disk"] for record in records):
        of = {row: [r for r in records if (r["disk"], r["row"]) == (disk, row)] for row in COLD_ROWS}
        middle = lambda row, key: statistics.median(r[key] for r in of[row])
        old = list(COLD_ROWS)[-1]

        def beside_old(row, key, bar):
            ratio = middle(row, key) / middle(old, key)
            return f"{middle(row, key):.2f} | {ratio:.2f}" + (", short" if row == "quintet" and ratio > bar else "")

        for row, own in of.items():
            print(f"| {disk} | {row} | {beside_old(row, 'seconds', BAR_SECONDS)} | "
                  f"{min(r['seconds'] for r in own):.2f} to {max(r['seconds'] for r in own):.2f} | {middle(row, 'reads'):,.0f} | "
                  f"{middle(row, 'read_bytes') / 1e6:.1f} | {middle(row, 'written_bytes') / 1e6:.1f} | "
                  f"{beside_old(row, 'busy_s', BAR_BUSY)} | {middle(row, 'server_cpu_s'):.2f} |")


def summary(records):
    base = best = None
    for row in ROWS:
        own = [record for record in records if record["row"] == row]
        if not own:
            continue
        middle = {key: statistics.median(r[key] for r in own) for key in own[0] if key not in ("row", "round")}
        least = min(record["seconds"] for record in own)
        base, best = base or middle["seconds"], best or least
        print(f"{row:14} {middle['seconds']:7.2f} s ({middle['seconds'] / base:.3f} of {ROWS[0]}), "
              f"least {least:.2f} s ({least / best:.3f}), clone "
              f"{middle['clone_seconds'] * 1000:.0f} ms, CPU: guest {middle['guest_cpu_s']:.2f} s, "
              f"server {middle['server_cpu_s']:.2f} s, others {middle['other_cpu_s']:.2f} s, {len(own)} boots")


if __name__ == "__main__":
    main()
