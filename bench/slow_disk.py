"""A disk of a known slowness, and clients that read from it at random.

Either a loop device whose reads the kernel throttles (cgroup v1 blkio), or one over a file that a model of a disk with
arms serves in real time, through FUSE. Needs root. Used by dual_dedup.py, duet_share.py, qos.py and boot.py.
"""
import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import measure

CHECKOUT = Path(__file__).resolve().parent.parent
IOPS = Path("/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device")
BYTES = Path("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device")


class Disk:
    """An ext4 file system on a loop device whose reads can be throttled."""

    def __init__(self, work, mib):
        self.file, self.point, self.bytes = work / "disk", work / "point", (mib * 2 + 2048) << 20

    def make(self):
        with open(self.file, "wb") as file:
            file.truncate(self.bytes)

    def __enter__(self):
        self.make()
        self.loop = subprocess.run(["losetup", "--show", "-f", "--direct-io=on", self.file], check=True, capture_output=True,
                                   text=True).stdout.strip()
        subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.loop], check=True)
        self.point.mkdir()
        subprocess.run(["mount", self.loop, self.point], check=True)
        # From here on the mount keeps it: it goes away with it.
        subprocess.run(["losetup", "-d", self.loop], check=True)
        device = os.stat(self.loop).st_rdev
        self.number = f"{os.major(device)}:{os.minor(device)}"
        return self

    def throttle(self, iops, bytes_per_s=0):
        """So many reads, and bytes of them, a second at most; 0: as many as it does."""
        IOPS.write_text(f"{self.number} {iops}")
        BYTES.write_text(f"{self.number} {bytes_per_s}")

    def reads(self):
        return int(self.stat()[0])

    def busy_seconds(self):
        """Time in which something was at the device."""
        return int(self.stat()[9]) / 1000

    def usage(self):
        """Requests, bytes, and seconds in which something was at the device, since there is one."""
        stat = self.stat()
        return {"reads": int(stat[0]), "read_bytes": int(stat[2]) * 512, "written_bytes": int(stat[6]) * 512,
                "busy_s": self.busy_seconds()}

    def stat(self):
        return Path(f"/sys/block/{Path(self.loop).name}/stat").read_text().split()

    def __exit__(self, *_):
        self.throttle(0)
        subprocess.run(["umount", self.point])


@contextlib.contextmanager
def arms(folder, mib, flash=False):
    """A file that is as slow as a disk with arms (or a slowed SSD), below this folder; its bytes are in memory."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", CHECKOUT / "target"))
    program = os.environ.get("QUINTET_SLOW_DISK")
    if not program:
        words = ["cargo", "build", "-q", "--release", "-p", "evaluation", "--example", "slow_disk"]
        subprocess.run(words, check=True, cwd=CHECKOUT)
        program = target / "release" / "examples" / "slow_disk"
    mounted = folder / "arms"
    mounted.mkdir(exist_ok=True)
    model = subprocess.Popen([program, *["--flash"] * flash, mounted, str(mib)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True)
    # If this program is killed, the file system on the disk must go before the model does. The model would be the last process of
    # this mount namespace otherwise: its end unmounts the file system, which then waits for the model for ever.
    keeper = subprocess.Popen(["sh", "-c", 'cat; for n in 1 2 3 4 5 6 7 8 9; do mountpoint -q "$0" || break; umount "$0" || sleep 1; done 2>/dev/null', folder / "point"],
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, pass_fds=(model.stdin.fileno(),))
    if model.stdout.readline() != "ready\n":
        raise RuntimeError("the model of a disk did not start")
    try:
        yield mounted / "disk"
    finally:
        keeper.stdin.close()
        keeper.wait()
        model.stdin.close()
        model.wait(60)


class DiskWithArms(Disk):
    """The same on the model of `lab/evaluation`: seeks, turns, and a queue from which it picks. Always slow; its bytes are in memory."""

    def make(self):
        self.arms = arms(self.file.parent, self.bytes >> 20)
        self.file = self.arms.__enter__()

    def throttle(self, iops, bytes_per_s=0):
        """It is as slow as it is."""

    def __exit__(self, *problem):
        super().__exit__(*problem)
        self.arms.__exit__(*problem)


@contextlib.contextmanager
def room(name, mib, kind=Disk):
    """A folder of this benchmark, and a disk for so many mebibytes, until the end. Ends the program where there can be none."""
    if os.geteuid() or (kind is Disk and not IOPS.exists()):
        sys.exit(f"{name}: needs root and cgroup v1 blkio throttling: skipped")
    measure.own_mounts()
    work = measure.bench_dir() / f"work-{name.replace('_', '-')}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with kind(work, mib) as disk:
        yield work, disk
    shutil.rmtree(work)


def fio(server, *words):
    """What a job of random reads of 4 KiB from a server says of its reads."""
    done = subprocess.run(["fio", "--name=job", "--ioengine=nbd", f"--uri={server.uri}", "--rw=randread", "--bs=4k",
                           "--output-format=json", *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["read"]
