#!/usr/bin/env python3
"""Kills a server while clients write and commands run, starts it again, and looks: every page of every volume,
snapshot and image holds what was flushed or a later write; copies in another pool are what was copied; `check --read-data` finds
nothing. Again and again.

    tests/soak/killed-servers.py --rounds 8 --seed 7             # what ./test runs; --rounds 24 with ./test --long
    tests/soak/killed-servers.py --minutes 30                    # a long run

The seed decides what is written and asked for; where the kill hits is up to the machine. On a failure the pool is kept."""
import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

try:
    import nbd
except ImportError:
    print("Python's nbd module is not installed")
    sys.exit(77)
from commands import Commands
from content import Damage
from load import SMALL_GROUP, Client, read_all
from server import Failure, Server


# How a round ends, for the server. Each comes once, in this order, before chance decides.
ENDS = ("killed", "killed while starting", "killed while stopping", "stopped")
# More rounds than asked for, until every kind of end and of command was there.
MORE_ROUNDS_MAX = 40


class Soak:
    def __init__(self, args, room):
        self.random = random.Random(args.seed)
        self.clients = args.clients
        self.load_seconds = args.load_seconds
        self.killing = threading.Event()
        self.server = Server(args.program, room)
        self.commands = Commands(self.server, self.random, args.size_mib << 8, self.killing, args.collect)
        self.counts = Counter()

    def missing(self):
        """Ends and commands that have not been there."""
        return [end for end in ENDS if not self.counts[end]] + self.commands.missing()

    def is_due(self, end):
        """Whether this end is the first of those that have not been there."""
        return next((other for other in ENDS if not self.counts[other]), None) == end

    def start(self):
        """The server, with another journal and other memory each time; sometimes it is killed while it starts."""
        journal, memory = self.random.choice([16, 64, 256]), self.random.choice([64, 128, 256])
        arguments = ["--memory", f"{memory}M", "--journal", f"{journal}M"]
        if self.is_due("killed while starting") or self.random.random() < 0.2:
            self.server.launch(*arguments)
            time.sleep(self.random.uniform(0, 0.3))
            self.server.kill()
            self.counts["killed while starting"] += 1
        self.killing.clear()
        self.server.launch(*arguments)
        self.server.ready()

    def verify(self):
        """What is there is what may be there."""
        handle = nbd.NBD()
        handle.set_opt_mode(True)
        handle.connect_uri(self.server.uri(""))
        there = set()
        handle.opt_list(lambda name, _: there.add(name))
        handle.opt_abort()
        for name, disk in list(self.commands.disks.items()):
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
        extra = {name for name in there if not name.startswith("i")} - set(self.commands.disks)
        if extra:
            raise Failure(f"nobody made {sorted(extra)}")

    def load(self):
        """Clients on some volumes."""
        names = sorted(name for name, disk in self.commands.disks.items() if disk.writable and disk.settled)
        chosen = self.random.sample(names, min(len(names), self.random.randint(1, 2)))
        clients = []
        for name in chosen:
            disk = self.commands.disks[name]
            count = min(self.random.randint(1, self.clients), len(disk.states) // SMALL_GROUP)
            for number in range(count):
                seed = self.random.getrandbits(64)
                clients.append(Client(disk, number, count, self.server.uri(name), seed, self.killing))
        self.commands.in_use = set(chosen)
        for client in clients:
            client.start()
        return clients

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
        clients = self.load() if self.random.random() < 0.9 else []
        self.command_failure = None
        seconds = self.random.uniform(0.05, self.load_seconds) * longer
        end = time.monotonic() + seconds
        giver = threading.Thread(target=self.give_commands, args=(end + 1,), daemon=True)
        giver.start()
        while time.monotonic() < end and not any(client.failure for client in clients):
            time.sleep(min(0.05, max(end - time.monotonic(), 0)))
        self.killing.set()
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
        for thread in [*clients, giver]:
            thread.join(60)
            if thread.is_alive():
                raise Failure("a client or a command hangs after the server's end")
        for failure in [self.command_failure, *(client.failure for client in clients)]:
            if failure:
                raise Failure(failure) from (failure if isinstance(failure, Exception) else None)
        self.commands.in_use = set()
        self.counts["writes"] += sum(client.writes for client in clients)
        self.counts["flushes"] += sum(client.flushes for client in clients)
        self.server.must("check", "--read-data")

    def run(self, rounds, seconds):
        self.server.must("init")
        self.server.must("init", environment=self.server.other)
        self.server.launch()
        self.server.ready()
        for _ in range(2):
            self.commands.create()
        self.server.kill()
        started, number = time.monotonic(), 0
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
        return ", ".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="at least so many")
    parser.add_argument("--minutes", type=float, default=0, help="at least so long")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--clients", type=int, default=4, help="connections to a volume, at most")
    parser.add_argument("--size-mib", type=int, default=16, help="size of new volumes")
    parser.add_argument("--load-seconds", type=float, default=1.5, help="time before a kill, at most")
    parser.add_argument("--collect", type=int, default=4, help="weight of `gc --trash-period 0`: of 30 it is most of the commands")
    parser.add_argument("--program", default=os.environ.get("QUINTET", "target/release/quintet"))
    args = parser.parse_args()
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {args.seed}", flush=True)
    room = Path(tempfile.mkdtemp(prefix="quintet-soak."))
    soak = Soak(args, room)
    try:
        soak.run(args.rounds, args.minutes * 60)
    except Failure as failure:
        print(f"FAILED after {soak.said()}: {failure!r}\nThe pool is kept in {room}")
        sys.exit(1)
    finally:
        if soak.server.process:
            soak.server.kill()
    shutil.rmtree(room)


if __name__ == "__main__":
    main()
