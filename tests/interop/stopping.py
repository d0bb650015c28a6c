"""What a start hears that comes while the process before it stops, starts, or may stop for too long."""
import os
import signal

from harness import Gyred, Trickle, check, check_equal
from startup import refused
from takeover import COMMIT, connect, hello, receive_offer, takeover_socket, wait_for_file

REFUSE = b"gyre-takeover 1 refuse "


def flags_of(server, *more):
    return ["--listeners=PLAINTEXT://127.0.0.1:%d" % server.port, "--log_dirs=" + server.directory] + list(more)


def one_that_stops_says_so_to_a_successor(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "stops"), ["--drain_timeout_ms=600000"]) as server:
        wait_for_file(takeover_socket(server.directory))
        with connect(takeover_socket(server.directory)) as offered, Trickle(server.port) as held:
            offered.send(hello(server))
            for fd in receive_offer(offered)[1]:
                os.close(fd)
            server.process.send_signal(signal.SIGTERM)
            # One that was about to commit,
            said = offered.recv(4096)
            wanted = b"process %d is already stopping" % server.process.pid
            check(said.startswith(REFUSE) and wanted in said, "it hears %r" % said)
            # and one that comes now.
            line = refused(binary, flags_of(server, "--takeover", "--takeover_timeout_ms=700000"), wanted.decode())
            held.close()
            check_equal(server.process.wait(30), 0, "exit code")
        check(not os.path.exists(takeover_socket(server.directory)), "the socket's file stays")
        return line


def one_that_is_being_taken_over_says_so_to_the_next(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "taken"), ["--drain_timeout_ms=600000"]) as server:
        wait_for_file(takeover_socket(server.directory))
        with connect(takeover_socket(server.directory)) as first, Trickle(server.port) as held:
            first.send(hello(server))
            for fd in receive_offer(first)[1]:
                os.close(fd)
            first.send(COMMIT)
            line = refused(binary, flags_of(server, "--takeover", "--takeover_timeout_ms=700000"),
                           "process %d is being taken over" % server.process.pid)
            held.close()
            check_equal(first.recv(4096), b"gyre-takeover 1 done", "what the first hears")
            first.send(b"gyre-takeover 1 serves")
            check_equal(server.process.wait(30), 0, "exit code")
        return line


def a_drain_that_may_outlast_the_successor_is_not_begun(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "outlasts"), ["--drain_timeout_ms=60000"]) as server:
        wait_for_file(takeover_socket(server.directory))
        line = refused(binary, flags_of(server, "--takeover", "--takeover_timeout_ms=60000"),
                       "may drain for drain_timeout_ms=60000")
        check(server.alive() and "took the listening sockets over" not in server.stderr(), "it drains")
        with Gyred(binary, server.directory, ["--takeover", "--takeover_timeout_ms=60001"]) as successor:
            check_equal(server.process.wait(30), 0, "exit code")
            check_equal(successor.stop(), 0, "exit code of the successor")
        return line


def an_address_in_use_names_the_holder_of_the_data(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "holder")) as server:
        line = refused(binary, flags_of(server), "in use.* has the data directory .*: it starts, serves or ends")
        other = ["--listeners=PLAINTEXT://127.0.0.1:%d" % server.port,
                 "--log_dirs=" + os.path.join(scratch, "another")]
        refused(binary, other, "in use.*choose another port$")
        check_equal(server.stop(), 0, "exit code")
        return line


ALL = [
    one_that_stops_says_so_to_a_successor,
    one_that_is_being_taken_over_says_so_to_the_next,
    a_drain_that_may_outlast_the_successor_is_not_begun,
    an_address_in_use_names_the_holder_of_the_data,
]
