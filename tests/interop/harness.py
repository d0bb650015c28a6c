"""Starts and stops a gyred for a test, runs test functions, prints PASS or FAIL for each."""
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback


class Skip(Exception):
    """This machine cannot run this test; the message says what is missing."""


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def check_equal(got, wanted, what):
    if got != wanted:
        raise AssertionError("%s: got %.200r, wanted %.200r" % (what, got, wanted))


class Gyred:
    """One gyred process on a port of its own choice and a data directory. Use with `with`."""

    def __init__(self, binary, directory, flags=(), start_timeout=30):
        self.binary, self.directory, self.flags = binary, directory, list(flags)
        self.start_timeout = start_timeout
        self.process = self.port = None
        self.said = b""  # on stdout, up to the line that says it listens
        self.stderr_path = os.path.join(directory, "..", os.path.basename(directory) + ".stderr")

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def launch(self):
        """Starts it and waits for nothing."""
        os.makedirs(self.directory, exist_ok=True)
        with open(self.stderr_path, "ab") as stderr:
            self.process = subprocess.Popen(
                [self.binary, "--listeners=PLAINTEXT://127.0.0.1:0", "--log_dirs=" + self.directory] +
                self.flags, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr)

    def start(self):
        self.launch()
        self.port = None
        seen = b""
        deadline = time.monotonic() + self.start_timeout
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self.process.stdout], [], [], 0.2)
            if ready:
                part = os.read(self.process.stdout.fileno(), 65536)
                seen += part
                match = re.search(rb"^gyred: listening on PLAINTEXT://127\.0\.0\.1:(\d+)$", seen, re.M)
                if match:
                    self.port, self.said = int(match.group(1)), seen
                    return
                if not part:
                    break
        self.process.kill()
        raise AssertionError("gyred did not say that it listens; exit %s, stdout %r, stderr: %s" %
                             (self.process.wait(), seen[-300:], self.stderr()[-600:]))

    def stderr(self):
        with open(self.stderr_path, errors="replace") as file:
            return file.read()

    def alive(self): return self.process.poll() is None

    def stop(self, timeout=30):
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("gyred did not end within %d s of SIGTERM" % timeout)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def resident_bytes(self):
        with open("/proc/%d/statm" % self.process.pid) as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Trickle:
    """A client in the middle of a frame that gets on, a byte at a time: a drain waits for it."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.sendall(b"\x00\x00\x10\x00half")
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended.wait(0.05):
            try:
                self.socket.sendall(b".")
            except OSError:
                return

    def close(self):
        self.ended.set()
        self.thread.join()
        self.socket.close()

    def __enter__(self): return self

    def __exit__(self, *_): self.close()


class Runner:
    """Runs named test functions one after another; a failure does not stop the next."""

    def __init__(self, label):
        self.label, self.passed, self.failed, self.skipped = label, 0, 0, 0
        self.only = None

    def run(self, name, function, *arguments):
        if self.only and self.only not in name:
            return
        start = time.monotonic()
        try:
            note = function(*arguments)
            self.passed += 1
            line = "PASS " + name + (": %s" % note if note else "")
        except Skip as reason:
            self.skipped += 1
            line = "SKIP %s: %s" % (name, reason)
        except Exception as error:  # Whatever it is, it is this test's failure.
            self.failed += 1
            line = "FAIL %s: %s: %s" % (name, type(error).__name__, " ".join(str(error).split())[:800])
            if not isinstance(error, AssertionError):
                traceback.print_exc(file=sys.stdout)
        print("%s (%.1f s)" % (line, time.monotonic() - start), flush=True)

    def finish(self):
        """Prints the summary; returns the exit code."""
        print("%s: passed=%d failed=%d skipped=%d" %
              (self.label, self.passed, self.failed, self.skipped), flush=True)
        return 1 if self.failed or not self.passed else 0


class TemporaryDirectory:
    """As tempfile's, but kept (and named) when GYRE_KEEP is set."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="gyre-")
        return self.path

    def __exit__(self, *_):
        if os.environ.get("GYRE_KEEP"):
            print("kept: " + self.path)
        else:
            shutil.rmtree(self.path, ignore_errors=True)


def run_command(command, timeout=120, stdin=None, ok=True):
    """Runs it; returns (exit code, stdout, stderr) as text, and fails unless it succeeds (ok)."""
    result = subprocess.run(command, timeout=timeout, input=stdin,
                            stdin=None if stdin is not None else subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")
    if ok and result.returncode != 0:
        raise AssertionError("%s ended with %d: %s" % (command[0], result.returncode, err[-400:]))
    return result.returncode, out, err
