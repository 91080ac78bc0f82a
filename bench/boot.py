#!/usr/bin/env python3
"""From `quintet volume clone` to the login prompt of a Debian that runs from the clone, and the same Debian
from its raw image by nbdkit: one after the other, in rotated order; medians, and the least of each, which other
work on the machine disturbs least.

Rows: quintet-first (a server that was just started, nothing in its caches), quintet-again (another clone in
the same server), nbdkit (a copy of the image that was made before). Images are in the page cache. qemu computes
with TCG, so most of the time is the guest's own; the CPU time of the servers is told apart.
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

ROWS = ("nbdkit", "quintet-first", "quintet-again")
GIB = 1 << 30
BOOT_SECONDS_MAX = 300
PACKAGES = "systemd-sysv,udev,dbus,openssh-server,python3-minimal,iproute2"


def main():
    args = parse_args()
    system = make_system(args)
    work = measure.bench_dir() / "work-boot"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    result = {"benchmark": "boot", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": measure.command_of("bench/boot.py", sys.argv[1:]), "machine": measure.machine(work),
              "qemu": measure.first_line(["qemu-system-x86_64", "--version"]),
              "nbdkit": measure.first_line(["nbdkit", "--version"]), "records": []}
    bench = Boots(args, work, system)
    try:
        bench.fill_pool()
        for number in range(args.rounds):
            # quintet-again needs the server that quintet-first started.
            for row in ("nbdkit", "quintet") if number % 2 else ("quintet", "nbdkit"):
                for record in getattr(bench, row)():
                    result["records"].append({**record, "round": number})
                    print(json.dumps(result["records"][-1]), flush=True)
    finally:
        bench.stop()
        shutil.rmtree(work, ignore_errors=True)
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1))
    summary(result["records"])


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quintet", default=str(checkout / "target" / "release" / "quintet"), help="the binary")
    parser.add_argument("--kernel", default=str(checkout / "tests" / "guest" / "system.sh"),
                        help="prints the directory of vmlinuz and initrd")
    parser.add_argument("--json", help="write the raw results here")
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
