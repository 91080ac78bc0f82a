"""What is written: every sector of 512 bytes says which write it is of and where it belongs, and is a
function of that, so that a sector that is torn, or stands in the wrong place, is seen.

A page is described by its vector: the versions of its eight sectors. Version 0 is zeroes. Versions
below COMMON_END have the same bytes wherever they stand: they are deduplicated. Versions below zero
are bytes of somebody else (`foreign`): file systems."""
import functools
import hashlib
import struct

SECTOR_BYTES = 512
PAGE_BYTES = 4096
SECTORS = PAGE_BYTES // SECTOR_BYTES
COMMON_END = 17
ZERO_PAGE = bytes(PAGE_BYTES)
ZERO_VECTOR = (0,) * SECTORS
HEAD = struct.Struct("<8sQQ")
MAGIC = b"sectorQ5"


# Foreign sectors by version, from -1 downwards, and their versions.
FOREIGN, FOREIGN_VERSIONS = [], {}


class Damage(Exception):
    """Bytes that nobody wrote, or that should be there and are not."""


def foreign(data):
    """The version of a sector of any bytes. The same bytes have the same version."""
    data = bytes(data)
    if data == bytes(SECTOR_BYTES):
        return 0
    if data not in FOREIGN_VERSIONS:
        FOREIGN.append(data)
        FOREIGN_VERSIONS[data] = -len(FOREIGN)
    return FOREIGN_VERSIONS[data]


def sector(version, place):
    """The 512 bytes that the write `version` puts at sector `place` of its volume."""
    if version == 0:
        return bytes(SECTOR_BYTES)
    if version < 0:
        return FOREIGN[-version - 1]
    if version < COMMON_END:
        return common_sector(version)
    head = HEAD.pack(MAGIC, version, place)
    if version % 4 == 0:
        return head + hashlib.shake_128(head).digest(SECTOR_BYTES - HEAD.size)
    return head + hashlib.blake2b(head, digest_size=61).digest() * 8


@functools.lru_cache(COMMON_END)
def common_sector(version):
    head = HEAD.pack(MAGIC, version, 0)
    return head + hashlib.shake_128(head).digest(SECTOR_BYTES - HEAD.size)


def sectors(version, first, count):
    return bytearray().join(sector(version, first + number) for number in range(count))


def vector(page, number):
    """Which versions the bytes of the page `number` are of. Damage when no write made them."""
    if page == ZERO_PAGE:
        return ZERO_VECTOR
    first = number * SECTORS
    return tuple(version_of(page[at * SECTOR_BYTES:(at + 1) * SECTOR_BYTES], first + at) for at in range(SECTORS))


def version_of(found, place):
    magic, version, _ = HEAD.unpack_from(found)
    if magic != MAGIC:
        version = FOREIGN_VERSIONS.get(bytes(found), 0)
    if found != sector(version, place):
        raise Damage(f"sector {place}: torn, foreign or changed: {found[:32].hex()}...")
    return version
