"""What a process that is still starting says and obeys: signals, and the service manager."""
import os
import signal
import time

import kafka_wire
from harness import Gyred, check, check_equal
from takeover import Manager

PATIENCE_SECONDS = 30


class Recovering:
    """A gyred that recovers for ever: what it reads at its start is a pipe that nobody writes to."""

    def __init__(self, binary, scratch, name):
        self.server = Gyred(binary, os.path.join(scratch, name))
        self.manager = Manager(os.path.join(scratch, name + ".notify"))
        self.notify_path = os.path.join(scratch, name + ".notify")

    def __enter__(self):
        self.server.start()
        check_equal(self.server.stop(), 0, "exit code of the first")
        checkpoint = os.path.join(self.server.directory, "recovery-point-offset-checkpoint")
        os.unlink(checkpoint)
        os.mkfifo(checkpoint)
        os.environ["NOTIFY_SOCKET"] = self.notify_path
        try:
            self.server.launch()
        finally:
            del os.environ["NOTIFY_SOCKET"]
        self.manager.await_line("STATUS=recovering")
        return self

    def __exit__(self, *_):
        self.server.__exit__()


def a_signal_ends_a_recovery_at_once(binary, scratch):
    for number in (signal.SIGTERM, signal.SIGINT):
        with Recovering(binary, scratch, "recovering-%d" % number) as recovering:
            process = recovering.server.process
            process.send_signal(number)
            check_equal(process.wait(PATIENCE_SECONDS), -number, "how it ended")
            check("ended by a signal while starting" in recovering.server.stderr(), "it does not say so")


def the_service_manager_grants_a_recovery_its_time(binary, scratch):
    with Recovering(binary, scratch, "long-recovery") as recovering:
        heard = recovering.manager.heard
        if not any(line.startswith("EXTEND_TIMEOUT_USEC=") for line in heard):
            check(recovering.manager.socket.recv(4096).startswith(b"EXTEND_TIMEOUT_USEC="), "nothing is asked for")


def who_is_served_is_drained(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "served-at-once")) as server:
        flag = "--listeners=PLAINTEXT://127.0.0.1:%d" % server.port
        check_equal(server.stop(), 0, "exit code")
        server.flags.append(flag)
        for _ in range(5):
            server.launch()
            deadline = time.monotonic() + PATIENCE_SECONDS
            while True:
                try:
                    with kafka_wire.Connection(server.port) as connection:
                        brokers = connection.brokers()
                    break
                except (ConnectionRefusedError, kafka_wire.Closed):
                    check(time.monotonic() < deadline and server.alive(), "it does not start: " + server.stderr()[-300:])
            server.process.send_signal(signal.SIGTERM)
            check_equal(server.process.wait(PATIENCE_SECONDS), 0, "exit code when told to end at the first answer")
            check_equal(brokers, [("127.0.0.1", server.port)], "the brokers in the first answer")
        check("unclean" not in server.stderr(), "it left the directory unclean")


ALL = [
    who_is_served_is_drained,
    a_signal_ends_a_recovery_at_once,
    the_service_manager_grants_a_recovery_its_time,
]
