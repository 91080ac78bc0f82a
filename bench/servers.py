"""NBD servers of one writable device of a given size: starts them, stops them, says what they took.

Used by serving.py. Each server keeps its device in `room`; `fill` puts the bytes of a file there before
the server is measured. A server runs in a process group of its own and listens on a unix socket only.
"""
import json
import os
import subprocess
import time
from pathlib import Path

import measure

START_SECONDS_MAX = 120
EXPORT = "disk"
IMAGE = "image"


def say(program, env, *words):
    """What a command of the program says; it must succeed."""
    done = subprocess.run([program, *map(str, words)], env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stderr[-500:]}")
    return done.stdout


class Process:
    """A server in the foreground; `ready` says when it is; stopped by us only."""

    def __init__(self, argv, env, log, ready):
        self.out = open(log, "ab")
        self.child = subprocess.Popen(list(map(str, argv)), env=env, stdin=subprocess.DEVNULL, stdout=self.out,
                                      stderr=self.out)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not ready():
            if self.child.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError("did not start: " + log.read_text(errors="replace")[-500:])
            time.sleep(0.02)

    def status(self, key):
        for text in Path(f"/proc/{self.child.pid}/status").read_text().splitlines():
            if text.startswith(key + ":"):
                return int(text.split()[1]) * 1024
        return 0

    def io_bytes(self, key):
        for text in Path(f"/proc/{self.child.pid}/io").read_text().splitlines():
            if text.startswith(key + ":"):
                return int(text.split()[1])
        return 0

    def written_bytes(self):
        return self.io_bytes("write_bytes")

    def read_bytes(self):
        """From the device: what the page cache had does not count."""
        return self.io_bytes("read_bytes")

    def cpu_seconds(self):
        ticks = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.child.terminate()
        try:
            self.child.wait(120)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.out.close()


class Server:
    """What the servers have in common. A subclass says how a device is made and served."""
    program_name = name = None
    version_args = ("--version",)

    def __init__(self, args, room, size_bytes):
        self.args, self.room, self.size_bytes = args, room, size_bytes
        self.program = self.find()
        self.socket, self.log = room / "nbd.sock", room / "log"
        room.mkdir(parents=True)
        self.process = None

    def find(self):
        found = measure.find_program(self.program_name)
        if not found:
            raise RuntimeError("not installed")
        return found

    @property
    def version(self):
        return measure.first_line([self.program, *self.version_args])

    @property
    def uri(self):
        return f"nbd+unix:///{EXPORT}?socket={self.socket}"

    @property
    def image_uri(self):
        """Of what `take` has stored."""
        return self.uri

    def env(self):
        return dict(os.environ)

    def start(self):
        self.socket.unlink(missing_ok=True)
        self.process = Process(self.argv(), self.env(), self.log, self.socket.exists)

    def stop(self):
        if self.process:
            self.process.stop()
            self.process = None

    def fill(self, source):
        """The bytes of `source` at the start of a new device; everything on disk afterwards."""
        self.make()
        self.start()
        try:
            subprocess.run(["nbdcopy", "--flush", "-S", "0", source, self.uri], check=True, stdout=subprocess.DEVNULL)
        finally:
            self.stop()

    def stored_bytes(self):
        return measure.walk_sizes(self.room)[3]


class FileServer(Server):
    """One that serves a file."""
    def take(self, source):
        """Stores an image in the way that users would."""
        subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", self.form, source, self.room / "disk"], check=True)

    form = "raw"

    def make(self):
        with open(self.room / "disk", "wb") as file:
            file.truncate(self.size_bytes)


class NbdkitFile(FileServer):
    name, program_name = "nbdkit-file", "nbdkit"

    def argv(self):
        return [self.program, "-f", "-U", self.socket, "file", self.room / "disk"]


class NbdkitMemory(FileServer):
    """Keeps nothing: the limit of a server and its client on this machine."""
    name, program_name = "nbdkit-memory", "nbdkit"

    def make(self):
        pass

    def argv(self):
        return [self.program, "-f", "-U", self.socket, "memory", str(self.size_bytes)]


class QemuNbd(FileServer):
    name, program_name = "qemu-nbd", "qemu-nbd"

    def argv(self):
        return [self.program, "-t", "-f", self.form, "--aio=io_uring", "--cache=writeback", "--discard=unmap", "-e", "8",
                "-x", EXPORT, "-k", self.socket, self.room / "disk"]


class QemuNbdQcow2(QemuNbd):
    name, form = "qemu-nbd-qcow2", "qcow2"

    def make(self):
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", self.room / "disk", str(self.size_bytes)], check=True)


class Quintet(Server):
    name = "quintet"
    init_args = ()
    has_volume = False

    def find(self):
        if not os.access(self.args.quintet, os.X_OK):
            raise RuntimeError("not built")
        return self.args.quintet

    def env(self):
        room = {"QUINTET_PASSWORD": "measured", "QUINTET_REPOSITORY": str(self.room / "pool"), "HOME": str(self.room)}
        return {**os.environ, **room}

    def command(self, *words):
        return say(self.program, self.env(), *words)

    def make(self):
        if not (self.room / "pool").exists():
            self.command("init", *self.init_args)
        elif self.has_volume:
            self.command("volume", "delete", EXPORT)
        self.has_volume = True
        self.command("volume", "create", EXPORT, "--size", self.size_bytes)

    def take(self, source):
        if not (self.room / "pool").exists():
            self.command("init", *self.init_args)
        self.command("import", source, IMAGE)

    @property
    def image_uri(self):
        return self.uri.replace(EXPORT, IMAGE)

    def argv(self):
        memory = ["--memory", self.args.memory] if self.args.memory else []
        return [self.program, "serve", *memory, "--nbd-socket", self.socket]

    def status(self):
        """What the running server counts, as JSON."""
        lines = self.command("status", "--json").splitlines()
        return [json.loads(line) for line in lines]


class QuintetPlain(Quintet):
    name, init_args = "quintet-plain", ("--no-encryption",)


class QuintetOld(Quintet):
    """An older build: whether a change made anything slower."""
    name = "quintet-old"

    def find(self):
        if not self.args.old_quintet:
            raise RuntimeError("no --old-quintet")
        return self.args.old_quintet


SERVERS = {s.name: s for s in (Quintet, QuintetOld, QuintetPlain, NbdkitFile, NbdkitMemory, QemuNbd, QemuNbdQcow2)}
