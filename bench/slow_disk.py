"""A disk of a known slowness, and clients that read from it at random.

The disk is a loop device whose reads the kernel throttles (cgroup v1 blkio). Needs root. Used by dual_dedup.py,
duet_share.py and qos.py.
"""
import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import measure

IOPS = Path("/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device")
BYTES = Path("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device")


class Disk:
    """An ext4 file system on a loop device whose reads can be throttled."""

    def __init__(self, work, mib):
        self.file, self.point, self.bytes = work / "disk", work / "point", (mib * 2 + 2048) << 20

    def __enter__(self):
        with open(self.file, "wb") as file:
            file.truncate(self.bytes)
        self.loop = subprocess.run(["losetup", "--show", "-f", "--direct-io=on", self.file], check=True, capture_output=True,
                                   text=True).stdout.strip()
        subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.loop], check=True)
        self.point.mkdir()
        subprocess.run(["mount", self.loop, self.point], check=True)
        device = os.stat(self.loop).st_rdev
        self.number = f"{os.major(device)}:{os.minor(device)}"
        return self

    def throttle(self, iops, bytes_per_s=0):
        """So many reads, and bytes of them, a second at most; 0: as many as it does."""
        IOPS.write_text(f"{self.number} {iops}")
        BYTES.write_text(f"{self.number} {bytes_per_s}")

    def reads(self):
        return int(Path(f"/sys/block/{Path(self.loop).name}/stat").read_text().split()[0])

    def __exit__(self, *_):
        self.throttle(0)
        subprocess.run(["umount", self.point])
        subprocess.run(["losetup", "-d", self.loop])


@contextlib.contextmanager
def room(name, mib):
    """A folder of this benchmark, and a disk for so many mebibytes, until the end. Ends the program where there can be none."""
    if os.geteuid() or not IOPS.exists():
        sys.exit(f"{name}: needs root and cgroup v1 blkio throttling: skipped")
    work = measure.bench_dir() / f"work-{name.replace('_', '-')}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with Disk(work, mib) as disk:
        yield work, disk
    shutil.rmtree(work)


def fio(server, *words):
    """What a job of random reads of 4 KiB from a server says of its reads."""
    done = subprocess.run(["fio", "--name=job", "--ioengine=nbd", f"--uri={server.uri}", "--rw=randread", "--bs=4k",
                           "--output-format=json", *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["read"]
