#!/usr/bin/env bash
# `restore --dry-run` says what the real run then does: random trees, all combinations of what decides. What was done is
# seen in the target itself (names, inodes, contents), not in the program's words; the counts of both runs are the same.
# seconds: 600
. "$(dirname "$0")/common.sh"
requires python3
new_pool
cat >"$dir/both.py" <<'PY'
import itertools, json, os, random, shutil, stat, subprocess, sys
quintet, top = os.environ["QUINTET"], sys.argv[1]
seed = int(os.environ.get("SEED", "7"))
rounds = int(os.environ.get("ROUNDS", "2"))
root = os.geteuid() == 0
rand = random.Random(seed)
NAMES = ["a", "b", "c", "d"]


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def put(path):
    """Something at a path that is free."""
    kind = rand.choice(["file", "file", "file", "link", "pipe", "directory"] + ["device"] * root)
    if kind == "directory":
        os.mkdir(path)
        return
    if kind == "file":
        with open(path, "wb") as f:
            f.write(rand.choice([b"", b"x", b"y", b"xyz" * 3000]))
    elif kind == "link":
        os.symlink(rand.choice(["a", "nowhere", "/"]), path)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.utime(path, (0, rand.choice([1000, 2000, 3000])), follow_symlinks=False)


def tree(path, depth=0):
    for name in NAMES:
        what = rand.random()
        below = os.path.join(path, name)
        if what < 0.4 and depth < 3:
            os.mkdir(below)
            tree(below, depth + 1)
        elif what < 0.85:
            put(below)
    files = [n for n in sorted(os.listdir(path)) if os.path.isfile(os.path.join(path, n))]
    if files and rand.random() < 0.3 and not os.path.lexists(os.path.join(path, "hard")):
        os.link(os.path.join(path, files[0]), os.path.join(path, "hard"), follow_symlinks=False)


def state(path):
    """Of every name: type, inode, content, modification time (not of directories)."""
    found = {}
    for at, directories, files in os.walk(path):
        for name in directories + files:
            p = os.path.join(at, name)
            s = os.lstat(p)
            what = stat.S_IFMT(s.st_mode)
            content = b""
            if stat.S_ISREG(s.st_mode):
                content = open(p, "rb").read()
            if stat.S_ISLNK(s.st_mode):
                content = os.readlink(p)
            times = 0 if stat.S_ISDIR(s.st_mode) else s.st_mtime_ns
            found[p] = (what, s.st_ino, content, times, s.st_rdev)
    return found


def run(arguments):
    done = subprocess.run([quintet] + arguments + ["--json", "-vv"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit("%s: %d: %s" % (arguments, done.returncode, done.stdout + done.stderr))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    changes = sorted((l["path"], l["action"]) for l in lines if l["message_type"] == "change")
    summary = [l for l in lines if l["message_type"] == "summary"][0]
    for name in ("dry_run", "total_duration"):
        del summary[name]
    return done.returncode, changes, summary


def check(options, changes, before, after):
    def fail(path, why):
        sys.exit("seed %d, %s: %s: %s" % (seed, options, path, why))
    told = dict(changes)
    new = sorted(set(after) - set(before) - set(told))
    if new:
        fail(new, "made and not told")
    if len(told) != len(changes):
        fail("changes", "a name is told twice: %s" % changes)
    removed = [p for p, action in changes if action == "remove"]
    # Who writes into a file writes under all its names.
    written = {before[p][1] for p, action in changes if p in before and action == "replace" and "--in-place" in options}
    before = {p: b for p, b in before.items() if b[1] not in written or told.get(p) in ("replace", "remove")}
    after = {p: a for p, a in after.items() if p in before or p in told}
    for path, action in changes:
        b, a = before.get(path), after.get(path)
        if action == "create" and (b is not None or a is None):
            fail(path, "was not created: %s, %s" % (b, a))
        if action == "remove" and (b is None or a is not None):
            fail(path, "was not removed")
        if action == "replace" and (b is None or a is None):
            fail(path, "was not replaced")
        if action in ("leave", "skip", "refuse") and path in before and b != a:
            fail(path, "was changed although told %s: %s, %s" % (action, b, a))
        if action == "enter" and (a is None or a[:2] != b[:2]):
            fail(path, "is another directory")
    for path in before:
        b, a = before[path], after.get(path)
        below_removed = any(path.startswith(p + "/") for p in removed)
        if b != a and path not in told and not below_removed:
            fail(path, "changed and was not told: %s, %s" % (b, a))


count = 0
for number in range(rounds):
    source, target = os.path.join(top, "src"), os.path.join(top, "target")
    remove(source)
    os.mkdir(source)
    tree(source)
    if subprocess.run([quintet, "-q", "backup", source], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode:
        sys.exit("backup")
    for overwrite, delete, placed, pattern, devices in itertools.product(
        ["always", "if-changed", "if-newer", "never"], [[], ["--delete"]], [[], ["--in-place"]],
        [[], ["--include", "b"], ["--exclude", "a"]], [[], ["--no-devices"]],
    ):
        remove(target)
        kind = rand.randrange(4)
        if kind == 0:
            pass
        elif kind == 1:
            os.mkdir(target)
            tree(target)
        else:
            shutil.copytree(source, target, symlinks=True, copy_function=lambda f, t: (
                shutil.copy2(f, t, follow_symlinks=False) if stat.S_ISREG(os.lstat(f).st_mode) or os.path.islink(f)
                else os.mkfifo(t)), ignore=lambda d, names: [n for n in names if rand.random() < 0.2])
            for at, directories, files in list(os.walk(target)):
                for name in directories + files:
                    if rand.random() < 0.2 and os.path.isdir(at):
                        remove(os.path.join(at, name))
                        put(os.path.join(at, name))
        options = ["--overwrite", overwrite] + delete + placed + pattern + devices
        restore = ["restore", "latest:" + source, "--target", target] + options
        before = state(target)
        planned = run(restore + ["--dry-run"])
        if state(target) != before or os.path.lexists(target) != (kind != 0):
            sys.exit("seed %d, %s: a dry run changed something" % (seed, options))
        done = run(restore)
        after = state(target)
        if planned != done:
            differ = set(map(tuple, planned[1])) ^ set(map(tuple, done[1]))
            sys.exit("seed %d, %s: planned and done differ: %s\n%s\n%s" % (
                seed, options, sorted(differ), planned, done))
        check(options, planned[1], before, after)
        count += 1
print("%d restores" % count)
PY
python3 "$dir/both.py" "$dir" || fail "a dry run told something else"
