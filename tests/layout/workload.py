#!/usr/bin/env python3
"""Changes a mounted file system at random, for tests/layout/run.sh.

    workload.py DIRECTORY OPERATIONS SEED
"""
import ctypes
import os
import random
import shutil
import sys

LIBC = ctypes.CDLL(None)
root, operations, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
dice = random.Random(seed)
top = os.open(root, os.O_RDONLY)
directories, files, number = [root], [], 0
noise = dice.randbytes(4 << 20)


def data(length):
    start = dice.randrange(len(noise) - length) if length < len(noise) else 0
    return noise[start : start + length]


def size():
    return int(min(2 ** dice.uniform(0, 21.5), 3 << 20))


def step():
    global number, directories, files
    what = dice.randrange(100)
    number += 1
    if what < 38 or not files:
        path = f"{dice.choice(directories)}/f{number}"
        with open(path, "wb") as file:
            file.write(data(size()))
        files.append(path)
        return
    path = dice.choice(files)
    if what < 48:
        with open(path, "ab") as file:
            file.write(data(size()))
    elif what < 56:
        with open(path, "r+b") as file:
            file.seek(dice.randrange(8 << 20))
            file.write(data(size() // 16 + 1))
    elif what < 60:
        os.truncate(path, dice.randrange(1 << 20))
    elif what < 78:
        os.remove(path)
        files.remove(path)
    elif what < 84:
        new = f"{dice.choice(directories)}/d{number}"
        os.mkdir(new)
        directories.append(new)
        if dice.randrange(4) == 0:
            for n in range(300):
                open(f"{new}/an-empty-file-with-a-long-name-{n}", "w").close()
    elif what < 86 and len(directories) > 4:
        gone = dice.choice(directories[1:])
        shutil.rmtree(gone)
        keep = lambda name: name != gone and not name.startswith(gone + "/")
        directories, files = list(filter(keep, directories)), list(filter(keep, files))
    elif what < 90:
        new = f"{dice.choice(directories)}/r{number}"
        os.rename(path, new)
        files[files.index(path)] = new
    elif what < 92:
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), dice.randrange(1 << 22), 1 << 18)
    elif what < 94:
        # Holes: many extents.
        with open(path, "r+b") as file:
            for n in range(dice.randrange(400)):
                file.seek(n * 12288)
                file.write(b"x" * 100)
    elif what < 96:
        os.symlink("t" * dice.randrange(1, 900), f"{dice.choice(directories)}/l{number}")
    elif what < 97:
        try:
            os.setxattr(path, "user.large", data(dice.randrange(1, 900)))
        except OSError:
            pass
    elif what < 99:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    else:
        # All of this file system, and of no other.
        LIBC.syncfs(top)


for _ in range(operations):
    try:
        step()
    except OSError as error:
        if error.errno != 28:
            raise
        for path in files[::2]:
            os.remove(path)
        files = files[1::2]
