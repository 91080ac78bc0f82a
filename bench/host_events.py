#!/usr/bin/env python3
"""What `quintet host events` costs: processor time of its eBPF programs, counted by the kernel (kernel.bpf_stats_enabled), and of the
watcher itself, in percent of one processor.

Loads: the web server of host_backup.py on the disk with arms; fio's random reads of 4 KiB of a file in memory (hits: no events), of a file
of which a quarter is in memory (most reads bring a page in and another one out), and random writes in memory. The three run on ext4 on a
loop device in memory. Needs root, fio and the memory cgroup (version 1).
"""
import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import host_backup
import measure
import slow_disk

GROUP = Path("/sys/fs/cgroup/memory/quintet-host-events")
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")


class Watcher:
    """`quintet host events` on a directory, and its programs."""

    def __init__(self, quintet, directory, out):
        words = [quintet, "host", "events", directory, "--json", "--interval", "1"]
        self.out = open(out, "w+b")
        self.process = subprocess.Popen(list(map(str, words)), stdout=self.out)
        deadline = time.monotonic() + 30
        while b"host_events_begin" not in Path(out).read_bytes():
            if time.monotonic() > deadline:
                raise RuntimeError("host events did not begin")
            time.sleep(0.05)
        if b'"source":"ebpf"' not in Path(out).read_bytes():
            raise RuntimeError("no eBPF here")

    def program_runs(self):
        """Runs, and seconds, of the programs that the process holds."""
        runs, nanoseconds, seen = 0, 0, set()
        for info in Path(f"/proc/{self.process.pid}/fdinfo").iterdir():
            fields = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
            if "run_time_ns" in fields and fields["prog_id"] not in seen:
                seen.add(fields["prog_id"])
                runs += int(fields["run_cnt"])
                nanoseconds += int(fields["run_time_ns"])
        return runs, nanoseconds / 1e9

    def own_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / measure.TICKS

    def state(self):
        return (time.monotonic(), *self.program_runs(), self.own_seconds())

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        lines = [json.loads(line) for line in Path(self.out.name).read_bytes().splitlines()]
        self.out.close()
        last = [line for line in lines if line["message_type"] == "status"][-1]
        return last["reported_pages_total"], max(line.get("dropped_chunks", 0) for line in lines)


def measured(name, watcher, work):
    """Runs `work`, which returns its operations, beside the watcher."""
    try:
        before = watcher.state()
        operations = work()
        after = watcher.state()
    except BaseException:
        watcher.process.kill()
        raise
    seconds, runs, in_programs, own = (b - a for a, b in zip(before, after))
    pages, dropped = watcher.end()
    return {"load": name, "seconds": seconds, "operations": operations, "program_runs": runs, "program_percent": 100 * in_programs / seconds,
            "watcher_percent": 100 * own / seconds, "nanoseconds_a_run": 1e9 * in_programs / max(runs, 1), "pages_total": pages, "dropped_chunks": dropped}


def web_server(args):
    with slow_disk.room("host_events", args.mib, slow_disk.DiskWithArms) as (work, disk):
        files = []
        for number in range(args.mib):
            files.append(disk.point / f"{number:05}")
            files[-1].write_bytes(os.urandom(host_backup.FILE_BYTES))
        measure.drop_caches()
        watcher = Watcher(args.quintet, disk.point, work / "events")

        def serve():
            with host_backup.Load(files, disk.point / "log", args.per_second, 1) as load:
                begin = time.monotonic()
                time.sleep(args.seconds)
                return len(load.between(begin, begin + args.seconds))
        return measured("web server on the disk with arms", watcher, serve)


def in_memory(args, name, *words, memory_mib=1024):
    """fio on a file system in memory, whose page cache is as large as a memory cgroup allows."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        image, point = Path(folder) / "image", Path(folder) / "point"
        with open(image, "wb") as file:
            file.truncate(1 << 30)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image], check=True)
        point.mkdir()
        subprocess.run(["mount", "-o", "loop,noatime", image, point], check=True)
        try:
            (point / "file").write_bytes(os.urandom(256 << 20))
            os.sync()
            watcher = Watcher(args.quintet, point, Path(folder) / "events")

            def fio():
                GROUP.mkdir(exist_ok=True)
                (GROUP / "memory.limit_in_bytes").write_text(str(memory_mib << 20))
                done = subprocess.run(["sh", "-c", f'echo $$ >{GROUP}/cgroup.procs; exec "$0" "$@"', "fio", "--name=job", f"--filename={point / 'file'}", "--bs=4k", "--size=256m", "--time_based", f"--runtime={args.seconds}",
                                       "--ioengine=psync", "--norandommap", "--output-format=json", *words], check=True, capture_output=True, text=True)
                GROUP.rmdir()
                job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
                return job["read"]["total_ios"] + job["write"]["total_ios"]
            return measured(name, watcher, fio)
        finally:
            subprocess.run(["umount", point], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024, help="files of 1 MiB of the web server")
    parser.add_argument("--per-second", type=float, default=20, help="requests of the web server")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--quintet", default=str(slow_disk.CHECKOUT / "target/release/quintet"))
    parser.add_argument("--json", type=Path, help="results")
    args = parser.parse_args()
    measure.own_mounts()
    before = STATS.read_text()
    STATS.write_text("1")
    try:
        records = [
            web_server(args),
            in_memory(args, "4 KiB random reads, all in memory", "--rw=randread", "--fadvise_hint=0", "--invalidate=0"),
            in_memory(args, "4 KiB random reads, a quarter in memory", "--rw=randread", "--fadvise_hint=0", "--invalidate=1", memory_mib=64),
            in_memory(args, "4 KiB random writes", "--rw=randwrite", "--fadvise_hint=0", "--invalidate=0"),
        ]
    finally:
        STATS.write_text(before)
    for record in records:
        print(json.dumps({key: round(value, 3) if isinstance(value, float) else value for key, value in record.items()}))
    measure.save(args.json, "host_events", machine=measure.machine("/"), records=records)


if __name__ == "__main__":
    main()
