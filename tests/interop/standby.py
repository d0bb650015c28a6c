"""What becomes of the service when a successor ends after its commit: the process before serves again."""
import os
import signal
import time

import kafka_wire
from harness import Gyred, Trickle, check, check_equal
from startup import refused
from takeover import Manager, Writers, accept_modes, mode_flags, read_values, takeover_socket, wait_for_file

PATIENCE_SECONDS = 30


def await_said(server, text, times=1):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while server.stderr().count(text) < times:
        check(time.monotonic() < deadline, "%r is not said: %s" % (text, server.stderr()[-600:]))
        time.sleep(0.002)


class Succession:
    """A served topic with writers that connect again and again, and a successor that commits.
    Its drain lasts until `drain` is called: a frame that trickles in holds it up."""

    def __init__(self, binary, directory, flags=(), hold=True):
        self.binary, self.directory = binary, directory
        self.server = Gyred(binary, directory, flags)
        self.successor = Gyred(binary, directory, list(flags) + ["--takeover"])
        self.hold, self.held, self.writers = hold, None, None

    def __enter__(self):
        self.server.start()
        self.successor.flags.append("--listeners=PLAINTEXT://127.0.0.1:%d" % self.server.port)
        wait_for_file(takeover_socket(self.directory))
        with kafka_wire.Connection(self.server.port) as connection:
            check_equal(connection.create_topic("kept"), 0, "CreateTopics")
        self.writers = Writers(self.server.port, "kept", count=2)
        self.writers.await_more(5)
        return self

    def commit(self):
        if self.hold:
            self.held = Trickle(self.server.port)
            # The server has it once another one, accepted after it, was answered.
            self.writers.await_more(5)
        self.successor.launch()
        await_said(self.server, "took the listening sockets over")

    def drain(self):
        self.held.close()

    def await_serving_again(self):
        await_said(self.server, "ended before it served: serving again")
        self.writers.await_more(5)
        check(self.server.alive(), "the process before is gone")

    def check_records(self):
        """Every acknowledged record is there."""
        self.writers.finish()
        missing = set(self.writers.written) - set(read_values(self.server.port, "kept"))
        check(not missing, "acknowledged records are missing: %s" % sorted(missing)[:5])

    def __exit__(self, *_):
        if self.writers:
            self.writers.finish()
        if self.held:
            self.held.close()
        for process in (self.successor, self.server):
            process.__exit__()


def a_successor_killed_while_the_one_before_drains(binary, scratch):
    with Succession(binary, os.path.join(scratch, "draining")) as both:
        both.commit()
        both.successor.kill()
        both.drain()
        both.await_serving_again()
        both.check_records()
        check_equal(both.writers.errors[:3], [], "the writers' errors")
        check("unclean" not in both.server.stderr(), "the data was not left clean")
        check_equal(both.server.stop(), 0, "exit code")


def a_successor_killed_when_all_is_released(binary, scratch):
    for mode in accept_modes(binary):
        with Succession(binary, os.path.join(scratch, "released-" + mode), mode_flags(mode, binary)) as both:
            both.commit()
            both.successor.process.send_signal(signal.SIGSTOP)
            both.drain()
            await_said(both.server, "standing by")
            both.successor.kill()
            both.await_serving_again()
            both.check_records()
            check_equal(both.writers.errors[:3], [], mode + ": the writers' errors")
            check_equal(both.server.stop(), 0, "exit code")


def a_successor_killed_at_any_moment(binary, scratch):
    outcomes = []
    for delay_ms in (0, 10, 30, 60, 150):
        with Succession(binary, os.path.join(scratch, "moment-%d" % delay_ms), hold=False) as both:
            both.commit()
            time.sleep(delay_ms / 1000)
            both.successor.kill()
            said = "ended before it served: serving again"
            deadline = time.monotonic() + PATIENCE_SECONDS
            while both.server.alive() and said not in both.server.stderr():
                check(time.monotonic() < deadline, "neither served again nor ended")
                time.sleep(0.01)
            outcomes.append("again" if both.server.alive() else "served")
            if not both.server.alive():
                # The successor had served. Then its end is what a process's end is.
                check_equal(both.server.process.returncode, 0, "exit code of the one before")
                continue
            both.await_serving_again()
            both.check_records()
            refusals = [error for error in both.writers.errors if "Refused" in error]
            check_equal(refusals[:3], [], "connections refused")
            check_equal(both.server.stop(), 0, "exit code")
    return " ".join(outcomes)


def a_successor_that_gives_up_leaves_the_service_up(binary, scratch):
    with Succession(binary, os.path.join(scratch, "gives-up"), ["--drain_timeout_ms=1000"]) as both:
        both.successor.flags.append("--takeover_timeout_ms=1100")
        both.commit()
        both.server.process.send_signal(signal.SIGSTOP)
        check_equal(both.successor.process.wait(PATIENCE_SECONDS), 1, "exit code of the successor")
        both.server.process.send_signal(signal.SIGCONT)
        both.drain()
        both.await_serving_again()
        both.check_records()
        refusals = [error for error in both.writers.errors if "Refused" in error]
        check_equal(refusals[:3], [], "connections refused")
        check_equal(both.server.stop(), 0, "exit code")


def it_serves_again_as_it_was_and_refuses_the_next_for_a_while(binary, scratch):
    directory, path = os.path.join(scratch, "as-it-was"), os.path.join(scratch, "as-it-was.flags")
    with open(path, "w") as file:
        file.write("--connections_max_idle_ms=123456\n")
    with Succession(binary, directory, ["--flagfile=" + path]) as both:
        pid = both.server.process.pid
        both.commit()
        both.successor.kill()
        # What is there for another version.
        with open(path, "w") as file:
            file.write("--no_such_flag=1\n")
        both.drain()
        both.await_serving_again()
        with open("/proc/%d/cmdline" % pid) as file:
            check("--connections_max_idle_ms=123456" in file.read().split("\0"), "its flags are others")
        with open("/proc/%d/comm" % pid) as file:
            check_equal(file.read(), "gyred\n", "its name")
        with open("/proc/%d/environ" % pid) as file:
            before = file.read().count("GYRE_INHERITED")
        check_equal(before, 1, "what it was given")
        line = refused(binary, ["--listeners=PLAINTEXT://127.0.0.1:%d" % both.server.port,
                                "--log_dirs=" + directory, "--takeover"], "ended before it served")
        both.check_records()
        check_equal(both.writers.errors[:3], [], "the writers' errors")
        check_equal(both.server.stop(), 0, "exit code")
        return line


def a_signal_ends_one_that_stands_by(binary, scratch):
    with Succession(binary, os.path.join(scratch, "signal")) as both:
        both.commit()
        both.successor.process.send_signal(signal.SIGSTOP)
        both.drain()
        await_said(both.server, "standing by")
        check_equal(both.server.stop(), 0, "exit code")
        check("serving again" not in both.server.stderr(), "it served again")
        # Now the successor serves.
        both.successor.process.send_signal(signal.SIGCONT)
        both.writers.await_more(5)
        both.server.port = both.successor.port = both.writers.port
        both.check_records()
        check_equal(both.writers.errors[:3], [], "the writers' errors")
        check_equal(both.successor.stop(), 0, "exit code of the successor")


def the_service_manager_hears_that_it_serves_again(binary, scratch):
    path = os.path.join(scratch, "notify-again")
    manager = Manager(path)
    os.environ["NOTIFY_SOCKET"] = path
    try:
        with Succession(binary, os.path.join(scratch, "managed")) as both:
            ready = ["READY=1", "STATUS=serving", "MAINPID=%d" % both.server.process.pid]
            check_equal(manager.await_line("READY=1"), ready, "the first time")
            both.commit()
            both.successor.kill()
            both.drain()
            check_equal(manager.await_line("READY=1"), ready, "the second time")
            check("STOPPING=1" not in manager.heard, "it said that it stops")
            both.await_serving_again()
            check_equal(both.server.stop(), 0, "exit code")
            manager.await_line("STOPPING=1")
    finally:
        del os.environ["NOTIFY_SOCKET"]


ALL = [
    a_successor_killed_while_the_one_before_drains,
    a_successor_killed_when_all_is_released,
    a_successor_killed_at_any_moment,
    a_successor_that_gives_up_leaves_the_service_up,
    it_serves_again_as_it_was_and_refuses_the_next_for_a_while,
    a_signal_ends_one_that_stands_by,
    the_service_manager_hears_that_it_serves_again,
]
