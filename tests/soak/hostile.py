"""Volumes that hold file systems and tables which lie: what `mkfs` writes, cut off and changed, and heads with numbers of any
size. The server reads them to classify requests, while a client writes into what it reads."""
import shutil
import struct
import subprocess
import uuid
import zlib

from content import PAGE_BYTES, SECTOR_BYTES, SECTORS, ZERO_PAGE, foreign, sector
from load import Client

MIB = 1 << 20
IMAGES = 60
# Pages of one image that are written.
PAGES_MAX = 400
# Sizes that the tools want at least.
TOOLS = (
    ("mke2fs", 8, ["-qF", "-t", "ext4", "-b", "1024", "-N", "64", "-O", "^metadata_csum"], []),
    ("mke2fs", 16, ["-qF", "-t", "ext4", "-b", "4096"], []),
    ("mke2fs", 8, ["-qF", "-t", "ext2", "-b", "1024", "-g", "256", "-N", "64"], []),
    ("mkfs.xfs", 300, ["-q", "-f"], []),
    ("mkfs.btrfs", 128, ["-q", "-f"], []),
    ("mkntfs", 8, ["-q", "-F", "-f"], []),
)
NUMBERS = (0, 1, 2, 7, 255, 256, 65535, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1)


def made(room, size):
    """Images of the tools that are here: the first `size` bytes, as pages that are not zero, by number."""
    found = []
    for tool, mib, options, after in TOOLS:
        if not shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin:/bin"):
            continue
        path = room / "file-system"
        with open(path, "wb") as file:
            file.truncate(mib * MIB)
        done = subprocess.run([tool, *options, str(path), *after], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=60, env={"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"})
        if done.returncode == 0:
            with open(path, "rb") as file:
                pages = {at: file.read(PAGE_BYTES) for at in range(min(size, mib * MIB) // PAGE_BYTES)}
            found.append({at: page for at, page in pages.items() if page != ZERO_PAGE})
        path.unlink()
    return found


def put(pages, offset, data):
    while data:
        inside = offset % PAGE_BYTES
        part = data[:PAGE_BYTES - inside]
        pages.setdefault(offset // PAGE_BYTES, bytearray(PAGE_BYTES))[inside:inside + len(part)] = part
        offset, data = offset + len(part), data[len(part):]


def table(random, size):
    """A GPT of up to 128 partitions with the heads of file systems in them."""
    pages, count = {}, random.choice([1, 4, 32, 128])
    step = (size - 2 * MIB) // count // SECTOR_BYTES
    entries = b""
    for number in range(count):
        first = 2048 + number * step
        last = random.choice([first + step - 1, first + step - 1, 1 << 40, first])
        name = f"p{number}".encode("utf-16le").ljust(72, b"\0")
        entries += uuid.UUID(int=random.getrandbits(128)).bytes + uuid.UUID(int=number + 1).bytes + struct.pack("<QQQ", first, last, 0) + name
        put(pages, first * SECTOR_BYTES, head(random))
    entries = entries.ljust(16384, b"\0")
    header = bytearray(SECTOR_BYTES)
    header[:16] = struct.pack("<8sII", b"EFI PART", 0x10000, 92)
    struct.pack_into("<QQQQ", header, 24, 1, size // SECTOR_BYTES - 1, 34, size // SECTOR_BYTES - 34)
    struct.pack_into("<QIII", header, 72, 2, 128, 128, zlib.crc32(entries))
    struct.pack_into("<I", header, 16, zlib.crc32(header[:92]))
    mbr = bytearray(SECTOR_BYTES)
    mbr[446:462] = struct.pack("<8BII", 0, 0, 0, 0, 0xEE, 0, 0, 0, 1, (1 << 32) - 1)
    mbr[510:] = b"\x55\xaa"
    put(pages, 0, mbr + header + entries)
    return pages


def head(random):
    """The beginning of a file system, with the marks that it is known by and numbers of any size."""
    data = bytearray(3 * 1024)
    for at in range(1024, 1024 + 256, 4):
        struct.pack_into("<I", data, at, random.choice(NUMBERS) & 0xFFFFFFFF)
    kind = random.choice(["ext", "xfs", "ntfs", "lvm"])
    if kind == "ext":
        struct.pack_into("<H", data, 1024 + 56, 0xEF53)
        struct.pack_into("<II", data, 1024 + 20, 1, random.choice([0, 1, 2, 6]))
        struct.pack_into("<II", data, 1024 + 32, random.choice([8, 256, 8192, 32768]), 8192)
        struct.pack_into("<I", data, 1024 + 40, random.choice([1, 16, 64, 8192]))
        struct.pack_into("<H", data, 1024 + 88, random.choice([128, 256, 3, 4096]))
    elif kind == "xfs":
        data[:4] = b"XFSB"
        for at in range(4, 128, 4):
            struct.pack_into(">I", data, at, random.choice(NUMBERS) & 0xFFFFFFFF)
        struct.pack_into(">I", data, 4, random.choice([512, 4096, 65536]))
    elif kind == "ntfs":
        data[:11] = b"\xeb\x52\x90NTFS    "
        struct.pack_into("<HB", data, 11, 512, random.choice([1, 8, 128, 0]))
        struct.pack_into("<QQQ", data, 40, *random.choices(NUMBERS, k=3))
        data[510:512] = b"\x55\xaa"
    else:
        data[512:544] = struct.pack("<8sQIIQ", b"LABELONE", 1, 0, 32, int.from_bytes(b"LVM2 001", "little"))
    return bytes(data)


def changed(random, pages, times):
    """Some of the pages, with numbers of any size in some places."""
    pages, numbers = dict(pages), sorted(pages)
    for _ in range(times):
        number = random.choice(numbers[:16] if random.random() < 0.5 else numbers)
        page, width = bytearray(pages[number]), random.choice([1, 2, 4, 8])
        at = random.randrange(PAGE_BYTES // width) * width
        page[at:at + width] = (random.choice(NUMBERS) & (1 << 8 * width) - 1).to_bytes(width, random.choice(["little", "big"]))
        pages[number] = bytes(page)
    return pages


def as_versions(pages):
    """Pages as the model sees them."""
    return [(number, tuple(foreign(page[at:at + SECTOR_BYTES]) for at in range(0, PAGE_BYTES, SECTOR_BYTES)))
            for number, page in sorted(pages.items())[:PAGES_MAX]]


def images(random, room, size):
    """What a run writes into such volumes, again and again."""
    real = made(room, size)
    found = []
    for _ in range(IMAGES):
        pages = random.choice(real) if real and random.random() < 0.7 else table(random, size)
        found.append(as_versions(changed(random, pages, random.choice([0, 3, 30]))))
    return found


class Attacker(Client):
    """Owns the first pages of a volume, and writes one image over the other, or parts of it."""

    def __init__(self, images, disk, wires, seed, killing, watch):
        super().__init__(disk, 0, 1, wires, seed, killing, watch)
        self.images = images
        self.image = None

    def play(self):
        if self.image is None or self.random.random() < 0.1:
            self.image = self.random.choice(self.images)
            pages = self.image
        else:
            # Another image's version of some places: neither the one nor the other is whole.
            other = dict(self.random.choice([self.image, self.random.choice(self.images)]))
            pages = self.random.sample(sorted(other.items()), min(len(other), 8))
        pages = [page for page in pages if page[0] < self.pages]
        for at in range(0, len(pages), 32):
            part = pages[at:at + 32]
            self.together([lambda number=number, versions=versions: self.put(number, versions) for number, versions in part],
                          len(part) * PAGE_BYTES)
        reads = self.random.sample(range(self.pages), min(self.pages, 8))
        self.together([self.send_flush, *(lambda page=page: self.send_read(page * SECTORS, SECTORS) for page in reads)],
                      len(reads) * PAGE_BYTES)
        self.watch.count("hostile contents written")

    def put(self, number, versions):
        marks = self.disk.submit_each(number * SECTORS, versions)
        data = b"".join(bytes(sector(version, number * SECTORS + at)) for at, version in enumerate(versions))
        durable = self.wire.protocol == "iscsi"
        return self.wire, self.wire.send(number * SECTORS, data), lambda _: self.disk.acknowledge(marks, durable), lambda: None
