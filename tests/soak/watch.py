"""What all clients of a run did, what they had under way at once, and how much memory the server took for it."""
import json
import threading
import time
from collections import Counter
from pathlib import Path

MIB = 1 << 20
# docs/operations.md, "Memory and journal": the plan does not contain these.
CONNECTION_BYTES = 2 * MIB
# A container that is filled or written: a 64th of the memory, 4 to 16 MiB. The threads that store at once: checkpoint,
# direct writes, import, gc, defragmentation, each with one that is filled and one that is written.
CONTAINERS = 10
# A mount's threads have 1 MiB each.
MOUNT_BYTES = 16 * MIB
# Deriving a key (Argon2id), as `copy` does for the other pool, and what the allocator keeps of it; stacks.
KEY_BYTES = 64 * MIB


class Watch:
    """Counts for the end of a run, and the most that was under way since the server started."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = Counter()
        self.longest = Counter()
        self.memory_peak = 0
        self.memory_share = 0.0
        self.server_started()

    def server_started(self):
        with self.lock:
            self.connections = self.most_connections = self.under_way = self.most_under_way = 0

    def connected(self, more=1):
        with self.lock:
            self.connections += more
            self.most_connections = max(self.most_connections, self.connections)

    def count(self, what, times=1):
        with self.lock:
            self.counts[what] += times

    def sent(self, length):
        """Requests with so many bytes in all: the time, for `answered`."""
        with self.lock:
            self.under_way += length
            self.most_under_way = max(self.most_under_way, self.under_way)
        return time.monotonic()

    def answered(self, protocol, begun, length, good):
        with self.lock:
            self.under_way -= length
            if good:
                self.longest[protocol] = max(self.longest[protocol], time.monotonic() - begun)

    def memory(self, plan_bytes, peak_bytes, code_bytes):
        """The complaint when a server took more than its plan and what the plan does not contain."""
        allowance = code_bytes + allowed_beside(plan_bytes, self.most_connections, self.most_under_way)
        self.memory_peak = max(self.memory_peak, peak_bytes)
        self.memory_share = max(self.memory_share, peak_bytes / (plan_bytes + allowance))
        if peak_bytes > plan_bytes + allowance:
            return (f"the server took {peak_bytes // MIB} MiB: more than its plan of {plan_bytes // MIB} MiB and "
                    f"{allowance // MIB} MiB beside it")
        return None

    def said(self):
        parts = [f"{count} {what}" for what, count in sorted(self.counts.items())]
        parts.append(f"memory at most {self.memory_peak // MIB} MiB, {self.memory_share:.0%} of what it may be")
        parts += [f"longest wait over {name} {seconds:.2f} s" for name, seconds in sorted(self.longest.items())]
        return ", ".join(parts)


def allowed_beside(plan_bytes, connections, under_way):
    """What a server may take beside its plan, without its code: requests that are under way, connections, containers."""
    container = min(max(plan_bytes // 64, 4 * MIB), 16 * MIB)
    return under_way + connections * CONNECTION_BYTES + CONTAINERS * container + MOUNT_BYTES + KEY_BYTES


def planned_bytes(status):
    """The sum of the plan in the output of `status --memory-plan --json`."""
    for line in status.splitlines():
        plan = json.loads(line).get("memory_plan")
        if plan:
            return sum(share["planned_bytes"] for share in plan["shares"])
    raise ValueError(f"no memory plan in {status}")


def peak_and_code_bytes(pid):
    """The most memory that a process has had so far, and how much of its memory is files: code."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return tuple(int(fields[name].split()[0]) << 10 for name in ("VmHWM", "RssFile"))
