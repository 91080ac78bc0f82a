#!/usr/bin/env python3
"""The damage experiment: what one fault in a repository costs, and whether repair and a backup bring it back.

Every tool backs up three generations of one tree of random files. Each trial takes a copy of the repository, damages it once
(or twice), checks it, and restores the newest snapshot. Then it runs the tool's own procedure of repair, backs the tree up
again, and restores again. A restored file is compared with its source byte for byte:

  lost     it is missing, or bytes of it are missing (a hole, a short file)
  invented it holds bytes other than the source's and other than zero, and those of no other generation
  older    the bytes of another generation

A trial is *silent* when files were lost and `restore` exited with 0. The same seed makes the same damages. See README.md.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measure
import tools as toolbox

TOOLS = ("quintet", "restic", "borg")
GENERATIONS = 3
KINDS = ("bit", "sector", "zeroed run", "truncated", "deleted", "swapped", "garbage appended", "older version", "two at once")
SECTOR = 4096
COMMAND_SECONDS_MAX = 300


class Tree:
    """The source, in the states that it had."""

    def __init__(self, top, args):
        self.top, self.random = Path(top), random.Random(args.seed)
        self.states = []
        self.args = args
        for n in range(args.files):
            self.write(n)

    def write(self, n):
        path = self.top / f"{n % 16:02}" / f"f{n:04}"
        path.parent.mkdir(parents=True, exist_ok=True)
        # Sizes as in a home directory: many small files, few large ones.
        size = int(self.random.lognormvariate(9.5, 1.5)) % (1 << 20) + 1
        # A byte of zero would pass for a hole.
        path.write_bytes(self.random.randbytes(size).replace(b"\0", b"\1"))

    def change(self):
        for n in self.random.sample(range(self.args.files), self.args.files // 10):
            self.write(n)

    def remember(self):
        self.states.append({str(p.relative_to(self.top)): p.read_bytes() for p in self.top.rglob("*") if p.is_file()})


def difference(found, wanted, others):
    """What became of one file: same, lost, older or invented."""
    if found is None:
        return "lost"
    if found == wanted:
        return "same"
    if found in others:
        return "older"
    length = min(len(found), len(wanted))
    is_partial = len(found) <= len(wanted) and all(a == b or a == 0 for a, b in zip(found[:length], wanted))
    return "lost" if is_partial else "invented"


class Procedure:
    """How one tool is asked: each step gives an exit code, and its output."""

    def __init__(self, tool, room, source):
        self.tool, self.room, self.source = tool, room, source
        self.env = {**tool.env(), **self.own_env()}
        self.log = room / "log"

    def own_env(self):
        return {}

    def run(self, *argv, cwd=None):
        argv = [self.tool.program, *map(str, argv)]
        try:
            done = subprocess.run(argv, env=self.env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=COMMAND_SECONDS_MAX, check=False)
            code, said = done.returncode, done.stdout.decode(errors="replace")
        except subprocess.TimeoutExpired:
            code, said = 124, "no end"
        with open(self.log, "a") as log:
            log.write(f"$ {' '.join(argv)}\n{said}\n= {code}\n")
        return code, said

    def restored(self, target):
        return self.tool.restored(self.source, target)


class Quintet(Procedure):
    def own_env(self):
        return {"XDG_CACHE_HOME": str(self.room / "home")}

    def backup(self, first=False):
        return self.run("backup", *([] if first else ["--force"]), self.source)[0]

    def check(self):
        return self.run("check", "--read-data")

    def restore(self, target):
        return self.run("restore", "latest", "--target", target)[0]

    def repair(self, _said):
        self.run("repair")

    def repair_after_backup(self):
        pass


class Restic(Procedure):
    def own_env(self):
        return {"RESTIC_CACHE_DIR": str(self.room / "home" / "cache")}

    def backup(self, first=False):
        return self.run("backup", "--no-cache", *([] if first else ["--force"]), self.source)[0]

    def check(self):
        return self.run("check", "--no-cache", "--read-data")

    def restore(self, target):
        return self.run("restore", "--no-cache", "latest", "--target", target)[0]

    def repair(self, said):
        # As restic's documentation on damaged repositories has it, in its order.
        packs = re.findall(r"restic repair packs ([0-9a-f ]+)", said)
        if packs:
            self.run("repair", "packs", "--no-cache", *packs[0].split(), cwd=self.room)
        self.run("repair", "index", "--no-cache")

    def repair_after_backup(self):
        self.run("repair", "snapshots", "--no-cache", "--forget")


class Borg(Procedure):
    def own_env(self):
        return {"BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes", "BORG_CHECK_I_KNOW_WHAT_I_AM_DOING": "YES"}

    def backup(self, first=False):
        self.tool.backups += 1
        return self.run("create", *([] if first else ["--files-cache=disabled"]), f"::b{self.tool.backups}", self.source)[0]

    def check(self):
        return self.run("check", "--verify-data")

    def restore(self, target):
        return self.run("extract", f"::b{self.tool.backups}", cwd=target)[0]

    def repair(self, _said):
        self.run("check", "--repair", "--verify-data")

    def repair_after_backup(self):
        # Borg fills what was missing from chunks that came back.
        self.run("check", "--repair")


PROCEDURES = {"quintet": Quintet, "restic": Restic, "borg": Borg}


def files_of(repo):
    """What may be damaged: not caches or locks that the tool can do without."""
    left_out = ("cache", "locks", "lock", "tmp", "control")
    found = [p for p in sorted(repo.rglob("*")) if p.is_file() and p.relative_to(repo).parts[0] not in left_out]
    return [p for p in found if p.stat().st_size > 0]


def damage(repo, older, kind, rng):
    """Does it; says what was done. Half of the trials choose among files, half among bytes."""
    files = files_of(repo)
    weights = None if rng.random() < 0.5 else [p.stat().st_size for p in files]
    path = rng.choices(files, weights)[0]
    size = path.stat().st_size
    name = str(path.relative_to(repo))
    os.chmod(path, 0o600)
    if kind == "two at once":
        kinds = [k for k in KINDS if k != "two at once"]
        return [damage(repo, older, rng.choice(kinds), rng), damage(repo, older, rng.choice(kinds), rng)]
    if kind == "deleted":
        path.unlink()
        return name
    if kind == "swapped":
        others = [p for p in path.parent.iterdir() if p.is_file() and p != path] or [p for p in files if p != path]
        other = rng.choice(others)
        mine, theirs = path.read_bytes(), other.read_bytes()
        os.chmod(other, 0o600)
        path.write_bytes(theirs)
        other.write_bytes(mine)
        return [name, str(other.relative_to(repo))]
    if kind == "older version":
        before = [p for p in files_of(older) if (repo / p.relative_to(older)).exists()
                  and (repo / p.relative_to(older)).read_bytes() != p.read_bytes()]
        if before:
            chosen = rng.choice(before)
            target = repo / chosen.relative_to(older)
            os.chmod(target, 0o600)
            target.write_bytes(chosen.read_bytes())
            return str(chosen.relative_to(older))
        # No file that both have has changed: an older one of the same folder takes the place.
        others = [p for p in files_of(older) if p.relative_to(older).parts[0] == path.relative_to(repo).parts[0]]
        path.write_bytes(rng.choice(others or files_of(older)).read_bytes())
        return name
    with open(path, "r+b") as file:
        if kind == "bit":
            at = rng.randrange(size)
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ (1 << rng.randrange(8))]))
        elif kind == "sector":
            at = rng.randrange(-(-size // SECTOR)) * SECTOR
            file.seek(at)
            file.write(rng.randbytes(min(SECTOR, size - at)))
        elif kind == "zeroed run":
            at = rng.randrange(size)
            file.seek(at)
            file.write(bytes(min(rng.randrange(1, 1 << 17), size - at)))
        elif kind == "truncated":
            file.truncate(rng.randrange(size))
        elif kind == "garbage appended":
            file.seek(0, os.SEEK_END)
            file.write(rng.randbytes(rng.randrange(1, 1 << 14)))
    return name


def judge(procedure, scratch, states):
    """Restores and compares: counts of files, and the exit code."""
    target = Path(tempfile.mkdtemp(dir=scratch))
    code = procedure.restore(target)
    top = Path(procedure.restored(target))
    counts = collections.Counter()
    wanted = states[-1]
    for name, bytes_ in wanted.items():
        path = top / name
        found = path.read_bytes() if path.is_file() else None
        counts[difference(found, bytes_, [s.get(name) for s in states[:-1]])] += 1
    subprocess.run(["chmod", "-R", "u+rwx", target], check=False)
    shutil.rmtree(target, ignore_errors=True)
    return {"code": code, **{k: counts[k] for k in ("same", "lost", "older", "invented")}}


def trial(base, name, number, args, states):
    kind = args.kinds[number % len(args.kinds)]
    rng = random.Random(f"{args.seed} {kind} {number}")
    room = Path(tempfile.mkdtemp(dir=base.parent, prefix=f"{name}-{number}-"))
    try:
        shutil.copytree(base / "repo", room / "repo", dirs_exist_ok=True)
        shutil.copytree(base / "home", room / "home", dirs_exist_ok=True)
        tool = toolbox.TOOLS[name](room)
        tool.backups = GENERATIONS
        procedure = PROCEDURES[name](tool, room, base.parent / "tree")
        where = damage(room / "repo", base / "older", kind, rng)
        checked, said = procedure.check()
        row = {"tool": name, "number": number, "kind": kind, "where": where, "check": checked}
        row["before"] = judge(procedure, room, states)
        if not args.no_repair:
            procedure.repair(said)
            row["backup"] = procedure.backup()
            procedure.repair_after_backup()
            row["after"] = judge(procedure, room, states)
            row["check_after"] = procedure.check()[0]
        is_odd = row["before"]["invented"] or (is_lossy(row["before"]) and row["before"]["code"] == 0)
        is_odd = is_odd or (not args.no_repair and row["after"]["same"] < len(states[-1]))
        if args.keep_logs and is_odd:
            shutil.copy(procedure.log, Path(args.keep_logs) / f"{name}-{number}.log")
        return row
    finally:
        shutil.rmtree(room, ignore_errors=True)


def is_lossy(counts):
    return counts["lost"] + counts["older"] + counts["invented"] > 0


def prepare(name, work, args):
    """The repository, what it was a generation ago, and the states of the tree."""
    base = work / f"base-{name}"
    for part in ("repo", "home"):
        (base / part).mkdir(parents=True)
    shutil.rmtree(work / "tree", ignore_errors=True)
    tree = Tree(work / "tree", args)
    tool = toolbox.TOOLS[name](base)
    (base / "repo").rmdir()
    procedure = PROCEDURES[name](tool, base, tree.top)
    for argv in tool.init():
        code, said = procedure.run(*argv[1:], *args.init_args.get(name, []))
        if code != 0:
            sys.exit(f"{name}: init: {said}")
    for generation in range(GENERATIONS):
        if generation > 0:
            tree.change()
        if generation == GENERATIONS - 1:
            shutil.copytree(base / "repo", base / "older")
        tree.remember()
        if procedure.backup(first=True) != 0:
            sys.exit(f"{name}: the first backups failed: {procedure.log.read_text()}")
    counts = judge(procedure, base, tree.states)
    if counts["same"] != len(tree.states[-1]) or counts["code"] != 0:
        sys.exit(f"{name}: an undamaged repository does not restore: {counts}")
    return base, tree.states


def summary(rows, kind, files):
    """One line of the table."""
    rows = [r for r in rows if kind is None or r["kind"] == kind]
    befores = [r["before"] for r in rows]
    cells = [len(rows), f"{sum(files - b['same'] for b in befores) / len(rows):.1f}", sum(map(is_lossy, befores)),
             sum(1 for b in befores if b["same"] == 0), sum(1 for b in befores if is_lossy(b) and b["code"] == 0),
             sum(1 for r in rows if is_lossy(r["before"]) and r["check"] == 0), sum(1 for b in befores if b["invented"])]
    if "after" in rows[0]:
        cells += [sum(1 for r in rows if r["after"]["same"] == files and r["after"]["code"] == 0),
                  sum(1 for r in rows if r["after"]["same"] == 0)]
    return cells


def table(rows, args):
    heads = ["tool", "damage", "trials", f"files lost, mean of {args.files}", "trials with a loss", "nothing restored",
             "silent: restore", "silent: check", "invented bytes"]
    if not args.no_repair:
        heads += ["whole after repair and a backup", "nothing restored then"]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for tool in args.tools:
        own = [r for r in rows if r["tool"] == tool]
        for kind in [*args.kinds, None]:
            if any(kind is None or r["kind"] == kind for r in own):
                print("| " + " | ".join([tool, kind or "**all**", *map(str, summary(own, kind, args.files))]) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=lambda t: t.split(","), default=list(TOOLS))
    parser.add_argument("--kinds", type=lambda t: t.split(","), default=list(KINDS))
    parser.add_argument("--trials", type=int, default=90, help="per tool")
    parser.add_argument("--files", type=int, default=302)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--no-repair", action="store_true", help="stop after the first restore")
    parser.add_argument("--quintet-init", default="", help="words for `quintet init`, such as --parity=0")
    parser.add_argument("--json", help="all rows")
    parser.add_argument("--keep-logs", help="a folder for the logs of trials that are silent or not whole afterwards")
    parser.add_argument("--work", default=str(measure.bench_dir() / "work"))
    args = parser.parse_args()
    args.init_args = {"quintet": args.quintet_init.split()}
    if args.keep_logs:
        Path(args.keep_logs).mkdir(parents=True, exist_ok=True)
    rows, started = [], time.monotonic()
    Path(args.work).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.work, prefix="damage-") as work:
        for name in args.tools:
            base, states = prepare(name, Path(work), args)
            with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
                jobs = [pool.submit(trial, base, name, n, args, states) for n in range(args.trials)]
                for job in concurrent.futures.as_completed(jobs):
                    rows.append(job.result())
            print(f"{name}: {args.trials} trials, {time.monotonic() - started:.0f} s since the start", file=sys.stderr)
    rows.sort(key=lambda r: (args.tools.index(r["tool"]), r["number"]))
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1))
    table(rows, args)


if __name__ == "__main__":
    main()
