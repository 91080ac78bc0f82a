#!/usr/bin/env python3
"""Kills a server while clients write over NBD, iSCSI and its mount, nodes of a cluster lock and fence, hostile disks are
looked at, the fast tier's file is damaged, and commands run; starts it again, and looks: every page of every volume,
snapshot and image holds what was flushed or a later write; copies in another pool are what was copied; no update was lost
and no fenced write landed; the memory stayed within the plan; `check --read-data` finds nothing. Again and again.

    tests/soak/killed-servers.py --rounds 8 --seed 7             # what ./test runs; --rounds 24 with ./test --long
    tests/soak/killed-servers.py --minutes 60                    # a long run

The seed decides what is written and asked for; where the kill hits is up to the machine. On a failure the pool is kept."""
import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

try:
    import nbd
except ImportError:
    print("Python's nbd module is not installed")
    sys.exit(77)
from cluster import Fencer, LockTaker, free_held
from commands import POLICIES, Commands
from content import PAGE_BYTES, ZERO_VECTOR, Damage
from fast import damage
from hostile import MIB, Attacker, images
from load import SMALL_GROUP, Client, read_all
from lock import PAGES, Lock
from model import Disk
from server import Failure, Server
from target import Dropped
from watch import Watch, planned_bytes
from wires import WIRES, Gone


# How a round ends, for the server. Each comes once, in this order, before chance decides.
ENDS = ("killed", "killed while starting", "killed while stopping", "stopped")
# Volumes of the cluster. Commands neither remove nor shrink them.
FENCED, LOCKED = "fenced", "locked"
# What the watch counts, and a run has all of.
DEEDS = ("nbd writes", "iscsi writes", "iscsi reconnections", "lock turns", "writers fenced", "hostile contents written")
# How many times longer a round is now and then, in a run that has the time: caches fill, and gc and checkpoints meet.
LONG_ROUND = 15
# Time to end for what uses a server that has ended. The listening socket outlives it, so a login waits for the time limit of
# the socket, a minute, and perhaps for another one at the other portal.
HANGS_SECONDS = 180
# More rounds than asked for, until every kind of end and of command was there.
MORE_ROUNDS_MAX = 40


class Soak:
    def __init__(self, args, room):
        self.random = random.Random(args.seed)
        self.clients = args.clients
        self.load_seconds = args.load_seconds
        self.killing = threading.Event()
        self.server = Server(args.program, room, args.with_mount)
        self.commands = Commands(self.server, self.random, args.size_mib << 8, self.killing, args.collect)
        self.lock = Lock(LOCKED)
        self.watch = Watch()
        self.hostile_bytes = args.size_mib * MIB
        self.counts = Counter()

    def missing(self):
        """Ends, deeds and commands that have not been there."""
        deeds = [*DEEDS, "file writes"] if self.server.with_mount else DEEDS
        found = [name for name in ENDS if not self.counts[name]] + [name for name in deeds if not self.watch.counts[name]]
        return found + self.commands.missing() + ([] if self.tier_faults() else ["tier faults"])

    def tier_faults(self):
        return sum(count for name, count in self.counts.items() if name.startswith("tier faults"))

    def is_due(self, end):
        """Whether this end is the first of those that have not been there."""
        return next((other for other in ENDS if not self.counts[other]), None) == end

    def start(self):
        """The server, with another journal and other memory each time; sometimes it is killed while it starts."""
        journal, memory = self.random.choice([16, 64, 256]), self.random.choice([64, 128, 256])
        arguments = ["--memory", f"{memory}M", "--journal", f"{journal}M", "--policy", self.random.choice(POLICIES)]
        self.damage_tier(0.4)
        if self.is_due("killed while starting") or self.random.random() < 0.2:
            self.server.launch(*arguments)
            time.sleep(self.random.uniform(0, 0.3))
            self.server.kill()
            self.counts["killed while starting"] += 1
        self.killing.clear()
        self.server.launch(*arguments)
        self.server.ready()
        self.watch.server_started()
        self.plan_bytes = planned_bytes(self.server.must("status", "--memory-plan", "--json"))

    def damage_tier(self, how_often):
        if self.random.random() < how_often:
            fault = damage(self.random, self.server.fast, self.server.room / "fast.older")
            if fault:
                self.counts[fault] += 1

    def verify(self):
        """What is there is what may be there."""
        handle = nbd.NBD()
        handle.set_opt_mode(True)
        handle.connect_uri(self.server.uri(""))
        there = set()
        handle.opt_list(lambda name, _: there.add(name))
        handle.opt_abort()
        for name, disk in [*self.commands.disks.items(), (LOCKED, self.lock)]:
            if name not in there:
                if not disk.maybe:
                    raise Failure(f"{name} is gone")
                del self.commands.disks[name]
                continue
            try:
                complaint = disk.settle(read_all(self.server.uri(name)))
            except (Damage, nbd.Error) as error:
                raise Failure(f"{name}: {error}") from error
            if complaint:
                raise Failure(complaint)
            self.counts["pages that lost unflushed writes"] += disk.behind
            disk.behind = 0
        extra = {name for name in there if not name.startswith("i")} - set(self.commands.disks) - {LOCKED}
        if extra:
            raise Failure(f"nobody made {sorted(extra)}")
        try:
            free_held(self.server, self.lock)
        except (Damage, Dropped) as error:
            raise Failure(f"{LOCKED}: {error}") from error

    def load(self):
        """Clients on some volumes."""
        names = sorted(name for name, disk in self.commands.disks.items()
                       if disk.writable and disk.settled and name != FENCED)
        chosen = self.random.sample(names, min(len(names), self.random.randint(1, 2)))
        players = []
        for name in chosen:
            disk = self.commands.disks[name]
            count = min(self.random.randint(1, self.clients), len(disk.states) // SMALL_GROUP)
            for number in range(count):
                players.append(Client(disk, number, count, self.wires(disk, number), *self.whole()))
        rest = [name for name in names if name not in chosen]
        if rest and self.random.random() < 0.7:
            disk = self.commands.disks[self.random.choice(rest)]
            players.append(Attacker(self.hostile, disk, self.wires(disk, 0), *self.whole()))
            chosen.append(disk.name)
        if self.random.random() < 0.7:
            takers = self.random.randint(2, 3)
            players += [LockTaker(self.server, self.lock, number, *self.whole()) for number in range(takers)]
        if self.random.random() < 0.6 and self.commands.disks[FENCED].settled:
            players.append(Fencer(self.server, self.commands.disks[FENCED], *self.whole()))
        self.commands.in_use = {*chosen, FENCED}
        self.commands.held = {player.disk.name for player in players
                              if isinstance(player, Client) and any(wire.protocol == "nbd" for wire in player.wires)}
        return players

    def whole(self):
        """What every player needs."""
        return self.random.getrandbits(64), self.killing, self.watch

    def wires(self, disk, number):
        """The way that a client's changes go, and perhaps others for its reads."""
        kinds = sorted(WIRES) if self.server.with_mount else ["iscsi", "nbd"]
        chosen = self.random.choices(kinds, k=self.random.choice([1, 1, 2]))
        return [WIRES[kind](self.server, disk, 2 * number + place) for place, kind in enumerate(chosen)]

    def give_commands(self, until):
        """Commands one after the other, until one fails or the time is over; its own thread."""
        try:
            while time.monotonic() < until and not self.killing.is_set():
                self.commands.one()
                time.sleep(self.random.uniform(0, 0.2))
        except Exception as failure:  # Also mistakes of this program: a thread must not end in silence.
            self.command_failure = failure

    def round(self, longer):
        """`longer`: how many times longer than usual, for a machine on which commands take longer too."""
        self.start()
        self.verify()
        try:
            players = self.load() if self.random.random() < 0.9 else []
        except (Gone, Dropped, OSError, nbd.Error) as error:
            raise Failure(f"a client cannot connect: {error}") from error
        for player in players:
            player.start()
        self.command_failure = None
        seconds = self.random.uniform(0.05, self.load_seconds) * longer
        if not self.rounds_wanted and self.random.random() < 0.1:
            seconds *= LONG_ROUND
        end = time.monotonic() + seconds
        giver = threading.Thread(target=self.give_commands, args=(end + 1,), daemon=True, name="commands")
        giver.start()
        while time.monotonic() < end and not any(player.failure for player in players):
            self.damage_tier(0.01)
            time.sleep(min(0.05, max(end - time.monotonic(), 0)))
        memory = self.server.memory()
        self.killing.set()
        self.end()
        for thread in [*players, giver]:
            thread.join(HANGS_SECONDS)
            if thread.is_alive():
                stack = "".join(traceback.format_stack(sys._current_frames().get(thread.ident)))
                raise Failure(f"{thread.name} hangs after the server's end:\n{stack}")
        for failure in [self.command_failure, *(player.failure for player in players)]:
            if failure:
                raise Failure(failure) from (failure if isinstance(failure, Exception) else None)
        self.commands.in_use, self.commands.held = {FENCED}, set()
        complaint = memory and self.watch.memory(self.plan_bytes, *memory)
        if complaint:
            raise Failure(complaint)
        self.server.must("check", "--read-data")

    def end(self):
        """The server is killed or stopped, or killed because it takes long to stop."""
        patience = self.random.choice([self.random.uniform(0, 0.5), 60])
        if self.is_due("killed while stopping"):
            patience = 0
        elif self.is_due("stopped"):
            patience = 60
        elif self.is_due("killed") or self.random.random() < 0.8:
            patience = None
        if patience is None:
            self.server.kill()
            self.counts["killed"] += 1
        else:
            stopped = self.server.stop(patience)
            self.counts["stopped" if stopped else "killed while stopping"] += 1

    def run(self, rounds, seconds):
        self.hostile = images(self.random, self.server.room, self.hostile_bytes)
        self.server.must("init")
        self.server.must("init", environment=self.server.other)
        self.server.launch()
        self.server.ready_or_without_mount()
        for _ in range(2):
            self.commands.create()
        for name, pages in ((FENCED, 256), (LOCKED, PAGES)):
            self.server.must("volume", "create", name, "--size", str(pages * PAGE_BYTES))
        self.commands.add(Disk(FENCED, [[ZERO_VECTOR] for _ in range(256)]))
        self.server.kill()
        started, number = time.monotonic(), 0
        self.rounds_wanted = 0 if seconds else rounds
        while number < rounds or time.monotonic() - started < seconds or self.missing():
            if number > rounds + MORE_ROUNDS_MAX and time.monotonic() - started > seconds:
                raise Failure(f"not tested in {number} rounds: {', '.join(self.missing())}")
            number += 1
            self.round(1 + max(0, number - rounds) if seconds == 0 else 1)
            if number % 20 == 0:
                self.commands.copies_are_whole()
            if number % 50 == 0:
                print(f"round {number}, {time.monotonic() - started:.0f} s: {self.said()}", flush=True)
        self.start()
        self.verify()
        if not self.server.stop(60):
            raise Failure("the server does not stop")
        self.server.must("check", "--read-data")
        self.commands.copies_are_whole()
        print(f"{number} rounds in {time.monotonic() - started:.0f} s: {self.said()}")

    def said(self):
        parts = [f"{count} {what}" for what, count in sorted(self.counts.items())]
        parts += [f"{count} {what}" for what, count in sorted(self.commands.counts.items())]
        parts.append(f"at most {self.commands.recognised} volumes recognised at once")
        parts.append(f"at most {self.commands.tier_hits} hits of the fast tier between a start and a policy")
        parts.append(f"{self.server.mounts_left} mounts left by killed servers")
        return ", ".join([*parts, self.watch.said()])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="at least so many")
    parser.add_argument("--minutes", type=float, default=0, help="at least so long")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--clients", type=int, default=4, help="connections to a volume, at most")
    parser.add_argument("--size-mib", type=int, default=16, help="size of new volumes")
    parser.add_argument("--load-seconds", type=float, default=1.5, help="time before a kill, at most")
    parser.add_argument("--collect", type=int, default=4, help="weight of `gc --trash-period 0`: of 30 it is most of the commands")
    parser.add_argument("--no-mount", dest="with_mount", action="store_false", help="no clients of files")
    parser.add_argument("--program", default=os.environ.get("QUINTET", "target/release/quintet"))
    args = parser.parse_args()
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {args.seed}", flush=True)
    # Ends as by Ctrl-C, with nothing left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    room = Path(tempfile.mkdtemp(prefix="quintet-soak."))
    soak = Soak(args, room)
    try:
        soak.run(args.rounds, args.minutes * 60)
    except Failure as failure:
        if failure.__cause__:
            traceback.print_exception(failure.__cause__)
        print(f"FAILED with seed {args.seed} after {soak.said()}: {failure!r}\nThe pool is kept in {room}")
        sys.exit(1)
    except (KeyboardInterrupt, SystemExit):
        soak.server.end()
        soak.server.remove()
        raise
    finally:
        soak.server.end()
    soak.server.remove()


if __name__ == "__main__":
    main()
