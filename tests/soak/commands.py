"""Commands that are given while clients write, and what each of them does to the model, whether it
ended or was cut off by the death of the server."""
import re
from collections import Counter

from content import PAGE_BYTES, ZERO_VECTOR, sectors, vector
from load import VERSIONS
from model import Disk, History
from server import Failure

PAGES_MAX_FACTOR = 2
# They stay to the end.
IMAGES_MAX = 8
POLICIES = ("successor", "ext3", "vm-images", "file-server", "database", "backup-only", "t1", "t3", "t5", "none")
# What `Commands.counts` calls the commands that end well. A run has all of them.
KINDS = ("volume create", "volume clone", "volume snapshot", "volume resize", "volume rollback", "volume delete",
         "import", "forget", "gc", "scrub", "copy", "defrag", "policy set", "removals refused")


class Commands:
    """`disks` is the model of all exports by name. `in_use` are names that clients write now."""

    def __init__(self, server, random, pages, killing, collect_weight):
        self.server, self.random, self.pages = server, random, pages
        self.killing = killing
        self.disks = {}
        self.in_use = set()
        # Those of them that a client has which does not reconnect.
        self.held = set()
        self.made = 0
        # How many volumes were recognised as file systems at once, and what the fast tier answered, at most.
        self.recognised = self.tier_hits = 0
        # What the other pool holds, by name.
        self.copies = {}
        self.counts = Counter()
        # How often garbage is collected, without any time in the trash: the other commands have about 16 in all.
        self.collect_weight = collect_weight

    def run(self, *args, refusal=None):
        """True when it ended well, None when it was refused as expected. Only the death of the server may cut it off."""
        code, said = self.server.command(*args)
        if code != 0 and refusal and refusal in said:
            self.counts["commands refused"] += 1
            return None
        if code != 0 and not self.killing.is_set():
            raise Failure(f"quintet {' '.join(args)} exited with {code}: {said[-2000:]}")
        name = " ".join(args[:2]) if args[0] in ("volume", "policy") else args[0]
        self.counts[name if code == 0 else "commands cut off"] += 1
        return code == 0

    def any(self, wanted):
        """One of the disks that are known for sure."""
        found = sorted(name for name, disk in self.disks.items() if disk.settled and wanted(disk))
        return self.disks[self.random.choice(found)] if found else None

    def name(self, kind):
        self.made += 1
        return f"{kind}{self.made}"

    def add(self, disk):
        self.disks[disk.name] = disk

    def idle_volume(self):
        return self.any(lambda disk: disk.writable and disk.name not in self.in_use)

    def create(self):
        name, chunk = self.name("v"), self.random.choice([4, 16, 64])
        good = self.run("volume", "create", name, "--size", str(self.pages * PAGE_BYTES), "--chunk-size", f"{chunk}K")
        self.add(Disk(name, [[ZERO_VECTOR] for _ in range(self.pages)], not good))

    def clone(self):
        source, name = self.any(lambda _: True), self.name("c")
        if source:
            begun = source.moment_begins()
            good = self.run("volume", "clone", source.name, name)
            self.add(Disk(name, source.moment_ends(begun, self.killing.is_set()), not good))

    def snapshot(self):
        source = self.any(lambda disk: disk.writable)
        if source:
            name = f"{source.name}@{self.name('s')}"
            begun = source.moment_begins()
            good = self.run("volume", "snapshot", name)
            self.add(Disk(name, source.moment_ends(begun, self.killing.is_set()), not good, writable=False))

    def image(self):
        """An import beside the volumes: its commits and theirs take turns."""
        name, pages = self.name("i"), self.random.randint(1, 256)
        version = next(VERSIONS)
        data = bytes(sectors(version, 0, pages * 8))
        path = self.server.room / name
        path.write_bytes(data)
        good = self.run("import", str(path), name)
        path.unlink()
        vectors = [vector(data[at:at + PAGE_BYTES], at // PAGE_BYTES) for at in range(0, len(data), PAGE_BYTES)]
        self.add(Disk(name, [[found] for found in vectors], not good, writable=False))

    def grow(self):
        disk = self.any(lambda disk: disk.writable and len(disk.states) < self.pages * PAGES_MAX_FACTOR)
        if disk:
            pages = len(disk.states) + self.random.randint(1, self.pages // 2)
            if self.run("volume", "resize", disk.name, str(pages * PAGE_BYTES)):
                disk.grow(pages)
            else:
                disk.may_have_pages = pages

    def shrink(self):
        disk = self.idle_volume()
        if disk:
            pages = self.random.randint(1, len(disk.states))
            if pages == len(disk.states):
                return
            states = [list(page) for page in disk.states[:pages]]
            good = self.run("volume", "resize", disk.name, str(pages * PAGE_BYTES), "--shrink")
            self.replaced(disk, states, good)

    def rollback(self):
        def volume(snapshot):
            disk = self.disks.get(snapshot.name.split("@")[0])
            return disk if disk and "@" in snapshot.name and disk.settled and disk.name not in self.in_use else None

        snapshot = self.any(volume)
        if snapshot:
            states = [list(page) for page in snapshot.states]
            disk, good = volume(snapshot), self.run("volume", "rollback", snapshot.name)
            self.replaced(disk, states, good)

    @staticmethod
    def replaced(disk, states, good):
        if good:
            disk.begin(states)
        else:
            disk.others.append(History(states))

    def delete(self):
        disk = self.idle_volume()
        if disk:
            self.removed(disk, self.run("volume", "delete", disk.name))

    def refused(self):
        """A volume that a client has is not removed. Without its server it may be."""
        disk = self.any(lambda disk: disk.name in self.held)
        if disk:
            good = self.run("volume", "delete", disk.name, refusal="in use")
            if good is None:
                self.counts["removals refused"] += 1
            elif good and not self.killing.is_set():
                raise Failure(f"{disk.name} was deleted under its clients")
            else:
                self.removed(disk, good)

    def policy(self):
        """Other classes of I/O from now on; and a look at what they did."""
        if self.run("policy", "set", self.random.choice(POLICIES), refusal="no server"):
            _, said = self.server.command("policy", "status", "--json")
            found = lambda name: sum(int(number) for number in re.findall(rf'"{name}":(\d+)', said))
            self.recognised = max(self.recognised, found("recognised"))
            self.tier_hits = max(self.tier_hits, found("tier_hits"))

    def forget(self):
        disk = self.any(lambda disk: "@" in disk.name)
        if disk:
            self.removed(disk, self.run("forget", disk.name))

    def collect(self):
        """Gives the space of what was removed back, at once."""
        self.run("gc", "--trash-period", "0")

    def scrub(self):
        """Begins or goes on, or waits: whatever it reads must be whole."""
        self.run("scrub", self.random.choice(["start", "start", "pause"]))

    def copy(self):
        """A snapshot to the other pool, which has other keys."""
        snapshot = self.any(lambda disk: "@" in disk.name and disk.name not in self.copies)
        if snapshot and self.run("copy", snapshot.name):
            self.copies[snapshot.name] = [page[-1] for page in snapshot.states]

    def defrag(self):
        """Moves what lies in pieces, by what was read or whatever it is."""
        disk = self.any(lambda disk: disk.writable)
        if disk:
            # The server may have gone on with the run of one that was killed.
            options = self.random.choice([[], ["--bypass"], ["--bypass", "--move-shared"]])
            self.run("defrag", disk.name, *options, refusal="the server is defragmenting already")

    def copies_are_whole(self):
        """Every copy is what was copied."""
        path = self.server.room / "exported"
        self.server.must("check", "--read-data", environment=self.server.other)
        for name, pages in self.copies.items():
            self.server.must("export", name, str(path), environment=self.server.other)
            data = path.read_bytes()
            path.unlink()
            found = [vector(data[at:at + PAGE_BYTES], at // PAGE_BYTES) for at in range(0, len(data), PAGE_BYTES)]
            complaint = History([[page] for page in pages]).difference(found)
            if complaint:
                raise Failure(f"the copy of {name}: {complaint}")

    def removed(self, disk, good):
        if good:
            del self.disks[disk.name]
        else:
            disk.maybe = True

    def one(self):
        """Some command; more disks while there are few."""
        volumes = sum(disk.writable for disk in self.disks.values())
        snapshots = sum("@" in name for name in self.disks)
        chosen = [(self.grow, 2), (self.shrink, 1), (self.rollback, 4)]
        chosen += [(self.create, 1), (self.clone, 3)] if volumes < 6 else [(self.delete, 4)]
        chosen += [(self.snapshot, 5)] if snapshots < 5 else [(self.forget, 6)]
        chosen += [(self.image, 1)] if len(self.disks) - volumes - snapshots < IMAGES_MAX else []
        chosen += [(self.collect, self.collect_weight), (self.scrub, 1), (self.copy, 2), (self.defrag, 2)]
        chosen += [(self.policy, 2), (self.refused, 1)]
        # What has never ended well is more likely, so that a short run has all kinds; it may not be possible just now.
        missing = [(command, weight) for command, weight in chosen if not self.counts[KIND_OF[command.__name__]]]
        if missing and self.random.random() < 0.5:
            chosen = missing
        commands, weights = zip(*chosen)
        self.random.choices(commands, weights)[0]()

    def missing(self):
        """Kinds of commands of which none has ended well yet."""
        return [kind for kind in KINDS if not self.counts[kind]]


KIND_OF = dict(create="volume create", clone="volume clone", snapshot="volume snapshot", grow="volume resize",
               shrink="volume resize", rollback="volume rollback", delete="volume delete", image="import",
               forget="forget", collect="gc", scrub="scrub", copy="copy", defrag="defrag",
               policy="policy set", refused="removals refused")
