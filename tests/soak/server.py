"""The program: commands, and a server that is killed."""
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from watch import peak_and_code_bytes


class Failure(Exception):
    """Something that must not be."""


class Server:
    """A pool in a directory of its own, and at most one process that serves it: over NBD, over iSCSI at two portals, and
    as files if that is possible here."""

    def __init__(self, program, room, with_mount):
        self.program, self.room = program, Path(room)
        self.socket = self.room / "nbd"
        self.mount, self.fast = self.room / "mount", self.room / "fast"
        self.with_mount = with_mount
        self.mount.mkdir()
        self.fast.mkdir()
        # The second portal, as a service manager would pass it. It outlives servers.
        self.portal = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.portals = []
        self.mounts_left = 0
        self.log = self.room / "serve"
        self.process = None
        self.environment = {
            "PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(self.room),
            "QUINTET_REPOSITORY": str(self.room / "pool"), "QUINTET_PASSWORD": "soak",
            "QUINTET_TO_REPOSITORY": str(self.room / "other"), "QUINTET_TO_PASSWORD": "other",
        }
        # The pool that copies go to.
        self.other = {**self.environment, "QUINTET_REPOSITORY": str(self.room / "other"), "QUINTET_PASSWORD": "other"}

    def uri(self, name):
        return f"nbd+unix:///{name}?socket={self.socket}"

    def command(self, *args, environment=None):
        """Runs a command to its end: (exit code, what it said)."""
        done = subprocess.run([self.program, *args], env=environment or self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        return done.returncode, done.stdout

    def must(self, *args, environment=None):
        code, said = self.command(*args, environment=environment)
        if code != 0:
            raise Failure(f"quintet {' '.join(args)} exited with {code}: {said[-2000:]}")
        return said

    def launch(self, *args):
        """Starts it and does not wait."""
        # A killed server leaves its socket behind, and its mount if the guard did not unmount it yet.
        self.socket.unlink(missing_ok=True)
        self.unmount()
        if self.with_mount:
            args = ["--mount", str(self.mount), *args]
        command = [self.program, "serve", "--nbd-socket", str(self.socket), "--iscsi-listen", "127.0.0.1:0",
                   "--fast", str(self.fast), "--fast-size", "64M", *args]
        passed = self.portal.fileno()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{passed}', "bash", *command], pass_fds=[passed],
                                            env={**self.environment, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "iscsi"},
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def is_mounted(self):
        return f" {self.mount} fuse" in Path("/proc/mounts").read_text()

    def unmount(self):
        """What a killed server left mounted is taken away by its guard, soon; or here."""
        deadline = time.monotonic() + 5
        while self.is_mounted() and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.is_mounted():
            self.mounts_left += 1
            command = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
            subprocess.run([*command, str(self.mount)], timeout=60)

    def ready(self):
        """Waits until it serves."""
        deadline = time.monotonic() + 60
        while "serving " not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"the server does not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.01)
        self.portals = re.findall(r"iscsi://([0-9.:]+)", self.log.read_text())
        if len(self.portals) != 2:
            raise Failure(f"two portals are wanted: {self.log.read_text()[-2000:]}")

    def ready_or_without_mount(self):
        """The same, for the first server: without clients of files, aloud, where nothing can be mounted."""
        try:
            self.ready()
        except Failure as failure:
            if not self.with_mount or not re.search("not permitted|permission denied|/dev/fuse|fusermount3", str(failure), re.IGNORECASE):
                raise
            print(f"SKIPPED clients of files: {failure}", flush=True)
            self.with_mount = False
            self.launch()
            self.ready()

    def memory(self):
        """(most so far, of it code) bytes; None when it has ended."""
        try:
            return peak_and_code_bytes(self.process.pid)
        except (OSError, KeyError):
            return None

    def end(self):
        """Whatever happened: nothing stays."""
        if self.process:
            self.kill()
        self.unmount()
        self.portal.close()

    def remove(self):
        shutil.rmtree(self.room)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self, patience):
        """SIGTERM; killed when it takes longer. True if it ended in time, and then with 0."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self.process = None
        if code != 0:
            raise Failure(f"the server exited with {code}: {self.log.read_text()[-2000:]}")
        return True
