"""Faults of the fast tier's file: whatever is in it, reads must be right."""
import shutil


def damage(random, directory, kept):
    """Does something to the file, which may be in use: what was done, or None when there is no file yet. `kept` is a copy of
    an earlier one, which may come back."""
    file = next((path for path in sorted(directory.glob("quintet-tier-*")) if path.suffix != ".lock"), None)
    if file is None or not file.stat().st_size:
        return None
    fault = random.choice([flip, cut, empty, remove, older, noise])
    fault(random, file, kept)
    return f"tier faults: {fault.__name__}"


def flip(random, file, _):
    """Bits."""
    with open(file, "r+b") as opened:
        size = file.stat().st_size
        for _ in range(random.choice([1, 20, 500])):
            at = random.randrange(min(size, random.choice([4096, 1 << 20, size])))
            opened.seek(at)
            old = opened.read(1)
            opened.seek(at)
            opened.write(bytes([(old or b"\0")[0] ^ 1 << random.randrange(8)]))


def cut(random, file, _):
    """The end is missing."""
    with open(file, "r+b") as opened:
        opened.truncate(random.randrange(file.stat().st_size))


def empty(random, file, _):
    """Zeroes."""
    with open(file, "r+b") as opened:
        opened.seek(random.randrange(file.stat().st_size))
        opened.write(bytes(random.choice([512, 1 << 16, 1 << 20])))


def remove(random, file, _):
    """The whole file."""
    file.unlink()


def noise(random, file, _):
    """Anything, in the middle."""
    with open(file, "r+b") as opened:
        opened.seek(random.randrange(file.stat().st_size))
        opened.write(random.randbytes(1 << 16))


def older(random, file, kept):
    """An earlier state of the file; it is kept for later now and then."""
    if kept.exists() and random.random() < 0.7:
        shutil.copyfile(kept, file)
    else:
        shutil.copyfile(file, kept)
