"""Runs a command and says what it cost; waits for a quiet machine; describes the machine.

Used by all benchmarks of this folder. Seconds and bytes everywhere, KiB only where the kernel speaks it.
"""
import datetime
import json
import os
import platform
import shutil
import signal
import stat
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

PEERS = ("restic", "borg", "borg-zstd", "kopia", "rustic")
TICKS = os.sysconf("SC_CLK_TCK")
COMMAND_SECONDS_MAX = 3600


def bench_dir():
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("QUINTET_BENCH_DIR") or Path(cache) / "quintet-bench")


def own_mounts():
    """Runs this program again in a mount namespace of its own, as root: what it has mounted goes away with it, killed or not."""
    words = ["unshare", "--mount", "--propagation", "private"]
    if os.environ.get("QUINTET_OWN_MOUNTS") or subprocess.run([*words, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        return
    os.environ["QUINTET_OWN_MOUNTS"] = "1"
    os.execvp(words[0], [*words, sys.executable, *sys.argv])


def find_program(name):
    """Our own builds come before the distribution's."""
    built = bench_dir() / "peers" / "bin" / name
    return str(built) if built.exists() else shutil.which(name)


def busy_seconds():
    """CPU seconds all processes have used since boot: user, nice, system, irq, softirq."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(int(fields[i]) for i in (0, 1, 2, 5, 6)) / TICKS


def run(argv, env, cwd, log):
    """One command, output to `log`. The peak RSS is that of the largest process of the tree: wait4
    gives the maximum over the child and every descendant it waited for. It has a floor of about
    20 MiB, because a child that has not yet called exec counts the pages of this Python."""
    with open(log, "ab") as out:
        out.write(("$ " + " ".join(map(str, argv)) + "\n").encode())
        out.flush()
        busy, start = busy_seconds(), time.monotonic()
        child = subprocess.Popen(list(map(str, argv)), env=env, cwd=cwd, stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=out, start_new_session=True)
        limit = threading.Timer(COMMAND_SECONDS_MAX, os.killpg, (child.pid, signal.SIGKILL))
        limit.start()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - start
        limit.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)  # Popen must not wait again
    own = usage.ru_utime + usage.ru_stime
    other = max(0.0, busy_seconds() - busy - own)
    # What the command left to the kernel is a cost too, kept apart from its own time.
    start = time.monotonic()
    os.sync()
    return {"wall_s": wall, "sync_s": time.monotonic() - start, "user_s": usage.ru_utime, "sys_s": usage.ru_stime,
            "other_cpu_s": other, "rss_bytes": usage.ru_maxrss * 1024, "code": child.returncode}


def settle(quiet_wait_s):
    """Writes everything back, then waits (not longer than asked) until nobody else works."""
    os.sync()
    deadline = time.monotonic() + quiet_wait_s
    while time.monotonic() < deadline:
        before = busy_seconds()
        time.sleep(1)
        memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        unwritten_kib = sum(int(memory[k].split()[0]) for k in ("Dirty", "Writeback"))
        if busy_seconds() - before < 0.2 and unwritten_kib < 16 << 10:
            return


def drop_caches():
    """What the system keeps of files is read from the device again."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def walk_sizes(root):
    """(files, entries of any kind, sum of st_size, allocated bytes of the files) below `root`."""
    files = entries = size = allocated = 0
    for folder, folders, names in os.walk(root):
        entries += len(folders) + len(names)
        for name in names:
            meta = os.lstat(os.path.join(folder, name))
            if stat.S_ISREG(meta.st_mode):
                files += 1
                size += meta.st_size
                allocated += meta.st_blocks * 512
    return files, entries, size, allocated


def warm(path):
    """Reads a file or a tree once, so that every tool finds its source in the page cache."""
    paths = [path] if Path(path).is_file() else [
        os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
    buffer = bytearray(1 << 20)
    for name in paths:
        if os.path.isfile(name) and not os.path.islink(name):
            with open(name, "rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass


def first_line(argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
        return (done.stdout or done.stderr).strip().split("\n")[0]
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def machine(at):
    cpu = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
           if line.startswith("model name")]
    total_kib = int(Path("/proc/meminfo").read_text().split()[1])
    warn_of_page_reporting()
    return {"cpu": cpu[0] if cpu else platform.machine(), "cores": os.cpu_count(), "memory_bytes": total_kib * 1024,
            "kernel": platform.release(),
            "file_system": first_line(["stat", "-f", "-c", "%T", str(at)]),
            "mount_options": first_line(["findmnt", "-n", "-o", "FSTYPE,OPTIONS", "-T", str(at)])}


def warn_of_page_reporting():
    """A guest that gives free memory back to its host gets it again page by page: cold reads then take up to three times
    as long in one round as in the next, of every tool."""
    order = Path("/sys/module/page_reporting/parameters/page_reporting_order")
    if order.exists() and int(order.read_text()) <= 10:
        print(f"this machine reports free pages to its host: figures of cold reads vary (echo 11 >{order} stops it)")


def command_of(script, argv):
    """The command as the page prints it: without the options that hold a path of this machine."""
    words, kept = iter(argv), [script]
    for word in words:
        if word in ("--json", "--quintet"):
            next(words, None)
        elif not word.startswith(("--json=", "--quintet=")):
            kept.append(word)
    return " ".join(kept)


def save(path, benchmark, **facts):
    """Writes the results as JSON, with the date and the command, if a path is given."""
    if path:
        date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        command = command_of(f"bench/{benchmark}.py", sys.argv[1:])
        Path(path).write_text(json.dumps({"benchmark": benchmark, "date": date, "command": command, **facts}, indent=1))


def middle(runs, key):
    """The median of this figure; of two in the middle the higher one."""
    return statistics.median_high(run[key] for run in runs)


def summarise(records):
    """{(part, op): {tool: figures}} from the runs that succeeded."""
    groups = {}
    for record in records:
        if record["ok"]:
            groups.setdefault((record["part"], record["op"]), {}).setdefault(record["tool"], []).append(record)
    return {key: {tool: figures(runs) for tool, runs in tools.items()} for key, tools in groups.items()}


def figures(runs):
    walls = [r["wall_s"] for r in runs]
    stored = [r["stored_bytes"] for r in runs if r.get("stored_bytes") is not None]
    return {"runs": len(runs), "median_s": statistics.median(walls), "min_s": min(walls), "max_s": max(walls),
            "sync_s": statistics.median(r["sync_s"] for r in runs),
            "rss_bytes": max(r["rss_bytes"] for r in runs),
            "other_cpu_s": statistics.median(r["other_cpu_s"] for r in runs),
            "stored_bytes": int(statistics.median(stored)) if stored else None}


def fastest_peer(tools):
    """(name, seconds) of the fastest encrypted peer of one (part, op), or None."""
    peers = [(tools[name]["median_s"], name) for name in PEERS if name in tools]
    return (min(peers)[1], min(peers)[0]) if peers else None


def summarise_iops(records):
    """{(test, tool): figures} of serve_ro.py's runs that succeeded."""
    groups = {}
    for record in records:
        if record["ok"]:
            groups.setdefault((record["test"], record["tool"]), []).append(record)
    return {key: {"runs": len(runs), "median": statistics.median(r["iops"] for r in runs),
                  "min": min(r["iops"] for r in runs), "max": max(r["iops"] for r in runs),
                  "rss_bytes": max(r["rss_bytes"] for r in runs)} for key, runs in groups.items()}
