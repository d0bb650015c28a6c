"""How gyred ends, and how one process takes over from another without refusing a client."""
import array
import os
import signal
import socket
import threading
import time

import kafka_wire
from harness import Gyred, Skip, Trickle, check, check_equal, run_command
from startup import refused

HELLO = b"gyre-takeover 1 hello "
COMMIT = b"gyre-takeover 1 commit"


def hello(server):
    return HELLO + ("accept_mode=acceptor log_dirs=" + os.path.realpath(server.directory)).encode()


def accept_modes(binary):
    _, out, _ = run_command([binary, "--help"], timeout=20)
    return ["acceptor", "reuseport"] if "accept_mode" in out else ["acceptor"]


def mode_flags(mode, binary):
    return ["--accept_mode=" + mode] if "reuseport" in accept_modes(binary) else []


def takeover_socket(directory): return os.path.join(directory, "takeover.sock")


def connect(path):
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.settimeout(20)
    peer.connect(path)
    return peer


def receive_offer(peer):
    fds = array.array("i")
    text, control, _, _ = peer.recvmsg(65536, socket.CMSG_SPACE(253 * 4))
    for level, kind, content in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content)
    return text, list(fds)


def wait_for_file(path):
    deadline = time.monotonic() + 20
    while not os.path.exists(path):
        check(time.monotonic() < deadline, "there is no " + path)
        time.sleep(0.01)


class Writers:
    """Clients that connect, produce one record with acks=all and leave, again and again."""

    def __init__(self, port, topic, count=3):
        self.port, self.topic, self.stop = port, topic, False
        self.written, self.errors, self.lock = [], [], threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, index):
        sequence = 0
        while not self.stop:
            value = b"%d:%d" % (index, sequence)
            sequence += 1
            try:
                with kafka_wire.Connection(self.port, timeout=60) as connection:
                    error, _ = connection.produce(self.topic, 0, kafka_wire.batch([(None, value)]))
                with self.lock:
                    if error == 0:
                        self.written.append(value)
                    else:
                        self.errors.append("error code %d" % error)
            except Exception as error:
                with self.lock:
                    self.errors.append("%s: %s" % (type(error).__name__, error))

    def count(self):
        with self.lock:
            return len(self.written)

    def await_more(self, more):
        target = self.count() + more
        deadline = time.monotonic() + 60
        while self.count() < target:
            check(time.monotonic() < deadline, "the writers do not get on; errors: %s" % self.errors[:3])
            time.sleep(0.005)

    def finish(self):
        self.stop = True
        for thread in self.threads:
            thread.join()


def read_values(port, topic):
    with kafka_wire.Connection(port) as connection:
        return [record[2] for batch in connection.read_all(topic, 0) for record in batch.records()]


def restarts_refuse_no_connection(binary, scratch, mode):
    directory = os.path.join(scratch, "takeover-" + mode)
    flags = mode_flags(mode, binary)
    servers = [Gyred(binary, directory, flags)]
    writers = None
    try:
        servers[0].start()
        port = servers[0].port
        with kafka_wire.Connection(port) as connection:
            check_equal(connection.create_topic("taken"), 0, "CreateTopics")
        writers = Writers(port, "taken")
        writers.await_more(5)
        for _ in range(4):
            wait_for_file(takeover_socket(directory))
            servers.append(Gyred(binary, directory, flags + ["--takeover"]))
            servers[-1].start()
            check_equal(servers[-1].port, port, "the successor's port")
            check_equal(servers[-2].process.wait(30), 0, "the exit code of the one before")
            writers.await_more(5)
        writers.finish()
        check_equal(writers.errors[:3], [], "the writers' errors")
        values = read_values(port, "taken")
        check_equal(sorted(values), sorted(writers.written), "records")
        check("unclean" not in servers[-1].stderr(), "the directory was not left clean")
        check_equal(servers[-1].stop(), 0, "exit code")
        return "%d records by %d connections over 4 restarts" % (len(values), len(values))
    finally:
        if writers:
            writers.finish()
        for server in servers:
            server.__exit__()


def acceptor_restarts_refuse_no_connection(binary, scratch):
    return restarts_refuse_no_connection(binary, scratch, "acceptor")


def reuseport_restarts_refuse_no_connection(binary, scratch):
    if "reuseport" not in accept_modes(binary):
        raise Skip("this gyred has no --accept_mode")
    return restarts_refuse_no_connection(binary, scratch, "reuseport")


def a_long_data_directory_is_taken_over(binary, scratch):
    directory = os.path.join(scratch, "x" * 120, "y" * 120, "data")
    os.makedirs(os.path.dirname(directory))
    with Gyred(binary, directory) as server:
        wait_for_file(takeover_socket(directory))
        with Gyred(binary, directory, ["--takeover"]) as successor:
            check_equal(successor.port, server.port, "the successor's port")
            check_equal(server.process.wait(30), 0, "exit code")
            check("cannot be taken over" not in successor.stderr(), "one of them cannot be")
            check_equal(successor.stop(), 0, "exit code of the successor")
        check(not os.path.exists(takeover_socket(directory)), "the socket's file stays")


def nothing_to_take_over_starts_as_ever(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "first"), ["--takeover"]) as server:
        check("nothing to take over" in server.stderr(), "it does not say so")
        with kafka_wire.Connection(server.port) as connection:
            check_equal(connection.api_versions()[0], 0, "ApiVersions")
        check_equal(server.stop(), 0, "exit code")
        check(not os.path.exists(takeover_socket(server.directory)), "the socket's file stays")


def a_killed_process_leaves_nothing_that_hinders(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "killed")) as server:
        wait_for_file(takeover_socket(server.directory))
        server.kill()
        check(os.path.exists(takeover_socket(server.directory)), "the file went by itself")
        server.flags.append("--takeover")
        server.start()
        check("nothing to take over" in server.stderr(), "it does not say so")
        check_equal(server.stop(), 0, "exit code")


def a_hung_process_is_left_as_it_is(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "hung")) as server:
        wait_for_file(takeover_socket(server.directory))
        server.process.send_signal(signal.SIGSTOP)
        line = refused(binary, ["--listeners=PLAINTEXT://127.0.0.1:0", "--log_dirs=" + server.directory,
                                "--takeover", "--takeover_timeout_ms=500"], r"does not answer")
        server.process.send_signal(signal.SIGCONT)
        with kafka_wire.Connection(server.port) as connection:
            check_equal(connection.api_versions()[0], 0, "ApiVersions")
        check_equal(server.stop(), 0, "exit code")
        return line


def one_that_does_not_end_is_named(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "slow"), ["--drain_timeout_ms=1400"]) as server:
        wait_for_file(takeover_socket(server.directory))
        with Trickle(server.port):
            successor = Gyred(binary, server.directory, ["--takeover", "--takeover_timeout_ms=1500"])
            try:
                successor.launch()
                deadline = time.monotonic() + 20
                while "took the listening sockets over" not in server.stderr():
                    check(time.monotonic() < deadline, "nothing is taken over")
                    time.sleep(0.01)
                server.process.send_signal(signal.SIGSTOP)
                check_equal(successor.process.wait(20), 1, "exit code of the successor")
                said = "gyred: process %d handed its sockets over and does not end" % server.process.pid
                check(said in successor.stderr(), "it is not named: " + successor.stderr()[-300:])
            finally:
                successor.__exit__()


def garbage_disturbs_nothing(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "garbage")) as server:
        path = takeover_socket(server.directory)
        wait_for_file(path)
        for packets in ([b"\xff" * 40000], [b"GET / HTTP/1.1\r\n\r\n"], [COMMIT], [hello(server)] * 2,
                        [HELLO + b"accept_mode=warp"]):
            with connect(path) as peer:
                for packet in packets:
                    peer.send(packet)
                peer.settimeout(20)
                for _ in range(3):
                    try:
                        if not peer.recv(65536):
                            break
                    except ConnectionResetError:
                        break
                else:
                    raise AssertionError("%r was not let go" % packets[0][:30])
        check(server.alive(), "it died of garbage")
        with kafka_wire.Connection(server.port) as connection:
            check_equal(connection.api_versions()[0], 0, "ApiVersions")
        with Gyred(binary, server.directory, ["--takeover"]) as successor:
            check_equal(server.process.wait(30), 0, "exit code")
            check_equal(successor.stop(), 0, "exit code of the successor")


def a_successor_that_dies_before_it_commits_changes_nothing(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "early")) as server:
        path = takeover_socket(server.directory)
        wait_for_file(path)
        for _ in range(3):
            with connect(path) as peer:
                peer.send(hello(server))
                text, fds = receive_offer(peer)
                check_equal(text.split(b"\n")[0],
                            b"gyre-takeover 1 offer %d drain_timeout_ms=30000" % server.process.pid, "the offer")
                check_equal(text.split(b"\n")[1:], [b"PLAINTEXT://127.0.0.1:%d" % server.port], "its lines")
                check_equal(len(fds), 1, "sockets")
                for fd in fds:
                    os.close(fd)
        with kafka_wire.Connection(server.port) as connection:
            check_equal(connection.api_versions()[0], 0, "ApiVersions")
        check(server.alive(), "it ended")
        check_equal(server.stop(), 0, "exit code")


def two_processes_that_die_after_the_commit_cost_no_data(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "late")) as server:
        wait_for_file(takeover_socket(server.directory))
        with kafka_wire.Connection(server.port) as connection:
            check_equal(connection.create_topic("kept"), 0, "CreateTopics")
            check_equal(connection.produce("kept", 0, kafka_wire.batch([(None, b"x")])), (0, 0), "produce")
        with connect(takeover_socket(server.directory)) as peer:
            peer.send(hello(server))
            for fd in receive_offer(peer)[1]:
                os.close(fd)
            peer.send(COMMIT)
        server.kill()
        server.start()
        check_equal(len(read_values(server.port, "kept")), 1, "records")
        check_equal(server.stop(), 0, "exit code")


def a_new_listener_may_come(binary, scratch):
    directory = os.path.join(scratch, "listeners")
    with Gyred(binary, directory) as server:
        wait_for_file(takeover_socket(directory))
        flags = ["--listeners=PLAINTEXT://127.0.0.1:0,NEW://127.0.0.1:0", "--takeover"]
        with Gyred(binary, directory, flags) as successor:
            check_equal(successor.port, server.port, "the port both have")
            check("has no socket for NEW" in successor.stderr(), "NEW")
            check_equal(server.process.wait(30), 0, "exit code")
            check_equal(successor.stop(), 0, "exit code of the successor")


def serves_on(server, binary, arguments, mention):
    """A take-over with `arguments` is refused with one line, and `server` notices nothing."""
    line = refused(binary, ["--log_dirs=" + server.directory, "--takeover"] + arguments, mention)
    check(server.alive(), "the running process ended: " + line)
    with kafka_wire.Connection(server.port) as connection:
        check_equal(connection.api_versions()[0], 0, "ApiVersions after: " + line)
    check("draining" not in server.stderr(), "the running process drains: " + line)
    return line


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def what_cannot_serve_takes_nothing_over(binary, scratch):
    directory = os.path.join(scratch, "cannot")
    with Gyred(binary, directory) as server:
        wait_for_file(takeover_socket(directory))
        same = "--listeners=PLAINTEXT://127.0.0.1:%d" % server.port
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            busy = taken.getsockname()[1]
            for arguments, mention in (
                    ([same, "--memory_limit_bytes=1"], r"memory_limit_bytes=1 .*the least is \d+"),
                    ([same, "--queued_max_request_bytes=99999999999999"], r"queued_max_request_bytes.*the most"),
                    ([same, "--node_id=77"], r"belongs to node 1, this is node 77"),
                    ([same, "--cluster_id=AAAAAAAAAAAAAAAAAAAAAA"], r"belongs to cluster"),
                    ([same, "--log_dirs=" + os.path.join(scratch, "other"),
                      "--takeover_socket=" + takeover_socket(directory)], r"log_dirs=.*/cannot, .*/other"),
                    ([same, "--socket_congestion_control=nope"], r"socket_congestion_control=nope"),
                    ([same, "--max_connections_per_ip_overrides=127.0.0.1:x"], r"max_connections_per_ip_overrides"),
                    ([same, "--admin_listener=127.0.0.1:%d" % busy], r"%d.*in use" % busy),
                    ([same, "--admin_listener=127.0.0.1:%d" % server.port], r"admin_listener.*address"),
                    ([same + ",B://127.0.0.1:%d" % busy], r"%d.*in use" % busy),
                    ([same + ",B://1.2.3.4:%d" % free_port()], r"no such address")):
                serves_on(server, binary, arguments, mention)
        check_equal(server.stop(), 0, "exit code")
        # Nor do they cost the next start a recovery.
        server.start()
        check("unclean" not in server.stderr(), "the next start recovered")
        check_equal(server.stop(), 0, "exit code")


def a_socket_without_a_taker_is_not_taken_over(binary, scratch):
    directory = os.path.join(scratch, "taker")
    admin = "--admin_listener=127.0.0.1:%d" % free_port()
    both = "--listeners=PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0"
    with Gyred(binary, directory, [both, admin]) as server:
        wait_for_file(takeover_socket(directory))
        same = "--listeners=PLAINTEXT://127.0.0.1:%d" % server.port
        serves_on(server, binary, [same, admin], r"OTHER://127.0.0.1:\d+.*--listeners=PLAINTEXT.*stop process")
        elsewhere = "--listeners=PLAINTEXT://127.0.0.1:%d,OTHER://127.0.0.1:0" % free_port()
        line = serves_on(server, binary, [elsewhere, admin], r"PLAINTEXT://127.0.0.1:%d" % server.port)
        serves_on(server, binary, [both], r"ADMIN://127.0.0.1:\d+.*no --admin_listener")
        check_equal(server.stop(), 0, "exit code")
        return line


def a_start_that_fails_leaves_the_clean_stop_as_it_is(binary, scratch):
    directory = os.path.join(scratch, "marker")
    with Gyred(binary, directory) as server:
        check_equal(server.stop(), 0, "exit code")
        marker = os.path.join(directory, ".kafka_cleanshutdown")
        check(os.path.exists(marker), "a clean stop leaves no marker")
        place = "--log_dirs=" + directory
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            refused(binary, ["--listeners=PLAINTEXT://127.0.0.1:%d" % port, place], r"in use")
            refused(binary, ["--listeners=PLAINTEXT://127.0.0.1:0", place,
                             "--admin_listener=127.0.0.1:%d" % port], r"in use")
        for flag in ("--memory_limit_bytes=1", "--socket_congestion_control=nope", "--node_id=5"):
            refused(binary, ["--listeners=PLAINTEXT://127.0.0.1:0", place, flag], flag[2:].split("=")[0])
        check(os.path.exists(marker), "a start that failed used the marker up")
        server.start()
        check("unclean" not in server.stderr(), "the next start recovered")
        check_equal(server.stop(), 0, "exit code")


def an_unusable_takeover_socket_is_refused_at_the_start(binary, scratch):
    place = ["--listeners=PLAINTEXT://127.0.0.1:0", "--log_dirs=" + os.path.join(scratch, "unusable")]
    plain = os.path.join(scratch, "plain")
    with open(plain, "w"):
        pass
    for path, mention in (("/nonexistent/dir/sock", r"takeover_socket.*No such file"),
                          ("/tmp/" + "x" * 103, r"takeover_socket.*1 to about 80 bytes"),
                          (plain, r"takeover_socket.*no socket"), (plain + "/below", r"takeover_socket")):
        refused(binary, place + ["--takeover_socket=" + path], mention)
        refused(binary, place + ["--takeover_socket=" + path, "--takeover"], mention)
        refused(binary, place + ["--takeover_socket=" + path, "--check_config"], mention)


def another_user_is_refused(binary, scratch):
    if os.geteuid() != 0:
        raise Skip("needs a second user to try with")
    with Gyred(binary, os.path.join(scratch, "user")) as server:
        path = takeover_socket(server.directory)
        wait_for_file(path)
        check_equal(os.stat(path).st_mode & 0o777, 0o600, "the socket's mode")
        # Even where file modes let it in.
        os.chmod(path, 0o777)
        for part in (scratch, server.directory):
            os.chmod(part, 0o755)
        pid = os.fork()
        if pid == 0:
            try:
                os.setuid(65534)
                with connect(path) as peer:
                    peer.send(hello(server))
                    text, fds = receive_offer(peer)
                os._exit(1 if fds or text.startswith(b"gyre") else 0)
            except OSError:
                os._exit(0)
        check_equal(os.waitpid(pid, 0)[1], 0, "what another user got")
        check_equal(server.stop(), 0, "exit code")


class Manager:
    """A service manager's notification socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.settimeout(30)
        self.heard = []

    def await_line(self, line):
        while True:
            lines = self.socket.recv(4096).decode().split("\n")
            self.heard += lines
            if line in lines:
                return lines


def the_service_manager_is_told(binary, scratch):
    directory = os.path.join(scratch, "notified")
    for path in (os.path.join(scratch, "notify"), "\0gyre-test-%d" % os.getpid()):
        manager = Manager(path)
        os.environ["NOTIFY_SOCKET"] = path.replace("\0", "@")
        try:
            with Gyred(binary, directory) as server:
                check("MAINPID=%d" % server.process.pid in manager.await_line("READY=1"), "the first's pid")
                with Gyred(binary, directory, ["--takeover"]) as successor:
                    check("MAINPID=%d" % successor.process.pid in manager.await_line("READY=1"),
                          "the successor's pid")
                    check_equal(server.process.wait(30), 0, "exit code")
                    # Were both of one unit, that would stop.
                    check("STOPPING=1" not in manager.heard, "the one before said that it stops")
                    check_equal(successor.stop(), 0, "exit code of the successor")
                    manager.await_line("STOPPING=1")
        finally:
            del os.environ["NOTIFY_SOCKET"]


def a_drain_ends_at_its_deadline(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "deadline"), ["--drain_timeout_ms=700"]) as server:
        with Trickle(server.port):
            check_equal(server.stop(30), 0, "exit code")
            check("did not end in time" in server.stderr(), "it does not say that one was cut")


def half_a_frame_holds_no_drain_up(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "half"), ["--drain_timeout_ms=600000"]) as server:
        with kafka_wire.Connection(server.port) as connection:
            # The rest of it never comes.
            connection.send_raw(b"\x00")
            check_equal(server.stop(30), 0, "exit code")


def a_second_signal_ends_a_drain_that_hangs(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "second"), ["--drain_timeout_ms=600000"]) as server:
        with Trickle(server.port):
            server.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 20
            while "draining" not in server.stderr():
                check(time.monotonic() < deadline, "it does not drain")
                time.sleep(0.01)
            time.sleep(0.3)
            check(server.alive(), "it did not wait for the frame")
            server.process.send_signal(signal.SIGTERM)
            check_equal(server.process.wait(20), -signal.SIGTERM, "exit code")
            check("a second signal" in server.stderr() and "next start recovers" in server.stderr(),
                  "it does not say what that costs")


def a_drain_answers_one_who_has_just_connected(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "fresh")) as server:
        with kafka_wire.Connection(server.port) as fresh:
            # The server has it once another one, accepted after it, was answered.
            with kafka_wire.Connection(server.port) as other:
                check_equal(other.api_versions()[0], 0, "ApiVersions")
            server.process.send_signal(signal.SIGTERM)
            check_equal(fresh.api_versions()[0], 0, "ApiVersions of the fresh one")
        check_equal(server.process.wait(30), 0, "exit code")


ALL = [
    acceptor_restarts_refuse_no_connection,
    reuseport_restarts_refuse_no_connection,
    a_long_data_directory_is_taken_over,
    nothing_to_take_over_starts_as_ever,
    a_killed_process_leaves_nothing_that_hinders,
    a_hung_process_is_left_as_it_is,
    one_that_does_not_end_is_named,
    garbage_disturbs_nothing,
    a_successor_that_dies_before_it_commits_changes_nothing,
    two_processes_that_die_after_the_commit_cost_no_data,
    a_new_listener_may_come,
    what_cannot_serve_takes_nothing_over,
    a_socket_without_a_taker_is_not_taken_over,
    a_start_that_fails_leaves_the_clean_stop_as_it_is,
    an_unusable_takeover_socket_is_refused_at_the_start,
    another_user_is_refused,
    the_service_manager_is_told,
    a_drain_ends_at_its_deadline,
    half_a_frame_holds_no_drain_up,
    a_second_signal_ends_a_drain_that_hangs,
    a_drain_answers_one_who_has_just_connected,
]
