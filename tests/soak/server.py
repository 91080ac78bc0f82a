"""The program: commands, and a server that is killed."""
import os
import signal
import subprocess
import time
from pathlib import Path


class Failure(Exception):
    """Something that must not be."""


class Server:
    """A pool in a directory of its own, and at most one process that serves it."""

    def __init__(self, program, room):
        self.program, self.room = program, Path(room)
        self.socket = self.room / "nbd"
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
        # A killed server leaves its socket behind.
        self.socket.unlink(missing_ok=True)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([self.program, "serve", "--nbd-socket", str(self.socket), *args],
                                            env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ready(self):
        """Waits until it serves."""
        deadline = time.monotonic() + 60
        while "serving " not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"the server does not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.01)

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
