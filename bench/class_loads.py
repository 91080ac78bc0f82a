"""The three loads of Differentiated Storage Services at a small scale, and a guest that is started again, on a mounted file
system. Used by classes.py.

A load prepares the file system (`prepare`, not measured), then has phases: (name, function). Before each phase the file
system is mounted anew, so that the machine has nothing of it in memory; each phase ends when everything is written.
Contents do not compress, except in `Untar`, which has files of this machine.
"""
import concurrent.futures
import mmap
import os
import random
import subprocess
from pathlib import Path

KIB, MIB = 1 << 10, 1 << 20
IN_FLIGHT = 4
USR_FILE_BYTES_MAX = 8 * MIB


def in_flight(work, shares):
    """Does each share of the work in a thread of its own; there are several requests at the disk then."""
    with concurrent.futures.ThreadPoolExecutor(IN_FLIGHT) as threads:
        for done in [threads.submit(work, share) for share in shares]:
            done.result()


def noise(seed, size):
    return random.Random(seed).randbytes(size)


def read_whole(names):
    for name in names:
        with open(name, "rb", buffering=0) as file:
            while file.read(MIB):
                pass


class FilePool:
    """Files of 1 to 128 KB in directories, an archive of them, then all of them read at random."""
    name, title = "pool", "file pool"

    def __init__(self, mib):
        dice = random.Random(1)
        self.sizes = [dice.randrange(KIB, 128 * KIB) for _ in range(mib * 8)]
        self.data_bytes = 2 * sum(self.sizes)
        self.phases = (("made", self.make), ("archived", self.archive), ("read", self.read))

    def path(self, root, number):
        return root / "pool" / f"d{number * 181 // len(self.sizes)}" / f"f{number}"

    def prepare(self, root):
        (root / "pool").mkdir()

    def make(self, root):
        for number, size in enumerate(self.sizes):
            path = self.path(root, number)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(noise(number, size))

    def archive(self, root):
        subprocess.run(["tar", "-cf", root / "archive", "-C", root, "pool"], check=True)

    def read(self, root):
        names = [self.path(root, number) for number in range(len(self.sizes))]
        random.Random(2).shuffle(names)
        in_flight(read_whole, [names[share::IN_FLIGHT] for share in range(IN_FLIGHT)])


class Mail:
    """Files of 1 KB to 1 MB in 100 directories; requests of 4 KiB, of which 86 % write, some of them synchronously."""
    name, title = "mail", "mail server"
    WRITES, SYNC_EVERY = 0.86, 4

    def __init__(self, mib):
        dice = random.Random(1)
        self.sizes = [int(2 ** dice.uniform(10, 20)) for _ in range(mib * 7)]
        self.data_bytes = sum(self.sizes)
        self.requests = mib * 100
        self.phases = (("served", self.serve),)

    def path(self, root, number):
        return root / f"d{number % 100}" / f"m{number}"

    def prepare(self, root):
        for number, size in enumerate(self.sizes):
            self.path(root, number).parent.mkdir(exist_ok=True)
            self.path(root, number).write_bytes(noise(number, size))

    def serve(self, root):
        in_flight(lambda share: self.client(root, share), range(IN_FLIGHT))

    def client(self, root, share):
        dice, buffer = random.Random(share + 10), mmap.mmap(-1, 4 * KIB)
        for request in range(self.requests // IN_FLIGHT):
            number = dice.randrange(len(self.sizes))
            at = dice.randrange(max(1, self.sizes[number] // (4 * KIB))) * 4 * KIB
            writes = dice.random() < self.WRITES
            # Reads pass by the memory of the machine, which is larger than all data here.
            file = os.open(self.path(root, number), os.O_WRONLY if writes else os.O_RDONLY | os.O_DIRECT)
            try:
                if writes:
                    os.pwrite(file, dice.randbytes(4 * KIB), at)
                    if request % self.SYNC_EVERY == 0:
                        os.fdatasync(file)
                else:
                    os.preadv(file, [buffer], at)
            finally:
                os.close(file)


class Untar:
    """An archive of directories of /usr is unpacked, then packed again."""
    name, title = "untar", "untar and tar"

    def __init__(self, mib):
        folders = sorted(folder for folder, _, _ in os.walk("/usr"))
        random.Random(1).shuffle(folders)
        self.names, size = [], 0
        for folder in map(Path, folders):
            files = [path for path in sorted(folder.iterdir())
                     if path.is_file() and not path.is_symlink() and path.stat().st_size <= USR_FILE_BYTES_MAX]
            if size < mib * MIB:
                self.names += [str(path)[1:] for path in files]
                size += sum(path.stat().st_size for path in files)
        self.data_bytes = 2 * size
        self.phases = (("unpacked", self.unpack), ("packed", self.pack))

    def prepare(self, root):
        (root / "tree").mkdir()
        subprocess.run(["tar", "-cf", root / "archive", "-C", "/", "-T", "-"], input="\n".join(self.names), text=True, check=True)

    def unpack(self, root):
        subprocess.run(["tar", "-xf", root / "archive", "-C", root / "tree"], check=True)

    def pack(self, root):
        subprocess.run(f"tar -cf - -C '{root}/tree' . | cat >/dev/null", shell=True, check=True)


class Guest:
    """A machine of which a program reads half of a large file in a random order, each block once; then it lists its disk and
    reads its small files. The server is started again, the program reads the other half, and the machine looks again."""
    name, title, restart_before = "guest", "a guest after a restart", "scans"
    BLOCK = 64 * KIB

    def __init__(self, mib):
        dice = random.Random(1)
        self.sizes = [dice.randrange(4 * KIB, 48 * KIB) for _ in range(mib * 24)]
        self.large_bytes = mib * 2 * MIB
        self.data_bytes = sum(self.sizes) + self.large_bytes
        self.phases = (("scanned", lambda root: self.scan(root, 0)), ("looked", self.look),
                       ("scans", lambda root: self.scan(root, 1)), ("looks", self.look))

    def path(self, root, number):
        return root / f"d{number % 60}" / f"s{number}"

    def prepare(self, root):
        for number, size in enumerate(self.sizes):
            self.path(root, number).parent.mkdir(exist_ok=True)
            self.path(root, number).write_bytes(noise(number, size))
        (root / "large").write_bytes(noise(0, self.large_bytes))

    def scan(self, root, half):
        blocks = list(range(half, self.large_bytes // self.BLOCK, 2))
        random.Random(3).shuffle(blocks)
        in_flight(lambda share: self.read_blocks(root / "large", share), [blocks[n::IN_FLIGHT] for n in range(IN_FLIGHT)])

    def read_blocks(self, path, blocks):
        file = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
            for block in blocks:
                os.pread(file, self.BLOCK, block * self.BLOCK)
        finally:
            os.close(file)

    def look(self, root):
        subprocess.run(["find", root, "-ls"], check=True, stdout=subprocess.DEVNULL)
        names = [self.path(root, number) for number in range(len(self.sizes))]
        random.Random(2).shuffle(names)
        in_flight(read_whole, [names[share::IN_FLIGHT] for share in range(IN_FLIGHT)])


LOADS = {load.name: load for load in (FilePool, Mail, Untar, Guest)}
