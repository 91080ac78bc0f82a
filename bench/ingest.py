#!/usr/bin/env python3
"""The ingest benchmark: backup and restore of the corpus, Quintet and its peers side by side.

Every round runs every tool once, in rotated order, each with a new repository which is deleted
afterwards: a slow minute of the machine hits all tools, not one. See README.md.
"""
import argparse
import datetime
import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import measure
import tools as toolbox

OPS = ("first", "unchanged", "forced", "changed", "restore")
PARTS = {"image": "disk.img", "tree": "tree"}
# Appended to one file by the operation `changed`; its own mark, so that a killed run can be undone.
MARK = b"\n#quintet-bench changed this\n"


def main():
    args = parse_args()
    corpus, work = measure.bench_dir() / "corpus", measure.bench_dir() / "work"
    for part in args.parts:
        if not (corpus / PARTS[part]).exists():
            sys.exit(f"ingest: no {corpus / PARTS[part]}: run bench/corpus.sh first")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    names = available(args)
    changed_file = pick_changed_file(corpus / "tree")
    undo_change(changed_file)

    result = {"benchmark": "ingest", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": measure.command_of("bench/ingest.py", sys.argv[1:]), "machine": measure.machine(work),
              "corpus": describe_corpus(corpus), "rounds": args.rounds, "versions": versions(names, args), "notes": {
                  name: toolbox.TOOLS[name].note for name in names if toolbox.TOOLS[name].note}, "records": []}
    print(json.dumps(result["versions"], indent=1))
    print(json.dumps(result["corpus"]), flush=True)
    for round_number in range(args.rounds):
        for part in args.parts:
            source = corpus / PARTS[part]
            measure.warm(source)
            if part == "tree":
                result["records"].append(metadata_scan(source, work, round_number))
            shift = round_number % max(1, len(names))
            for name in names[shift:] + names[:shift]:
                for record in chain(name, part, source, changed_file, work, args):
                    record["round"] = round_number
                    result["records"].append(record)
                    print(line(record), flush=True)
                    save(result, args.json)
    shutil.rmtree(work, ignore_errors=True)
    print_summary(result)


def parse_args():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commas = lambda known: lambda text: [checked(word, known) for word in text.split(",")]
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", type=commas(toolbox.TOOLS), default=list(toolbox.TOOLS),
                        help="comma list of: " + ",".join(toolbox.TOOLS))
    parser.add_argument("--parts", type=commas(PARTS), default=list(PARTS), help="image,tree")
    parser.add_argument("--ops", type=commas(OPS), default=list(OPS), help=",".join(OPS) + " (first always runs)")
    parser.add_argument("--quintet", default=str(checkout / "target" / "release" / "quintet"), help="the binary")
    parser.add_argument("--old-quintet", help="an older binary, which makes the row quintet-old")
    parser.add_argument("--json", help="write the raw results here, after every run")
    parser.add_argument("--quiet-wait", type=float, default=30, help="seconds to wait at most for a quiet machine")
    parser.add_argument("--compare", action="store_true", help="compare every restored byte, not only sizes")
    parser.add_argument("--quick", action="store_true", help="one round, no tree restore, no waiting: for developers")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.quiet_wait = 1, 0
    return args


def checked(word, known):
    if word not in known:
        raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(known)}")
    return word


def make_tool(name, room, args):
    kind = toolbox.TOOLS[name]
    own = {"quintet-old": args.old_quintet or "(no --old-quintet)"}
    return kind(room, own.get(name, args.quintet) if kind.program_name == "quintet" else None)


def available(args):
    names = []
    for name in args.tools:
        program = make_tool(name, "/", args).program
        if program and os.access(program, os.X_OK):
            names.append(name)
        else:
            print(f"ingest: {name} is not installed: skipped")
    return names


def versions(names, args):
    tools = {name: make_tool(name, "/", args) for name in names}
    return {name: measure.first_line([tool.program, *tool.version_args]) for name, tool in tools.items()}


def describe_corpus(corpus):
    described = {}
    if (corpus / "tree").exists():
        described["tree"] = dict(zip(("files", "entries", "bytes", "allocated"), measure.walk_sizes(corpus / "tree")))
    if (corpus / "disk.img").exists():
        meta = (corpus / "disk.img").stat()
        described["image"] = {"bytes": meta.st_size, "allocated": meta.st_blocks * 512}
    return described


def pick_changed_file(tree):
    """Deterministic: the first file, in path order, of 64 to 256 KiB with one name only."""
    for folder, folders, files in os.walk(tree):
        folders.sort()
        for name in sorted(files):
            path = Path(folder, name)
            meta = path.lstat()
            if path.is_file() and not path.is_symlink() and 65536 <= meta.st_size <= 262144 and meta.st_nlink == 1:
                return path
    return None


def apply_change(path):
    with open(path, "ab") as file:
        file.write(MARK)


def undo_change(path):
    if path and path.read_bytes().endswith(MARK):
        meta = path.stat()
        os.truncate(path, meta.st_size - len(MARK))
        # Away from now: some tools distrust a file that is as new as the backup.
        os.utime(path, (meta.st_atime, 1700000000))


def metadata_scan(tree, work, round_number):
    """The floor of an unchanged backup: one lstat for every entry."""
    cost = measure.run(["find", str(tree), "-printf", "%s %T@ %C@ %i\\n"], dict(os.environ), None, work / "scan.log")
    (work / "scan.log").unlink()
    return {"tool": "find", "part": "tree", "op": "scan", "round": round_number, "ok": True, **cost}


def chain(name, part, source, changed_file, work, args):
    """All operations of one tool on one part, in one repository. A failure ends the chain, not the benchmark."""
    room = work / f"{name}-{part}"
    (room / "home").mkdir(parents=True)
    tool, log = make_tool(name, room, args), room / "log"

    def measured(op, argv, cwd=None):
        measure.settle(args.quiet_wait)
        cost = measure.run(argv, tool.env(), cwd, log)
        _, _, stored, allocated = measure.walk_sizes(tool.repo)
        record = {"tool": name, "part": part, "op": op, "ok": cost["code"] == 0, **cost}
        if op != "restore":
            record.update(stored_bytes=stored, stored_allocated_bytes=allocated)
        if not record["ok"]:
            record["error"] = log.read_text(errors="replace")[-2000:]
        return record

    try:
        for argv in tool.init():
            if measure.run(argv, tool.env(), None, log)["code"] != 0:
                yield {"tool": name, "part": part, "op": "init", "ok": False, "error": log.read_text()[-2000:]}
                return
        for op in OPS:
            wanted = op in tool.ops and (op in args.ops or op == "first")
            if op == "changed" and part == "image" or not wanted or args.quick and (part, op) == ("tree", "restore"):
                continue
            if op == "restore":
                yield restore(tool, source, room, measured, args)
                continue
            if op == "changed":
                apply_change(changed_file)
            record = measured(op, *tool.backup(source, force=op == "forced"))
            yield record
            if not record["ok"]:
                return
    finally:
        undo_change(changed_file)
        shutil.rmtree(room, ignore_errors=True)


def restore(tool, source, room, measured, args):
    target = room / "out"
    target.mkdir()
    argv, cwd = tool.restore(source, target)
    record = measured("restore", argv, cwd)
    if record["ok"]:
        record["error"] = difference(source, tool.restored(source, target), args.compare)
        record["ok"] = not record["error"]
    shutil.rmtree(target, ignore_errors=True)
    return record


def difference(source, restored, every_byte):
    """Why the restored source is not the source; empty when it is. A fast restore of nothing is no restore."""
    if not restored.exists():
        return f"nothing at {restored.name}"
    if source.is_file():
        return "" if filecmp.cmp(source, restored, shallow=False) else "the bytes differ"
    want, got = measure.walk_sizes(source)[:3], measure.walk_sizes(restored)[:3]
    if want != got:
        return f"(files, entries, bytes) are {got}, not {want}"
    if every_byte and subprocess.run(["diff", "-rq", "--no-dereference", source, restored],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        return "the bytes differ"
    return ""


def line(record):
    head = f"{record.get('round', 0) + 1} {record['part']:5} {record['tool']:13} {record['op']:9}"
    if not record["ok"]:
        return f"{head} FAILED: " + record["error"].strip().replace("\n", " | ")[-300:]
    stored = f"{record['stored_bytes'] / 1e6:8.1f} MB" if "stored_bytes" in record else ""
    return (f"{head} {record['wall_s']:8.2f} s (+{record['sync_s']:.2f} sync) rss {record['rss_bytes'] / 2**20:6.0f} MiB "
            f"others {record['other_cpu_s']:5.1f} s {stored}")


def save(result, path):
    if path:
        new = Path(path + ".new")
        new.write_text(json.dumps(result, indent=1))
        new.rename(path)


def print_summary(result):
    for (part, op), tools in sorted(measure.summarise(result["records"]).items()):
        best = measure.fastest_peer(tools)
        print(f"\n{part} {op}" + (f"   (fastest peer: {best[0]})" if best else ""))
        for name, f in sorted(tools.items(), key=lambda item: item[1]["median_s"]):
            ratio = f"{f['median_s'] / best[1]:6.2f}x" if best else ""
            stored = f"{f['stored_bytes'] / 1e6:9.1f} MB" if f["stored_bytes"] else ""
            print(f"  {name:14} {f['median_s']:8.2f} s [{f['min_s']:.2f}..{f['max_s']:.2f}] {ratio} "
                  f"rss {f['rss_bytes'] / 2**20:6.0f} MiB {stored}")


if __name__ == "__main__":
    main()
